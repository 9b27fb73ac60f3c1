"""The entries of the page's list: pods, groups and unattributed use in one form.

An entry is a pod, a group, or a reason why use has no owner. Each of its parts is a container on
one device. The page's list is by owner; the shared tree is by device.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from exporter.agent.web.page.templates import shortened
from exporter.model import (
    NO_AVERAGES,
    SEVERAL,
    Averages,
    ContainerHolding,
    ContainerKey,
    DeviceFacts,
    GroupFacts,
    GroupHolding,
    GroupKey,
    PodName,
    Process,
    Reasons,
    SeriesKey,
    Unattributed,
    sum_of_all,
)
from exporter.shown.marks import Mark, holding_marks, pod_marks, waiting_marks
from exporter.shown.reasonwords import UNATTRIBUTED
from exporter.shown.tree import Figures, GroupEntry, PodEntry, Tree

Series = Mapping[SeriesKey, Mapping[str, Sequence[float | None]]]
"""The last ten minutes."""
Colours = Mapping[tuple[str, str, str], int]
"""A number below ``COLOURS`` by entry, part and device UUID."""
_OnDevice = tuple[DeviceFacts | None, PodEntry]
"""A pod's part on a device, None where nothing is known of the device."""
_GroupOnDevice = tuple[DeviceFacts | None, GroupEntry]

COLOURS = 8
NO_SERIES = SeriesKey(None, "")
NO_FIGURES = Figures()


@dataclass(frozen=True, slots=True)
class EntryPart:
    """A container, a group, or unattributed use, on one device.

    ``device`` is the device's number, "" if it is not known. ``schemes`` are the sharing systems
    of its allocation, or of its pod's. ``holding`` is None for what has no owner. ``marks`` say
    what is wrong with it.
    """

    name: str
    device: str
    uuid: str
    figures: Figures
    processes: tuple[Process, ...] = ()
    holding: ContainerHolding | GroupHolding | None = None
    schemes: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether only its counters are left."""
        return self.holding is not None and self.holding.ended

    @property
    def ended_core(self) -> float:
        """What it used of the core lately before it ended."""
        return (self.holding.ended_core or 0.0) if self.holding is not None else 0.0

    @property
    def average(self) -> Averages:
        """Its use of each engine."""
        return self.holding.average if self.holding is not None else NO_AVERAGES

    @property
    def unmeasured(self) -> Reasons:
        """What is not known of it, and why."""
        return self.holding.unmeasured if self.holding is not None else {}

    @property
    def since_unix_ns(self) -> int | None:
        """When counting began."""
        return self.holding.since_unix_ns if self.holding is not None else None

    @property
    def series(self) -> SeriesKey:
        """Its series in the history."""
        held = self.holding
        return NO_SERIES if held is None else SeriesKey(held.owner, held.uuid)


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One line of the list. ``kind`` is pod, group or unattributed.

    ``ended``: nothing of it is there any more; its counters are shown for a while.
    """

    key: str
    kind: str
    space: str
    name: str
    note: str = ""
    figures: Figures = NO_FIGURES
    parts: tuple[EntryPart, ...] = ()
    marks: tuple[Mark, ...] = ()
    ended: bool = False

    @property
    def title(self) -> str:
        """Its whole name, which no other entry has."""
        return f"{self.space}/{self.name}" if self.space else self.name


def entries(tree: Tree, *, off_kubernetes: bool) -> list[TreeEntry]:
    """The entries of a tree."""
    pods: dict[PodName, list[_OnDevice]] = defaultdict(list)
    groups: dict[tuple[str, str], list[_GroupOnDevice]] = defaultdict(list)
    for device in tree.devices:
        for pod in device.pods:
            pods[pod.namespace, pod.pod].append((device.facts, pod))
        for group in device.groups:
            groups[group.holding.owner].append((device.facts, group))
    for pod in tree.nowhere:
        pods[pod.namespace, pod.pod].append((None, pod))
    waiting = {device.uuid: waiting_marks(device) for device in tree.devices}
    return [
        *(_marked(_pod(name, here), waiting) for name, here in pods.items()),
        *(
            _marked(_group(here, off_kubernetes=off_kubernetes), waiting)
            for here in groups.values()
        ),
        *_others(tree),
        *_unattributed(tree),
    ]


