"""The card of a GPU: its state, its two gauges, and the containers on it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from exporter.agent.facts.history import Known
from exporter.agent.web.page.cells import (
    LEAST,
    Bar,
    BarSegment,
    Cell,
    Spark,
    core_of,
    drawn,
    memory_of,
    spark,
)
from exporter.agent.web.page.charts import Hour, Owned
from exporter.agent.web.page.entries import OTHERS, Colours, EntryPart, TreeEntry, key_of, why
from exporter.agent.web.page.templates import shortened
from exporter.model import MIG, PARTITIONED, DeviceFacts
from exporter.model.alerts import OVER_MEMORY
from exporter.shown.marks import Mark, MarkKind
from exporter.shown.reasonwords import UNMEASURED
from exporter.shown.tree import UnattributedEntry
from exporter.shown.words import NBSP, held_of, memory, page_plural, percent

TENANTS_SHOWN = 5
LISTED = 5  # segments of a bar, for screen readers
IDLE = 0.005  # of one GPU's core: rounds to 0 %
BY_OTHERS = {MarkKind.LOST, MarkKind.UNREADABLE}  # the card says it in a sentence
Write = Callable[[float | None], str]


class CardTenant(NamedTuple):
    """A container or a group on one device."""

    entry: TreeEntry
    part: EntryPart
    colour: int

    @property
    def name(self) -> str:
        """The namespace and name of its pod, or the kind and name of its group."""
        return f"{self.entry.space}/{self.entry.name}"


class Gpu(NamedTuple):
    """A GPU with who is on it, and its last ten minutes.

    ``ended_core`` is what those used of it lately that have ended.
    """

    facts: DeviceFacts
    tenants: Sequence[CardTenant]
    ended_core: float
    unattributed: Sequence[UnattributedEntry]
    past: Mapping[str, Known]

    @property
    def core_past(self) -> Known:
        """Its core use of the last ten minutes."""
        return self.past.get("core_utilization_ratio", [])

    @property
    def is_idle(self) -> bool:
        """Whether nothing was seen to work on it now and in the last ten minutes."""
        used = self.facts.average.core
        return self.facts.is_up and used is not None and max(used, *known(self.core_past), 0) < IDLE


class Board(NamedTuple):
    """A GPU with its MIG instances or partitions. A part stands alone where its GPU is hidden."""

    gpu: Gpu
    parts: Sequence[Gpu]

    @property
    def all(self) -> Sequence[Gpu]:
        """The GPU and its parts."""
        return (self.gpu, *self.parts)


class Gauge(NamedTuple):
    """Use of core or memory. ``figure`` is None if it is not known, for these ``reasons``."""

    name: str
    figure: Cell | None
    reasons: Sequence[str]
    bar: Bar | None
    past: Spark
    allocated: str
    is_over: bool


class CardRow(NamedTuple):
    """A container's row of a card."""

    key: str
    title: str
    colour: int
    name: str
    marks: Sequence[Mark]
    within: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card of one GPU. ``folded`` is its line if it opens on request only.

    ``parts`` are the cards of its MIG instances or partitions, which stand inside it.
    ``problem`` says why the GPU cannot be read; ``owner`` is what its tenants are called, ``hour``
    its last hour, if it is shown. The core of ``first``, of ``others``, which is ``others_core``,
    of what has ``ended`` and of nobody adds up to the GPU's.
    """

    key: str
    name: str
    model: str
    is_up: bool
    senses: Sequence[str]
    folded: str
    marks: Sequence[Mark]
    problem: str
    gauges: Sequence[Gauge]
    owner: str
    first: Sequence[CardRow]
    others: Sequence[CardRow]
    others_core: float
    ended: float
    unattributed: Sequence[UnattributedEntry]
    nobody: str
    details: Sequence[tuple[str, str]]
    hour: Hour | None
    parts: Sequence["Card"]


def card_of(
    gpu: Gpu,
    marks: Sequence[Mark],
    hour: Hour | None = None,
    owner: str = "Container",
    parts: Sequence[Card] = (),
    *,
    inside: bool = False,
) -> Card:
    """The card of one GPU. One on which nothing works is folded if it has no marks.

    ``inside``: it stands in the card of its board, which has the model.
    """
    facts = gpu.facts
    rows = [_row(tenant) for tenant in gpu.tenants]
    # Of a device that cannot be read it is not known whether anybody is on it.
    nobody = (
        "It has no parts that are measured." if _has_partitions(facts) else "Nothing runs on it."
    )
    return Card(
        key=f"gpu-{facts.uuid}",
        name=card_name(facts),
        model=" ".join(filter(None, ("" if inside else facts.device.model, facts.device.profile))),
        is_up=facts.is_up,
        senses=_sensed(facts),
        folded="" if marks else _folded(gpu, parts),
        marks=[mark for mark in marks if mark.kind not in BY_OTHERS],
        problem=_problem(facts, marks),
        gauges=() if _is_divided(facts) or not facts.is_up else (_core(gpu), _memory(gpu)),
        owner=owner,
        first=rows[:TENANTS_SHOWN],
        others=rows[TENANTS_SHOWN:],
        others_core=sum(each.part.figures.core or 0.0 for each in gpu.tenants[TENANTS_SHOWN:]),
        ended=gpu.ended_core if gpu.ended_core >= LEAST else 0.0,
        unattributed=gpu.unattributed,
        nobody=nobody if facts.is_up and not parts else "",
        details=_details(facts),
        hour=hour,
        parts=parts,
    )


def _problem(facts: DeviceFacts, marks: Sequence[Mark]) -> str:
    """Why a device cannot be read, and what to do; "" if it can."""
    said = next((mark.detail for mark in marks if mark.kind is MarkKind.LOST), "")
    if said:
        return f"The device is lost. {said[:1].upper()}{said[1:]}."
    return UNMEASURED[facts.unmeasured["device"]] if "device" in facts.unmeasured else ""


def tenants_by_device(
    entries: Iterable[TreeEntry], colours: Colours
) -> dict[str, list[CardTenant]]:
    """The tenants of each device by its UUID: most core first, then most memory, others last."""
    made: dict[str, list[CardTenant]] = {}
    for entry in entries:
        for part in entry.parts:
            if entry.kind != "unattributed" and part.uuid and not part.ended:
                tenant = CardTenant(entry, part, colours[entry.key, part.name, part.uuid])
                made.setdefault(part.uuid, []).append(tenant)
    # The key comes last, so that tenants with equal figures do not change places at each refresh.
    for tenants in made.values():
        tenants.sort(
            key=lambda one: (
                one.entry.key == OTHERS,  # a reader's own come before what he may not see
                -(one.part.figures.core or 0.0),
                -(one.part.figures.memory_bytes or 0),
                one.entry.key,
            )
        )
    return made


def boards_of(gpus: Sequence[Gpu]) -> list[Board]:
    """Each GPU with its parts, in the order given."""
    parts: dict[str, list[Gpu]] = {gpu.facts.uuid: [] for gpu in gpus}
    boards = []
    for gpu in gpus:
        beside = parts.get(gpu.facts.device.parent_uuid)
        boards.append(gpu) if beside is None else beside.append(gpu)
    return [Board(gpu, parts[gpu.facts.uuid]) for gpu in boards]


def ordered(boards: Sequence[Board], sort: str, faulty: Collection[str]) -> list[Board]:
    """The GPUs by number or, where one was chosen, in the order of their owners: most first.

    In a chosen order those that cannot be read come first, and with them the ``faulty`` ones, by
    UUID. By core, the mean of the last ten minutes counts.
    """
    if not sort:
        return list(boards)
    return sorted(boards, key=lambda board: _rank(board, sort, faulty), reverse=True)


def _rank(board: Board, sort: str, faulty: Collection[str]) -> tuple[bool, float]:
    """Of a GPU with parts, those count together."""
    # The core by the mean of the last ten minutes: by the newest figure the cards would change
    # their places all the time.
    core = 0.0
    for gpu in board.all:
        past = known(gpu.core_past) or [gpu.facts.average.core or 0.0]
        core += sum(past) / len(past)
    weights = {
        "core": core,
        "memory": sum(gpu.facts.memory.used_bytes or 0.0 for gpu in board.parts or board.all),
        "limit": core / (sum(gpu.facts.allocated.core or 0.0 for gpu in board.all) or inf),
    }
    return is_faulty(board, faulty), weights.get(sort, 0.0)


def is_faulty(board: Board, faulty: Collection[str]) -> bool:
    """Whether it, or a part of it, cannot be read or is one of the ``faulty``, by UUID."""
    return any(not gpu.facts.is_up or gpu.facts.uuid in faulty for gpu in board.all)


def known(past: Known) -> list[float]:
    """The points that were measured."""
    return [value for value in past if value is not None]


def card_name(facts: DeviceFacts) -> str:
    """The name of a card: its number, with that of the board before it."""
    return f"GPU{NBSP}{facts.device.number}"


def owned(gpu: Gpu) -> list[Owned]:
    """Whose use the last hour of a GPU is drawn by."""
    return [
        Owned(f"{tenant.name} {tenant.part.name}", f"c{tenant.colour}", tenant.part.series)
        for tenant in gpu.tenants
    ]


def whole_core(facts: DeviceFacts) -> float:
    """What of a GPU's core the device has: all of it, or a partition's share."""
    return (facts.device.parent_uuid and facts.device.core_share) or 1.0


def _core(gpu: Gpu) -> Gauge:
    """How busy the device is, by container."""
    facts, share = gpu.facts, whole_core(gpu.facts)
    used, allocated = facts.average.core, facts.allocated.core
    # The segments add up to what is in use: of those who are here, of who ended meanwhile, and what
    # has no owner. Limits may be more than there is, so they have a scale of their own.
    segments = _segments(gpu.tenants, lambda part: part.figures.core, share, percent)
    segments.append(
        BarSegment(gpu.ended_core / share, "ended", f"ended: {percent(gpu.ended_core)}")
    )
    for part in gpu.unattributed:
        words = f"unattributed, {part.reason}: {percent(part.core or 0.0)}"
        segments.append(BarSegment((part.core or 0.0) / share, "unattributed", words))
    of = None if share == 1 else share
    about = f"Core in use {percent(used)}{f' of {percent(of)}' if of else ''}" + _listing(segments)
    scale = max(allocated or 0.0, share)
    limits = _segments(
        gpu.tenants, lambda part: part.figures.core_limit, scale, percent, "allocated "
    )
    return Gauge(
        "Core",
        None if used is None else Cell(percent(used), f"of{NBSP}{percent(of)}" if of else ""),
        why(facts.unmeasured, "core"),
        Bar(about, drawn(segments), drawn(limits)),
        spark("Core, the last ten minutes", gpu.core_past, share),
        "" if allocated is None else f"allocated {percent(allocated)}",
        (allocated or 0.0) > OVER_MEMORY * share,
    )


def _memory(gpu: Gpu) -> Gauge:
    """How much of the device's memory is in use, by container. No bar if its size is not known."""
    facts, past = gpu.facts, gpu.past.get("memory_used_bytes", [])
    used, total = facts.memory.used_bytes, facts.memory.total_bytes
    allocated = facts.allocated.memory_bytes
    top = total or max(filter(None, past), default=1.0)
    lacking = "device_memory" if "device_memory" in facts.unmeasured else "memory"
    return Gauge(
        "Memory",
        None if used is None else Cell(held_of(used, total)),
        why(facts.unmeasured, lacking),
        _memory_bar(gpu, total) if total else None,
        spark("Memory, the last ten minutes", past, top),
        "" if allocated is None else f"allocated {memory(allocated)}",
        (allocated or 0.0) > (total or inf),
    )


