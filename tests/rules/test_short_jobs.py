"""The alert about the books on a node of jobs that live for some seconds.

Ten minutes of the exporter's pages, in steps of a clock that the test moves, under Prometheus's own
engine.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.rules.run import Alert, Case, Series, raised, simulated, written
from tests.rules.test_alerts import alerts

SHORT_JOBS = Path(__file__).parent / "short_jobs.yaml"
MINUTES = 12
# Of a counter that began a moment before its first sample, `rate` counts the beginning too: in the
# first five minutes a card's rate and the sum of its parts' differ by that, though the books agree.
PATIENCE = "2m"  # then one that is pending for three minutes is seen firing at a full minute
NAME = "MgpuBooksOutOfBalance"
BY_KIND, BY_GROUP = "mgpu_group_kind_", "mgpu_group_"

pytestmark = [pytest.mark.program("promtool"), pytest.mark.slow]


@pytest.fixture(scope="module")
def series() -> Series:
    """What a Prometheus has after some minutes with the jobs."""
    return simulated(str(SHORT_JOBS), MINUTES)


def impatient(*, parts: str) -> list[dict[str, Any]]:
    """The alert as it is shipped but for its patience, and for the parts that it adds up."""
    assert all(BY_KIND in rule["expr"] for rule in alerts() if rule["alert"] == NAME)
    return [
        {**rule, "for": PATIENCE, "expr": rule["expr"].replace(BY_KIND, parts)}
        for rule in alerts()
        if rule["alert"] == NAME
    ]


def found(series: Series, folder: Path, *, parts: str) -> list[Alert]:
    """What is raised in any of the minutes."""
    told = {name: " ".join(values) for name, values in series.items()}
    case = Case(told, [NAME], range(MINUTES + 1))
    return raised([written(impatient(parts=parts), folder)], {"short": case}, folder)


def test_books_of_short_jobs_are_never_pending_for_more_than_three_minutes(
    series: Series, tmp_path: Path
) -> None:
    assert found(series, tmp_path, parts=BY_KIND) == []


def test_counters_that_begin_with_a_job_would_raise_it(series: Series, tmp_path: Path) -> None:
    raised_by = found(series, tmp_path, parts=BY_GROUP)

    assert {alert.labels["quantity"] for alert in raised_by} >= {"core", "energy"}
    assert max(alert.minute for alert in raised_by) == MINUTES


def test_kinds_begin_at_0_before_the_first_job(series: Series) -> None:
    slurm = next(
        values
        for name, values in series.items()
        if name.startswith("mgpu_group_kind_core_seconds_total") and 'kind="slurm"' in name
    )

    assert slurm[1] != "_"  # there is no window yet on the first page
    assert all(value != "stale" for value in slurm)
