"""The frozen values that cross rooms. No I/O, no third party.

Quantities are integers in the smallest unit that a source knows: nanoseconds, microjoules, bytes.
``None`` means "not known"; it never stands for zero. Ratios are floats from 0 to 1, where 1 is one
whole GPU. Times called ``*_unix_ns`` are wall-clock nanoseconds since the epoch, those called
``*_mono_ns`` come from a monotonic clock and only their differences mean something.
"""

from exporter.model.devices import (
    COUNTED,
    FIRST_INDEX,
    MIG,
    MODULE,
    PARTITIONED,
    QUANTITIES,
    CgroupCharge,
    CgroupMemory,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    Naming,
    PartCost,
    ProcessActivity,
    ProcessMemory,
    ProcessSample,
    RawSamples,
    Reading,
    Sample,
    Sampling,
    Sensors,
    Window,
    XidCount,
)
from exporter.model.facts import (
    NEVER_ALLOCATED,
    NO_ALLOCATION,
    NO_AVERAGES,
    NO_FACTS,
    NO_HELD_MEMORY,
    NO_WAITING,
    OTHERS,
    AllocatedTime,
    AllocationFacts,
    Averages,
    ContainerHolding,
    DeviceAllocation,
    DeviceFacts,
    DeviceMemoryFacts,
    ExporterFacts,
    Facts,
    Granted,
    GroupHolding,
    GroupKindFacts,
    HeldMemory,
    Holding,
    InnerJobs,
    LastReload,
    NamespaceFacts,
    PodFacts,
    PodInfo,
    Reasons,
    Waiting,
    cards_of,
    counted_in_sums,
    of_limit,
)
from exporter.model.patterns import SYSTEMS, USERS, GroupPattern
from exporter.model.pods import (
    MEMORY_LIMIT,
    MEMORY_REQUEST,
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
    PodTable,
    ReviewError,
    Right,
    Said,
    SchemeDescription,
    Subject,
    Tie,
)
from exporter.model.processes import (
    SEVERAL,
    CgroupIdentity,
    GroupFacts,
    GroupMembers,
    PodSlot,
    ProcessInfo,
    Unit,
    job_of,
)
from exporter.model.reasons import Unattributed, Unexplained, Unmeasured
from exporter.model.snapshot import (
    History,
    HistoryPoint,
    Number,
    Process,
    SeriesKey,
    Snapshot,
    Tenants,
)
from exporter.model.sources import CallCount, Clock, SourceStatus
from exporter.model.units import GIB, KIB, MIB, SECOND_NS, TIB
from exporter.model.usage import (
    NOTHING_USED,
    ContainerKey,
    DeviceUsage,
    GroupKey,
    MemoryHeld,
    Owner,
    PodName,
    SharedWindow,
    Used,
    sum_of_all,
    sum_of_known,
)