def _memory_bar(gpu: Gpu, total: float) -> Bar:
    facts = gpu.facts
    segments = _segments(gpu.tenants, lambda part: part.figures.memory_bytes, total, memory)
    for part in gpu.unattributed:
        held = part.memory_bytes or 0
        words = f"unattributed, {part.reason}: {memory(held)}"
        segments.append(BarSegment(max(held, 0) / total, "unattributed", words))
    if reserved := facts.memory.reserved_bytes:
        words = f"reserved by the driver: {memory(reserved)}"
        segments.append(BarSegment(reserved / total, "reserved", words))
    used = facts.memory.used_bytes
    about = f"Memory in use {memory(used)} of {memory(total)}" + _listing(segments)
    scale = max(facts.allocated.memory_bytes or 0.0, total)
    limits = _segments(
        gpu.tenants, lambda part: part.figures.memory_limit_bytes, scale, memory, "allocated "
    )
    return Bar(about, drawn(segments), drawn(limits))


def _segments(
    tenants: Sequence[CardTenant],
    figure: Callable[[EntryPart], float | None],
    scale: float,
    write: Write,
    lead: str = "",
) -> list[BarSegment]:
    made = []
    for tenant in tenants:
        value = figure(tenant.part)
        if value is not None:
            words = f"{tenant.name} {tenant.part.name}: {lead}{write(value)}"
            made.append(BarSegment(value / scale, f"c{tenant.colour}", words))
    return made


