"""Facts from series, the reverse of the metric table: of a Prometheus, or an exporter's JSON.

A family's getter says which field of the fact it reads: here its number goes into that field. A
series that is not there stays unknown. What another version of the exporter has beside the families
of this one is left out. Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

from exporter.answers.reading.queryapi import MAX_NUMBER
from exporter.metrics.families import FAMILIES, LEVELS, Family
from exporter.model import (
    CgroupMemory,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceFacts,
    DeviceState,
    Facts,
    Granted,
    GroupFacts,
    GroupHolding,
    GroupKey,
    Methods,
    Owner,
    PodFacts,
    PodInfo,
    Sensors,
    Unattributed,
    Unit,
    Unmeasured,
    XidCount,
)

T = TypeVar("T")
E = TypeVar("E", Unmeasured, Unattributed)

Path = tuple[str, ...]
"""A field of a fact, by the names that lead to it: ``("average", "core")``."""

_BY_NAME = {family.full_name: family for family in FAMILIES}
_BOARD = [f for f in FAMILIES if f.level == "device" and f.group not in {"core", "cost", "xid"}]
_INFO = _BY_NAME["mgpu_device_info"]
_POD_INFO = _BY_NAME["mgpu_pod_info"]
_COUNTERS = {family.name for family in FAMILIES if family.type == "counter"}
_LONGEST_INDEX = 9  # digits
_LASTING = {"container": _COUNTERS, "group": {*_COUNTERS, "info"}, "pod": _COUNTERS}


class FamilySeries(NamedTuple):
    """One series: the family's full name, its labels, its value in base units."""

    family: str
    labels: Mapping[str, str]
    value: float


class _Field:
    """Stands for a fact while a family reads it, and notes which field is read."""

    def __init__(self, *path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> "_Field":
        return _Field(*self.path, name)


def _path(family: Family) -> Path:
    """The field that a family has its number from; () if it is computed, or has labels."""
    try:
        found = family.read(_Field()) if family.read is not None else None
    except TypeError:
        return ()
    return getattr(found, "path", ())


_PATHS = {(f.level, f.name): path for f in FAMILIES if (path := _path(f))}


class _Values:
    """The values of one device, container, pod or group, by family, in the ledger's units."""

    def __init__(self, level: str) -> None:
        self._level = level
        self._found: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)

    def add(self, family: str, own: tuple[str, ...], value: float) -> None:
        self._found[family][own] = value

    def value(self, family: str) -> float | None:
        return self.labelled(family).get(())

    def labelled(self, family: str) -> Mapping[tuple[str, ...], float]:
        return self._found.get(family, {})

    def by_label(self, family: str) -> Mapping[str, float]:
        return {label: value for (label,), value in self.labelled(family).items()}

    def info(self, family: str, count: int) -> tuple[str, ...]:
        """The labels of a family with one series."""
        return next(iter(self.labelled(family)), ("",) * count)

    @property
    def has_ended(self) -> bool:
        """Whether only what outlasts an owner is left."""
        return self._found.keys() <= _LASTING[self._level]

    @property
    def reasons(self) -> Mapping[str, Unmeasured]:
        found = (
            (quantity, _known(Unmeasured, why)) for quantity, why in self.labelled("unmeasured")
        )
        return {quantity: why for quantity, why in found if why is not None}

    def fact(self, of: type[T], more: Mapping[Path, object]) -> T:
        """The fact of these values, and of ``more`` that no getter leads to."""
        numbers = {
            path: value
            for family in self._found
            if (path := _PATHS.get((self._level, family))) is not None
            and (value := self.value(family)) is not None
        }
        return _build(of, {**numbers, **more})


_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def _build(of: type[T], found: Mapping[Path, object]) -> T:
    """A value of this type with these fields. Its parts are made likewise, and numbers rounded."""
    parts: dict[str, dict[Path, object]] = defaultdict(dict)
    for (name, *inner), value in found.items():
        parts[name][tuple(inner)] = value
    hints = _hints(of)
    fields: dict[str, Any] = {}
    for name, own in parts.items():
        if name not in hints:  # computed by the fact itself
            continue
        if () not in own:
            fields[name] = _build(hints[name], own)
        elif hints[name] == int | None and isinstance(own[()], float):
            fields[name] = round(own[()])
        else:
            fields[name] = own[()]
    return of(**fields)


def facts_from(found: Iterable[FamilySeries]) -> Facts:
    """The facts that these series say. Sums of namespaces and kinds of groups are left out."""
    levels: dict[str, dict[tuple[str, ...], _Values]] = defaultdict(dict)
    for series in found:
        family = _BY_NAME.get(series.family)
        if family is not None:
            labels = tuple(series.labels.get(name, "") for name in LEVELS[family.level])
            own = tuple(series.labels.get(name, "") for name in family.labels)
            values = levels[family.level].setdefault(labels, _Values(family.level))
            # A store may answer anything: no node has a number beyond this.
            if abs(series.value) <= MAX_NUMBER:
                values.add(family.name, own, float(series.value * family.divisor))
    return Facts(
        devices=tuple(_device(*one) for one in levels["device"].items()),
        containers=tuple(_container(*one) for one in levels["container"].items()),
        groups=tuple(_group(*one) for one in levels["group"].items()),
        pods=tuple(_pod(*one) for one in levels["pod"].items()),
    )


