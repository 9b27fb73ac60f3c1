"""The exporter's budget, at 8 GPUs x 64 processes x 110 pods. Pure.

See docs/decisions.md.
"""

from collections.abc import Mapping

from benchmarks.cost.figures import Figures, Target

OURS, NVITOP = "this exporter", "nvitop-exporter"
SCRAPE_S = 15
Columns = Mapping[str, Figures]


def targets(floors: Mapping[str, float]) -> list[Target]:
    """All of them; ``floors`` are the C program's, in ms."""
    return [
        Target(
            "a second at rest, CPU outside of the driver, ms", 8, lambda c: _ours(c, "cycle_ms")
        ),
        Target("making a page, ms", 10, _page),
        Target("CPU of 15 s with a scrape / nvitop-exporter's", 1 / 8, _beside_nvitop),
        Target("first full walk / C's", 2, lambda _: floors["first_walk"] / floors["walk"]),
        Target("p99 latency, driver hangs / not", 1.5, lambda c: _hung(c, 1)),
        Target("the same, 10 scrapers", 1.5, lambda c: _hung(c, 10)),
        Target("RSS with the pod watch, MiB", 96, lambda c: _ours(c, "rest_mib")),
        Target("RSS after 10,000 pod changes / before", 1.05, lambda c: _ours(c, "churned")),
    ]


def _ours(columns: Columns, key: str) -> float:
    return columns[OURS].values[key]


def _page(columns: Columns) -> float:
    """What a scrape of a new page costs more than another one of the same page."""
    return _ours(columns, "scrape_ms") - _ours(columns, "again_ms")


def _beside_nvitop(columns: Columns) -> float:
    ours, theirs = (
        SCRAPE_S * values["cycle_ms"] + values["scrape_ms"]
        for values in (columns[OURS].values, columns[NVITOP].values)
    )
    return ours / theirs


def _hung(columns: Columns, scrapers: int) -> float:
    return _ours(columns, f"hung_{scrapers}_p99") / _ours(columns, f"latency_{scrapers}_p99")
