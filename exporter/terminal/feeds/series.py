"""Facts from series, the reverse of the metric table: of a Prometheus, or an exporter's JSON.

A series that is not there stays unknown. What another version of the exporter has beside the
families of this one is left out. Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from exporter.metrics.families import FAMILIES, LEVELS
from exporter.model import (
    AllocatedTime,
    AllocationFacts,
    Averages,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceAllocation,
    DeviceFacts,
    DeviceMemoryFacts,
    DeviceState,
    Facts,
    Granted,
    GroupFacts,
    GroupHolding,
    GroupKey,
    HeldMemory,
    Methods,
    PodFacts,
    PodInfo,
    Sensors,
    Unattributed,
    Unmeasured,
    Used,
    Waiting,
    XidCount,
)

E = TypeVar("E", Unmeasured, Unattributed)

_BY_NAME = {family.full_name: family for family in FAMILIES}
_BOARD = [f for f in FAMILIES if f.level == "device" and f.group not in {"core", "cost", "xid"}]
_COUNTERS = {family.name for family in FAMILIES if family.type == "counter"}
_LASTING = {"container": _COUNTERS, "group": {*_COUNTERS, "info"}, "pod": _COUNTERS}


class Series(NamedTuple):
    """One series: the family's full name, its labels, its value in base units."""

    family: str
    labels: Mapping[str, str]
    value: float


