"""One node from the JSON of an exporter on another machine, which is not trusted. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from exporter.answers.reading.feeds.feed import NodeSight, troubles_of
from exporter.answers.reading.feeds.overview import Past
from exporter.answers.reading.feeds.series import FamilySeries, facts_from
from exporter.answers.reading.moment import NodeMoment
from exporter.answers.reading.untrusted import Json, flag, inner, items, number, text
from exporter.metrics.families import FAMILIES
from exporter.model import (
    ContainerKey,
    Facts,
    GroupKey,
    Owner,
    Process,
    SeriesKey,
    Unattributed,
)
from exporter.shown.tree import Others, tree_of

_KINDS = {"C": ("compute",), "G": ("graphics",), "C+G": ("compute", "graphics"), "M+C": ("mps",)}
_FAMILIES = {
    level: [family for family in FAMILIES if family.level == level]
    for level in ("device", "container", "pod", "group")
}
_OWNERS: Mapping[int, Callable[[list[str]], ContainerKey | GroupKey | None]] = {
    2: lambda _: None,  # by the number of labels: a device's
    4: lambda names: GroupKey(*names),
    5: lambda names: ContainerKey(*names),
}
_Part = tuple[ContainerKey | GroupKey, str, Json]  # an owner's part of a device, by UUID


def node_of_document(document: Json, history: Json) -> NodeSight:
    """The node of the answers to ``/api/v1/snapshot`` and ``/api/v1/history``."""
    head = inner(document, "snapshot")
    sources = [
        (text(one, "name"), flag(one, "up"), text(one, "detail") or text(one, "what_to_do"))
        for one in items(document, "sources")
    ]
    nobody: dict[str, dict[Unattributed, float]] = defaultdict(dict)
    for reason, uuid, part in _unattributed(document):
        core = number(part, "core_utilization_ratio")
        if core is not None:
            nobody[uuid][reason] = core
    processes = [
        process
        for owner, uuid, part in (*_owned(document), *_unattributed(document))
        for process in _processes(owner, uuid, part)
    ]
    ended: dict[str, float] = {}
    for device in items(document, "devices"):
        core = number(device, "ended_core_utilization_ratio")
        if core is not None:
            ended[text(device, "uuid")] = core
    age_s = number(head, "age_seconds") or 0.0
    return NodeSight(
        tree=tree_of(facts_of_document(document), processes, nobody, _others(document), ended),
        name=text(document, "node"),
        unix_ns=round((number(head, "timestamp_seconds") or 0.0) * 1e9),
        simulated=flag(document, "simulated"),
        sources=tuple(name for name, _, _ in sources),
        troubles=tuple(troubles_of(sources, age_s if flag(head, "stale") else None)),
        past=_past(history),
    )


def facts_of_document(document: Json) -> Facts:
    """The facts of the answer to ``/api/v1/snapshot``."""
    return facts_from(_series(document))


def moment_of_document(document: Json) -> NodeMoment:
    """The moment of the answer to ``/api/v1/snapshot``."""
    head = inner(document, "snapshot")
    unix_ns = round((number(head, "timestamp_seconds") or 0.0) * 1e9)
    others = _others(document).items()
    return NodeMoment(
        facts_of_document(document),
        unix_ns,
        unix_ns,
        hidden=[uuid for uuid, others in others if others.core or others.memory_bytes],
        window_s=number(head, "window_seconds") or 0.0,
        is_stale=flag(head, "stale"),
    )


def _owned(document: Json) -> Iterator[_Part]:
    for pod in items(document, "pods"):
        for container in items(pod, "containers"):
            owner = ContainerKey(
                text(pod, "namespace"), text(pod, "pod"), text(container, "container")
            )
            for part in items(container, "devices"):
                yield owner, text(part, "uuid"), part
    for group in items(document, "groups"):
        for part in items(group, "devices"):
            yield GroupKey(text(group, "kind"), text(group, "group")), text(part, "uuid"), part


def _unattributed(document: Json) -> Iterator[tuple[Unattributed, str, Json]]:
    for device in items(document, "devices"):
        for part in items(device, "unattributed"):
            # A newer exporter may have a reason that is not known here: its part is left out.
            for reason in Unattributed:
                if reason == text(part, "reason"):
                    yield reason, text(device, "uuid"), part


def _others(document: Json) -> dict[str, Others]:
    found = {}
    for device in items(document, "devices"):
        if "others" in device:
            others = inner(device, "others")
            memory = number(others, "memory_used_bytes")
            found[text(device, "uuid")] = Others(
                number(others, "core_utilization_ratio"),
                None if memory is None else round(memory),
            )
    return found


def _processes(owner: Owner, uuid: str, part: Json) -> Iterator[Process]:
    for one in items(part, "process_list"):
        pid, memory = number(one, "pid"), number(one, "memory_used_bytes")
        began = number(one, "start_timestamp_seconds")
        if pid is not None:
            yield Process(
                round(pid),
                uuid,
                owner,
                kinds=frozenset(_KINDS.get(text(one, "type"), ())),
                memory_bytes=None if memory is None else round(memory),
                core=number(one, "core_utilization_ratio"),
                memory_active=number(one, "memory_active_ratio"),
                encoder=number(one, "encoder_utilization_ratio"),
                decoder=number(one, "decoder_utilization_ratio"),
                name=text(one, "name"),
                start_unix_ns=None if began is None else round(began * 1e9),
                job=text(one, "job"),
            )


def _series(document: Json) -> Iterator[FamilySeries]:
    for device in items(document, "devices"):
        yield from _of_level("device", device, _place(device))
    for pod in items(document, "pods"):
        named = {name: text(pod, name) for name in ("namespace", "pod")}
        yield from _of_level("pod", pod, named)
    for owner, _, part in _owned(document):
        level = "container" if isinstance(owner, ContainerKey) else "group"
        yield from _of_level(level, part, {**owner._asdict(), **_place(part)})
    for group in items(document, "groups"):
        for part in items(group, "devices"):
            named = {name: text(group, name) for name in ("kind", "group")}
            yield from _of_level("group", {"info": group.get("info")}, {**named, **_place(part)})


def _place(part: Json) -> dict[str, str]:
    index = number(part, "index")
    return {"gpu": "" if index is None else f"{index:.0f}", "uuid": text(part, "uuid")}


def _of_level(level: str, of: Json, labels: Mapping[str, str]) -> Iterator[FamilySeries]:
    """The series behind an object, which has a family's values under its name."""
    for family in _FAMILIES[level]:
        value, name = of.get(family.name), family.full_name
        if isinstance(value, bool):
            yield FamilySeries(name, labels, float(value))
        elif isinstance(value, Mapping):
            yield FamilySeries(name, {**_texts(inner(of, family.name)), **labels}, 1.0)
        elif isinstance(value, list):
            for one in items(of, family.name):
                amount = number(one, "value") if "value" in one else 1.0
                if amount is not None:
                    yield FamilySeries(name, {**_texts(one), **labels}, amount)
        elif (amount := number(of, family.name)) is not None:
            yield FamilySeries(name, labels, amount)


def _texts(of: Json) -> dict[str, str]:
    return {name: text(of, name) for name in of}


def _past(history: Json) -> dict[SeriesKey, Past]:
    found: dict[SeriesKey, Past] = {}
    for one in items(history, "series"):
        labels, points = one.get("labels"), one.get("core_utilization_ratio")
        owner_of = _OWNERS.get(len(labels)) if isinstance(labels, list) else None
        if owner_of is not None and isinstance(labels, list) and isinstance(points, list):
            *owner, _, uuid = map(str, labels)
            key = SeriesKey(owner_of(owner), uuid)
            found[key] = tuple(number({"": point}, "") for point in points)
    return found
