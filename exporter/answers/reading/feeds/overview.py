"""The lines of a table, GPU → pod → container → process, and how they are arranged. Pure."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from exporter.model.alerts import OVER_MEMORY, OVER_SHARE
from exporter.shown.kinds import count_nouns
from exporter.shown.marks import Mark


class LineKind(StrEnum):
    """The kind of thing that a line shows."""

    PLACES = "sums"  # of namespaces or nodes, each a line below
    NAMESPACE = "namespace"
    NODE = "node"
    DEVICE = "GPU"
    NOWHERE = "no GPU"  # allocations whose device is not known
    POD = "pod"
    CONTAINER = "container"
    GROUP = "group"
    ENDED = "ended"  # pods and groups that have ended, each a line below
    REST = "unattributed"
    PROCESS = "process"


class Figure(NamedTuple):
    """A value with its limit. ``why`` is the reason if the value is not known.

    A figure without value and reason does not apply. Core is in whole GPUs (1 is all of one),
    memory in bytes. ``limit`` is None if nothing was allocated. ``share`` is the use of the limit,
    which is not the value over it where some of the value has no limit. ``may_borrow``: whether
    more than the limit is allowed where it is free.
    """

    value: float | None = None
    limit: float | None = None
    why: str = ""
    share: float | None = None
    may_borrow: bool = False

    @property
    def of_bound(self) -> float | None:
        """The use of the limit; None without one, and where more is allowed."""
        return None if self.may_borrow else self.share


UNKNOWN = Figure()

Key = tuple[str, ...]
Past = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``key`` identifies it from one reading to the next; ``pid`` is a process's.

    ``letters`` is the process's type as nvidia-smi shows it. ``past`` is the core of the last
    minutes, oldest first. ``details`` are by name. ``also`` are words that the filter finds it by,
    besides its name. ``watts`` and ``celsius`` are a device's. ``marks``: what is wrong with it.
    ``ended``: it is not there any more. ``gpus`` is what the core is drawn against. ``unread``:
    what is below is read once the line is open.
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
    details: tuple[tuple[str, str], ...] = ()
    children: tuple["Line", ...] = ()
    also: str = ""
    watts: float | None = None
    celsius: float | None = None
    marks: tuple[Mark, ...] = ()
    ended: bool = False
    gpus: float = 1.0
    unread: bool = False


def path(line: Line) -> str:
    """The line's full name; a container's includes its pod's."""
    if line.kind is LineKind.CONTAINER:
        namespace, pod, container = line.key[-3:]
        return f"{namespace}/{pod}/{container}"
    return line.name


class Totals(NamedTuple):
    """Sums over the GPUs that can be read. ``lost`` is the number of those that cannot.

    Of the ``unmeasured`` that can, no core use is known. A sum is None if it is not known, or not
    shown.
    """

    gpus: int = 0
    lost: int = 0
    unmeasured: int = 0
    core: float | None = None
    memory: float | None = None
    memory_total: float | None = None
    watts: float | None = None
    unattributed: float | None = 0.0


