"""The lines of one node, made from its tree. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from exporter.answers.reading.feeds import details
from exporter.answers.reading.feeds.details import ProcessCommand
from exporter.answers.reading.feeds.overview import Figure, Key, Line, LineKind, Past
from exporter.model import (
    Averages,
    ContainerKey,
    DeviceFacts,
    GroupKey,
    Process,
    Reasons,
    SeriesKey,
    of_limit,
)
from exporter.shown.kinds import NOBODY
from exporter.shown.marks import (
    Earlier,
    Mark,
    device_marks,
    holding_marks,
    pod_marks,
    waiting_marks,
)
from exporter.shown.printable import clean
from exporter.shown.reasonwords import process_type
from exporter.shown.tree import (
    ContainerEntry,
    DeviceEntry,
    Figures,
    GroupEntry,
    PodEntry,
    Tree,
)

WaitingMarks = Mapping[ContainerKey | GroupKey, Mark]

NOT_REPORTED = "not_reported"  # there is no figure, and no reason is given


class NodeContext(NamedTuple):
    """The data shared by all lines of a node. ``name`` is "" unless there are several nodes.

    The others are as in ``NodeSight``.
    """

    name: str = ""
    unix_ns: int = 0
    past: Mapping[SeriesKey, Past] = {}
    commands: Mapping[int, ProcessCommand] = {}
    earlier: Mapping[str, Earlier] = {}


def lines_of(tree: Tree, node: NodeContext) -> list[Line]:
    """The devices of one node, by index, each with everything that is on it."""
    lines = [_device(device, node) for device in tree.devices]
    if tree.nowhere:
        name = f"{node.name} allocated, GPU not known yet".lstrip()
        key = (node.name, "")
        children = _tenants(key, (_pod(pod, {}, key, node) for pod in tree.nowhere), ())
        lines.append(Line(key, LineKind.NOWHERE, name, children=children))
    return lines


def _device(entry: DeviceEntry, node: NodeContext) -> Line:
    key = (node.name, entry.uuid)
    waiting = waiting_marks(entry)
    children = (
        *_tenants(
            key,
            (_pod(pod, waiting, key, node) for pod in entry.pods),
            (_group(group, waiting, key, node) for group in entry.groups),
            entry.ended_core,
        ),
        *_rest(entry, key, node),
    )
    device = entry.facts
    if device is None:
        unknown = Figure(why=NOT_REPORTED)
        name = f"{node.name} GPU {clean(entry.uuid)}".lstrip()
        return Line(key, LineKind.DEVICE, name, unknown, unknown, children=children)
    core, memory = _device_figures(device)
    # The number, the model, and the partition's profile as its vendor calls it.
    of = device.device
    profile = f"MIG {of.profile}" if of.profile and of.vendor == "nvidia" else of.profile
    model = "" if of.parent_uuid else of.model.removeprefix("NVIDIA ")  # its board's line has it
    name = clean(" ".join(filter(None, (of.number, model, profile))))
    return Line(
        key=key,
        kind=LineKind.DEVICE,
        name=f"{node.name} {name}".lstrip(),
        core=core,
        memory=memory,
        engines=_engines(device.average),
        past=node.past.get(SeriesKey(None, device.uuid), ()),
        watts=device.sensors.value("power_watts"),
        celsius=details.warmth(device.sensors),
        details=(*details.of_device(device), *details.unmeasured(device.unmeasured)),
        children=children,
        marks=device_marks(device, node.unix_ns, node.earlier.get(entry.uuid)),
    )


def _device_figures(device: DeviceFacts) -> tuple[Figure, Figure]:
    """The core and the memory of a device; while it is down, its state is the reason."""
    down = "" if device.is_up else str(device.state)
    core, allocated = device.average.core, device.allocated.core
    used, total = device.memory.used_bytes, device.memory.total_bytes
    core_why = down or _reason(device.unmeasured, "core")
    memory_why = down or _reason(device.unmeasured, "device_memory", "memory")
    return (
        _figure(core, allocated, of_limit(core, allocated), core_why),
        _figure(used, total, of_limit(used, total), memory_why),
    )


def _tenants(
    above: Key, pods: Iterable[Line], groups: Iterable[Line], ended_core: float | None = None
) -> tuple[Line, ...]:
    """Pods and groups, and one line for all that have ended, with what that used lately."""
    lines = [*pods, *groups]
    ended = tuple(line for line in lines if line.ended)
    live = tuple(line for line in lines if not line.ended)
    if not (ended or ended_core):
        return live
    name = f"{len(ended)} that {'has' if len(ended) == 1 else 'have'} ended"
    if not ended:
        name = "containers that have ended"
    key, core = (*above, LineKind.ENDED), Figure(ended_core or None)
    return (*live, Line(key, LineKind.ENDED, name, core, children=ended))


def _pod(entry: PodEntry, waiting: WaitingMarks, above: Key, node: NodeContext) -> Line:
    """A pod on a device. One with a single container is a line that says what both do."""
    containers = tuple(
        _owner(
            one,
            LineKind.CONTAINER,
            clean(one.holding.owner.container) or "(all containers)",
            waiting,
            above,
            node,
        )
        for one in entry.containers
    )
    live = [line for line in containers if not line.ended] or containers
    line = Line(
        key=(*above, entry.namespace, entry.pod),
        kind=LineKind.POD,
        name=clean(f"{entry.namespace}/{entry.pod}"),
        details=details.of_pod(entry),
        ended=entry.ended,
    )
    line = _summed(replace(line, children=containers), entry)
    if len(containers) == 1:
        [only] = containers
        said = {name for name, _ in only.details}
        more = [(name, words) for name, words in line.details if name not in said]
        line = replace(
            line,
            details=(("container", only.name), *only.details, *more),
            children=only.children,
            also=only.name,
        )
    own = pod_marks(entry)
    # A pod and its containers may have a mark of one kind. The containers' says more: it stands.
    of_kinds = {mark.kind: mark for mark in (*own, *(mark for one in live for mark in one.marks))}
    return replace(line, marks=tuple(of_kinds.values()))


def _summed(line: Line, entry: PodEntry) -> Line:
    """The pod's line with its figures on the device. A reason of any container is its own."""
    live = [child for child in line.children if not child.ended]
    engines = zip(*(child.engines for child in live), strict=True) if live else ()
    sums = [None if None in each else sum(v or 0.0 for v in each) for each in engines]
    holdings = [held for held in entry.holdings if not held.ended]
    reasons = {quantity: why for held in holdings for quantity, why in held.unmeasured.items()}
    core, memory = _figures(entry.figures, reasons, ended=line.ended)
    pasts = [child.past for child in live if child.past]
    # Series end at the same time. One adds nothing before its first point.
    length = max(map(len, pasts), default=0)
    filled = [(0.0,) * (length - len(past)) + tuple(past) for past in pasts]
    points = zip(*filled, strict=True)
    return replace(
        line,
        core=core,
        memory=memory,
        engines=(sums[0], sums[1], sums[2]) if sums else (None, None, None),
        past=tuple(None if None in point else sum(v or 0.0 for v in point) for point in points),
        details=(
            *(fact for held in entry.unplaced for fact in details.of_allocation(held)),
            *line.details,
        ),
    )


