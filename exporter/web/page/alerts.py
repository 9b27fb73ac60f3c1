"""The alert rules whose conditions hold now, as far as one snapshot shows it. Pure.

The rules are those of ``rules/mgpu-alerts.yaml``, with the same names, severities and texts: a test
compares them. A rule that needs rates, averages or other machines is in ``NOT_HERE``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from exporter.model.alerts import (
    HARDWARE,
    IGNORED,
    NEAR_LIMIT,
    OVERCOMMITTED,
    STUCK_S,
    WATCH,
    XID_S,
    codes,
)
from exporter.web.page.entries import Json
from exporter.web.page.gpus import card_name
from exporter.web.page.html import Html, h, many

RUNBOOKS = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs/runbooks"
NAMED = 5  # what a rule holds for
_HARDWARE_XIDS, _WARNING_XIDS, _IGNORED_XIDS = (
    frozenset(map(str, codes(alert))) for alert in (HARDWARE, WATCH, IGNORED)
)
EXPECTED = frozenset(("container_pending", "mig", "mps", "not_supported", "released"))
MEASURING = frozenset(("nvml", "amd", "drm", "simulated", "cgroups"))

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
    "MgpuExporterOverBudget",
)
"""Rules that need rates, averages over time, or other machines."""

Found = Iterator[str]


def _pods_near_limit(document: Json) -> Found:
    for pod in document.get("pods", ()):
        if pod.get("memory_limit_utilization_ratio", 0) > NEAR_LIMIT:
            yield _name(pod)


def _without_allocation(document: Json) -> Found:
    for pod in document.get("pods", ()):
        parts = list(_parts(pod))
        if not any(part.get("allocation_info") for _, part in parts):
            yield from (_at(pod, name, part) for name, part in parts if part.get("processes"))


def _misplaced(document: Json) -> Found:
    for pod in document.get("pods", ()):
        for name, part in _parts(pod):
            if part.get("placement_mismatch"):
                yield _at(pod, name, part)


def _unmeasured(document: Json) -> Found:
    """Without those on a GPU that cannot be read: that is said of the GPU."""
    unreadable = {d["uuid"] for d in document["devices"] if _reasons(d, "device")}
    for pod in document.get("pods", ()):
        for name, part in _parts(pod):
            if part.get("uuid") not in unreadable:
                for reason in _reasons(part, "core") - EXPECTED:
                    yield f"{_at(pod, name, part)}: {reason}"


def _overcommitted(document: Json) -> Found:
    for device in document["devices"]:
        total = device.get("memory_total_bytes")
        core = device.get("allocated_core_ratio", 0) > OVERCOMMITTED
        if core or (total is not None and device.get("allocated_memory_bytes", 0) > total):
            yield card_name(device)


def _xids(document: Json, wanted: Callable[[str], bool]) -> Found:
    now = document["snapshot"]["timestamp_seconds"]
    for device in document["devices"]:
        for last in device.get("xid_last_timestamp_seconds", ()):
            recent = now - last["value"] < XID_S
            if recent and wanted(last["xid"]):
                yield f"{card_name(device)}: XID {last['xid']}"


def _hardware_xids(document: Json) -> Found:
    return _xids(document, _HARDWARE_XIDS.__contains__)


def _warning_xids(document: Json) -> Found:
    return _xids(document, _WARNING_XIDS.__contains__)


def _other_xids(document: Json) -> Found:
    listed = _HARDWARE_XIDS | _WARNING_XIDS | _IGNORED_XIDS
    return _xids(document, lambda xid: xid not in listed)


def _remapping(document: Json) -> Found:
    for device in document["devices"]:
        states = {each["state"] for each in device.get("row_remapping", ()) if each["value"] == 1}
        yield from (f"{card_name(device)}: {state}" for state in sorted(states - {"failed"}))


def _remapping_failed(document: Json) -> Found:
    for device in document["devices"]:
        for each in device.get("row_remapping", ()):
            if each["state"] == "failed" and each["value"] == 1:
                yield card_name(device)


def _pages_pending(document: Json) -> Found:
    return (card_name(d) for d in document["devices"] if d.get("retired_pages_pending") == 1)


def _recovery(document: Json) -> Found:
    return (card_name(d) for d in document["devices"] if d.get("recovery_action", 0) > 0)


def _link_degraded(document: Json) -> Found:
    for device in document["devices"]:
        width, most = device.get("pcie_link_width"), device.get("pcie_link_max_width")
        if width is not None and most is not None and width < most:
            yield f"{card_name(device)}: {width:.0f} of {most:.0f} lanes"


def _lost(document: Json) -> Found:
    return (card_name(d) for d in document["devices"] if "gpu_lost" in _reasons(d, "device"))


def _unreadable(document: Json) -> Found:
    for device in document["devices"]:
        for reason in _reasons(device, "device") - {"gpu_lost", "released"}:
            yield f"{card_name(device)}: {reason}"


def _blind(document: Json) -> Found:
    return (s["name"] for s in document["sources"] if s["name"] in MEASURING and not s["up"])


def _stale(document: Json) -> Found:
    of_pods = [each for each in document["sources"] if each["name"].startswith("pods_")]
    if of_pods and not any(each["up"] for each in of_pods):
        yield from (each["name"] for each in of_pods)
    for each in document["sources"]:
        other = each["name"] not in MEASURING and not each["name"].startswith("pods_")
        if other and not each["up"]:
            yield each["name"]


def _stuck(document: Json) -> Found:
    if document["snapshot"]["age_seconds"] > STUCK_S:
        yield "this exporter"


def _reload_failed(document: Json) -> Found:
    if document.get("exporter", {}).get("config_last_reload_successful") == 0:
        yield "this exporter"


class AlertRule(NamedTuple):
    """A rule that can be evaluated here. ``wait`` is how long it must hold in Prometheus."""

    name: str
    severity: str
    wait: str
    summary: str
    find: Callable[[Json], Found]


RULES = (
    AlertRule(
        "MgpuGpuLost",
        "critical",
        "1m",
        "A GPU has fallen off the bus, or needs a reset.",
        _lost,
    ),
    AlertRule(
        "MgpuXidHardware",
        "critical",
        "",
        "The driver reported a fault for which a GPU must be reset, or its node restarted.",
        _hardware_xids,
    ),
    AlertRule(
        "MgpuRowRemappingFailed",
        "critical",
        "5m",
        "A GPU has no spare rows left for its memory, and must be exchanged.",
        _remapping_failed,
    ),
    AlertRule(
        "MgpuGpuRecoveryAction",
        "critical",
        "5m",
        "The driver says that a GPU needs a reset or a restart.",
        _recovery,
    ),
    AlertRule(
        "MgpuExporterStuck",
        "critical",
        "2m",
        "An exporter answers, but does not measure.",
        _stuck,
    ),
    AlertRule(
        "MgpuExporterBlind",
        "critical",
        "5m",
        "An exporter cannot see GPUs, or cannot identify processes.",
        _blind,
    ),
    AlertRule("MgpuGpuUnreadable", "warning", "5m", "A GPU cannot be read.", _unreadable),
    AlertRule(
        "MgpuRowRemapping",
        "warning",
        "5m",
        "A GPU must be reset for bad rows of its memory to be replaced.",
        _remapping,
    ),
    AlertRule(
        "MgpuXidWarning",
        "warning",
        "",
        "The driver reported a fault of a GPU or a link that wants a look, and no drain.",
        _warning_xids,
    ),
    AlertRule(
        "MgpuRetiredPagesPending",
        "warning",
        "5m",
        "A GPU must be reset for bad pages of its memory to be retired.",
        _pages_pending,
    ),
    AlertRule(
        "MgpuPcieLinkDegraded",
        "warning",
        "15m",
        "A GPU has fewer PCIe lanes than it could have.",
        _link_degraded,
    ),
    AlertRule(
        "MgpuDeviceOvercommitted",
        "warning",
        "10m",
        "More of a GPU is allocated than there is.",
        _overcommitted,
    ),
    AlertRule(
        "MgpuPodNearMemoryLimit",
        "warning",
        "15m",
        "A pod holds nearly all of the device memory that it was allocated.",
        _pods_near_limit,
    ),
    AlertRule(
        "MgpuGpuUsedWithoutAllotment",
        "warning",
        "15m",
        "A pod uses GPUs that it did not ask for.",
        _without_allocation,
    ),
    AlertRule(
        "MgpuPlacementMismatch",
        "warning",
        "10m",
        "A container runs on a GPU that its allocation does not name.",
        _misplaced,
    ),
    AlertRule(
        "MgpuContainerUnmeasured",
        "warning",
        "15m",
        "The GPU use of containers cannot be measured.",
        _unmeasured,
    ),
    AlertRule(
        "MgpuExporterStale",
        "warning",
        "10m",
        "An exporter's list of pods or of what they were allocated is old.",
        _stale,
    ),
    AlertRule(
        "MgpuExporterConfigReloadFailed",
        "warning",
        "5m",
        "An exporter goes on with old settings.",
        _reload_failed,
    ),
    AlertRule(
        "MgpuXidError",
        "info",
        "",
        "The driver reported an error on a GPU, most often a program's.",
        _other_xids,
    ),
)
"""The most severe first."""


def holding(document: Json) -> list[tuple[AlertRule, list[str]]]:
    """The rules that hold now, with what they hold for."""
    found = ((rule, list(rule.find(document))) for rule in RULES)
    return [(rule, names) for rule, names in found if names]


def alerts(document: Json) -> Html | None:
    """The rules that hold now, as a list that opens; None if none does."""
    held = holding(document)
    if not held:
        return None
    count = h("span", {"class": "count"}, f"{len(held)} of {len(RULES)} conditions hold now")
    note = (
        "These are conditions of this moment, at the shipped thresholds; the chart may have "
        "changed those. Prometheus fires an alert once its condition has held for the time given, "
        "so a new condition may be pending there. Not evaluated here, because they need rates or "
        f"other machines: {', '.join(NOT_HERE)}."
    )
    return h(
        "details",
        {"class": "alerts", "data-k": "alerts", "open": any(_is_bad(rule) for rule, _ in held)},
        h("summary", None, h("h2", None, "Alert rules", count), _severities(held)),
        h("ul", None, [_rule(rule, names) for rule, names in held]),
        h("p", {"class": "quiet"}, note),
    )


def _is_bad(rule: AlertRule) -> bool:
    return rule.severity == "critical"


def _severities(held: Sequence[tuple[AlertRule, list[str]]]) -> list[Html]:
    counts = dict.fromkeys((rule.severity for rule, _ in held), 0)
    for rule, _ in held:
        counts[rule.severity] += 1
    return [h("span", {"class": f"tag {name}"}, f"{n} {name}") for name, n in counts.items()]


def _rule(rule: AlertRule, names: Sequence[str]) -> Html:
    more = f" and {many(len(names) - NAMED, 'other')}" if len(names) > NAMED else ""
    wait = f"fires after {rule.wait}" if rule.wait else "fires at once"
    link = {"href": f"{RUNBOOKS}/{rule.name}.md", "rel": "noreferrer"}
    listed = [
        (None if not n else ", ", h("bdi", None, name)) for n, name in enumerate(names[:NAMED])
    ]
    return h(
        "li",
        {"data-k": rule.name},
        h("span", {"class": f"tag {rule.severity}"}, rule.severity),
        h("a", link, rule.name),
        h("span", {"class": "quiet"}, f"{rule.summary} {wait.capitalize()}."),
        h("span", {"class": "whom"}, listed, more),
    )


def _name(pod: Json) -> str:
    return f"{pod['namespace']}/{pod['pod']}"


def _at(pod: Json, container: str, part: Json) -> str:
    on = f" on GPU {part['index']}" if "index" in part else ""
    return f"{_name(pod)} ({container}){on}"


def _parts(pod: Json) -> Iterator[tuple[str, Json]]:
    """The pod's containers on their devices, by the containers' names."""
    for container in pod["containers"]:
        for part in container["devices"]:
            if not part["ended"]:
                yield container["container"], part


def _reasons(of: Json, quantity: str) -> set[str]:
    return {each["reason"] for each in of.get("unmeasured", ()) if each["quantity"] == quantity}
