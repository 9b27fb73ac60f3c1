"""The lines of one node, made from a document of ``exporter.api``. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from exporter.terminal import facts
from exporter.terminal.reading import Json, flag, inner, items, number, text
from exporter.terminal.view import Figure, Key, Line, LineKind, Past

NOT_REPORTED = "not_reported"  # there is no figure, and no reason is given
_ENGINES = ("memory_active_ratio", "encoder_utilization_ratio", "decoder_utilization_ratio")


class _NodeContext(NamedTuple):
    """The data shared by all lines of a document. ``name`` is "" unless there are several nodes."""

    name: str
    past: Mapping[Key, Past]
    words: Json


def lines_of(document: Json, history: Json | None, name: str = "") -> list[Line]:
    """The devices of one node, by index, each with everything that is on it.

    ``name`` distinguishes the node's lines from those of others.
    """
    words = inner(inner(document, "words"), "unmeasured")
    node = _NodeContext(name, _past(history or {}), words)
    tenants: dict[str, list[Line]] = defaultdict(list)
    for pod in items(document, "pods"):
        for uuid, line in _pod(pod, node):
            tenants[uuid].append(line)
    for group in items(document, "groups"):
        for uuid, line in _group(group, node):
            tenants[uuid].append(line)
    devices = [
        _device(d, tenants.pop(text(d, "uuid"), []), node) for d in items(document, "devices")
    ]
    return devices + [_stray(uuid, found, node) for uuid, found in sorted(tenants.items())]


def _past(history: Json) -> dict[Key, Past]:
    found: dict[Key, Past] = {}
    for one in items(history, "series"):
        labels, points = one.get("labels"), one.get("core_utilization_ratio")
        if isinstance(labels, list) and isinstance(points, list):
            known = tuple(number({"": point}, "") for point in points)
            found[tuple(map(str, labels))] = known
    return found


def _device(device: Json, tenants: list[Line], node: _NodeContext) -> Line:
    uuid, info = text(device, "uuid"), inner(device, "info")
    index = number(device, "index")
    model = text(info, "model").removeprefix("NVIDIA ")
    name = " ".join(filter(None, (_whole(index), model, _profile(info))))
    why = _reason(device, "core") or ("" if flag(device, "up") else "not_up")
    memory = number(device, "memory_used_bytes")
    return Line(
        key=(node.name, uuid),
        kind=LineKind.DEVICE,
        name=f"{node.name} {name}" if node.name else name,
        core=_figure(
            number(device, "utilization_ratio"), number(device, "allocated_core_ratio"), why
        ),
        memory=_figure(
            memory, number(device, "memory_total_bytes"), _reason(device, "memory") or why
        ),
        engines=_engines(device),
        watts=number(device, "power_watts"),
        celsius=facts.warmth(device),
        past=node.past.get((_whole(index), uuid), ()),
        facts=facts.of_device(device) + facts.unmeasured(device, node.words),
        children=(*tenants, *_rest(device, (node.name, uuid))),
    )


def _profile(info: Json) -> str:
    """The partition's profile, as its vendor calls it."""
    profile = text(info, "profile")
    return f"MIG {profile}" if profile and text(info, "vendor") == "nvidia" else profile


def _stray(uuid: str, tenants: list[Line], node: _NodeContext) -> Line:
    """A line for what is on a device that the document lacks, or on a device not known yet."""
    name = f"GPU {uuid}" if uuid else "allocated, GPU not known yet"
    kind = LineKind.DEVICE if uuid else LineKind.NOWHERE
    unknown = Figure(why=NOT_REPORTED if uuid else "")
    name = f"{node.name} {name}" if node.name else name
    return Line((node.name, uuid), kind, name, unknown, unknown, children=tuple(tenants))


def _pod(pod: Json, node: _NodeContext) -> Iterator[tuple[str, Line]]:
    """The pod once for each device that it is on."""
    namespace, name = text(pod, "namespace"), text(pod, "pod")
    parts: dict[str, list[Line]] = defaultdict(list)
    for container in items(pod, "containers"):
        for part in items(container, "devices"):
            if not flag(part, "ended"):
                labels = (namespace, name, text(container, "container"))
                uuid = text(part, "uuid")
                parts[uuid].append(_part(LineKind.CONTAINER, labels, part, node))
    known = facts.of_pod(pod)
    for uuid, containers in parts.items():
        key = (node.name, uuid, namespace, name)
        if len(containers) == 1:
            yield uuid, _whole_pod(key, containers[0], known)
            continue
        line = Line(
            key, LineKind.POD, f"{namespace}/{name}", facts=known, children=tuple(containers)
        )
        yield uuid, _summed(line)


def _whole_pod(key: Key, container: Line, known: facts.Facts) -> Line:
    """The line of a pod with one container on the device, which says what both do."""
    said = {name for name, _ in container.facts}
    more = [(name, words) for name, words in known if name not in said]
    return replace(
        container,
        key=key,
        kind=LineKind.POD,
        name="/".join(key[-2:]),
        facts=(("container", container.name), *container.facts, *more),
        also=container.name,
    )


