"""What the exporter is held to, at 8 GPUs x 64 processes x 110 pods. Pure."""

from collections.abc import Mapping

from benchmarks.cost.figures import Figures, Target

OURS, WITHOUT_PODS = "this exporter", "this exporter, no pod watch"
NVITOP, NODE_EXPORTER = "nvitop-exporter", "node_exporter"
Columns = Mapping[str, Figures]


def targets(floors: Mapping[str, float]) -> list[Target]:
    """All of them; ``floors`` are the C program's, in ms."""
    return [
        Target("steady cycle, CPU outside of the driver, ms", 1.5, lambda c: _ours(c, "cycle_ms")),
        Target("a cycle after one pod change, ms", 3, lambda c: _ours(c, "change_ms")),
        Target("a cycle after one pod started, ms", 3, lambda c: _ours(c, "created_ms")),
        Target("the same, and it uses a GPU, ms", 3, lambda c: _ours(c, "started_ms")),
        Target("first full walk / C's", 2, lambda _: floors["first_walk"] / floors["walk"]),
        Target("making a page (the target: its text alone), µs a sample", 2, _page),
        Target("CPU a scrape and sample / nvitop-exporter's", 1 / 20, lambda c: _beside(c, NVITOP)),
        Target(
            "CPU a scrape and sample / node_exporter's", 1 / 2, lambda c: _beside(c, NODE_EXPORTER)
        ),
        Target("p99 latency, driver hangs / not", 1.5, lambda c: _hung(c, 1)),
        Target("the same, 10 scrapers", 1.5, lambda c: _hung(c, 10)),
        Target("RSS with the pod watch, MiB", 64, lambda c: _ours(c, "rest_mib")),
        Target("RSS without, MiB", 60, lambda c: c[WITHOUT_PODS].values["rest_mib"]),
        Target("RSS after 10,000 pod changes / before", 1.05, lambda c: _ours(c, "churned")),
    ]


def _ours(columns: Columns, key: str) -> float:
    return columns[OURS].values[key]


def _page(columns: Columns) -> float:
    """What a scrape of a new page costs more than another one of the same page."""
    more_ms = _ours(columns, "scrape_ms") - _ours(columns, "again_ms")
    return more_ms * 1000 / _ours(columns, "series")


def _beside(columns: Columns, peer: str) -> float:
    return _ours(columns, "sample_us") / columns[peer].values["sample_us"]


def _hung(columns: Columns, scrapers: int) -> float:
    return _ours(columns, f"hung_{scrapers}_p99") / _ours(columns, f"latency_{scrapers}_p99")
