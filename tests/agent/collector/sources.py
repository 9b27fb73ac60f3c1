"""Sources whose answers a test sets: the seams of the collector, in memory."""

from collections.abc import Callable, Collection, Mapping

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.model import (
    CgroupIdentity,
    DeviceReading,
    NodeFacts,
    PodTable,
    ProcessInfo,
    Reading,
    SourceStatus,
    Unattributed,
)


class SetGpus:
    """A GPU source that answers what it is told, or raises."""

    name = "set"

    def __init__(self) -> None:
        self.devices: tuple[DeviceReading, ...] = ()
        self.error: Exception | None = None
        self.up = True
        self.took: Callable[[], None] = lambda: None
        self.demand: Demand | None = None
        self.looks = 0

    def read(self) -> Reading:
        """The devices that were set, after the time that it takes."""
        self.took()
        if self.error is not None:
            raise self.error
        return Reading(SourceStatus(self.name, self.up, "" if self.up else "away"), self.devices)

    def release(self, released: bool) -> None:  # noqa: FBT001 - the Protocol's signature
        """Nothing is held."""

    def follow(self, demand: Demand) -> None:
        """Remember what is wanted."""
        self.demand = demand

    def look_soon(self) -> None:
        """Count it."""
        self.looks += 1

    def close(self) -> None:
        """Nothing is held."""


class SetProcesses:
    """A process source over a mapping."""

    name = "cgroups"

    def __init__(self) -> None:
        self.identities: dict[int, CgroupIdentity] = {}
        self.infos: dict[int, ProcessInfo] = {}
        self.kinds: frozenset[str] = frozenset()
        self.kinds_error: Exception | None = None
        self.error: Exception | None = None
        self.now = SourceStatus(self.name, up=True)

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """What was set; anything else has exited."""
        if self.error is not None:
            raise self.error
        return {pid: self.identities.get(pid, Unattributed.EXITED) for pid in pids}

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """What was set; counts how often it is asked."""
        return {pid: info for pid, info in self.infos.items() if pid in pids}

    def group_kinds(self) -> frozenset[str]:
        """What was set."""
        if self.kinds_error is not None:
            raise self.kinds_error
        return self.kinds

    def status(self) -> SourceStatus:
        """Up, unless something else was set."""
        return self.now

    def rejected(self) -> Mapping[str, int]:
        """One directory vanished."""
        return {"vanished": 1}

    def close(self) -> None:
        """Nothing is held."""


class SetPods:
    """A pod source over a table."""

    name = "pods"

    def __init__(self) -> None:
        self.keep: KeyPrefixes | None = None
        self.current = PodTable()
        self.arriving: PodTable | None = None
        self.up = True
        self.error: Exception | None = None

    def start(self) -> None:
        """Nothing to listen to."""

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Take what arrives meanwhile."""
        self.current, self.arriving = self.arriving or self.current, None
        return True

    def table(self) -> PodTable:
        """What was set."""
        if self.error is not None:
            raise self.error
        return self.current

    def status(self) -> SourceStatus:
        """Up or not, as set."""
        return SourceStatus(self.name, self.up, "" if self.up else "connection refused")

    def rejected(self) -> Mapping[str, int]:
        """Nothing."""
        return {}

    def follow(self, keep: KeyPrefixes) -> None:
        """Remember what is to be kept."""
        self.keep = keep

    def close(self) -> None:
        """Nothing is held."""


class SetNode:
    """A source of facts about the node, as set."""

    def __init__(self, name: str = "node") -> None:
        self.name = name
        self.known = NodeFacts()
        self.error: Exception | None = None
        self.now = SourceStatus(name, up=True)
        self.asked: list[PodTable] = []
        self.started = self.closed = 0

    def start(self) -> None:
        """Count it."""
        self.started += 1

    def facts(self, table: PodTable) -> NodeFacts:
        """What was set."""
        self.asked.append(table)
        if self.error is not None:
            raise self.error
        return self.known

    def status(self) -> SourceStatus:
        """Up, unless something else was set."""
        return self.now

    def rejected(self) -> Mapping[str, int]:
        """One item."""
        return {"odd_fact": 1}

    def close(self) -> None:
        """Count it."""
        self.closed += 1