def _marked(
    entry: TreeEntry, waiting: Mapping[str, Mapping[ContainerKey | GroupKey, Mark]]
) -> TreeEntry:
    """The entry with the marks of waiting on its parts; they are by device."""
    marks = [
        waiting[part.uuid].get(part.holding.owner) if part.holding and part.uuid else None
        for part in entry.parts
    ]
    if not any(marks):
        return entry
    parts = zip(entry.parts, marks, strict=True)
    return replace(
        entry,
        parts=tuple(replace(p, marks=(*p.marks, mark)) if mark else p for p, mark in parts),
    )


def key_of(*names: str) -> str:
    """One key for several names; different names give different keys."""
    return "/".join(name.replace("~", "~0").replace("/", "~1") for name in names)


OTHERS = key_of("others")
"""The key of what the reader may not see, as one entry."""


def series_of(device: DeviceFacts) -> SeriesKey:
    """The series of a device itself in the history."""
    return SeriesKey(None, device.uuid)


def _pod(name: PodName, here: Sequence[_OnDevice]) -> TreeEntry:
    space, pod = name
    facts = here[0][1].facts
    info = facts.info if facts is not None else None
    owner = "/".join(filter(None, (info.owner_kind, info.owner_name))) if info else ""
    # Of a pod that is there, the containers that ended are left out: they would look as if they
    # still had their allocation.
    ended = all(each.ended for _, each in here)
    parts = tuple(part for part in _containers(here) if ended or not part.ended)
    figures = here[0][1].over_all or _summed(parts)
    marks = pod_marks(here[0][1])
    key = key_of("pod", space, pod)
    return TreeEntry(key, "pod", space, pod, owner, figures, parts, marks, ended)


def _containers(here: Sequence[_OnDevice]) -> Iterator[EntryPart]:
    """The containers of a pod on each device, and allocations of containers without any use.

    What was allocated to the pod as a whole, or on a device that is not known, has no row of its
    own where its container has one.
    """
    seen = {container.holding.owner.container for _, pod in here for container in pod.containers}
    unplaced = {(held.owner, held.uuid): held for _, pod in here for held in pod.unplaced}
    of_pod = dict.fromkeys(s for held in unplaced.values() for s in _schemes(held))
    for device, pod in here:
        for container in pod.containers:
            held = container.holding
            # What was allocated to the pod as a whole is what each of its containers uses.
            schemes = _schemes(held) or tuple(of_pod)
            yield _part(device, held, container.figures, schemes, container.processes)
    for held in unplaced.values():
        if held.owner.container not in seen and (held.owner.container or not seen):
            yield _part(None, held, NO_FIGURES, _schemes(held))


def _part(
    device: DeviceFacts | None,
    held: ContainerHolding,
    figures: Figures,
    schemes: tuple[str, ...],
    processes: tuple[Process, ...] = (),
) -> EntryPart:
    name, marks = held.owner.container, holding_marks(held)
    number = _number(device, held.index)
    return EntryPart(name, number, held.uuid, figures, processes, held, schemes, marks)


def _number(device: DeviceFacts | None, index: int | None) -> str:
    if device is not None:
        return device.device.number
    return "" if index is None else str(index)


def _schemes(held: ContainerHolding) -> tuple[str, ...]:
    return tuple(granted.scheme for granted in held.allocation.granted)


