"""What a cycle found out, as typed facts: devices, their holdings, pods, sums, the exporter itself.

A field is a value, or None: not known, or withheld. ``unmeasured`` says why, by quantity. Times are
in nanoseconds (``_ns``), energies in microjoules (``_uj``), memory in bytes; shares are floats, of
one whole GPU. Counters rise from the exporter's start on. Averages are over the time of
``--collection.window``.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from exporter.model.devices import (
    CgroupMemory,
    Device,
    DeviceState,
    Methods,
    PartCost,
    Sampling,
    Sensors,
    XidCount,
)
from exporter.model.policies import LENDS
from exporter.model.processes import GroupFacts, Unit
from exporter.model.reasons import Unattributed, Unexplained, Unmeasured
from exporter.model.sources import CallCount, SourceStatus
from exporter.model.usage import (
    NOTHING_USED,
    ContainerKey,
    GroupKey,
    Owner,
    PodName,
    Used,
)

Reasons = Mapping[str, Unmeasured]
"""Why quantities are not known now, by quantity."""


InnerJobs = Mapping[tuple[str, ContainerKey | GroupKey], tuple[Unit, ...]]
"""The jobs of batch systems inside of containers, by the device's UUID and the owner."""


class Averages(NamedTuple):
    """Shares of the time in which each engine was in use, 0 to 1.

    ``waiting``: the share in which a container may have waited for others, an upper bound.
    """

    core: float | None = None
    memory_active: float | None = None
    encoder: float | None = None
    decoder: float | None = None
    waiting: float | None = None


class AllocatedTime(NamedTuple):
    """Counters of allocations: ``core_ns`` is the allocated share times its time.

    ``idle_ns`` and ``borrowed_ns`` are core time below and above that share, counted at each window
    whose use is known; a pod has none while a share is its own as a whole, or on no known device,
    and its namespace has no idle time then.
    ``gpu_ns`` is the part of a GPU that is kept from others, times its time.
    """

    core_ns: int | None = None
    idle_ns: int | None = None
    borrowed_ns: int | None = None
    gpu_ns: int | None = None


OTHERS = GroupKey("others", "")
"""All owners that a reader may not see."""


class Waiting(NamedTuple):
    """How long an owner may have waited for others: an upper bound.

    ``by_owner`` divides ``waited_ns`` by who ran. As a share of time it stands in ``Averages``.
    """

    waited_ns: int | None = None
    by_owner: Mapping[Owner, int] = MappingProxyType({})

    @property
    def by_pod(self) -> dict[PodName, int]:
        """The waiting for each pod, by namespace and name; for a group "" and its kind and name."""
        found: dict[tuple[str, str], int] = {}
        for owner, waited_ns in self.by_owner.items():
            if isinstance(owner, ContainerKey):
                found[owner.pod_name] = found.get(owner.pod_name, 0) + waited_ns
            elif isinstance(owner, GroupKey):
                found["", "/".join(filter(None, owner))] = waited_ns
        return found

    def visible_to(self, namespaces: Collection[str]) -> "Waiting":
        """The same for somebody who may see these namespaces: all other owners are ``OTHERS``."""
        found: dict[Owner, int] = {}
        for owner, waited_ns in self.by_owner.items():
            is_shown = isinstance(owner, ContainerKey) and owner.namespace in namespaces
            shown = owner if is_shown else OTHERS
            found[shown] = found.get(shown, 0) + waited_ns
        return Waiting(self.waited_ns, found)


NO_AVERAGES, NEVER_ALLOCATED = Averages(), AllocatedTime()
NO_WAITING = Waiting()
_NO_SAMPLING, _NO_SENSORS = Sampling(), Sensors()


