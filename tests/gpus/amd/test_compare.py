"""How far AMD's library may be off before a figure differs: the table of docs/vendors.md."""

from pathlib import Path

import pytest

from exporter.sources.gpus.amd.smi.compare import TOLERANCES, Comparison

PAGE = Path(__file__).parents[3] / "docs/vendors.md"
MIB = 1 << 20
JOULE = 10**6
TABLE = {  # the page's words, and what they are in the figure's unit and as a share of the larger
    "memory_total": ("1 %", 0, 0.01),
    "memory_used": ("512 MiB and 5 %", 512 * MIB, 0.05),
    "power": ("10 W and 10 %", 10, 0.1),
    "temperature": ("5 degrees, ", 5, 0),
    "core": ("20 points; ", 20, 0),
    "energy": ("100 J and 10 % ", 100 * JOULE, 0.1),
}
LITTLE = 1e-6


def test_every_tolerance_is_on_the_page() -> None:
    page = PAGE.read_text()

    assert TABLE.keys() == TOLERANCES.keys()
    assert [q for q, (words, *_) in TABLE.items() if f"\n| `{q}` | {words}" not in page] == []


@pytest.mark.parametrize(
    "figure",
    [
        *("memory_total", "memory_used", "power", "core", "energy"),
        *("temperature_edge", "temperature_junction", "temperature_memory"),
    ],
)
def test_a_figure_differs_from_just_beyond_its_tolerance(figure: str) -> None:
    quantity = figure if figure in TABLE else "temperature"
    _, beyond, share = TABLE[quantity]
    low = 100 * (beyond or MIB)
    high = 2 * low  # sysfs has said both
    least = low - beyond - share * high
    most = (high + beyond) / (1 - share)

    def differs(theirs: float) -> bool:
        return Comparison(figure, theirs, low, high).differs

    assert Comparison(figure, low, low, high).quantity == quantity
    assert [differs(least * (1 - LITTLE)), differs(least * (1 + LITTLE))] == [True, False]
    assert [differs(most * (1 - LITTLE)), differs(most * (1 + LITTLE))] == [False, True]