def _group(here: Sequence[_GroupOnDevice], *, off_kubernetes: bool) -> TreeEntry:
    first = here[0][1].holding
    kind, name = first.owner
    ended = all(each.holding.ended for _, each in here)
    parts = tuple(
        EntryPart(
            kind,
            _number(device, each.holding.index),
            each.holding.uuid,
            each.figures,
            each.processes,
            each.holding,
        )
        for device, each in here
        if ended or not each.holding.ended
    )
    info = first.info or GroupFacts()
    # An engine without a name for a container repeats the beginning of its id. The whole id finds
    # it in the logs.
    title = info.name or name
    if title == shortened(name):
        title = name
    user = "several users" if info.uid == SEVERAL else info.user
    others = dict.fromkeys((name, user, info.account))
    outside = "" if off_kubernetes else "outside Kubernetes"
    note = ", ".join(text for text in others if text and text != title) or outside
    note = "pod with unknown name" if kind == "pod" else note
    key = key_of("group", kind, name)
    return TreeEntry(key, "group", kind, title, note, _summed(parts), parts, ended=ended)


def _others(tree: Tree) -> Iterator[TreeEntry]:
    """What the reader may not see, as one group."""
    parts = tuple(
        EntryPart(
            "others",
            device.facts.device.number,
            device.uuid,
            Figures(device.others.core, memory_bytes=device.others.memory_bytes),
        )
        for device in tree.devices
        if device.facts is not None and device.others is not None and any(device.others)
    )
    if parts:
        names, note = ("", "others, not shown to you"), "one sum, without names"
        yield TreeEntry(OTHERS, "group", *names, note, _summed(parts), parts)


def _unattributed(tree: Tree) -> Iterator[TreeEntry]:
    """One entry for each reason, over all devices."""
    parts: dict[Unattributed, list[EntryPart]] = defaultdict(list)
    for device in tree.devices:
        number = _number(device.facts, None)
        for own in device.unattributed:
            figures = Figures(own.core, memory_bytes=own.memory_bytes)
            part = EntryPart(own.reason, number, device.uuid, figures, own.processes)
            parts[own.reason].append(part)
    for reason, listed in parts.items():
        note = UNATTRIBUTED[reason]
        key = key_of("unattributed", reason)
        figures = _summed(listed)
        yield TreeEntry(key, "unattributed", "", str(reason), note, figures, tuple(listed))


def _summed(parts: Sequence[EntryPart]) -> Figures:
    """Core and memory summed over all devices; a figure is None if one device lacks it."""
    return Figures(
        sum_of_all([part.figures.core for part in parts]),
        memory_bytes=sum_of_all([part.figures.memory_bytes for part in parts]),
    )


def unmeasured(entry: TreeEntry, quantity: str) -> list[str]:
    """The reasons why a quantity of the entry is not known, each once."""
    reasons = (reason for part in entry.parts for reason in why(part.unmeasured, quantity))
    return list(dict.fromkeys(reasons))


def why(unmeasured: Reasons, quantity: str) -> list[str]:
    """The reasons why a quantity is not known."""
    return [str(unmeasured[name]) for name in (quantity, "device") if name in unmeasured]


def colours(entries: Iterable[TreeEntry]) -> Colours:
    """A colour for each owner, the same on all its devices and in each snapshot.

    It is the hash of its name, or the next colour that no other has on its devices. What has ended
    takes none from what is there.
    """
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in sorted(entries, key=lambda entry: (entry.ended, entry.key)):
        for part in entry.parts:
            if entry.kind != "unattributed" and part.uuid:
                places[entry.key, part.name].add(part.uuid)
    # The hash keeps an owner's colour when others come and go. Only where two on one device have
    # the same one, the later takes the next that is free.
    made, taken = {}, defaultdict[str, set[int]](set)
    for (key, name), uuids in places.items():
        others = set[int]().union(*(taken[uuid] for uuid in uuids))
        colour = crc32(key_of(key, name).encode(errors="surrogatepass")) % COLOURS
        while colour in others and len(others) < COLOURS:
            colour = (colour + 1) % COLOURS
        for uuid in uuids:
            taken[uuid].add(colour)
            made[key, name, uuid] = colour
    return made
