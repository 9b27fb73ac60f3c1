"""The two gauges of a GPU's card: use of core and memory by container."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

from exporter.web.page.cells import OVER, BarSegment, against, bar, spark, why
from exporter.web.page.entries import Colours, Json, Part, Series, TreeEntry, series_of
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

    def figure(self, name: str) -> float | None:
        """One of its figures, None if not known."""
        value: float | None = self.part.figures.get(name)
        return value


def tenants_by_device(entries: Iterable[TreeEntry], colours: Colours) -> dict[str, list[Tenant]]:
    """The tenants of each device by its UUID: most core first, then most memory."""
    made: dict[str, list[Tenant]] = {}
    for entry in entries:
        for part in entry.parts:
            if entry.kind != "unattributed" and part.uuid:
                tenant = Tenant(entry, part, colours[entry.key, part.name, part.uuid])
                made.setdefault(part.uuid, []).append(tenant)
    for tenants in made.values():
        tenants.sort(key=_weight)
    return made


def _weight(tenant: Tenant) -> tuple[float, float, str]:
    core = tenant.figure("core_utilization_ratio")
    memory = tenant.figure("memory_used_bytes")
    return (-(core or 0.0), -(memory or 0.0), tenant.entry.key)


def core(device: Json, tenants: Sequence[Tenant], series: Series) -> Html:
    """How busy the device is, by container."""
    used, share = device.get("utilization_ratio"), whole_core(device)
    allocated = device.get("allocated_core_ratio")
    segments = _segments(tenants, "core_utilization_ratio", share, percent)
    for part in device["unattributed"]:
        core = part.get("core_utilization_ratio", 0.0)
        about = f"unattributed, {part['reason']}: {percent(core)}"
        segments.append(BarSegment(core / share, "unattributed", about))
    of = None if share == 1 else percent(share)
    about = f"Core in use {percent(used)}{f' of {of}' if of else ''}" + _listing(segments)
    past = series.get(series_of(device), {}).get("core_utilization_ratio", ())
    scale = max(allocated or 0.0, share)
    limits = _segments(tenants, "core_limit_ratio", scale, percent, "allocated")
    return _row(
        "Core",
        bar(about, segments, limits),
        against(percent(used), of, over=False)
        if used is not None
        else explained(why(device, "core")),
        _allocated(
            None if allocated is None else percent(allocated), (allocated or 0.0) > OVER * share
        ),
        spark("Core, the last ten minutes", past, share),
    )


def whole_core(device: Json) -> float:
    """What of a GPU's core the device has: all of it, or a partition's share."""
    share: float = device.get("core_share") or 1.0
    return share


def memory(device: Json, tenants: Sequence[Tenant], series: Series) -> Html:
    """How much of the device's memory is in use, by container. No bar if its size is not known."""
    used, total = device.get("memory_used_bytes"), device.get("memory_total_bytes")
    allocated = device.get("allocated_memory_bytes")
    past = series.get(series_of(device), {}).get("memory_used_bytes", ())
    return _row(
        "Memory",
        _memory_bar(device, tenants, total) if total else None,
        held_of(used, total) if used is not None else explained(why(device, "memory")),
        _allocated(
            None if allocated is None else gibibytes(allocated),
            (allocated or 0.0) > (total or inf),
        ),
        spark("Memory, the last ten minutes", past, total or max(filter(None, past), default=1.0)),
    )


def _memory_bar(device: Json, tenants: Sequence[Tenant], total: float) -> Html:
    used = device.get("memory_used_bytes")
    segments = _segments(tenants, "memory_used_bytes", total, gibibytes)
    for part in device["unattributed"]:
        held = part.get("memory_used_bytes", 0)
        about = f"unattributed, {part['reason']}: {gibibytes(held)}"
        segments.append(BarSegment(max(held, 0) / total, "unattributed", about))
    if reserved := device.get("memory_reserved_bytes"):
        about = f"reserved by the driver: {gibibytes(reserved)}"
        segments.append(BarSegment(reserved / total, "reserved", about))
    about = f"Memory in use {gibibytes(used)} of {gibibytes(total)}" + _listing(segments)
    scale = max(device.get("allocated_memory_bytes", 0.0), total)
    limits = _segments(tenants, "memory_limit_bytes", scale, gibibytes, "allocated")
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
    tenants: Sequence[Tenant], figure: str, whole: float, write: Write, lead: str = ""
) -> list[BarSegment]:
    made = []
    for tenant in tenants:
        value = tenant.figure(figure)
        if value is not None:
            words = f"{tenant.name} {tenant.part.name}: {lead} {write(value)}".replace("  ", " ")
            made.append(BarSegment(value / whole, f"c{tenant.colour}", words))
    return made


def _listing(segments: Sequence[BarSegment]) -> str:
    """The text of a bar for screen readers; the table below it has the rest."""
    listed = [segment.words for segment in segments if segment.size > 0][:LISTED]
    return "".join(f"; {each}" for each in listed)