def _device(labels: tuple[str, ...], values: _Values) -> DeviceFacts:
    methods = values.info("method_info", 5)
    unattributed = {
        reason: round(value)
        for name, value in values.by_label("unattributed_memory_bytes").items()
        if (reason := _known(Unattributed, name)) is not None
    }
    last = values.by_label("xid_last_timestamp_seconds")
    sensors = {
        f.name: values.by_label(f.name) if f.labels else values.value(f.name) for f in _BOARD
    }
    # The labels of its information are called as the fields.
    info: dict[str, Any] = dict(zip(_INFO.labels, values.info("info", 9), strict=True))
    gpu, uuid = labels
    index, instance = index_of(gpu), index_of(info.pop("gpu_instance"))
    more: dict[Path, object] = {
        ("device",): Device(uuid, -1 if index is None else index, gpu_instance=instance, **info),
        ("state",): _state(values),
        ("unmeasured",): values.reasons,
        ("methods",): Methods(*methods[:3]) if any(methods) else None,
        ("memory", "unattributed_bytes"): unattributed,
        ("sensors",): Sensors.of(**sensors),
        ("xids",): {
            xid: XidCount(round(events), None if xid not in last else round(last[xid]))
            for xid, events in values.by_label("xid_errors_total").items()
        },
    }
    return values.fact(DeviceFacts, more)


def index_of(label: str) -> int | None:
    """A GPU's number; None for anything else."""
    return int(label) if label.isdecimal() and len(label) <= _LONGEST_INDEX else None


def _state(values: _Values) -> DeviceState:
    """Unknown counts as up: with the rights for one namespace there may be no series of devices."""
    if values.value("up") in {None, 1.0}:
        return DeviceState.UP
    reasons = [why for quantity, why in values.labelled("unmeasured") if quantity == "device"]
    return next((state for state in DeviceState if state in reasons), DeviceState.FAILED)


def _held(values: _Values, owner: Owner, gpu: str, uuid: str) -> dict[Path, object]:
    """The fields that containers and groups share."""
    return {
        ("owner",): owner,
        ("index",): index_of(gpu),
        ("uuid",): uuid,
        ("ended",): values.has_ended,
        ("unmeasured",): values.reasons,
        ("jobs",): tuple(Unit(kind, job) for kind, job in sorted(values.labelled("job_info"))),
    }


def _container(labels: tuple[str, ...], values: _Values) -> ContainerHolding:
    misplaced = values.value("placement_mismatch")
    by_owner: dict[Owner, int] = {}
    for (namespace, pod), waited_ns in values.labelled("core_waiting_on_seconds_total").items():
        kind, _, group = pod.partition("/")
        who = ContainerKey(namespace, pod, "") if namespace else GroupKey(kind, group)
        by_owner[who] = round(waited_ns)
    granted = tuple(Granted(*one) for one in values.labelled("allocation_info"))
    more: dict[Path, object] = {
        ("allocation", "granted"): granted,
        ("waiting", "by_owner"): by_owner,
        ("misplaced",): None if misplaced is None else misplaced == 1,
    }
    enforced = {one.scheme for one in granted if one.policy == "enforced"}
    held = _held(values, ContainerKey(*labels[:3]), *labels[3:])
    return values.fact(ContainerHolding, held | more | _cgroup(values, enforced))


def _cgroup(values: _Values, enforced: Collection[str]) -> dict[Path, object]:
    """What its cgroup is charged; its limit counts if that is enforced by who says the charge."""
    charged = values.labelled("memory_charged_bytes")
    if not charged:
        return {}
    # of two jobs, one may have asked before it became the figure
    (evidence, role), amount = max(charged.items(), key=lambda one: one[0][1] == "figure")
    limit = "memory_limit_bytes" if evidence in enforced else ""
    names = ("memory_guaranteed_bytes", limit, "memory_protected_bytes")
    known = (values.value(name) for name in names)
    kept, most, last = (None if one is None else round(one) for one in known)
    cgroup = CgroupMemory(round(amount), kept, most, evidence, protected_bytes=last)
    return {("memory", "cgroup"): cgroup, ("memory", "is_charge"): role == "figure"}


def _group(labels: tuple[str, ...], values: _Values) -> GroupHolding:
    info = GroupFacts(*values.info("info", 5)) if values.labelled("info") else None
    held = _held(values, GroupKey(*labels[:2]), *labels[2:])
    own = held | _cgroup(values, ("driver", "kernel"))  # nobody else holds a group to a limit
    return values.fact(GroupHolding, own | {("info",): info})


def _pod(labels: tuple[str, ...], values: _Values) -> PodFacts:
    named: dict[str, Any] = dict(zip(_POD_INFO.labels, values.info("info", 4), strict=True))
    info = PodInfo(**named) if values.labelled("info") else None
    more: dict[Path, object] = {
        ("namespace",): labels[0],
        ("name",): labels[1],
        ("ended",): values.has_ended,
        ("info",): info,
    }
    return values.fact(PodFacts, more)


def _known(of: type[E], reason: str) -> E | None:
    """The reason of this name; None for one of another version."""
    return next((one for one in of if one == reason), None)