def _group(entry: GroupEntry, waiting: WaitingMarks, above: Key, node: NodeContext) -> Line:
    held = entry.holding
    called = (held.info.name if held.info else "") or held.owner.group
    name = clean(f"{held.owner.kind} {called}")
    return _owner(entry, LineKind.GROUP, name, waiting, above, node)


def _owner(
    entry: ContainerEntry | GroupEntry,
    kind: LineKind,
    name: str,
    waiting: WaitingMarks,
    above: Key,
    node: NodeContext,
) -> Line:
    held = entry.holding
    key = (*above, *held.owner)
    core, memory = _figures(entry.figures, held.unmeasured, ended=held.ended)
    mark = waiting.get(held.owner)
    return Line(
        key=key,
        kind=kind,
        name=name,
        core=core,
        memory=memory,
        engines=_engines(held.average),
        past=node.past.get(SeriesKey(held.owner, held.uuid), ()),
        details=(*details.unmeasured(held.unmeasured), *details.of_holding(held)),
        children=_processes(entry.processes, key, core.why, node),
        marks=(*holding_marks(held), *([mark] if mark is not None else ())),
        ended=held.ended,
    )


def _rest(device: DeviceEntry, above: Key, node: NodeContext) -> Iterator[Line]:
    """Use by others that are not shown; use without an owner, a line for each reason."""
    if device.others is not None and (device.facts is None or device.facts.is_up):
        yield Line(
            key=(*above, LineKind.REST, "others"),
            kind=LineKind.REST,
            name="others, not shown to you",
            core=_figure(device.others.core, why=NOT_REPORTED),
            memory=_figure(device.others.memory_bytes, why=NOT_REPORTED),
        )
    for part in device.unattributed:
        key = (*above, LineKind.REST, part.reason)
        yield Line(
            key=key,
            kind=LineKind.REST,
            name=NOBODY[part.reason],
            core=Figure(part.core),
            memory=Figure(part.memory_bytes),
            children=_processes(part.processes, key, NOT_REPORTED, node),
            details=(("reason", str(part.reason)),),
        )


def _processes(
    processes: Iterable[Process], key: Key, why: str, node: NodeContext
) -> tuple[Line, ...]:
    lines: list[Line] = []
    for process in processes:
        known = node.commands.get(process.pid, ProcessCommand())
        pid = str(process.pid)
        name = (pid, known.user, known.command or process.name, process.job)
        lines.append(
            Line(
                key=(*key, pid),
                kind=LineKind.PROCESS,
                name=clean(" ".join(filter(None, name))),
                also=clean(process.name),
                core=_figure(process.core, why=why),
                memory=_figure(process.memory_bytes, why=NOT_REPORTED),
                engines=(process.memory_active, process.encoder, process.decoder),
                letters=process_type(process.kinds or frozenset()),
                pid=process.pid,
                details=details.of_process(process, known),
            )
        )
    return tuple(lines)


def _figures(of: Figures, reasons: Reasons, *, ended: bool) -> tuple[Figure, Figure]:
    """The core and the memory of an owner; of one that has ended there are none."""
    if ended:
        return Figure(), Figure()
    core = _figure(of.core, of.core_limit, of.core_of_limit, _reason(reasons, "core"))
    return (
        core._replace(may_borrow=of.may_borrow),
        _figure(
            of.memory_bytes, of.memory_limit_bytes, of.memory_of_limit, _reason(reasons, "memory")
        ),
    )


def _figure(
    value: float | None, limit: float | None = None, share: float | None = None, why: str = ""
) -> Figure:
    return Figure(value, limit, "" if value is not None else why or NOT_REPORTED, share)


def _reason(reasons: Reasons, *quantities: str) -> str:
    """Why quantities are not known; where their device is not known, that is why."""
    places = (*quantities, "device", f"{quantities[-1]}_limit")
    return next((str(reasons[place]) for place in places if place in reasons), "")


def _engines(average: Averages) -> tuple[float | None, float | None, float | None]:
    return average.memory_active, average.encoder, average.decoder
