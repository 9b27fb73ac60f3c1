"""What a card is goes on while its exporter is away for one scrape, and so do alerts about it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.cases import CASES
from tests.rules.run import Case, raised_alone
from tests.rules.test_alerts import FILES

STATES = (
    *("MgpuRowRemapping", "MgpuRowRemappingFailed", "MgpuRetiredPagesPending"),
    *("MgpuGpuRecoveryAction", "MgpuPcieLinkDegraded"),
)
"""Alerts about what a card is. Those about what it does, and about its exporter, are not tried."""

_LINEAR = re.compile(r"(-?[\d.]+(?:e\d+)?|_|stale)(?:([+-][\d.]+(?:e\d+)?))?(?:x(\d+))?")


def each_minute(values: str) -> Iterator[str]:
    """What a series in promtool's notation has in each minute."""
    for item in values.split():
        found = _LINEAR.fullmatch(item)
        assert found, item
        begin, step, times = found.groups()
        if begin == "_":
            yield from ["_"] * int(times or 1)
            continue
        for number in range(int(times or 0) + 1):
            yield begin if step is None else repr(float(begin) + number * float(step))


def without(values: str, minute: int) -> str:
    """The same series, which is stale in one minute."""
    found = list(each_minute(values))
    if minute < len(found) and found[minute] != "_":
        found[minute] = "stale"
    return " ".join(found)


def test_a_series_that_is_stale_for_a_minute_is_else_the_same() -> None:
    assert list(each_minute("0+2x2 _x2 stale 7")) == ["0.0", "2.0", "4.0", "_", "_", "stale", "7"]
    assert without("1x3", 2) == "1 1 stale 1"


@pytest.mark.slow
@pytest.mark.program("promtool")
def test_an_alert_outlives_a_scrape_without_the_exporter(tmp_path: Path) -> None:
    """Two minutes before the alert is looked for, no series of the exporter is there."""
    cases = {
        title: Case(
            {
                series: without(values, known.minute - 2) if "mgpu-exporter" in series else values
                for series, values in known.firing.items()
            },
            [title.partition(" ")[0]],
            [known.minute],
        )
        for title, known in CASES.items()
        if title.partition(" ")[0] in STATES
    }
    assert {title.partition(" ")[0] for title in cases} == set(STATES)
    found = {one.case for one in raised_alone(FILES[1], FILES[0], cases, tmp_path)}
    assert cases.keys() - found == set()