class _Values:
    """The values of one device, container, pod or group, by family, in the ledger's units."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)

    def add(self, family: str, own: tuple[str, ...], value: float) -> None:
        self._found[family][own] = value

    def number(self, family: str) -> float | None:
        return self._found[family].get(()) if family in self._found else None

    def whole(self, family: str) -> int | None:
        value = self.number(family)
        return None if value is None else round(value)

    def labelled(self, family: str) -> Mapping[tuple[str, ...], float]:
        return self._found.get(family, {})

    def by_label(self, family: str) -> Mapping[str, float]:
        return {label: value for (label,), value in self.labelled(family).items()}

    def info(self, family: str, count: int) -> tuple[str, ...]:
        """The labels of a family with one series."""
        return next(iter(self.labelled(family)), ("",) * count)

    def has_ended(self, level: str) -> bool:
        """Whether only what outlasts an owner is left."""
        return self._found.keys() <= _LASTING[level]


def facts_from(found: Iterable[Series]) -> Facts:
    """The facts that these series say. Sums of namespaces and kinds of groups are left out."""
    levels: dict[str, dict[tuple[str, ...], _Values]] = defaultdict(lambda: defaultdict(_Values))
    for series in found:
        family = _BY_NAME.get(series.family)
        if family is not None:
            labels = tuple(series.labels.get(name, "") for name in LEVELS[family.level])
            own = tuple(series.labels.get(name, "") for name in family.labels)
            levels[family.level][labels].add(family.name, own, series.value * family.divisor)
    return Facts(
        devices=tuple(_device(*one) for one in levels["device"].items()),
        containers=tuple(_container(*one) for one in levels["container"].items()),
        groups=tuple(_group(*one) for one in levels["group"].items()),
        pods=tuple(_pod(*one) for one in levels["pod"].items()),
    )


def _device(labels: tuple[str, ...], values: _Values) -> DeviceFacts:
    info = values.info("info", 9)
    reasons = [r for quantity, r in values.labelled("unmeasured") if quantity == "device"]
    methods = values.info("method_info", 5)
    return DeviceFacts(
        device=_named(labels, info),
        state=_state(values.number("up"), reasons),
        unmeasured=_reasons(values),
        average=_averages(values, "utilization_ratio"),
        used=Used(core_ns=values.whole("busy_seconds_total"), **_used(values)),
        methods=Methods(*methods[:3]) if any(methods) else None,
        memory=DeviceMemoryFacts(
            values.whole("memory_total_bytes"),
            values.whole("memory_used_bytes"),
            values.whole("memory_reserved_bytes"),
            {
                reason: round(value)
                for name, value in values.by_label("unattributed_memory_bytes").items()
                if (reason := _known(Unattributed, name)) is not None
            },
        ),
        allocated=DeviceAllocation(
            values.number("allocated_core_ratio"),
            values.number("allocated_memory_bytes"),
            values.whole("sharing_replicas"),
            values.whole("unallocated_gpu_seconds_total"),
            values.whole("overcommitted_gpu_seconds_total"),
        ),
        sensors=Sensors.of(
            **{
                f.name: values.by_label(f.name) if f.labels else values.number(f.name)
                for f in _BOARD
            }
        ),
        xids={
            xid: XidCount(
                round(events), _moment(values.by_label("xid_last_timestamp_seconds").get(xid))
            )
            for xid, events in values.by_label("xid_errors_total").items()
        },
    )


def _named(labels: tuple[str, ...], info: tuple[str, ...]) -> Device:
    vendor, model, pci, parent, profile, sharing, driver, instance, cuda = info
    index, uuid = labels
    return Device(
        uuid,
        int(index) if index.isdecimal() else -1,
        vendor,
        model,
        pci_bus_id=pci,
        parent_uuid=parent,
        profile=profile,
        sharing=sharing,
        driver_version=driver,
        gpu_instance=int(instance) if instance.isdecimal() else None,
        cuda_version=cuda,
    )


def _state(up: float | None, reasons: Collection[str]) -> DeviceState:
    """Unknown counts as up: with the rights for one namespace there may be no series of devices."""
    if up == 1 or up is None:
        return DeviceState.UP
    return next((state for state in DeviceState if state in reasons), DeviceState.FAILED)


def _held(labels: tuple[str, ...], values: _Values) -> dict[str, object]:
    """The fields that containers and groups share."""
    index, uuid = labels
    return {
        "index": int(index) if index.isdecimal() else None,
        "uuid": uuid,
        "used": Used(core_ns=values.whole("core_seconds_total"), **_used(values)),
        "average": _averages(values, "core_utilization_ratio"),
        "memory": HeldMemory(
            values.whole("memory_used_bytes"),
            values.whole("memory_used_peak_bytes"),
            values.whole("processes"),
        ),
        "last_active_unix_ns": values.whole("last_active_timestamp_seconds"),
        "since_unix_ns": values.whole("observed_since_timestamp_seconds"),
        "unmeasured": _reasons(values),
    }


def _container(labels: tuple[str, ...], values: _Values) -> ContainerHolding:
    misplaced = values.number("placement_mismatch")
    return ContainerHolding(
        owner=ContainerKey(*labels[:3]),
        ended=values.has_ended("container"),
        allocation=AllocationFacts(
            tuple(Granted(*one) for one in values.labelled("allocation_info")),
            values.number("core_limit_ratio"),
            values.number("memory_limit_bytes"),
            values.whole("allocated_replicas"),
            values.number("allocated_gpus"),
        ),
        allocated=_allocated(values),
        waiting=Waiting(values.whole("core_waiting_seconds_total")),
        misplaced=None if misplaced is None else misplaced == 1,
        **_held(labels[3:], values),  # type: ignore[arg-type] # each has its field's type
    )


def _group(labels: tuple[str, ...], values: _Values) -> GroupHolding:
    return GroupHolding(
        owner=GroupKey(*labels[:2]),
        ended=values.has_ended("group"),
        info=GroupFacts(*values.info("info", 5)) if values.labelled("info") else None,
        **_held(labels[2:], values),  # type: ignore[arg-type] # each has its field's type
    )


def _pod(labels: tuple[str, ...], values: _Values) -> PodFacts:
    namespace, name = labels
    uid, qos, kind, owner = values.info("info", 4)
    return PodFacts(
        namespace=namespace,
        name=name,
        ended=values.has_ended("pod"),
        info=PodInfo(uid, qos, kind, owner) if values.labelled("info") else None,
        core=values.number("core_usage_gpus"),
        core_limit=values.number("core_limit_gpus"),
        core_of_limit=values.number("core_limit_utilization_ratio"),
        memory_bytes=values.whole("memory_used_bytes"),
        memory_limit_bytes=values.number("memory_limit_bytes"),
        memory_of_limit=values.number("memory_limit_utilization_ratio"),
        last_active_unix_ns=values.whole("last_active_timestamp_seconds"),
        used=Used(
            core_ns=values.whole("core_seconds_total"),
            energy_uj=values.whole("energy_joules_total"),
        ),
        limited_core_ns=values.whole("limited_core_seconds_total"),
        allocated=_allocated(values),
        allocated_gpus=values.number("allocated_gpus"),
    )


def _allocated(values: _Values) -> AllocatedTime:
    return AllocatedTime(
        values.whole("allocated_core_seconds_total"),
        values.whole("allocated_idle_core_seconds_total"),
        values.whole("borrowed_core_seconds_total"),
        values.whole("allocated_gpu_seconds_total"),
    )


def _averages(values: _Values, core: str) -> Averages:
    return Averages(
        values.number(core),
        values.number("memory_active_ratio"),
        values.number("encoder_utilization_ratio"),
        values.number("decoder_utilization_ratio"),
        values.number("core_pressure_ratio"),
    )


def _used(values: _Values) -> dict[str, int | None]:
    """The counters of use beside the core's."""
    return {
        "memory_active_ns": values.whole("memory_active_seconds_total"),
        "encoder_ns": values.whole("encoder_seconds_total"),
        "decoder_ns": values.whole("decoder_seconds_total"),
        "energy_uj": values.whole("energy_joules_total"),
        "copy_ns": values.whole("copy_seconds_total"),
        "evicted_ns": values.whole("evicted_seconds_total"),
    }


def _reasons(values: _Values) -> Mapping[str, Unmeasured]:
    return {
        quantity: known
        for quantity, reason in values.labelled("unmeasured")
        if (known := _known(Unmeasured, reason)) is not None
    }


def _known(of: type[E], reason: str) -> E | None:
    """The reason of this name; None for one of another version."""
    return next((one for one in of if one == reason), None)


def _moment(unix_ns: float | None) -> int | None:
    return None if unix_ns is None else round(unix_ns)
