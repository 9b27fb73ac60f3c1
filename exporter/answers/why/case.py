"""What is known of a pod or a group, for ``why``: its parts, and the cards they are on.

``nodecase`` makes a case of a node's facts, ``seriescase`` of a Prometheus's series.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.shown.words import length


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCard:
    """A device: its number, and what it did in the time that was looked at, as shares of it.

    ``others``: who else is on it, as ``namespace/pod``; None if that is not known. ``throttled``:
    how long its clocks were held down, by reason. ``is_part``: it is a MIG instance or a partition.
    ``over``: which of the others use more than their share of the core, by how many times.
    ``lost``: of a lost device, what happened and what to do; else "".
    """

    uuid: str = ""
    gpu: str = ""
    node: str = ""
    model: str = ""
    busy: float | None = None
    throttled: Mapping[str, float] = field(default_factory=dict)
    others: tuple[str, ...] | None = None
    is_part: bool = False
    over: Mapping[str, float] = field(default_factory=dict)
    lost: str = ""

    @property
    def name(self) -> str:
        """How people call it."""
        return f"GPU {self.gpu}" if self.gpu else self.uuid or "a GPU that is not known yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCard:
    """What a container has of one card. Shares are of the card or of the time.

    ``waiting`` is an upper bound, of ``waiting_s`` seconds, None for all of the time;
    ``waiting_on`` is the same by who ran instead, None if nobody recorded that. ``share`` and
    ``memory_limit_bytes`` are None where nothing is promised. ``misplaced``: whether its allocation
    names other cards; None without one. ``may_borrow``: whether its policy allows more core than
    its share, where that is free.
    """

    container: str
    card: SeenCard
    core: float | None = None
    share: float | None = None
    waiting: float | None = None
    waiting_s: float | None = None
    waiting_on: Mapping[str, float] | None = None
    memory_bytes: float | None = None
    memory_limit_bytes: float | None = None
    last_active_unix_s: float | None = None
    scheme: str = ""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    misplaced: bool | None = None
    may_borrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The parts of a pod, or of a group by its kind and name, in ``window_s`` until ``unix_s``.

    The parts' shares are of the time in which the pod was observed: ``observed_s`` seconds, None if
    that is about all. ``is_new``: it was first seen in the window, and without a break since.
    ``ended_unix_s``: when it was last seen, None if it is there now.
    """

    namespace: str
    pod: str
    unix_s: float
    window_s: float
    parts: tuple[OnCard, ...] = ()
    observed_s: float | None = None
    is_new: bool = False
    ended_unix_s: float | None = None

    @property
    def span(self) -> str:
        """The time that its shares are of, in words."""
        window = f"the last {length(self.window_s)}"
        if self.observed_s is None:
            return window
        if self.is_new:
            return f"the last {length(self.observed_s)}, since it was first seen"
        return f"the {length(self.observed_s)} of {window} in which it was seen"
