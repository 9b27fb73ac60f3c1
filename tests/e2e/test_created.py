"""Start times of counters under a real Prometheus 3: nothing is lost at a first scrape."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.programs import Exporter, Prometheus, eventually

SCRAPE_S = 2
TAKES = "--enable-feature=created-timestamp-zero-ingestion"
COUNTER = "mgpu_namespace_core_seconds_total"
STORED = 'count({__name__=~"mgpu_.+_created"})'

pytestmark = [pytest.mark.program("prometheus3"), pytest.mark.timeout(180), pytest.mark.slow]


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    with Exporter("--simulate=demo", "--metrics.created") as exporter:
        yield exporter.ready()


def scraped(exporter: Exporter, folder: Path, *flags: str) -> Prometheus:
    return Prometheus(exporter.url, folder, f"{SCRAPE_S}s", program=("prometheus3", *flags))


def test_every_counter_begins_with_0_at_its_start(
    exporter: Exporter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with scraped(exporter, tmp_path_factory.mktemp("store"), TAKES) as prometheus:
        many = f"count_over_time({COUNTER}[1h]) > 3"
        eventually(lambda: prometheus.query(many), "some scrapes", 60)

        least = prometheus.values(f"min_over_time({COUNTER}[1h])", ("namespace", "uuid"))
        whole = prometheus.values(f"max_over_time({COUNTER}[1h])", ("namespace", "uuid"))
        used = {key for key, value in whole.items() if value > 0}

        assert len(used) >= 3
        assert set(least.values()) == {0.0}
        assert prometheus.query(STORED) == []


def test_a_prometheus_that_takes_none_stores_them_as_series(
    exporter: Exporter, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with scraped(exporter, tmp_path_factory.mktemp("store")) as prometheus:
        [found] = eventually(lambda: prometheus.query(STORED), "starts as series", 60)

        assert int(found["value"][1]) > 100
