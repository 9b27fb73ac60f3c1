"""Ten minutes of jobs of a few seconds: the exporter, a real Prometheus and the shipped alert."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.rules.test_alerts import alerts
from tests.rules.test_short_jobs import BY_GROUP, BY_KIND, NAME, SHORT_JOBS

SECONDS = 600
SCRAPE_S = 15  # longer than any of the jobs lives
LONGEST_PENDING_S = 120
JOBS = "count(count by (kind, group) (last_over_time(mgpu_group_core_seconds_total[10m])))"

pytestmark = [
    pytest.mark.long,
    pytest.mark.program("prometheus"),
    pytest.mark.timeout(SECONDS + 300),
]


def rules(folder: Path) -> Path:
    """The alert as it is shipped, and as it would be over the counters of single groups."""
    shipped = [rule for rule in alerts() if rule["alert"] == NAME]
    by_group = [
        {**rule, "alert": f"{NAME}ByGroup", "expr": rule["expr"].replace(BY_KIND, BY_GROUP)}
        for rule in shipped
    ]
    group = {"name": "books", "interval": f"{SCRAPE_S}s", "rules": shipped + by_group}
    file = folder / "rules.yaml"
    file.write_text(json.dumps({"groups": [group]}))  # JSON is YAML
    return file


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    more = f"rule_files: [{json.dumps(str(rules(folder)))}]\n"
    with (
        Exporter(f"--simulate={SHORT_JOBS}") as exporter,
        Prometheus(exporter.ready().url, folder, f"{SCRAPE_S}s", more) as prometheus,
    ):
        end = time.monotonic() + SECONDS
        eventually(lambda: time.monotonic() > end, "ten minutes of jobs", SECONDS + 60)
        yield prometheus


def longest_pending_s(prometheus: Prometheus, alert: str) -> float:
    """The longest time that the alert has held without a break."""
    held = f'timestamp(ALERTS_FOR_STATE{{alertname="{alert}"}}) - ALERTS_FOR_STATE'
    found = prometheus.values(f"max_over_time(({held})[{SECONDS}s:{SCRAPE_S}s])", ("quantity",))
    return max(found.values(), default=0.0)


def test_the_books_of_short_jobs_are_never_pending_for_more_than_two_minutes(
    prometheus: Prometheus,
) -> None:
    assert prometheus.values(JOBS, ())[()] > 60
    assert longest_pending_s(prometheus, NAME) <= LONGEST_PENDING_S
    assert longest_pending_s(prometheus, f"{NAME}ByGroup") > LONGEST_PENDING_S
