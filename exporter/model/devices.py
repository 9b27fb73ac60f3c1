"""What drivers report of devices: what they are, and what they did in one cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from exporter.model.processes import CgroupIdentity
from exporter.model.reasons import Unmeasured
from exporter.model.sources import CallCount, SourceStatus

FIRST_INDEX = {"nvidia": 0, "amd": 100, "intel": 200}
"""Where the numbers of a vendor's devices begin: none collides, whichever driver comes first."""

MIG = "mig"  # ``Device.sharing`` of a board in MIG mode: its instances are devices
MODULE = "module"  # ``Device.sharing`` of a die whose power and energy are counted for its module
PARTITIONED = "partitioned"  # ``Device.sharing`` of a board whose partitions are devices: AMD's


@dataclass(frozen=True, slots=True)
class Device:
    """A physical GPU or a part of one (a MIG instance, an AMD partition), which has a parent.

    ``index`` is the vendor's own number from its ``FIRST_INDEX`` on: NVML's enumeration, else the
    order of PCI addresses. ``minor`` is that of its device file. ``profile`` is a part's size by
    its vendor's name, such as ``1g.10gb``. ``sharing`` is how a board is divided or shared: "mig",
    "partitioned", "module" or "mps"; else "". ``core_share`` is the device's share of a whole GPU's
    core: a part's share of the compute slices or units, 1 for a GPU. ``gpu_instance`` is the number
    that a part has on its GPU, ``placement_start`` the first memory slice of a MIG instance.
    ``sysfs_name`` is that of an AMD partition's own device in sysfs, which its plugin hands out
    (``amdgpu_xcp_30``); a board's first partition has its board's.
    ``cuda_version`` is the highest that the driver supports.
    """

    uuid: str
    index: int
    vendor: str
    model: str = ""
    minor: int | None = None
    pci_bus_id: str = ""
    parent_uuid: str = ""
    profile: str = ""
    sharing: str = ""
    driver_version: str = ""
    memory_bytes: int | None = None
    core_share: float = 1.0
    gpu_instance: int | None = None
    placement_start: int | None = None
    cuda_version: str = ""
    sysfs_name: str = ""

    @property
    def number(self) -> str:
        """The value of the label ``gpu``: the index, and a part's own number; "" if unknown."""
        index = str(self.index) if self.index >= 0 else ""
        return index if self.gpu_instance is None else f"{index}-{self.gpu_instance}"


class DeviceState(StrEnum):
    """Whether a device could be read in this cycle, and if not, why: a value of Unmeasured."""

    UP = "up"
    LOST = "gpu_lost"
    STUCK = "driver_stuck"
    RELEASED = "released"
    FAILED = "read_failed"


class Engines(NamedTuple):
    """Busy nanoseconds of each engine kind of one device; None where it is not measured."""

    core: int | None = None
    memory_active: int | None = None
    encoder: int | None = None
    decoder: int | None = None


QUANTITIES = ("core", "memory_active", "encoder", "decoder")
COUNTED = ("copy", "evicted")
"""What some drivers count of each process, and of nothing else: a device's is the sum of them."""


class ProcessActivity(NamedTuple):
    """The busy time that the driver reports for one process in one window."""

    pid: int
    busy: Engines


@dataclass(frozen=True, slots=True)
class Methods:
    """How a window was measured. The values are label values.

    ``busy``: samples (the driver's ring), rates (its newest sample only), gpm (hardware counters),
    fdinfo (the sum of what the kernel counts for each client). ``shares``: process_utilization,
    sole_owner (all of it is its only owner's), fdinfo, cu_occupancy (by compute units that were
    occupied when it was asked, an estimate). ``energy``: counter, power (integrated). Each may be
    none.
    """

    busy: str = "none"
    shares: str = "none"
    energy: str = "none"


class Naming(StrEnum):
    """Whether the busy samples of an engine name a process: the values of the label ``naming``.

    ALWAYS is said of an engine that was idle in part of the time only: a sample that is busy to its
    end has a name on every board.
    """

    ALWAYS = "always"
    PARTLY = "partly"
    NEVER = "never"
    UNKNOWN = "unknown"


