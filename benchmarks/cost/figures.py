"""What is measured of an agent, and what it is held to. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from typing import NamedTuple

# In the order of the table: key → what its row is called.
ROWS = {
    "start_s": "start to ready, s",
    "start_cpu_ms": "CPU until ready, ms",
    "cycle_ms": "CPU a cycle (of a second), ms",
    "change_ms": "the same, one pod changes in each, ms",
    "created_ms": "the same, one pod starts in each, ms",
    "started_ms": "the same, one pod that uses a GPU starts in each, ms",
    "driver_ms": "(driver's own in a cycle, stand-in, ms)",
    "scrape_ms": "CPU a scrape, identity, ms",
    "gzip_ms": "CPU a scrape, gzip, ms",
    "again_ms": "CPU of a second scrape of the same page, ms",
    "again_gzip_ms": "the same, gzip, ms",
    "request_ms": "CPU of a request without a page (/-/ready), once a second, ms",
    "sample_us": "CPU a scrape and sample, identity, µs",
    "latency_1": "scrape latency p50 / p99, 1 scraper, ms",
    "latency_10": "the same, 10 scrapers, ms",
    "hung_1": "the same, 1 scraper, driver hangs, ms",
    "hung_10": "the same, 10 scrapers, driver hangs, ms",
    "rest_mib": "RSS at rest, MiB",
    "peak_mib": "RSS, peak, MiB",
    "churned": "RSS after 10,000 pod changes, MiB (x before)",
    "series": "series",
    "bytes": "bytes of the page",
    "gzip_bytes": "the same, gzip",
    "whole_ms": "CPU in a second, the driver's included, ms",
    "priced_ms": "the driver's part of it, ms",
    "first_ms": "the same, in the first minute, ms",
    "churn_ms": "the same, a process of 1.5 s on each card each 10 s, ms",
    "named": "of their time without an owner, parts in 100",
    "viewed_ms": "the same, a scrape in each second, ms",
    "loop_ms": "(CPU of a fixed loop meanwhile, ms)",
}
Cells = Mapping[str, str]


@dataclass
class Figures:
    """Of one agent on one node. ``cells`` are for the table, ``values`` for the targets."""

    values: dict[str, float] = field(default_factory=dict)
    cells: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: float, cell: str = "") -> None:
        """Note a value; the cell shows it with three digits unless it says more."""
        self.values[key] = value
        self.cells[key] = cell or shown(value)


class Latency(NamedTuple):
    """Of the scrapes of one run, in ms; ``failed`` had no good answer."""

    p50: float
    p99: float
    failed: int

    def __str__(self) -> str:
        if self.p50 < 0:
            return "no answer"
        words = f"{shown(self.p50)} / {shown(self.p99)}"
        return f"{words}, {self.failed} failed" if self.failed else words


def latency(output: str) -> Latency:
    """What the program ``scrape`` printed."""
    _, failed, *took = output.splitlines()
    milliseconds = sorted(int(each) / 1e6 for each in took)
    count = int(failed.split()[1])
    if not milliseconds:
        return Latency(-1, -1, count)
    last = ceil(0.99 * len(milliseconds)) - 1
    return Latency(median(milliseconds), milliseconds[last], count)


def samples(page: bytes) -> int:
    """How many samples a page in Prometheus' text format has."""
    return sum(bool(line) and not line.startswith(b"#") for line in page.splitlines())


def shown(value: float) -> str:
    """Three digits; whole numbers with commas."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(columns: Mapping[str, Figures]) -> str:
    """Markdown: a row for each figure, a column for each agent."""
    keys = [key for key in ROWS if any(key in figures.cells for figures in columns.values())]
    lines = [["", *columns], ["---", *("---:" for _ in columns)]]
    lines += [
        [ROWS[key], *(figures.cells.get(key, "") for figures in columns.values())] for key in keys
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


class Target(NamedTuple):
    """``value`` gives what is held to ``most``; KeyError where it was not measured."""

    words: str
    most: float
    value: Callable[[Mapping[str, Figures]], float]


def judged(targets: Sequence[Target], columns: Mapping[str, Figures]) -> str:
    """Markdown: each target, what was measured, and whether it is met."""
    lines = ["| target | at most | measured | |\n", "| --- | ---: | ---: | --- |\n"]
    for target in targets:
        try:
            value = target.value(columns)
        except KeyError:
            lines.append(f"| {target.words} | {shown(target.most)} | | not measured |\n")
        else:
            verdict = "met" if value <= target.most else f"**missed**, {value / target.most:.1f} x"
            lines.append(
                f"| {target.words} | {shown(target.most)} | {shown(value)} | {verdict} |\n"
            )
    return "".join(lines)