def _group(group: Json, node: _NodeContext) -> Iterator[tuple[str, Line]]:
    labels = (text(group, "kind"), text(group, "group"))
    info = group.get("info")
    called = text(info, "name") if isinstance(info, dict) else ""
    for part in items(group, "devices"):
        if not flag(part, "ended"):
            line = _part(LineKind.GROUP, labels, part, node)
            yield text(part, "uuid"), replace(line, name=f"{labels[0]} {called or labels[1]}")


def _part(kind: LineKind, labels: tuple[str, ...], part: Json, node: _NodeContext) -> Line:
    """A container or group on one device."""
    uuid, index = text(part, "uuid"), _whole(number(part, "index"))
    core = _reason(part, "core") or NOT_REPORTED
    key = (node.name, uuid, *labels)
    name = labels[-1] if kind is LineKind.CONTAINER else " ".join(labels)
    return Line(
        key=key,
        kind=kind,
        name=name or "(container not known)",
        core=_figure(
            number(part, "core_utilization_ratio"), number(part, "core_limit_ratio"), core
        ),
        memory=_figure(
            number(part, "memory_used_bytes"),
            number(part, "memory_limit_bytes"),
            _reason(part, "memory"),
        ),
        engines=_engines(part),
        past=node.past.get((*labels, index, uuid), ()),
        facts=facts.of_part(part) + facts.unmeasured(part, node.words),
        children=_processes(part, key, core),
    )


def _rest(device: Json, key: Key) -> Iterator[Line]:
    """Use by others, if they may not be seen; unattributed use, a line for each reason."""
    others = inner(device, "others")
    if "others" in device:
        yield Line(
            key=(*key, LineKind.REST, "others"),
            kind=LineKind.REST,
            name="others, not shown to you",
            core=Figure(number(others, "core_utilization_ratio")),
            memory=Figure(number(others, "memory_used_bytes")),
        )
    for part in items(device, "unattributed"):
        reason = text(part, "reason")
        own = (*key, LineKind.REST, reason)
        yield Line(
            key=own,
            kind=LineKind.REST,
            name=reason,
            core=Figure(number(part, "core_utilization_ratio")),
            memory=Figure(number(part, "memory_used_bytes")),
            children=_processes(part, own, NOT_REPORTED),
        )


def _processes(part: Json, key: Key, why: str) -> tuple[Line, ...]:
    return tuple(_process(process, key, why) for process in items(part, "process_list"))


def _process(process: Json, key: Key, why: str) -> Line:
    pid = number(process, "pid")
    shown = _whole(pid)
    command = text(process, "command") or text(process, "name")
    return Line(
        key=(*key, shown),
        kind=LineKind.PROCESS,
        name=" ".join(filter(None, (shown, text(process, "user"), command))),
        also=text(process, "name"),
        core=_figure(number(process, "core_utilization_ratio"), None, why),
        memory=_figure(number(process, "memory_used_bytes"), None, NOT_REPORTED),
        engines=_engines(process),
        letters=text(process, "type"),
        pid=None if pid is None else int(pid),
        facts=facts.of_process(process),
    )


def _summed(pod: Line) -> Line:
    """The pod with the sums of its containers on the device; unknown if one of them is."""
    core = _sum(child.core for child in pod.children)
    memory = _sum(child.memory for child in pod.children)
    engines = zip(*(child.engines for child in pod.children), strict=True)
    sums = tuple(None if None in e else sum(v or 0.0 for v in e) for e in engines)
    pasts = {child.past for child in pod.children}
    past = pasts.pop() if len(pasts) == 1 else _past_sum([child.past for child in pod.children])
    return replace(pod, core=core, memory=memory, engines=(sums[0], sums[1], sums[2]), past=past)


def _sum(figures: Iterable[Figure]) -> Figure:
    """The sum; only containers that have a limit are compared with the sum of limits."""
    listed = list(figures)
    values = [figure.value for figure in listed]
    limited = [figure for figure in listed if figure.limit is not None]
    why = next((figure.why for figure in listed if figure.value is None), "")
    value = None if None in values else sum(v for v in values if v is not None)
    limit = sum(figure.limit or 0.0 for figure in limited) if limited else None
    if value is None or len(limited) in {0, len(listed)}:
        return Figure(value, limit, why)
    return Figure(value, limit, why, within=sum(figure.value or 0.0 for figure in limited))


def _past_sum(pasts: list[Past]) -> Past:
    """The sum of series that end at the same time. A series adds nothing before its first point."""
    length = max(map(len, pasts))
    filled = [(0.0,) * (length - len(past)) + past for past in pasts]
    points = zip(*filled, strict=True)
    return tuple(None if None in point else sum(v or 0.0 for v in point) for point in points)


def _figure(value: float | None, limit: float | None, why: str) -> Figure:
    return Figure(value, limit, "" if value is not None else why or NOT_REPORTED)


def _reason(of: Json, quantity: str) -> str:
    reasons = (
        text(one, "reason") for one in items(of, "unmeasured") if text(one, "quantity") == quantity
    )
    return next(reasons, "")


def _engines(of: Json) -> tuple[float | None, float | None, float | None]:
    memory_active, encoder, decoder = (number(of, name) for name in _ENGINES)
    return memory_active, encoder, decoder


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