class Sampling(NamedTuple):
    """What a device's driver has shown of its samples so far.

    ``period_us`` is the time between two of them; None: not known, or it keeps none. ``naming`` has
    each engine in the order of QUANTITIES; empty: processes have no samples.
    """

    period_us: int | None = None
    naming: tuple[Naming, ...] = ()

    @property
    def labels(self) -> tuple[str, str]:
        """How the core's samples name processes, and the period in seconds; "none" without."""
        period = "none" if self.period_us is None else f"{self.period_us / 1e6:.2g}"
        return str(self.naming[0]) if self.naming else "none", period


class Window(NamedTuple):
    """The time between two sample reads of one device, in the samples' clock as it was first read.

    Windows of a device are contiguous: each starts where the one before it ended, also after a
    step of that clock. ``observed_ns + unobserved_ns == end_unix_ns - start_unix_ns``. The
    unobserved part left the driver's ring before it was read, or its samples' clock was not known.

    ``busy`` is the time of a whole GPU: a MIG instance that is always busy has its share of the
    window. ``rejected`` counts rows that cannot be true, by reason. ``excess_samples`` are those
    whose time is left out: with it, the device would be observed for longer than time has passed.
    ``energy_uj`` is what the board used in the window, ``idle_energy_uj`` the part that it would
    have used without work. Both are None where the board reports neither energy nor power.
    ``late_energy_uj`` is part of the first; it belongs to earlier windows in which energy could
    not be read.
    ``per_sample``: the core time of processes is exact, and never scaled up to the device's: it
    comes from the samples that name them, or from the kernel's counters, not from averages.
    ``counted`` holds, by the name in ``COUNTED``, nanoseconds by pid. ``unmeasured_pids`` are the
    processes whose use could not be read, or only in part. ``sampling`` is what the driver's
    samples have shown up to here.
    """

    start_unix_ns: int
    end_unix_ns: int
    observed_ns: int
    unobserved_ns: int
    busy: Engines
    processes: tuple[ProcessActivity, ...] = ()
    rejected: Mapping[str, int] = MappingProxyType({})
    excess_samples: int = 0
    energy_uj: int | None = None
    idle_energy_uj: int | None = None
    late_energy_uj: int = 0
    methods: Methods = Methods()
    per_sample: bool = False
    counted: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    unmeasured_pids: frozenset[int] = frozenset()
    sampling: Sampling = Sampling()

    @property
    def length_ns(self) -> int:
        """Its time, observed or not."""
        return self.end_unix_ns - self.start_unix_ns

    @property
    def is_sum_of_processes(self) -> bool:
        """Whether the device's busy time is the sum of its processes, and some are unmeasured."""
        return bool(self.unmeasured_pids) and self.methods.busy == "fdinfo"


class Sample(NamedTuple):
    """How busy one engine of a device was during one sample, in percent."""

    timestamp_us: int
    percent: float


class ProcessSample(NamedTuple):
    """One process's average over the samples asked for, in integer percent per engine."""

    pid: int
    timestamp_us: int
    core: int
    memory_active: int
    encoder: int
    decoder: int


class CgroupMemory(NamedTuple):
    """A cgroup's memory of one device, by the word of what holds it to its limit.

    ``guaranteed_bytes`` and ``limit_bytes`` None: no limit is set. ``charged_bytes`` None: unknown.
    ``evidence``: "driver" (NVML) or "kernel" (dmem). ``refused``: the driver's answer instead.
    ``protected_bytes``: what the kernel takes from it last, as far as it can; None: nothing is set.
    """

    charged_bytes: int | None = None
    guaranteed_bytes: int | None = None
    limit_bytes: int | None = None
    evidence: str = ""
    refused: str = ""
    protected_bytes: int | None = None


class ProcessMemory(NamedTuple):
    """A process that holds a context on a device. ``used_bytes`` None: not reported.

    ``cgroup`` is that of the whole cgroup that it is in.
    """

    pid: int
    used_bytes: int | None
    kinds: frozenset[str]  # of "compute", "graphics", "mps" (a client), "mps_server"
    cgroup: CgroupMemory | None = None


