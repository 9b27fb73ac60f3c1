"""The two gauges of a GPU's card: use of core and memory by container."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from exporter.facts.history import Known
from exporter.facts.tree import UnattributedEntry
from exporter.model import DeviceFacts
from exporter.web.page.cells import OVER, BarSegment, against, bar, spark
from exporter.web.page.entries import Colours, Part, TreeEntry, why
from exporter.web.page.glossary import MEASURED, reason
from exporter.web.page.html import Html, gibibytes, h, held_of, percent

LISTED = 5
Write = Callable[[float | None], str]


class Tenant(NamedTuple):
    """A container or a group on one device."""

    entry: TreeEntry
    part: Part
    colour: int

    @property
    def name(self) -> str:
        """The namespace and name of its pod, or the kind and name of its group."""
        return f"{self.entry.space}/{self.entry.name}"


class Gpu(NamedTuple):
    """A GPU with who is on it, and its last ten minutes."""

    facts: DeviceFacts
    tenants: Sequence[Tenant]
    unattributed: Sequence[UnattributedEntry]
    past: Mapping[str, Known]

    @property
    def core_past(self) -> Known:
        """Its core use of the last ten minutes."""
        return self.past.get("core_utilization_ratio", [])

    @property
    def memory_past(self) -> Known:
        """Its memory in the last ten minutes."""
        return self.past.get("memory_used_bytes", [])


def tenants_by_device(entries: Iterable[TreeEntry], colours: Colours) -> dict[str, list[Tenant]]:
    """The tenants of each device by its UUID: most core first, then most memory."""
    made: dict[str, list[Tenant]] = {}
    for entry in entries:
        for part in entry.parts:
            if entry.kind != "unattributed" and part.uuid and not part.ended:
                tenant = Tenant(entry, part, colours[entry.key, part.name, part.uuid])
                made.setdefault(part.uuid, []).append(tenant)
    for tenants in made.values():
        tenants.sort(key=_weight)
    return made


def _weight(tenant: Tenant) -> tuple[float, float, str]:
    figures = tenant.part.figures
    return (-(figures.core or 0.0), -(figures.memory_bytes or 0), tenant.entry.key)


def core(gpu: Gpu) -> Html:
    """How busy the device is, by container."""
    facts, share = gpu.facts, whole_core(gpu.facts)
    used, allocated = facts.average.core, facts.allocated.core
    segments = _segments(gpu.tenants, lambda part: part.figures.core, share, percent)
    for part in gpu.unattributed:
        about = f"unattributed, {part.reason}: {percent(part.core or 0.0)}"
        segments.append(BarSegment((part.core or 0.0) / share, "unattributed", about))
    of = None if share == 1 else percent(share)
    about = f"Core in use {percent(used)}{f' of {of}' if of else ''}" + _listing(segments)
    scale = max(allocated or 0.0, share)
    limits = _segments(
        gpu.tenants, lambda part: part.figures.core_limit, scale, percent, "allocated"
    )
    return _row(
        "Core",
        bar(about, segments, limits),
        against(percent(used), of, over=False)
        if used is not None
        else explained(why(facts.unmeasured, "core")),
        _allocated(
            None if allocated is None else percent(allocated), (allocated or 0.0) > OVER * share
        ),
        spark("Core, the last ten minutes", gpu.core_past, share),
    )


def whole_core(facts: DeviceFacts) -> float:
    """What of a GPU's core the device has: all of it, or a partition's share."""
    return (facts.device.parent_uuid and facts.device.core_share) or 1.0


def memory(gpu: Gpu) -> Html:
    """How much of the device's memory is in use, by container. No bar if its size is not known."""
    facts, past = gpu.facts, gpu.memory_past
    used, total = facts.memory.used_bytes, facts.memory.total_bytes
    allocated = facts.allocated.memory_bytes
    return _row(
        "Memory",
        _memory_bar(gpu, total) if total else None,
        held_of(used, total) if used is not None else explained(why(facts.unmeasured, "memory")),
        _allocated(
            None if allocated is None else gibibytes(allocated),
            (allocated or 0.0) > (total or inf),
        ),
        spark("Memory, the last ten minutes", past, total or max(filter(None, past), default=1.0)),
    )


def _memory_bar(gpu: Gpu, total: float) -> Html:
    facts = gpu.facts
    segments = _segments(gpu.tenants, lambda part: part.figures.memory_bytes, total, gibibytes)
    for part in gpu.unattributed:
        held = part.memory_bytes or 0
        about = f"unattributed, {part.reason}: {gibibytes(held)}"
        segments.append(BarSegment(max(held, 0) / total, "unattributed", about))
    if reserved := facts.memory.reserved_bytes:
        about = f"reserved by the driver: {gibibytes(reserved)}"
        segments.append(BarSegment(reserved / total, "reserved", about))
    used = facts.memory.used_bytes
    about = f"Memory in use {gibibytes(used)} of {gibibytes(total)}" + _listing(segments)
    scale = max(facts.allocated.memory_bytes or 0.0, total)
    limits = _segments(
        gpu.tenants, lambda part: part.figures.memory_limit_bytes, scale, gibibytes, "allocated"
    )
    return bar(about, segments, limits)


def _row(name: str, drawn: Html | None, figure: str, allocated: Html, past: Html) -> Html:
    return h(
        "div",
        {"class": "gauge"},
        h("span", {"class": "label"}, name),
        h("span", {"class": "figure"}, figure),
        drawn,
        past,
        allocated,
    )


def explained(reasons: Sequence[str]) -> Html:
    """The text for a figure that is not known, with reasons that say what they mean."""
    listed = [(None if not n else ", ", reason(MEASURED, code)) for n, code in enumerate(reasons)]
    return h("span", {"class": "unknown"}, "unknown: " if listed else "unknown", listed)


def _allocated(figure: str | None, over: bool) -> Html:  # noqa: FBT001 - a state, not an option
    text = "" if figure is None else f"allocated {figure}"
    return h("span", {"class": "allocated over" if over else "allocated"}, text)


def _segments(
    tenants: Sequence[Tenant],
    figure: Callable[[Part], float | None],
    whole: float,
    write: Write,
    lead: str = "",
) -> list[BarSegment]:
    made = []
    for tenant in tenants:
        value = figure(tenant.part)
        if value is not None:
            words = f"{tenant.name} {tenant.part.name}: {lead} {write(value)}".replace("  ", " ")
            made.append(BarSegment(value / whole, f"c{tenant.colour}", words))
    return made


def _listing(segments: Sequence[BarSegment]) -> str:
    """The text of a bar for screen readers; the table below it has the rest."""
    listed = [segment.words for segment in segments if segment.size > 0][:LISTED]
    return "".join(f"; {each}" for each in listed)
