"""The entries of the page's tree: pods, groups and unattributed use in one form.

An entry is a pod, a group, or a reason why use has no owner. Each of its parts is a container on
one device.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.api.kinds import is_without_pods
from exporter.model import ContainerKey, GroupKey, SeriesKey

Json = Mapping[str, Any]
Series = Mapping[SeriesKey, Mapping[str, Sequence[float | None]]]
"""The last ten minutes."""
Colours = Mapping[tuple[str, str, str], int]
"""A number below ``COLOURS`` by entry, part and device UUID."""

COLOURS = 8
NO_SERIES = SeriesKey(None, None, "")
LONG_ID = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """A container, a group, or unattributed use, on one device.

    ``device`` is the device's index, None if it is not known.
    """

    name: str
    device: int | None
    uuid: str
    figures: Json
    series: SeriesKey = NO_SERIES

    @property
    def processes(self) -> Sequence[Json]:
        """Its processes on the device."""
        listed: Sequence[Json] = self.figures.get("process_list", ())
        return listed


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of the tree. ``kind`` is pod, group or unattributed."""

    key: str
    kind: str
    space: str
    name: str
    note: str = ""
    figures: Json = field(default_factory=dict)
    parts: tuple[Part, ...] = ()

    @property
    def title(self) -> str:
        """Its whole name, which no other entry has."""
        return f"{self.space}/{self.name}" if self.space else self.name


def entries(document: Json) -> list[TreeEntry]:
    """The entries of a document, without pods and groups that have ended."""
    made = [_pod(pod) for pod in document.get("pods", ()) if not pod["ended"]]
    off = is_without_pods(document)
    groups = (group for group in document.get("groups", ()) if not _all_ended(group))
    made += [_group(group, off_kubernetes=off) for group in groups]
    return made + list(_others(document)) + list(_unattributed(document))


def key_of(*names: str) -> str:
    """One key for several names; different names give different keys."""
    return "/".join(name.replace("~", "~0").replace("/", "~1") for name in names)


def _pod(pod: Json) -> TreeEntry:
    space, name = pod["namespace"], pod["pod"]
    parts = tuple(
        Part(
            container["container"],
            device.get("index"),
            device.get("uuid", ""),
            device,
            _series(ContainerKey(space, name, container["container"]), device),
        )
        for container in pod["containers"]
        for device in container["devices"]
        if not device["ended"]
    )
    info = pod.get("info", {})
    owner = "/".join(filter(None, (info.get("owner_kind"), info.get("owner_name"))))
    return TreeEntry(key_of("pod", space, name), "pod", space, name, owner, pod, parts)


def _group(group: Json, *, off_kubernetes: bool) -> TreeEntry:
    kind, name = group["kind"], group["group"]
    here = [device for device in group["devices"] if not device["ended"]]
    parts = tuple(
        Part(kind, device["index"], device["uuid"], device, _series(GroupKey(kind, name), device))
        for device in here
    )
    info = group.get("info", {})
    title = info.get("name") or name
    if title == shortened(name):
        title = name
    others = dict.fromkeys((name, info.get("user"), info.get("account")))
    outside = "" if off_kubernetes else "outside Kubernetes"
    note = ", ".join(text for text in others if text and text != title) or outside
    note = "pod with unknown name" if kind == "pod" else note
    return TreeEntry(key_of("group", kind, name), "group", kind, title, note, _summed(here), parts)


def _others(document: Json) -> Iterator[TreeEntry]:
    """What the reader may not see, as one group."""
    parts = [
        Part("others", device["index"], device["uuid"], device["others"])
        for device in document.get("devices", ())
        if device.get("others") and any(device["others"].values())
    ]
    if parts:
        summed = _summed([part.figures for part in parts])
        names, note = ("other", "namespaces and groups"), "one sum, without names"
        yield TreeEntry(key_of("others"), "group", *names, note, summed, tuple(parts))


def _unattributed(document: Json) -> Iterator[TreeEntry]:
    """One entry for each reason, over all devices."""
    parts: dict[str, list[Part]] = {}
    for device in document.get("devices", ()):
        for own in device["unattributed"]:
            part = Part(own["reason"], device["index"], device["uuid"], own)
            parts.setdefault(own["reason"], []).append(part)
    words = document.get("words", {}).get("unattributed", {})
    for reason, listed in parts.items():
        summed = _summed([part.figures for part in listed])
        note = words.get(reason, "")
        key = key_of("unattributed", reason)
        yield TreeEntry(key, "unattributed", "", reason, note, summed, tuple(listed))


def series_of(device: Json) -> SeriesKey:
    """The series of a device itself in the history."""
    return SeriesKey(None, device["index"], device["uuid"])


def _series(owner: ContainerKey | GroupKey, device: Json) -> SeriesKey:
    """The part's series in the history."""
    return SeriesKey(owner, device.get("index"), device.get("uuid", ""))


def _all_ended(group: Json) -> bool:
    return all(device["ended"] for device in group["devices"])


def _summed(parts: Iterable[Json]) -> Json:
    """Core and memory summed over all devices; a figure is left out if one device lacks it."""
    listed, made = list(parts), {}
    for name, of in (
        ("core_usage_gpus", "core_utilization_ratio"),
        ("memory_used_bytes", "memory_used_bytes"),
    ):
        known = [part[of] for part in listed if of in part]
        if known and len(known) == len(listed):
            made[name] = sum(known)
    return made


def unmeasured(entry: TreeEntry, quantity: str) -> list[str]:
    """The reasons why a quantity of the entry is not known, each once."""
    reasons = (
        each["reason"]
        for part in entry.parts
        for each in part.figures.get("unmeasured", ())
        if each["quantity"] in {quantity, "device"}
    )
    return list(dict.fromkeys(reasons))


def shortened(name: str) -> str:
    """A name with its long ids cut to the length that container runtimes show."""
    return LONG_ID.sub(lambda found: found[0][:12], name)


def colours(entries: Iterable[TreeEntry]) -> Colours:
    """A colour for each part: the hash of its name, or the next colour that is free on its device.

    So a part has the same colour in each snapshot.
    """
    on: dict[str, list[tuple[str, str]]] = {}
    for entry in entries:
        for part in entry.parts:
            if entry.kind != "unattributed" and part.uuid:
                on.setdefault(part.uuid, []).append((entry.key, part.name))
    made = {}
    for uuid, owners in on.items():
        taken: set[int] = set()
        for key, name in sorted(owners):
            colour = _hash(key_of(key, name)) % COLOURS
            while colour in taken and len(taken) < COLOURS:
                colour = (colour + 1) % COLOURS
            taken.add(colour)
            made[key, name, uuid] = colour
    return made


def _hash(text: str) -> int:
    """FNV-1a of 32 bits. Python's own hash differs from one run to the next."""
    number = 2166136261
    for byte in text.encode(errors="surrogatepass"):
        number = (number ^ byte) * 16777619 % 2**32
    return number
