"""The alert rules whose conditions hold, as far as one cycle's rows show it, and since when. Pure.

The rules are those of ``rules/mgpu-alerts.yaml``, with the same names, severities, times and texts:
a test compares them. A rule that needs rates, averages or other machines is in ``NOT_HERE``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from exporter.ledger import Moment
from exporter.metrics.families import FAMILIES
from exporter.model import HeldCondition, Labelled, Row, SourceStatus
from exporter.model.alerts import (
    HARDWARE,
    IGNORED,
    NEAR_LIMIT,
    OVERCOMMITTED,
    WATCH,
    XID_S,
    codes,
)

MOST_HELD = 256  # conditions that are remembered, the most severe first
_HARDWARE_XIDS, _WARNING_XIDS, _IGNORED_XIDS = (
    frozenset(map(str, codes(alert))) for alert in (HARDWARE, WATCH, IGNORED)
)
EXPECTED = frozenset(("container_pending", "mig", "mps", "not_supported", "released"))
MEASURING = frozenset(("nvml", "amd", "drm", "simulated", "cgroups"))
_INFO = next(f.labels for f in FAMILIES if f.level == "device" and f.name == "info")
_PARENT = _INFO.index("parent_uuid")
_NONE: Labelled = {}

NOT_HERE = (
    "MgpuContainerOverCoreShare",
    "MgpuContainerCrowdsOutNeighbour",
    "MgpuAllottedGpuIdle",
    "MgpuUnattributedUse",
    "MgpuGpuUsedOutsidePods",
    "MgpuBooksOutOfBalance",
    "MgpuEccUncorrected",
    "MgpuNvlinkErrors",
    "MgpuGpuThrottled",
    "MgpuUseUnobserved",
    "MgpuGpuMissing",
    "MgpuExporterAbsent",
    "MgpuExporterMissing",
    "MgpuExporterDown",
    "MgpuExporterOverrun",
)
"""Rules that need rates, averages over time, or other machines."""


class AlertFacts(NamedTuple):
    """What the rules look at: the rows and sources of one cycle."""

    rows: Mapping[str, Sequence[Row]]
    sources: Sequence[SourceStatus]
    unix_ns: int


class Affected(NamedTuple):
    """What a condition holds for. Clients that may see ``namespace`` may see it; None: all may.

    The namespace "" is seen by those only who may see all of the node.
    """

    text: str
    namespace: str | None = None


Found = Iterator[Affected]


def card_name(index: str, uuid: str, parent: str) -> str:
    """A device's name: the board's index, with the partition's number if its UUID has one."""
    part = uuid.removeprefix(parent) if parent else ""
    return f"GPU\N{NO-BREAK SPACE}{index}{part if len(part) < len(uuid) else ''}"


def _devices(facts: AlertFacts) -> Iterator[tuple[str, Row]]:
    """The devices with their names."""
    for row in facts.rows.get("device", ()):
        info = next(iter(_labelled(row, "info")), None)
        index, uuid = row.labels
        yield card_name(index, uuid, info[_PARENT] if info else ""), row


def _parts(facts: AlertFacts) -> Iterator[tuple[Row, Affected]]:
    """The containers on their devices that have not ended."""
    for row in facts.rows.get("container", ()):
        if not all(name.endswith("_total") for name in row.values):
            namespace, pod, container, index, uuid = row.labels
            on = f" on GPU {index}" if uuid else ""
            yield row, Affected(f"{namespace}/{pod} ({container}){on}", namespace)


def _labelled(row: Row, name: str) -> Labelled:
    value = row.values.get(name)
    return value if isinstance(value, Mapping) else _NONE


def _number(row: Row, name: str) -> float:
    """A value, 0 if it is not known."""
    value = row.values.get(name)
    return 0 if value is None or isinstance(value, Mapping) else value


def _reasons(row: Row, quantity: str) -> set[str]:
    return {reason for of, reason in _labelled(row, "unmeasured") if of == quantity}


def _pods_near_limit(facts: AlertFacts) -> Found:
    for row in facts.rows.get("pod", ()):
        if _number(row, "memory_limit_utilization_ratio") > NEAR_LIMIT:
            yield Affected("/".join(row.labels), row.labels[0])


def _without_allocation(facts: AlertFacts) -> Found:
    parts = list(_parts(facts))
    allocated = {row.labels[:2] for row, _ in parts if _labelled(row, "allocation_info")}
    for row, subject in parts:
        if row.labels[:2] not in allocated and _number(row, "processes"):
            yield subject