def _listing(segments: Sequence[BarSegment]) -> str:
    """The text of a bar for screen readers; the table below it has the rest."""
    listed = [segment.words for segment in segments if segment.size > 0][:LISTED]
    return "".join(f"; {each}" for each in listed)


def _row(tenant: CardTenant) -> CardRow:
    entry, part = tenant.entry, tenant.part
    names = dict.fromkeys((part.name, entry.space))  # once if they are equal
    return CardRow(
        key_of(entry.key, part.name),
        f"{tenant.name} {part.name}",
        tenant.colour,
        shortened(entry.name),
        part.marks,
        " · ".join(name for name in names if name),
        (core_of(part), memory_of(part)),
    )


def _folded(gpu: Gpu, parts: Sequence[Card]) -> str:
    """The line of a GPU on which nothing works; "" of any other."""
    facts = gpu.facts
    if _is_divided(facts):
        idle = all(part.folded for part in parts)
        return " · ".join([*_sensed(facts), "nothing works on its parts"]) if idle else ""
    if not gpu.is_idle:
        return ""
    holds = len({tenant.entry.key for tenant in gpu.tenants})
    said = ["idle", page_plural(holds, "tenant") if holds else "nothing runs on it"]
    if facts.memory.used_bytes is not None:
        said.append(f"{held_of(facts.memory.used_bytes, facts.memory.total_bytes)} held")
    return " · ".join(said)


