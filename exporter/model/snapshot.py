"""The result of a cycle: everything that readers are served until the next."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.model.devices import ProcessMemory
from exporter.model.facts import NO_FACTS, ExporterFacts, Facts
from exporter.model.processes import ProcessInfo
from exporter.model.sources import SourceStatus
from exporter.model.usage import ContainerKey, GroupKey, Owner, SharedWindow

STALE_CYCLES = 3
LEAST_STALE_NS = 10_000_000_000

Number = int | float


class Tenants(NamedTuple):
    """The processes of a device in one cycle; ``exporter.shown.processtree`` says what each uses.

    ``listed`` hold a context now; None where the driver does not list them. ``windows`` are the
    newest ones, oldest first.
    """

    device_uuid: str
    listed: tuple[ProcessMemory, ...] | None = None
    windows: tuple[SharedWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device. ``kinds`` as in ``ProcessMemory``, None where it is not listed.

    ``name``, ``start_unix_ns`` and ``job`` as in ``ProcessInfo``.
    The ratios are its part of its owner's, averaged over ``--collection.window`` or the newest 60
    windows of the device, whichever is less; None where they are unknown.
    """

    pid: int
    device_uuid: str
    owner: Owner
    kinds: frozenset[str] | None = None
    memory_bytes: int | None = None
    core: float | None = None
    memory_active: float | None = None
    encoder: float | None = None
    decoder: float | None = None
    name: str = ""
    start_unix_ns: int | None = None
    job: str = ""


class HistoryPoint(NamedTuple):
    """The core and memory of all series at one time, packed by ``exporter.agent.facts.history``."""

    cores: bytes
    held: bytes


class SeriesKey(NamedTuple):
    """An owner on a device; None is the device itself. A device's number may become another's."""

    owner: ContainerKey | GroupKey | None
    uuid: str


@dataclass(frozen=True, slots=True)
class History:
    """The last hour, a point each ``step_ns``, the newest last and taken at ``end_unix_ns``.

    ``series``: the place in each point. ``ended``: those that are not there any more, with the
    number of their last point. ``taken`` counts the points taken and missed.
    """

    end_unix_ns: int = 0
    end_mono_ns: int = 0
    step_ns: int = 10_000_000_000
    series: Mapping[SeriesKey, int] = field(default_factory=dict)
    points: tuple[HistoryPoint, ...] = ()
    ended: Mapping[SeriesKey, tuple[int, int]] = field(default_factory=dict)
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that readers are served until the next Snapshot.

    ``facts`` are built when somebody asks for them, and show the state at ``mono_ns`` all the same.
    That takes a moment, so do not do it in an event loop. ``exporter``: None before the first
    cycle.

    ``sources`` hold in words, for people, what ``exporter`` holds in numbers.
    ``interval_ns`` is the time to the next Snapshot. ``figures_age_ns``: how old the newest windows
    were, at ``mono_ns``, of the device that was read longest ago.
    ``started_unix_ns``: when the collector began, with every counter at 0; 0 if it is not known.
    ``tenants``, ``owners`` (by pid) and ``processes`` (by pid) are the input of readers that show
    processes: no metric has a process in its labels.
    """

    version: int = 0
    unix_ns: int = 0
    mono_ns: int = 0
    simulated: bool = False
    measured: Callable[[], Facts] = lambda: NO_FACTS
    exporter: ExporterFacts | None = None
    sources: tuple[SourceStatus, ...] = ()
    tenants: tuple[Tenants, ...] = ()
    owners: Mapping[int, Owner] = field(default_factory=dict)
    processes: Mapping[int, ProcessInfo] = field(default_factory=dict)
    history: History = field(default_factory=History)
    interval_ns: int = 1_000_000_000
    figures_age_ns: int = 0
    started_unix_ns: int = 0

    @property
    def facts(self) -> Facts:
        """What was measured."""
        return self.measured()

    @property
    def stale_after_ns(self) -> int:
        """The age from which nothing that was measured is served any more."""
        return max(STALE_CYCLES * self.interval_ns, LEAST_STALE_NS)