NO_TOTALS = Totals()


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at one moment. ``source`` is the name of the node or feed.

    ``troubles`` are sources that are down and other problems, each with advice. ``namespace``: only
    its pods are known, and ``totals`` are theirs. ``without_pods``: no node of it belongs to
    Kubernetes. ``counted_pods``: how many there are, where not all have lines.
    """

    source: str
    unix_s: float = 0.0
    simulated: bool = False
    troubles: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    totals: Totals = NO_TOTALS
    namespace: str = ""
    without_pods: bool = False
    counted_pods: int | None = None

    @property
    def groups(self) -> dict[str, int]:
        """The number of groups on the devices, by what they are called."""
        return count_nouns(kind for kind, _ in sorted(self._owners(LineKind.GROUP)))

    @property
    def pods(self) -> int:
        """The number of pods on the devices."""
        known = self.counted_pods
        return len(self._owners(LineKind.POD)) if known is None else known

    @property
    def is_fleet(self) -> bool:
        """Whether its first lines are sums of nodes."""
        return any(line.kind is LineKind.PLACES for line in self.lines)

    def _owners(self, kind: LineKind) -> set[Key]:
        """The names of owners on the devices: the end of their keys."""
        lines = (line for one in self.lines for line in one.children)
        return {line.key[-2:] for line in lines if line.kind is kind}


class SortKey(StrEnum):
    """The sort key of lines within a GPU, pod or container."""

    NAME = "name"
    CORE = "core"
    MEMORY = "memory"
    SHARE = "share of limit"
    PID = "pid"


class Arrangement(NamedTuple):
    """The order, filter and depth of lines. ``by`` and ``reverse``: the order within a parent.

    A line is shown if ``needle`` is in it, in one above or in one below. ``deepest`` is the number
    of levels: 1 shows the GPUs only, 2 pods, 3 containers, 4 processes. ``folded`` and ``opened``
    are lines that differ from that. ``fits``: lines that do not fit are counted instead of shown.
    """

    by: SortKey = SortKey.NAME
    reverse: bool = False
    needle: str = ""
    folded: AbstractSet[Key] = frozenset()
    opened: AbstractSet[Key] = frozenset()
    deepest: int = 3
    fits: bool = False


class ShownLine(NamedTuple):
    """A line with its depth. ``hidden``: its children are not shown.

    ``more`` is the number of its children that are left out because they do not fit.
    """

    line: Line
    depth: int
    hidden: bool
    more: int = 0


_LARGEST_FIRST = {SortKey.CORE, SortKey.MEMORY, SortKey.SHARE}
_LAST = (LineKind.ENDED, LineKind.REST, LineKind.NOWHERE)  # after all owners, or all devices
_LEVELS = {LineKind.DEVICE: 1, LineKind.NOWHERE: 1, LineKind.CONTAINER: 3, LineKind.PROCESS: 4}
_LEVELS |= dict.fromkeys((LineKind.NAMESPACE, LineKind.NODE), 1)
_NEVER = 5  # the level of what has ended: shown only where somebody unfolds it
_TENANTS = 2  # the level of all other kinds


def rows(lines: Sequence[Line], arrangement: Arrangement, height: int = 0) -> list[ShownLine]:
    """The lines from top to bottom. By name, GPUs are in the order of their index.

    ``height`` is the number of rows there is room for; it counts only if the arrangement ``fits``.
    """
    needle = arrangement.needle.casefold()
    found = [line for one in lines if (line := _matching(one, needle)) is not None]
    every = list(_rows(found, arrangement, 0))
    over = len(every) - height if arrangement.fits and not needle and height > 0 else 0
    return _without_the_least(every, over, arrangement.opened) if over > 0 else every


def _rows(lines: Sequence[Line], arrangement: Arrangement, depth: int) -> Iterator[ShownLine]:
    # Lines without the value come last, in both directions. Devices are in that of their index.
    largest_first = (arrangement.by in _LARGEST_FIRST) != arrangement.reverse
    value = _VALUES[arrangement.by]
    owners = [line for line in lines if line.kind not in _LAST]
    if depth:
        owners.sort(key=lambda line: line.name)
    if arrangement.by is SortKey.NAME:
        known, unknown = owners[:: -1 if arrangement.reverse else 1], []
    else:
        known = [line for line in owners if value(line) is not None]
        unknown = [line for line in owners if value(line) is None]
        known.sort(key=lambda line: ranked(value(line) or 0.0), reverse=largest_first)
    for line in [*known, *unknown, *(line for line in lines if line.kind in _LAST)]:
        shut = _is_shut(line, arrangement)
        yield ShownLine(line, depth, hidden=shut and bool(line.children or line.unread))
        if not shut:
            yield from _rows(line.children, arrangement, depth + 1)


def _is_shut(line: Line, arrangement: Arrangement) -> bool:
    if line.key in arrangement.folded or line.key in arrangement.opened:
        return line.key in arrangement.folded
    if line.unread and not line.children:
        return True
    below = (_NEVER if one.ended else _LEVELS.get(one.kind, _TENANTS) for one in line.children)
    return min(below, default=0) > arrangement.deepest


class _Block(NamedTuple):
    """The rows of an owner or a node, from ``start`` to before ``end``, and the row above it."""

    importance: tuple[int, float]
    gpu: int
    start: int
    end: int


def _without_the_least(
    every: list[ShownLine], over: int, opened: AbstractSet[Key]
) -> list[ShownLine]:
    """The rows without those that say least, each counted in its GPU's row."""
    # An owner goes with all of its rows, so that no process is shown without its pod.
    blocks: list[_Block] = []
    gpu = 0
    for at, row in enumerate(every):
        if row.depth == 0:
            gpu = at
        elif row.depth == 1 and row.line.key not in opened:
            ends = (n for n in range(at + 1, len(every)) if every[n].depth <= 1)
            rank = _importance(row.line, every[gpu].line)
            blocks.append(_Block(rank, gpu, at, next(ends, len(every))))
    dropped: set[int] = set()
    more = dict.fromkeys(range(len(every)), 0)
    for block in sorted(blocks):
        if over <= 0:
            break
        dropped.update(range(block.start, block.end))
        more[block.gpu] += 1
        over -= block.end - block.start
    kept = ((at, row) for at, row in enumerate(every) if at not in dropped)
    return [row._replace(more=more[at]) for at, row in kept]


def _importance(line: Line, device: Line) -> tuple[int, float]:
    """How much a line says: first what is marked, unknown or beyond its limit, then by use."""
    unknown = line.core.value is None and bool(line.core.why)
    over_share = (line.core.of_bound or 0.0) > OVER_SHARE
    beyond = over_share or (line.memory.of_bound or 0.0) > OVER_MEMORY
    held = (line.memory.value or 0.0) / (device.memory.limit or float("inf"))
    return int(bool(line.marks) or unknown or beyond), max(line.core.value or 0.0, held)


def _matching(line: Line, needle: str) -> Line | None:
    """The line with its matching children; with all children if it matches itself."""
    texts = (line.name, line.letters, line.also)
    if not needle or any(needle in text.casefold() for text in texts):
        return line
    below = tuple(one for child in line.children if (one := _matching(child, needle)) is not None)
    return replace(line, children=below) if below else None


def ranked(value: float) -> float:
    """A value by which lines are put in order: to nine digits.

    Engines add the samples of a sum in an order of their own, so the last bits differ between two
    questions. Lines of equal figures would change their places at each refresh.
    """
    return float(f"{value:.9g}")


_VALUES: dict[SortKey, Callable[[Line], float | None]] = {
    SortKey.NAME: lambda _: 0.0,
    SortKey.CORE: lambda line: line.core.value,
    SortKey.MEMORY: lambda line: line.memory.value,
    SortKey.SHARE: lambda line: line.core.share,
    SortKey.PID: lambda line: line.pid,
}