def _has_partitions(facts: DeviceFacts) -> bool:
    """Whether the device is a board in MIG mode, or in partitions."""
    return facts.device.sharing in {MIG, PARTITIONED}


def _is_divided(facts: DeviceFacts) -> bool:
    """Whether only the device's partitions are measured."""
    return _has_partitions(facts) and facts.is_up and facts.average.core is None


def _sensed(facts: DeviceFacts) -> list[str]:
    """The device's temperature, power, clock and kind of sharing, as far as they are known."""
    made, sensors = [], facts.sensors
    heat, clocks = sensors.by_label("temperature_celsius"), sensors.by_label("clock_hertz")
    warmest = heat.get("gpu", heat.get("hotspot"))
    if warmest is not None:
        made.append(f"{warmest:.0f}{NBSP}°C")
    watts, limit = sensors.value("power_watts"), sensors.value("power_limit_watts")
    if watts is not None:
        of = f"{NBSP}/{NBSP}{limit:.0f}" if limit else ""
        made.append(f"{watts:.0f}{of}{NBSP}W")
    clock = clocks.get("sm", clocks.get("graphics"))
    if clock is not None:
        made.append(f"{clock / 1e9:.2f}{NBSP}GHz")
    sharing = facts.device.sharing
    return [*made, sharing.upper()] if sharing else made


def _details(facts: DeviceFacts) -> list[tuple[str, str]]:
    device, average, sensors = facts.device, facts.average, facts.sensors
    ratios = {
        "Memory traffic": average.memory_active,
        "Encoder": average.encoder,
        "Decoder": average.decoder,
        "SMs active": sensors.value("sm_active_ratio"),
        "Tensor cores": sensors.value("tensor_active_ratio"),
    }
    methods, (naming, period) = facts.methods, facts.sampling.labels
    ways = {}
    if methods is not None:
        ways = {"busy": methods.busy, "shares": methods.shares, "energy": methods.energy}
    often = "" if period == "none" else f"one every {period} s; "
    pairs = {
        "UUID": facts.uuid,
        "PCI bus": device.pci_bus_id,
        "Part of": device.parent_uuid,
        "Driver": device.driver_version,
        **{name: percent(ratio) for name, ratio in ratios.items() if ratio is not None},
        "Measured by": ", ".join(f"{what} by {how}" for what, how in ways.items()),
        "Samples": "" if naming == "none" else f"{often}name a process: {naming}",
        "Not measured": ", ".join(f"{what} ({why})" for what, why in facts.unmeasured.items()),
    }
    return [(name, value) for name, value in pairs.items() if value]
