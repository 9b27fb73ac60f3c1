"""The lines of a table, GPU → pod → container → process, their filter and order. Pure."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class LineKind(StrEnum):
    """The kind of thing that a line shows."""

    DEVICE = "GPU"
    NOWHERE = "no GPU"  # allocations whose device is not known
    POD = "pod"
    CONTAINER = "container"
    GROUP = "group"
    REST = "unattributed"
    PROCESS = "process"


class Figure(NamedTuple):
    """A value with its limit. ``why`` is the reason if the value is not known.

    A figure without value and reason does not apply. Core is in whole GPUs (1 is all of one),
    memory in bytes. ``limit`` is None if nothing was allocated.
    """

    value: float | None = None
    limit: float | None = None
    why: str = ""

    @property
    def share(self) -> float | None:
        """The value as a share of the limit; None if either is not known."""
        if self.value is None or not self.limit:
            return None
        return self.value / self.limit


UNKNOWN = Figure()

Key = tuple[str, ...]
Past = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``key`` identifies it from one reading to the next; ``pid`` is a process's.

    ``letters`` is the process's type as nvidia-smi shows it. ``past`` is the core of the last
    minutes, oldest first. ``facts`` are details by name.
    """

    key: Key
    kind: LineKind
    name: str
    core: Figure = UNKNOWN
    memory: Figure = UNKNOWN
    engines: tuple[float | None, float | None, float | None] = (None, None, None)
    letters: str = ""
    pid: int | None = None
    past: Past = ()
    facts: tuple[tuple[str, str], ...] = ()
    children: tuple["Line", ...] = ()


def path(line: Line) -> str:
    """The line's full name; a container's includes its pod's."""
    if line.kind is LineKind.CONTAINER:
        namespace, pod, container = line.key[-3:]
        return f"{namespace}/{pod}/{container}"
    return line.name


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment. ``source`` is the name of the node or feed.

    ``troubles`` are sources that are down and other problems, each with advice.
    """

    source: str
    unix_s: float = 0.0
    age_s: float = 0.0
    window_s: float = 0.0
    simulated: bool = False
    troubles: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def pods(self) -> int:
        """The number of pods on the devices."""
        return len(
            {
                line.key[-2:]
                for one in self.lines
                for line in one.children
                if line.kind is LineKind.POD
            }
        )


class SortKey(StrEnum):
    """The sort key of lines within a GPU, pod or container."""

    NAME = "name"
    CORE = "core"
    MEMORY = "memory"
    SHARE = "share of limit"
    PID = "pid"


class LineOrder(NamedTuple):
    """The order, filter and depth of lines.

    A line is shown if ``needle`` is in it, in one above or in one below. ``deepest`` is the number
    of levels; 1 shows the GPUs only.
    """

    by: SortKey = SortKey.NAME
    reverse: bool = False
    needle: str = ""
    folded: AbstractSet[Key] = frozenset()
    deepest: int = 4


class ShownLine(NamedTuple):
    """A line with its depth. ``hidden``: its children are not shown."""

    line: Line
    depth: int
    hidden: bool


_LARGEST_FIRST = {SortKey.CORE, SortKey.MEMORY, SortKey.SHARE}
_LAST = (LineKind.REST,)  # after all owners


def rows(lines: Sequence[Line], order: LineOrder) -> list[ShownLine]:
    """The lines from top to bottom. GPUs stay in the order of their index."""
    needle = order.needle.casefold()
    found = [line for one in lines if (line := _matching(one, needle)) is not None]
    return list(_rows(found, order, 0))


def _rows(lines: Sequence[Line], order: LineOrder, depth: int) -> Iterator[ShownLine]:
    for line in lines if depth == 0 else _sorted(lines, order):
        shut = line.key in order.folded or depth + 1 >= order.deepest
        yield ShownLine(line, depth, hidden=shut and bool(line.children))
        if not shut:
            yield from _rows(line.children, order, depth + 1)


def _matching(line: Line, needle: str) -> Line | None:
    """The line with its matching children; with all children if it matches itself."""
    if not needle or needle in line.name.casefold() or needle in line.letters.casefold():
        return line
    below = tuple(one for child in line.children if (one := _matching(child, needle)) is not None)
    if not below:
        return None
    return Line(
        **{name: getattr(line, name) for name in Line.__slots__ if name != "children"},
        children=below,
    )


def _sorted(lines: Sequence[Line], order: LineOrder) -> list[Line]:
    """The lines in order. Lines without the value come last, in both directions."""
    largest_first = (order.by in _LARGEST_FIRST) != order.reverse
    value = _VALUES[order.by]
    known = [line for line in lines if line.kind not in _LAST and value(line) is not None]
    unknown = [line for line in lines if line.kind not in _LAST and value(line) is None]
    known.sort(key=lambda line: line.name)
    known.sort(key=lambda line: value(line) or 0.0, reverse=largest_first)
    if order.by is SortKey.NAME:
        known.sort(key=lambda line: line.name, reverse=order.reverse)
    unknown.sort(key=lambda line: line.name)
    return [*known, *unknown, *(line for line in lines if line.kind in _LAST)]


_VALUES: dict[SortKey, Callable[[Line], float | None]] = {
    SortKey.NAME: lambda _: 0.0,
    SortKey.CORE: lambda line: line.core.value,
    SortKey.MEMORY: lambda line: line.memory.value,
    SortKey.SHARE: lambda line: line.core.share,
    SortKey.PID: lambda line: line.pid,
}