def _misplaced(facts: AlertFacts) -> Found:
    return (subject for row, subject in _parts(facts) if _number(row, "placement_mismatch"))


def _unmeasured(facts: AlertFacts) -> Found:
    """Without those on a GPU that cannot be read: that is said of the GPU."""
    devices = facts.rows.get("device", ())
    unreadable = {row.labels[1] for row in devices if _reasons(row, "device")}
    for row, subject in _parts(facts):
        if row.labels[-1] not in unreadable:
            for reason in sorted(_reasons(row, "core") - EXPECTED):
                yield Affected(f"{subject.text}: {reason}", subject.namespace)


def _overcommitted(facts: AlertFacts) -> Found:
    for name, row in _devices(facts):
        total = row.values.get("memory_total_bytes")
        core = _number(row, "allocated_core_ratio") > OVERCOMMITTED
        memory = _number(row, "allocated_memory_bytes")
        if core or (total is not None and memory > _number(row, "memory_total_bytes")):
            yield Affected(name)


def _xids(facts: AlertFacts, wanted: Callable[[str], bool]) -> Found:
    for name, row in _devices(facts):
        for (xid,), last_ns in _labelled(row, "xid_last_timestamp_seconds").items():
            if facts.unix_ns - last_ns < XID_S * 10**9 and wanted(xid):
                yield Affected(f"{name}: XID {xid}")


def _hardware_xids(facts: AlertFacts) -> Found:
    return _xids(facts, _HARDWARE_XIDS.__contains__)


def _warning_xids(facts: AlertFacts) -> Found:
    return _xids(facts, _WARNING_XIDS.__contains__)


def _other_xids(facts: AlertFacts) -> Found:
    listed = _HARDWARE_XIDS | _WARNING_XIDS | _IGNORED_XIDS
    return _xids(facts, lambda xid: xid not in listed)


def _remapped(row: Row) -> set[str]:
    return {state for (state,), value in _labelled(row, "row_remapping").items() if value == 1}


def _remapping(facts: AlertFacts) -> Found:
    for name, row in _devices(facts):
        yield from (Affected(f"{name}: {state}") for state in sorted(_remapped(row) - {"failed"}))


def _remapping_failed(facts: AlertFacts) -> Found:
    return (Affected(name) for name, row in _devices(facts) if "failed" in _remapped(row))


def _pages_pending(facts: AlertFacts) -> Found:
    return (Affected(n) for n, row in _devices(facts) if _number(row, "retired_pages_pending") == 1)


def _recovery(facts: AlertFacts) -> Found:
    return (Affected(n) for n, row in _devices(facts) if _number(row, "recovery_action") > 0)


def _link_degraded(facts: AlertFacts) -> Found:
    for name, row in _devices(facts):
        width, most = _number(row, "pcie_link_width"), _number(row, "pcie_link_max_width")
        if "pcie_link_width" in row.values and width < most:
            yield Affected(f"{name}: {width:.0f} of {most:.0f} lanes")


def _lost(facts: AlertFacts) -> Found:
    return (Affected(n) for n, row in _devices(facts) if "gpu_lost" in _reasons(row, "device"))


def _unreadable(facts: AlertFacts) -> Found:
    for name, row in _devices(facts):
        for reason in sorted(_reasons(row, "device") - {"gpu_lost", "released"}):
            yield Affected(f"{name}: {reason}")


def _blind(facts: AlertFacts) -> Found:
    return (Affected(s.name) for s in facts.sources if s.name in MEASURING and not s.up)


def _stale(facts: AlertFacts) -> Found:
    of_pods = [each for each in facts.sources if each.name.startswith("pods_")]
    if of_pods and not any(each.up for each in of_pods):
        yield from (Affected(each.name) for each in of_pods)
    for each in facts.sources:
        other = each.name not in MEASURING and not each.name.startswith("pods_")
        if other and not each.up:
            yield Affected(each.name)


def _stuck(_: AlertFacts) -> Found:
    """Nothing: while the cycle is stuck nothing is evaluated, and readers see the rows' age."""
    return iter(())


def _reload_failed(facts: AlertFacts) -> Found:
    for row in facts.rows.get("exporter", ()):
        if row.values.get("config_last_reload_successful") == 0:
            yield Affected("this exporter", "")


class AlertRule(NamedTuple):
    """A rule that can be evaluated here. ``wait`` is how many minutes it must hold to fire."""

    name: str
    severity: str
    wait: int
    summary: str
    find: Callable[[AlertFacts], Found]