class CgroupCharge(NamedTuple):
    """What the kernel charges to a cgroup of a container or group, whoever is in it.

    Without what it charges to others' cgroups below it: the parts of a device's charges add up.
    """

    identity: CgroupIdentity
    memory: CgroupMemory


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of a device and of its processes, all read at the same moment.

    ``total_bytes`` and ``used_bytes`` None: not reported. ``rejected`` are processes with an
    impossible size, which is left out, and ``unread`` those whose size could not be read now.
    ``charges`` are at most some seconds older.
    """

    total_bytes: int | None
    used_bytes: int | None
    reserved_bytes: int | None
    processes: tuple[ProcessMemory, ...] | None
    rejected: frozenset[int] = frozenset()
    charges: tuple[CgroupCharge, ...] = ()
    unread: frozenset[int] = frozenset()


SensorValue = float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Sensors:
    """A board's own sensor values, by the name of their family in ``BOARD`` (metrics.families).

    ``numbers`` are those of families without a label, ``labelled`` the others by the value of their
    label. What is unknown is absent. Seconds are kept in nanoseconds, all else is in the unit of
    the family's name. Bytes have both directions, as seen from the device.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    labelled: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, **values: SensorValue) -> "Sensors":
        """The values that are known: not None, and not an empty mapping."""
        return cls().but(**values)

    def value(self, family: str) -> float | None:
        """The value of a family without a label; None: unknown."""
        return self.numbers.get(family)

    def by_label(self, family: str) -> Mapping[str, float]:
        """The known values of a family, by the value of its label."""
        return self.labelled.get(family, {})

    def but(self, **values: SensorValue) -> "Sensors":
        """The same with these values instead; None or an empty mapping removes a family."""
        numbers, labelled = dict(self.numbers), dict(self.labelled)
        for family, value in values.items():
            numbers.pop(family, None)
            labelled.pop(family, None)
            if isinstance(value, Mapping):
                if value:
                    labelled[family] = value
            elif value is not None:
                numbers[family] = value
        return Sensors(numbers, labelled)


class XidCount(NamedTuple):
    """How often the driver reported an XID for a device, and when last (None: not yet)."""

    events: int = 0
    last_unix_ns: int | None = None


class PartCost(NamedTuple):
    """The cost of one part of reading a device since the start.

    ``every_ns``: the present interval between two reads of it; None: each cycle.
    """

    duration_ns: int
    every_ns: int | None = None


class RawSamples(NamedTuple):
    """What a driver answered for the newest window, before anything was made of it.

    ``samples`` of the core: µs in the driver's clock, percent. ``rows`` of processes: pid, µs, and
    percent of core, memory, encoder and decoder. Both as they came, also what cannot be true.
    """

    samples: tuple[tuple[int, float], ...] = ()
    rows: tuple[tuple[int, int, int, int, int, int], ...] = ()


class DeviceReading(NamedTuple):
    """One device in one cycle. ``window`` None: it was not due, or the driver has no new samples.

    ``earlier`` are the windows of the same read before that one, oldest first. ``seen`` are
    processes that have worked since the last read, of which the next window will say how much.
    ``detail``: why it is not up, or what ``check`` should say of one that is. ``raw`` is kept for
    recordings only.
    """

    device: Device
    state: DeviceState = DeviceState.UP
    detail: str = ""
    window: Window | None = None
    memory: DeviceMemory | None = None
    sensors: Sensors = Sensors()
    unmeasured: Mapping[str, Unmeasured] = MappingProxyType({})  # by quantity
    xids: Mapping[str, XidCount] = MappingProxyType({})  # of a device that is lost, too
    costs: Mapping[str, PartCost] = MappingProxyType({})  # by part of it; of a lost one, too
    rejected: Mapping[str, int] = MappingProxyType({})  # beside the window's rows, by reason
    raw: RawSamples | None = None
    earlier: tuple[Window, ...] = ()
    seen: frozenset[int] = frozenset()

    @property
    def windows(self) -> tuple[Window, ...]:
        """All windows since the last read, oldest first."""
        return self.earlier if self.window is None else (*self.earlier, self.window)


class Reading(NamedTuple):
    """All devices of one source in one cycle."""

    status: SourceStatus
    devices: tuple[DeviceReading, ...] = ()
    calls: Mapping[str, CallCount] = MappingProxyType({})
    simulated: bool = False
