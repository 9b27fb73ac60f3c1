"""The documents for a client that may see some namespaces only.

What is not listed here as visible is left out, so that something new in a document stays hidden
until it is listed. Use by everybody else is one sum for each device, ``others``, without names or
numbers of owners, so that the parts of a device still add up to the whole.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from exporter.api.document import Document
from exporter.api.fields import Json
from exporter.metrics.families import FAMILIES
from exporter.model import OTHERS, ContainerKey, History

_HEAD = ("api_version", "node", "simulated", "snapshot")
_DEVICE = frozenset({"index", "uuid", *(f.name for f in FAMILIES if f.level == "device")})
_SOURCE = ("name", "up", "duration_seconds", "last_success_timestamp_seconds")
_UNATTRIBUTED = ("reason", "core_utilization_ratio", "memory_used_bytes")
_WAITED = "core_waiting_on_seconds_total"
_SUMMED = ("core_utilization_ratio", "memory_used_bytes")


def restricted(document: Document, namespaces: Collection[str]) -> Document:
    """``snapshot`` for these namespaces. It has ``namespaces_shown``, which says so."""
    hidden = _parts_of_others(document, namespaces)
    return {
        **_head(document, namespaces),
        "exporter": {"version": document["exporter"]["version"]},
        "devices": [_device(each, hidden.get(each["uuid"], ())) for each in document["devices"]],
        "pods": [_pod(p, namespaces) for p in document["pods"] if p["namespace"] in namespaces],
        "groups": [],
        "words": document["words"],
        "namespaces": [n for n in document["namespaces"] if n["namespace"] in namespaces],
        "group_kinds": [],
    }


def restricted_devices(document: Document, namespaces: Collection[str]) -> Document:
    """``devices`` for these namespaces; ``document`` is that of ``snapshot``."""
    whole = restricted(document, namespaces)
    return {**_head(document, namespaces), "devices": whole["devices"]}


def restricted_history(document: Document, namespaces: Collection[str]) -> Document:
    """``history`` for these namespaces and for the devices."""
    return {
        **_head(document, namespaces),
        "end_timestamp_seconds": document["end_timestamp_seconds"],
        "step_seconds": document["step_seconds"],
        "series": [each for each in document["series"] if _is_shown(each, namespaces)],
    }


def restricted_past(past: History, namespaces: Collection[str]) -> History:
    """A history with the series of these namespaces and of the devices, and no others."""
    series = {
        key: place
        for key, place in past.series.items()
        if key.owner is None
        or (isinstance(key.owner, ContainerKey) and key.owner.namespace in namespaces)
    }
    return replace(past, series=series, ended={})


def restricted_pod(document: Document, namespaces: Collection[str]) -> Document:
    """``pod`` of one of these namespaces."""
    return {**_head(document, namespaces), "pod": _pod(document["pod"], namespaces)}


def _head(document: Document, namespaces: Collection[str]) -> Document:
    """The head without details of sources, because they may name servers, paths and pods."""
    sources = [
        {"detail": "", **{name: source[name] for name in _SOURCE if name in source}}
        for source in document["sources"]
    ]
    head = {name: document[name] for name in _HEAD}
    return {**head, "sources": sources, "namespaces_shown": sorted(namespaces)}


def _pod(pod: Json, namespaces: Collection[str]) -> Json:
    """The pod. Owners that it waited for have no names, unless they are shown too."""

    def seen(device: Json) -> Json:
        waited = device.get(_WAITED)
        return {**device, _WAITED: _seen(waited, namespaces)} if waited else device

    containers = [{**c, "devices": list(map(seen, c["devices"]))} for c in pod["containers"]]
    return {**pod, "containers": containers}


def _seen(waited: Collection[Json], namespaces: Collection[str]) -> list[Json]:
    shown = [each for each in waited if each["by_namespace"] in namespaces]
    hidden = [each["value"] for each in waited if each["by_namespace"] not in namespaces]
    others = {"by_namespace": "", "by_pod": OTHERS.kind, "value": sum(hidden)}
    return [*shown, others] if hidden else shown


def _device(device: Json, others: Collection[Json]) -> Json:
    made = {name: value for name, value in device.items() if name in _DEVICE}
    made["unattributed"] = [
        {name: part[name] for name in _UNATTRIBUTED if name in part}
        for part in device["unattributed"]
    ]
    if "utilization_ratio" in device:
        made["others"] = _sum(others)
    return made


def _sum(parts: Collection[Json]) -> Json:
    """The sums of their use; a figure is left out if one of them lacks it."""
    return {
        name: sum(part[name] for part in parts)
        for name in _SUMMED
        if all(name in part for part in parts)
    }


def _parts_of_others(document: Document, namespaces: Collection[str]) -> Mapping[str, list[Json]]:
    """What runs on each device and is not shown, by the device's UUID."""
    found: dict[str, list[Json]] = {}
    for part in chain(_of_pods(document, namespaces), _of_groups(document)):
        if not part["ended"] and "uuid" in part:
            found.setdefault(part["uuid"], []).append(part)
    return found


def _of_pods(document: Document, namespaces: Collection[str]) -> Iterator[Json]:
    for pod in document["pods"]:
        if pod["namespace"] not in namespaces:
            for container in pod["containers"]:
                yield from container["devices"]


def _of_groups(document: Document) -> Iterator[Json]:
    for group in document["groups"]:
        yield from group["devices"]


def _is_shown(series: Json, namespaces: Collection[str]) -> bool:
    level, labels = series["level"], series["labels"]
    return level == "device" or (level == "container" and labels[0] in namespaces)
