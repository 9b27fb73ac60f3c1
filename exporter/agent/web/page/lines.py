"""A line of the page's list: a pod, a group or unattributed use, with its containers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.hostuse import HostUse
from exporter.agent.web.page.cells import (
    LEAST,
    NOT_KNOWN,
    NOTHING,
    Cell,
    Meter,
    Spark,
    borrowing,
    core_against,
    core_of,
    ended_cell,
    memory_against,
    memory_of,
    meter,
    spark,
    sum_of,
)
from exporter.agent.web.page.charts import Hour
from exporter.agent.web.page.entries import (
    Colours,
    EntryPart,
    Series,
    TreeEntry,
    key_of,
    unmeasured,
    why,
)
from exporter.model import Process
from exporter.model.alerts import OVER_MEMORY, OVER_SHARE
from exporter.shown.marks import Mark
from exporter.shown.reasonwords import process_type
from exporter.shown.words import duration, held_of, memory, percent

MAX_SWATCHES = 4


class LineRow(NamedTuple):
    """A container, or with ``pid`` one of its processes. ``cells`` are those from core on.

    ``place`` is the number of its device, None if it is not known.
    """

    key: str
    name: str
    cells: Sequence[Cell]
    colour: int | None = None
    schemes: Sequence[str] = ()
    marks: Sequence[Mark] = ()
    place: str | None = ""
    pid: int | None = None
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLine:
    """One line, which opens to the rows of its containers and processes.

    ``colours`` are those of its containers, None for unattributed use. ``hour`` has the charts of
    its last hour, if they are shown; ``has_hour``: whether they can be asked for. ``has_host``:
    whether rows have what processes use of their host.
    """

    entry: TreeEntry
    colours: Sequence[int | None]
    marks: Sequence[Mark]
    places: str
    measured: Sequence[tuple[str, Cell, Meter | None]]
    past: Spark | None
    rows: Sequence[LineRow]
    has_host: bool
    has_hour: bool
    hour: Hour | None


def line_of(
    entry: TreeEntry,
    colours: Colours,
    series: Series,
    now_unix_ns: int,
    hour: Hour | None = None,
    host: Mapping[int, HostUse] = MappingProxyType({}),
) -> PageLine:
    """The line of an entry. ``host`` is what processes use of their host, by pid."""
    devices = dict.fromkeys(part.device for part in entry.parts if part.device)
    # One mark of each kind: the entry's own, or else the first of its parts'.
    every = (*entry.marks, *(mark for part in entry.parts for mark in part.marks))
    marks = list({mark.kind: mark for mark in reversed(every)}.values())[::-1]
    keys = [(entry.key, part.name, part.uuid) for part in entry.parts]
    listed = [series[p.series]["core_utilization_ratio"] for p in entry.parts if p.series in series]
    values = sum_of(listed)
    # At least a twentieth of a card high: else noise would look like work.
    top = max([1.0 if len(listed) > 1 else 0.05, *(value for value in values if value)])
    past = spark(f"Core of {entry.name}, the last ten minutes", values, top)
    own: list[int | None] = [None]
    if entry.kind != "unattributed":
        own = list(dict.fromkeys(colours.get(key) for key in keys if key in colours))
    return PageLine(
        entry=entry,
        colours=own[:MAX_SWATCHES],
        marks=marks,
        places=", ".join(devices) or "not known",
        measured=[("core", *_core(entry)), ("memory", *_memory(entry))],
        past=None if entry.ended else past,
        rows=[
            row for part in entry.parts for row in _rows(entry, part, colours, now_unix_ns, host)
        ],
        has_host=bool(host),
        has_hour=not entry.ended and entry.kind != "unattributed",
        hour=hour,
    )


def _core(entry: TreeEntry) -> tuple[Cell, Meter | None]:
    if entry.ended:
        return ended_cell(sum(part.ended_core for part in entry.parts)), None
    used, limit = entry.figures.core, entry.figures.core_limit or None
    filled = entry.figures.core_of_limit if limit else used
    # Only the use of the containers that have a limit stands against it. What the others use would
    # make a pod look as if it used more than its share.
    within = filled * limit if limit and filled is not None else used
    about = f"Core in use {percent(within)}" + (f", its share {percent(limit)}" if limit else "")
    if used is not None and within is not None and used - within > LEAST:
        about += f"; {percent(used - within)} more by containers without a share"
    over = limit is not None and (entry.figures.core_of_bound or 0.0) > OVER_SHARE
    cell = core_against(within, limit, unmeasured(entry, "core"), over=over)
    if entry.figures.may_borrow:
        cell, about = borrowing(cell), f"{about}, and more where it is free"
    return cell, meter(about, filled, limited=limit is not None, over=over)


def _memory(entry: TreeEntry) -> tuple[Cell, Meter | None]:
    if entry.ended:
        return NOTHING, None
    used, limit = entry.figures.memory_bytes, entry.figures.memory_limit_bytes
    filled = entry.figures.memory_of_limit if limit else None
    over = (filled or 0.0) > OVER_MEMORY
    cell = memory_against(used, limit, unmeasured(entry, "memory"), over=over)
    about = f"Memory held {held_of(used, limit)}"
    return cell, meter(about, filled, limited=bool(limit), over=over)


def _rows(
    entry: TreeEntry,
    part: EntryPart,
    colours: Colours,
    now_unix_ns: int,
    host: Mapping[int, HostUse],
) -> list[LineRow]:
    average = part.average
    ratios = (
        ("memory_active", average.memory_active),
        ("encoder", average.encoder),
        ("decoder", average.decoder),
    )
    measured: list[Cell] = []
    for quantity, value in ratios:
        # Of what has ended nothing is unknown: there is nothing any more.
        reasons = why(part.unmeasured, quantity) if value is None else []
        cell = Cell(", ".join(reasons), look="unknown") if reasons else _percent(value)
        measured.append(NOTHING if part.ended else cell)
    own = LineRow(
        key=key_of(part.name, part.uuid),
        name=part.name or "(all containers)",
        colour=colours.get((entry.key, part.name, part.uuid)),
        schemes=part.schemes,
        marks=part.marks,
        place=part.device or None,
        cells=[
            core_of(part),
            memory_of(part),
            *measured,
            *((NOTHING, NOTHING) if host else ()),
            _since(part.since_unix_ns, now_unix_ns),
        ],
    )
    return [own, *(_process(process, part, now_unix_ns, host) for process in part.processes)]


def _process(
    process: Process, part: EntryPart, now_unix_ns: int, host: Mapping[int, HostUse]
) -> LineRow:
    held = process.memory_bytes
    return LineRow(
        key=key_of(part.name, part.uuid, str(process.pid)),
        name=f"{process.name or '(name not known)'}{process.job and f' · {process.job}'}",
        pid=process.pid,
        type=process_type(process.kinds or frozenset()),
        cells=[
            _percent(process.core),
            NOT_KNOWN if held is None else Cell(memory(held)),
            *map(_percent, (process.memory_active, process.encoder, process.decoder)),
            *(_of_host(host.get(process.pid)) if host else ()),
            _since(process.start_unix_ns, now_unix_ns),
        ],
    )


def _of_host(use: HostUse | None) -> tuple[Cell, Cell]:
    """CPUs and memory of its host that a process uses."""
    if use is None:
        return NOT_KNOWN, NOT_KNOWN
    cpus = NOT_KNOWN if use.cpus is None else Cell(f"{use.cpus:.2f}")
    return cpus, Cell(memory(use.resident_bytes))


def _percent(value: float | None) -> Cell:
    return NOT_KNOWN if value is None else Cell(percent(value))


def _since(start_unix_ns: int | None, now_unix_ns: int) -> Cell:
    """The time between a start and the snapshot; nothing if the start is not known."""
    if start_unix_ns is None:
        return NOTHING
    return Cell(duration(max(now_unix_ns - start_unix_ns, 0) / 1e9))