@dataclass(frozen=True, slots=True)
class DeviceMemoryFacts:
    """The memory of a device. ``unattributed_bytes``: what no container or group holds, by reason.

    For ``overlap`` it is negative.
    """

    total_bytes: int | None = None
    used_bytes: int | None = None
    reserved_bytes: int | None = None
    unattributed_bytes: Mapping[Unattributed, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """The sums of what is allocated on a device, as far as it is known.

    ``core`` is in whole GPUs. ``replicas``: as how many the device is offered. ``free_ns`` counts
    the time of the part that nobody has, ``overcommitted_ns`` that of what was allocated beyond the
    whole device; None for a part of a board.
    """

    core: float | None = None
    memory_bytes: float | None = None
    replicas: int | None = None
    free_ns: int | None = None
    overcommitted_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One device. ``device`` has its names: vendor, model, versions, the board of a part.

    ``unattributed`` is the use that belongs to no container or group, by reason, from 0 on; a
    quantity that the reason cannot have is None. ``unexplained_ns`` divides the core time of the
    reason ``no_pid``. ``normalization`` is the core time given to processes over what the driver
    reports for them. ``methods`` is how it is measured, None while nothing is. ``is_unhealthy``:
    the kubelet says so in the status of a pod.
    """

    device: Device
    state: DeviceState = DeviceState.UP
    unmeasured: Reasons = field(default_factory=dict)
    used: Used = NOTHING_USED
    average: Averages = NO_AVERAGES
    idle_energy_uj: int | None = None
    unobserved_ns: int | None = None
    unattributed: Mapping[Unattributed, Used] = field(default_factory=dict)
    unexplained_ns: Mapping[Unexplained, int] = field(default_factory=dict)
    normalization: float | None = None
    methods: Methods | None = None
    sampling: Sampling = _NO_SAMPLING
    memory: DeviceMemoryFacts = DeviceMemoryFacts()
    allocated: DeviceAllocation = DeviceAllocation()
    sensors: Sensors = _NO_SENSORS
    xids: Mapping[str, XidCount] | None = None
    costs: Mapping[str, PartCost] = field(default_factory=dict)
    is_unhealthy: bool = False

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return self.device.uuid

    @property
    def index(self) -> int:
        """Its number."""
        return self.device.index

    @property
    def is_up(self) -> bool:
        """Whether it could be read in the last cycle."""
        return self.state is DeviceState.UP


class HeldMemory(NamedTuple):
    """The memory that an owner holds, the most so far, and its processes with a context.

    ``cgroup`` and ``is_charge`` as in ``MemoryHeld``.
    """

    used_bytes: int | None = None
    peak_bytes: int | None = None
    processes: int | None = None
    cgroup: CgroupMemory | None = None
    is_charge: bool = False

    @property
    def guaranteed_bytes(self) -> int | None:
        """What is kept for its cgroup; None: no limit is set."""
        return self.cgroup.guaranteed_bytes if self.cgroup else None

    @property
    def protected_bytes(self) -> int | None:
        """What the kernel takes from its cgroup last; None: nothing is set."""
        return self.cgroup.protected_bytes if self.cgroup else None

    @property
    def limit_bytes(self) -> int | None:
        """What its cgroup is held to; None: no limit is set."""
        return self.cgroup.limit_bytes if self.cgroup else None

    @property
    def borrowed_bytes(self) -> int | None:
        """What it holds beyond what is kept for it; None where nothing is."""
        if self.cgroup is None or self.cgroup.guaranteed_bytes is None:
            return None
        charged = self.cgroup.charged_bytes
        held = self.used_bytes if charged is None else charged
        return None if held is None else max(0, held - self.cgroup.guaranteed_bytes)


NO_HELD_MEMORY = HeldMemory()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one owner, a container or a group, has of one device.

    ``index`` and ``uuid`` are the device's; None and "" while it is not known. ``ended``: the owner
    is not there any more, and only its counters are shown for a while. ``ended_core``: what it used
    of the core within the time of averages before it ended, so that the parts of a device add up.
    ``since_unix_ns``: when counting began. ``jobs`` are those of a batch system inside of it.
    """

    index: int | None
    uuid: str
    ended: bool = False
    ended_core: float | None = None
    used: Used = NOTHING_USED
    average: Averages = NO_AVERAGES
    memory: HeldMemory = NO_HELD_MEMORY
    last_active_unix_ns: int | None = None
    since_unix_ns: int | None = None
    unmeasured: Reasons = field(default_factory=dict)
    jobs: tuple[Unit, ...] = ()


class Granted(NamedTuple):
    """The sharing system that allocated something, its policy and the container's priority."""

    scheme: str
    policy: str = ""
    priority: str = ""


@dataclass(frozen=True, slots=True)
class AllocationFacts:
    """What a container was allocated on one device, summed over its allocations, ``granted``.

    ``core`` and ``memory_bytes`` are None where no amount was promised, or where it is the pod's as
    a whole. ``replicas`` counts time slices, MPS replicas, or uses of a claim. ``gpus`` is the part
    of a GPU that is kept from others.
    """

    granted: tuple[Granted, ...] = ()
    core: float | None = None
    memory_bytes: float | None = None
    replicas: int | None = None
    gpus: float | None = None

    @property
    def may_borrow(self) -> bool:
        """Whether its policy lets the container use more of the core than its share."""
        return any(LENDS.get(one.policy, False) for one in self.granted)


NO_ALLOCATION = AllocationFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHolding(Holding):
    """A container on a device. ``owner.container`` is "" where only the pod is known.

    ``misplaced``: whether its allocation names other devices; None without an allocation.
    """

    owner: ContainerKey
    allocation: AllocationFacts = NO_ALLOCATION
    allocated: AllocatedTime = NEVER_ALLOCATED
    waiting: Waiting = NO_WAITING
    misplaced: bool | None = None

    @property
    def core_of_limit(self) -> float | None:
        """Its core use over its allocated share."""
        return of_limit(self.average.core, self.allocation.core)

    @property
    def memory_of_limit(self) -> float | None:
        """Its memory over its allocated memory."""
        return of_limit(self.memory.used_bytes, self.allocation.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHolding(Holding):
    """A group on a device. ``info`` has its names, None while nothing of it is shown."""

    owner: GroupKey
    info: GroupFacts | None = None


class PodInfo(NamedTuple):
    """A pod's identity and controller. ``labels``: its labels and annotations that are shown.

    They are named ``label_…`` and ``annotation_…``.
    """

    uid: str
    qos: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    labels: Mapping[str, str] = MappingProxyType({})


class PodFacts(NamedTuple):
    """A pod over all its containers and devices. ``core`` and ``core_limit`` are in whole GPUs.

    ``core_of_limit`` is the use by the containers that have a share, over these shares;
    ``memory_of_limit`` is that of the fullest device. ``used`` has core time and energy only;
    ``limited_core_ns`` is the part of it by containers that have a share. ``unhealthy_devices`` is
    the kubelet's word, None where it says nothing.
    """

    namespace: str
    name: str
    ended: bool = False
    info: PodInfo | None = None
    core: float | None = None
    core_limit: float | None = None
    core_of_limit: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: float | None = None
    memory_of_limit: float | None = None
    last_active_unix_ns: int | None = None
    used: Used = NOTHING_USED
    limited_core_ns: int | None = None
    allocated: AllocatedTime = NEVER_ALLOCATED
    allocated_gpus: float | None = None
    unhealthy_devices: int | None = None


class NamespaceFacts(NamedTuple):
    """The use and allocation of one device by all pods of a namespace, since the exporter's start.

    ``uuid`` is "" for what is allocated while its device is not known.
    """

    namespace: str
    uuid: str
    used: Used = NOTHING_USED
    allocated: AllocatedTime = NEVER_ALLOCATED
    allocated_gpus: float | None = None


class GroupKindFacts(NamedTuple):
    """The use of one device by all groups of a kind since the exporter's start."""

    kind: str
    uuid: str
    used: Used = NOTHING_USED


class LastReload(NamedTuple):
    """The result of the last reload of the settings, and when one last succeeded."""

    successful: bool
    success_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterFacts:
    """The exporter itself. ``idle``: who is charged for idle energy.

    ``rejected``: rows and items from outside that could not be used, by reason. ``dropped``: series
    left out by the limit, by family, since the start. ``calls``: of the driver libraries.
    ``reviews``: questions about clients by kind and outcome; None if clients are not reviewed.
    """

    version: str
    python: str
    unix_ns: int
    cycles: int
    overruns: int
    interval_ns: int
    simulated: bool
    idle: str
    sources: tuple[SourceStatus, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, CallCount] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    reload: LastReload | None = None
    reviews: Mapping[tuple[str, ...], int] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was measured, by kind. The order is not stated: sort what you show.

    ``containers`` and ``groups`` have an entry for each device that the owner is on.
    """

    devices: tuple[DeviceFacts, ...] = ()
    containers: tuple[ContainerHolding, ...] = ()
    groups: tuple[GroupHolding, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    namespaces: tuple[NamespaceFacts, ...] = ()
    group_kinds: tuple[GroupKindFacts, ...] = ()

    @property
    def holdings(self) -> tuple[ContainerHolding | GroupHolding, ...]:
        """What containers and groups have of each device."""
        return (*self.containers, *self.groups)


NO_FACTS = Facts()


def of_limit(used: float | None, limit: float | None) -> float | None:
    """Use over a limit; None unless both are known and the limit is not 0."""
    return used / limit if limit and used is not None else None


def counted_in_sums(devices: Collection[DeviceFacts]) -> list[DeviceFacts]:
    """Those of one node that can be read, without boards whose parts are counted in their place."""
    # A board in MIG mode has no core use of its own, and its memory is that of its instances.
    divided = {one.device.parent_uuid for one in devices}
    return [
        one
        for one in devices
        if one.is_up and (one.average.core is not None or one.uuid not in divided)
    ]


def cards_of(devices: Iterable[DeviceFacts]) -> set[str]:
    """The UUIDs of the cards of devices of one node: the parts of a card are one."""
    return {one.device.parent_uuid or one.uuid for one in devices}
