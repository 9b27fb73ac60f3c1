"""Owners, what they used, and sums of amounts of which some may not be known."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from exporter.model.devices import (
    CgroupMemory,
    Device,
    Engines,
    Methods,
    ProcessActivity,
)
from exporter.model.reasons import Unattributed, Unexplained, Unmeasured

T = TypeVar("T", int, float)

PodName = tuple[str, str]
"""A pod by its namespace and name."""


class ContainerKey(NamedTuple):
    """Labels of a named pod's container. ``container`` is "" while only the pod is known."""

    namespace: str
    pod: str
    container: str

    @property
    def pod_name(self) -> PodName:
        """The pod that it is of."""
        return self.namespace, self.pod

    @property
    def whole(self) -> "ContainerKey":
        """Its pod as a whole, whose container is not known."""
        return ContainerKey(self.namespace, self.pod, "")


class GroupKey(NamedTuple):
    """A cgroup that is not a named pod's container."""

    kind: str
    group: str


Owner = ContainerKey | GroupKey | Unattributed


class Used(NamedTuple):
    """What one owner, or a whole device, used: in one window, or since it is counted.

    What is not known is None. ``copy_ns`` and ``evicted_ns`` are what some drivers count beside.
    """

    busy: Engines = Engines()
    energy_uj: int | None = None
    copy_ns: int | None = None
    evicted_ns: int | None = None


NOTHING_USED = Used()


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """Device memory of one owner. ``used_bytes`` is None if any of its processes is unknown.

    ``is_rejected``: it is unknown because the driver reports more than can be; ``is_unread``:
    because some of it could not be read now. ``is_charge``: it is what the ``cgroup`` is charged,
    because the driver has no figure of its processes.
    """

    used_bytes: int | None
    processes: int
    is_rejected: bool = False
    cgroup: CgroupMemory | None = None
    is_charge: bool = False
    is_unread: bool = False


class DeviceUsage(NamedTuple):
    """The use of one device in one window: for each quantity the shares add up to ``total``.

    ``idle_energy_uj`` is what the board would have used idle, whoever it is charged to.
    ``rejected`` counts the rows left out. ``reported_core_ns`` is the core time that the driver
    reports for processes, before anything is scaled or added. ``unexplained`` divides the core time
    of ``Unattributed.NO_PID`` by reason.
    ``unmeasured`` holds the owners whose part of the core cannot be measured, with the reason; it
    is None if the owners were unknown in this window. ``counted`` holds nanoseconds by the names in
    ``COUNTED``. ``is_lower_bound``: the device may have been busier than ``total``.
    ``end_unix_ns``: when the window ended, in its own time.
    """

    device: Device
    observed_ns: int
    unobserved_ns: int
    total: Used
    shares: Mapping[Owner, Used]
    idle_energy_uj: int | None = None
    rejected: int = 0
    reported_core_ns: int = 0
    unexplained: Mapping[Unexplained, int] = MappingProxyType({})
    methods: Methods = Methods()
    unmeasured: Mapping[Owner, Unmeasured] | None = MappingProxyType({})
    counted: Mapping[str, Mapping[Owner, int]] = MappingProxyType({})
    is_lower_bound: bool = False
    end_unix_ns: int = 0

    @property
    def length_ns(self) -> int:
        """How long the window is."""
        return self.observed_ns + self.unobserved_ns


class SharedWindow(NamedTuple):
    """One window of a device after attribution.

    ``processes`` is what the driver reports for each. ``shares`` is as in ``DeviceUsage``.
    ``owners`` are those of all processes of the node at that time.
    """

    ended_mono_ns: int
    observed_ns: int
    processes: tuple[ProcessActivity, ...]
    shares: Mapping[Owner, Used]
    owners: Mapping[int, Owner]


def sum_of_all(parts: Sequence[T | None]) -> T | None:
    """The sum if every part is known; None if one is not, or there is none."""
    present = [part for part in parts if part is not None]
    return sum(present) if present and len(present) == len(parts) else None


def sum_of_known(parts: Iterable[T | None]) -> T | None:
    """The sum of the known parts; None if none is known."""
    present = [part for part in parts if part is not None]
    return sum(present) if present else None
