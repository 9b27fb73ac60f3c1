"""A real VictoriaMetrics has the same histories, and the same bills come from it."""

from pathlib import Path

import pytest

from tests.answers.reading.test_lives import HISTORIES, HOUR, SCRAPE_S, billed
from tests.history import backfilled
from tests.victoriametrics import victoriametrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.program("prometheus"),
    pytest.mark.program("victoria-metrics"),
]


@pytest.mark.parametrize("history", HISTORIES)
def test_a_bill_from_it_is_the_one_from_a_prometheus(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scrapes = HISTORIES[history]()
    with backfilled(tmp_path, "prometheus", scrapes) as address:
        wanted = billed(address, capsys, "--by=pod")
    with victoriametrics(tmp_path, scrapes) as address:
        hours, said = billed(address, capsys, "--by=pod")
    # A release of 2022 leaves out the one scrape at which counting begins.
    assert hours == pytest.approx(dict(wanted.hours), abs=SCRAPE_S / HOUR + 1e-6)
    assert bool(said) == bool(wanted.said)
