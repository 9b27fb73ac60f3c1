"""The tree out of a document: pods, groups and what nobody is named for, alike.

An entry is a pod, a group, or a reason why use has no owner; its parts are a container on a device.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.web.page.choice import Choice

Json = Mapping[str, Any]
Series = Mapping[tuple[str, ...], Json]

COLOURS = 8
LONG_ID = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """A container, or what stands for one, on one device. ``device`` None: not known which."""

    name: str
    device: int | None
    uuid: str
    figures: Json
    labels: tuple[str, ...] = ()

    @property
    def processes(self) -> Sequence[Json]:
        """Its processes on the device."""
        listed: Sequence[Json] = self.figures.get("process_list", ())
        return listed


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands in one line of the tree. ``kind``: pod, group, nobody."""

    key: str
    kind: str
    space: str
    name: str
    note: str = ""
    figures: Json = field(default_factory=dict)
    parts: tuple[Part, ...] = ()


def entries(document: Json) -> list[Entry]:
    """All that is there now; what has gone is left out."""
    made = [_pod(pod) for pod in document.get("pods", ()) if not pod["ended"]]
    made += [_group(group) for group in document.get("groups", ()) if not _all_ended(group)]
    return made + list(_nobody(document))


def key_of(*names: str) -> str:
    """One text for several, that no other names come to."""
    return "/".join(name.replace("~", "~0").replace("/", "~1") for name in names)


def _pod(pod: Json) -> Entry:
    space, name = pod["namespace"], pod["pod"]
    parts = tuple(
        Part(
            container["container"],
            device.get("index"),
            device.get("uuid", ""),
            device,
            _labels((space, name, container["container"]), device),
        )
        for container in pod["containers"]
        for device in container["devices"]
        if not device["ended"]
    )
    info = pod.get("info", {})
    owner = "/".join(filter(None, (info.get("owner_kind"), info.get("owner_name"))))
    return Entry(key_of("pod", space, name), "pod", space, name, owner, pod, parts)


def _group(group: Json) -> Entry:
    kind, name = group["kind"], group["group"]
    here = [device for device in group["devices"] if not device["ended"]]
    parts = tuple(
        Part(kind, device["index"], device["uuid"], device, _labels((kind, name), device))
        for device in here
    )
    info = group.get("info", {})
    called = info.get("name") or name
    if called == shortened(name):
        called = name
    told = dict.fromkeys((name, info.get("user"), info.get("account")))
    note = ", ".join(text for text in told if text and text != called) or "outside Kubernetes"
    note = "pod whose name is not known" if kind == "pod" else note
    return Entry(key_of("group", kind, name), "group", kind, called, note, _summed(here), parts)


def _nobody(document: Json) -> Iterator[Entry]:
    """An entry for each reason, over all devices."""
    parts: dict[str, list[Part]] = {}
    for device in document.get("devices", ()):
        for own in device["unattributed"]:
            part = Part(own["reason"], device["index"], device["uuid"], own)
            parts.setdefault(own["reason"], []).append(part)
    words = document.get("words", {}).get("unattributed", {})
    for reason, listed in parts.items():
        summed = _summed([part.figures for part in listed])
        note = words.get(reason, "")
        yield Entry(key_of("nobody", reason), "nobody", "", reason, note, summed, tuple(listed))


def _labels(name: tuple[str, ...], device: Json) -> tuple[str, ...]:
    """As its series in the history has them."""
    return (*name, str(device.get("index", "")), device.get("uuid", ""))


def _all_ended(group: Json) -> bool:
    return all(device["ended"] for device in group["devices"])


def _summed(parts: Iterable[Json]) -> Json:
    """Core and memory over all devices, where they are known of each."""
    listed, made = list(parts), {}
    for name, of in (
        ("core_usage_gpus", "core_utilization_ratio"),
        ("memory_used_bytes", "memory_used_bytes"),
    ):
        known = [part[of] for part in listed if of in part]
        if known and len(known) == len(listed):
            made[name] = sum(known)
    return made


def unmeasured(entry: Entry, quantity: str) -> list[str]:
    """Why a quantity of it is not known, each reason once."""
    reasons = (
        each["reason"]
        for part in entry.parts
        for each in part.figures.get("unmeasured", ())
        if each["quantity"] in {quantity, "device"}
    )
    return list(dict.fromkeys(reasons))


def shortened(name: str) -> str:
    """A name in which long ids are cut as container runtimes show them."""
    return LONG_ID.sub(lambda found: found[0][:12], name)


def found(entry: Entry, words: Sequence[str]) -> bool:
    """Whether it holds all of these words, anywhere."""
    if not words:
        return True
    texts = [entry.space, entry.name, entry.note]
    for part in entry.parts:
        texts += [part.name, part.uuid, "" if part.device is None else f"gpu{part.device}"]
        for process in part.processes:
            texts += [process.get("name", ""), str(process["pid"])]
    text = "\n".join(texts).lower()
    return all(word in text for word in words)


def in_order(listed: Iterable[Entry], choice: Choice) -> list[Entry]:
    """Those that are looked for, as asked; what is not known stands last."""
    kept = [entry for entry in listed if found(entry, choice.words)]
    name = {
        "core": "core_usage_gpus",
        "memory": "memory_used_bytes",
        "limit": "core_limit_utilization_ratio",
    }.get(choice.sort)
    ranks = {"pod": 0, "group": 1, "nobody": 2}

    def place(entry: Entry) -> tuple[float, int, list[int], list[int]]:
        number = -1.0 if name is None else entry.figures.get(name, -1.0)
        return (-number, ranks[entry.kind], units(entry.space), units(entry.name))

    return sorted(kept, key=place)


def colours(listed: Iterable[Entry]) -> dict[tuple[str, str, str], int]:
    """A colour for each part, by entry, name and device: the same from one cycle to the next.

    By the hash of its name, and the next that is free on its device.
    """
    on: dict[str, list[tuple[str, str]]] = {}
    for entry in listed:
        for part in entry.parts:
            if entry.kind != "nobody" and part.uuid:
                on.setdefault(part.uuid, []).append((entry.key, part.name))
    made = {}
    for uuid, owners in on.items():
        taken: set[int] = set()
        for key, name in sorted(owners, key=lambda owner: units(key_of(*owner))):
            colour = hashed(key_of(key, name)) % COLOURS
            while colour in taken and len(taken) < COLOURS:
                colour = (colour + 1) % COLOURS
            taken.add(colour)
            made[key, name, uuid] = colour
    return made


def hashed(text: str) -> int:
    """FNV-1a, 32 bits, over UTF-16 units: what JavaScript has at hand."""
    number = 2166136261
    for unit in units(text):
        number = (number ^ unit) * 16777619 % 2**32
    return number


def units(text: str) -> list[int]:
    """UTF-16 units, by which JavaScript orders texts."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [data[at] << 8 | data[at + 1] for at in range(0, len(data), 2)]