RULES = (
    AlertRule(
        "MgpuGpuLost",
        "critical",
        1,
        "A GPU has fallen off the bus, or needs a reset.",
        _lost,
    ),
    AlertRule(
        "MgpuXidHardware",
        "critical",
        0,
        "The driver reported a fault for which a GPU must be reset, or its node restarted.",
        _hardware_xids,
    ),
    AlertRule(
        "MgpuRowRemappingFailed",
        "critical",
        5,
        "A GPU has no spare rows left for its memory, and must be exchanged.",
        _remapping_failed,
    ),
    AlertRule(
        "MgpuGpuRecoveryAction",
        "critical",
        5,
        "The driver says that a GPU needs a reset or a restart.",
        _recovery,
    ),
    AlertRule(
        "MgpuExporterStuck",
        "critical",
        2,
        "An exporter answers, but does not measure.",
        _stuck,
    ),
    AlertRule(
        "MgpuExporterBlind",
        "critical",
        5,
        "An exporter cannot see GPUs, or cannot identify processes.",
        _blind,
    ),
    AlertRule("MgpuGpuUnreadable", "warning", 5, "A GPU cannot be read.", _unreadable),
    AlertRule(
        "MgpuRowRemapping",
        "warning",
        5,
        "A GPU must be reset for bad rows of its memory to be replaced.",
        _remapping,
    ),
    AlertRule(
        "MgpuXidWarning",
        "warning",
        0,
        "The driver reported a fault of a GPU or a link that wants a look, and no drain.",
        _warning_xids,
    ),
    AlertRule(
        "MgpuRetiredPagesPending",
        "warning",
        5,
        "A GPU must be reset for bad pages of its memory to be retired.",
        _pages_pending,
    ),
    AlertRule(
        "MgpuPcieLinkDegraded",
        "warning",
        15,
        "A GPU has fewer PCIe lanes than it could have.",
        _link_degraded,
    ),
    AlertRule(
        "MgpuDeviceOvercommitted",
        "warning",
        10,
        "More of a GPU is allocated than there is.",
        _overcommitted,
    ),
    AlertRule(
        "MgpuPodNearMemoryLimit",
        "warning",
        15,
        "A pod holds nearly all of the device memory that it was allocated.",
        _pods_near_limit,
    ),
    AlertRule(
        "MgpuGpuUsedWithoutAllotment",
        "warning",
        15,
        "A pod uses GPUs that it did not ask for.",
        _without_allocation,
    ),
    AlertRule(
        "MgpuPlacementMismatch",
        "warning",
        10,
        "A container runs on a GPU that its allocation does not name.",
        _misplaced,
    ),
    AlertRule(
        "MgpuContainerUnmeasured",
        "warning",
        15,
        "The GPU use of containers cannot be measured.",
        _unmeasured,
    ),
    AlertRule(
        "MgpuExporterStale",
        "warning",
        10,
        "An exporter's list of pods or of what they were allocated is old.",
        _stale,
    ),
    AlertRule(
        "MgpuExporterConfigReloadFailed",
        "warning",
        5,
        "An exporter goes on with old settings.",
        _reload_failed,
    ),
    AlertRule(
        "MgpuXidError",
        "info",
        0,
        "The driver reported an error on a GPU, most often a program's.",
        _other_xids,
    ),
)
"""The most severe first."""

_OF_PODS = (_pods_near_limit, _without_allocation, _misplaced, _unmeasured)
WHOLE_EVERY = 6  # evaluations: the rows of containers cost as much as a page, and they fire late


def held(
    before: Sequence[HeldCondition], facts: AlertFacts, now: Moment, *, whole: bool = True
) -> tuple[HeldCondition, ...]:
    """The conditions that hold now, at most ``MOST_HELD``; each since when it was first found.

    ``before`` are those of the evaluation before. A condition that is not found any more is
    forgotten, as Prometheus does. Without ``whole``, rules of containers and pods are as before.
    """
    since = {(each.rule, each.subject): each.since_mono_ns for each in before}
    found: Iterator[HeldCondition] = (
        HeldCondition(
            rule.name,
            subject.text,
            subject.namespace,
            since.get((rule.name, subject.text), now.mono_ns),
        )
        for rule in RULES
        if whole or rule.find not in _OF_PODS
        for subject in rule.find(facts)
    )
    if not whole:
        of_pods = {rule.name for rule in RULES if rule.find in _OF_PODS}
        found = chain(found, (each for each in before if each.rule in of_pods))
    return tuple(islice(found, MOST_HELD))
