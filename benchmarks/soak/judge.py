"""What was seen of a process over its life, and whether it leaks. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

MIB = 1 << 20
WARM = 1 / 3  # of the run: longer than all that the exporter keeps for a time
PART = 1 / 6  # of the run, over which a figure is taken at both ends


class Look(NamedTuple):
    """What one look found; the fields are those that may not grow. ``minute``: of the node."""

    minute: float
    rss: int
    fds: int
    threads: int
    blocks: int  # allocated by Python, after a collection
    objects: int  # that the collector tracks
    series: int


ALLOWED = {  # growth of the median: a part of it, and so many more
    "rss": (0.05, MIB),
    "fds": (0.0, 1),
    "threads": (0.0, 1),
    "blocks": (0.05, 1000),
    "objects": (0.15, 1000),
    "series": (0.10, 50),
}


class Grown(NamedTuple):
    """A figure after the warm-up and at the end. ``leaks``: it grew by more than is allowed."""

    name: str
    before: float
    after: float
    most: float
    leaks: bool


def grown(looks: Sequence[Look]) -> list[Grown]:
    """Every figure of a run."""
    part = max(int(len(looks) * PART), 1)
    first = min(int(len(looks) * WARM), len(looks) - part)
    before, after = looks[first : first + part], looks[-part:]
    found = []
    for name, (ratio, more) in ALLOWED.items():
        low, high = (median(getattr(look, name) for look in some) for some in (before, after))
        most = max(getattr(look, name) for look in looks[first:])
        found.append(Grown(name, low, high, most, high > low * (1 + ratio) + more))
    return found


def table(found: Sequence[Grown], *, judged: bool = True) -> str:
    """As Markdown. ``judged``: the run was long enough to say what grows."""
    lines = ["| | after the warm-up | at the end | highest | |", "| --- | --- | --- | --- | --- |"]
    for name, before, after, most, leaks in found:
        words = [
            f"{figure / MIB:.1f} MiB" if name == "rss" else f"{figure:,.0f}"
            for figure in (before, after, most)
        ]
        verdict = ("GROWS" if leaks else "steady") if judged else "not judged"
        lines.append(f"| {NAMES[name]} | {' | '.join(words)} | {verdict} |")
    return "\n".join(lines)


NAMES = {
    "rss": "resident memory",
    "fds": "open file descriptors",
    "threads": "threads",
    "blocks": "blocks allocated by Python",
    "objects": "objects tracked by the collector",
    "series": "series on a page",
}
