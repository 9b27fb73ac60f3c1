"""What is shown: lines that hold lines, GPU → pod → container → process. Values only."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
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
    kind: Kind
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
    if line.kind is Kind.CONTAINER:
        namespace, pod, container = line.key[-3:]
        return f"{namespace}/{pod}/{container}"
    return line.name


@dataclass(frozen=True, slots=True)
class View:
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
            {line.key[-2:] for one in self.lines for line in one.children if line.kind is Kind.POD}
        )
