"""The books in PromQL, as docs/metrics.md has them, over pages of a real run."""

from pathlib import Path

import pytest

from tests.rules.run import DOCS, Rules, Series, documented, simulated

MINUTES = 12
UNITS = {  # what the page says to write in place of the core's, and what it is of
    "memory traffic": "memory_active_seconds",
    "encoder": "encoder_seconds",
    "decoder": "decoder_seconds",
    "energy": "energy_joules",
}

pytestmark = [pytest.mark.program("promtool"), pytest.mark.slow]


DOCUMENTED = documented("metrics.md", "The books in PromQL")
BOOKS = DOCUMENTED | {
    what: DOCUMENTED["core"].replace("core_seconds", unit).replace("busy_seconds", unit)
    for what, unit in UNITS.items()
}
PARTS = UNITS | {"core": "core_seconds", "memory": "memory_used_bytes"}


@pytest.fixture(scope="module")
def series() -> Series:
    """What a Prometheus has after some minutes with the demonstration's short and long jobs."""
    return simulated("demo", MINUTES)


def unbalanced(series: Series, folder: Path) -> set[tuple[str, int]]:
    """Quantity and minute of every alert that these series raise."""
    found = Rules(BOOKS, series, folder).alerts(range(6, MINUTES + 1))
    return {(alert.title, alert.minute) for alert in found}


def test_the_page_names_what_to_write_for_other_quantities() -> None:
    page = (DOCS / "metrics.md").read_text()

    assert set(DOCUMENTED) == {"core", "memory"}
    assert all(f"`{unit}`" in page for unit in UNITS.values())


def test_the_books_of_a_real_run_balance(series: Series, tmp_path: Path) -> None:
    assert len(series) > 500
    assert unbalanced(series, tmp_path) == set()


@pytest.mark.parametrize(("what", "unit"), PARTS.items())
def test_a_part_that_is_missing_is_found(
    series: Series, tmp_path: Path, what: str, unit: str
) -> None:
    level = "container" if what == "memory" else "namespace"
    less = {
        name: values
        for name, values in series.items()
        if not (name.startswith(f"mgpu_{level}_{unit}") and 'namespace="media"' in name)
    }

    found = unbalanced(less, tmp_path)

    assert {quantity for quantity, _ in found} == {what}
    assert len(found) == MINUTES - 5
