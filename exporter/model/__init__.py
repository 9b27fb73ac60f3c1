"""The frozen values that cross rooms. No I/O, no third party.

Quantities are integers in the smallest unit that a source knows: nanoseconds, microjoules, bytes.
``None`` means "not known"; it never stands for zero. Ratios are floats from 0 to 1, where 1 is one
whole GPU. Times called ``*_unix_ns`` are wall-clock nanoseconds since the epoch, those called
``*_mono_ns`` come from a monotonic clock and only their differences mean something.
"""

from exporter.model.devices import (
    QUANTITIES,
    CallCount,
    Clock,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    ProcessActivity,
    ProcessMemory,
    Reading,
    Sensors,
    SourceStatus,
    Window,
    XidCount,
)
from exporter.model.groups import GroupFacts, GroupMember
from exporter.model.pods import (
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
    PodTable,
)
from exporter.model.processes import CgroupIdentity, PodSlot, ProcessInfo, Tree, Unit
from exporter.model.schemes import SchemeDescription
from exporter.model.snapshot import (
    History,
    Labelled,
    Number,
    Process,
    Row,
    Snapshot,
    Tenants,
    Value,
)
from exporter.model.unmeasured import Unmeasured
from exporter.model.usage import (
    ContainerKey,
    Credit,
    DeviceUsage,
    GroupKey,
    MemoryHeld,
    Owner,
    SharedWindow,
    Spent,
    Unattributed,
    Unexplained,
)

__all__ = [
    "QUANTITIES",
    "Allocation",
    "CallCount",
    "CgroupIdentity",
    "ClaimRef",
    "ClaimedDevice",
    "Clock",
    "Container",
    "ContainerKey",
    "Credit",
    "Device",
    "DeviceMemory",
    "DeviceReading",
    "DeviceState",
    "DeviceUsage",
    "Engines",
    "Grant",
    "GroupFacts",
    "GroupKey",
    "GroupMember",
    "History",
    "Labelled",
    "MemoryHeld",
    "Methods",
    "NodeFacts",
    "Number",
    "OfferedDevice",
    "Owner",
    "Pod",
    "PodSlot",
    "PodTable",
    "Process",
    "ProcessActivity",
    "ProcessInfo",
    "ProcessMemory",
    "Reading",
    "Row",
    "SchemeDescription",
    "Sensors",
    "SharedWindow",
    "Snapshot",
    "SourceStatus",
    "Spent",
    "Tenants",
    "Tree",
    "Unattributed",
    "Unexplained",
    "Unit",
    "Unmeasured",
    "Value",
    "Window",
    "XidCount",
]
