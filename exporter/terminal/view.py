"""What is shown: lines that hold lines, GPU → pod → container → process. Values only.

Which lines are shown, and in which order. Pure.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class LineKind(StrEnum):
    """What a line is about."""

    DEVICE = "GPU"
    NOWHERE = "no GPU"  # allotments whose device is not known
    POD = "pod"
    CONTAINER = "container"
    GROUP = "group"
    REST = "unattributed"
    PROCESS = "process"


class Figure(NamedTuple):
    """A figure and what it is held against. ``why``: the reason where the value is not known.

    Without value and reason there is none: it does not apply.
    Core is in whole GPUs (1 is all of one), memory in bytes. ``limit`` None: nothing was promised.
    """

    value: float | None = None
    limit: float | None = None
    why: str = ""

    @property
    def share(self) -> float | None:
        """The part of its limit that is in use; None where either is not known."""
        if self.value is None or not self.limit:
            return None
        return self.value / self.limit


UNKNOWN = Figure()

Key = tuple[str, ...]
Past = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``key`` is its own for as long as it is there; ``pid`` of a process.

    ``letters`` is the process's type as nvidia-smi shows it, ``past`` the core of the last minutes,
    oldest first, ``facts`` more to know, by name.
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
    """The line's name in full: a container's with its pod's."""
    if line.kind is LineKind.CONTAINER:
        namespace, pod, container = line.key[-3:]
        return f"{namespace}/{pod}/{container}"
    return line.name


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment. ``source`` is whom it was asked of.

    ``troubles`` are sources that are down, and whatever else hinders: what is wrong and what to do.
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
        """How many pods are on the devices."""
        return len(
            {
                line.key[-2:]
                for one in self.lines
                for line in one.children
                if line.kind is LineKind.POD
            }
        )


class SortKey(StrEnum):
    """What the lines within a GPU, pod or container are sorted by."""

    NAME = "name"
    CORE = "core"
    MEMORY = "memory"
    SHARE = "share of limit"
    PID = "pid"


class LineOrder(NamedTuple):
    """``needle`` must be in a line, in one above or in one below for it to be shown.

    ``deepest`` is how many levels are shown: 1 is the GPUs alone.
    """

    by: SortKey = SortKey.NAME
    reverse: bool = False
    needle: str = ""
    folded: AbstractSet[Key] = frozenset()
    deepest: int = 4


class ShownLine(NamedTuple):
    """A line where it is shown. ``hidden``: it has others below that are not."""

    line: Line
    depth: int
    hidden: bool


_LARGEST_FIRST = {SortKey.CORE, SortKey.MEMORY, SortKey.SHARE}
_LAST = (LineKind.REST,)  # after everybody who is named


def rows(lines: Sequence[Line], order: LineOrder) -> list[ShownLine]:
    """The lines from top to bottom. GPUs stay by their index."""
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
    """The line with those below that match; all of them if it matches itself."""
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
    """Those of which the value is not known come after those of which it is, either way round."""
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
