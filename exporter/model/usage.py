"""Who used what: the values between attribution and ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from exporter.model.devices import Device, Engines, Methods
from exporter.model.unmeasured import Unmeasured


class ContainerKey(NamedTuple):
    """Labels of a named pod's container. ``container`` is "" while only the pod is known."""

    namespace: str
    pod: str
    container: str


class GroupKey(NamedTuple):
    """A cgroup that is not a named pod's container."""

    kind: str
    group: str


class Unattributed(StrEnum):
    """Why a part of a device was used by nobody whom we can name. A closed list.

    ``docs/troubleshooting.md`` says of each what it means and what to do.
    """

    HOST_PROCESS = "host_process"
    UNKNOWN_CGROUP = "unknown_cgroup"
    EXITED = "exited"
    NO_PID = "no_pid"
    IDLE = "idle"
    UNOBSERVED = "unobserved"
    OVERLAP = "overlap"
    MIG = "mig"
    MPS = "mps"


Owner = ContainerKey | GroupKey | Unattributed


@dataclass(frozen=True, slots=True)
class Spent:
    """What one owner, or a whole device, used in one window."""

    busy: Engines
    energy_uj: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """Device memory of one owner. ``used_bytes`` None: at least one of its processes is unknown."""

    used_bytes: int | None
    processes: int


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """One device's books for one window: for each quantity the shares add up to ``total``.

    ``scale`` is the factor that was applied to the driver's per-process core figures, None where
    nothing was scaled (no process named, or rows rejected). ``idle_energy_uj`` is what the board
    would have used idle, whoever it is charged to. ``rejected`` counts the rows left out.
    ``unmeasured`` names the owners whose part of the core cannot be told from the others', and why.
    """

    device: Device
    observed_ns: int
    unobserved_ns: int
    total: Spent
    shares: Mapping[Owner, Spent]
    idle_energy_uj: int | None = None
    scale: float | None = None
    rejected: int = 0
    methods: Methods = field(default_factory=Methods)
    unmeasured: Mapping[Owner, Unmeasured] = field(default_factory=dict)
