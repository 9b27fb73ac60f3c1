"""Figures with what they are of, bars, meters and lines of the last minutes, for the templates.

In SVG, positions and sizes are attributes, because the page's policy forbids inline styles.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from exporter.agent.web.page.entries import EntryPart, why
from exporter.model import Unmeasured
from exporter.model.alerts import OVER_MEMORY, OVER_SHARE
from exporter.shown.reasonwords import UNMEASURED
from exporter.shown.words import NBSP, held_of, memory, percent

POINTS = 60  # of a line: ten minutes
HEIGHT = 24
LEAST = 0.0005  # of a bar, that is visible; of a core, that a percentage shows


class Cell(NamedTuple):
    """A figure and what it is of. ``look`` is "", over or unknown; ``title`` says more."""

    text: str = ""
    of: str = ""
    look: str = ""
    title: str = ""


NOTHING = Cell()
ENDED = Cell("ended", look="unknown")
NOT_KNOWN = Cell("?", look="unknown", title="not known")


def core_of(part: EntryPart) -> Cell:
    """Core in use against its limit."""
    if part.ended:
        return ended_cell(part.ended_core)
    figures = part.figures
    over = (figures.core_of_bound or 0.0) > OVER_SHARE
    cell = core_against(figures.core, figures.core_limit, why(part.unmeasured, "core"), over=over)
    return borrowing(cell) if figures.may_borrow else cell


def borrowing(cell: Cell) -> Cell:
    """A cell of core with a mark at its limit: more is allowed where it is free."""
    return cell._replace(of=f"{cell.of}{NBSP}+") if cell.of else cell


def ended_cell(core: float) -> Cell:
    """That it has ended, and what it used of the core before, as long as averages have that."""
    return ENDED._replace(of=percent(core)) if core >= LEAST else ENDED


def memory_of(part: EntryPart) -> Cell:
    """Memory held against its limit."""
    if part.ended:
        return NOTHING
    held, limit = part.figures.memory_bytes, part.figures.memory_limit_bytes
    over = (part.figures.memory_of_limit or 0.0) > OVER_MEMORY
    return memory_against(held, limit, why(part.unmeasured, "memory"), over=over)


def core_against(
    used: float | None, limit: float | None, reasons: Sequence[str] = (), *, over: bool = False
) -> Cell:
    """Core in use beside its share, or the reasons why it is not known.

    Both are of a GPU: "31 % of 10 %" would be 3 %.
    """
    of = "" if limit is None else f"share{NBSP}{percent(limit)}"
    if used is None:
        return _unknown(reasons, of)
    text = percent(used)
    if over and of.endswith(text):  # of a limit of 10 %, 10.06 % would be 10 %
        text = f"{used * 100:.2f}{NBSP}%"
    return Cell(text, of, "over" * over)


def memory_against(
    used: float | None, limit: float | None, reasons: Sequence[str] = (), *, over: bool = False
) -> Cell:
    """Memory held against a limit, with the unit once if both have the same."""
    if used is None:
        return _unknown(reasons, "" if limit is None else f"of{NBSP}{memory(limit)}")
    figure, _, of = held_of(used, limit).partition(" ")
    if over and of == f"of{NBSP}{figure}{NBSP}GiB":
        figure = f"{used / 2**30:.2f}"
    return Cell(figure, of, "over" * over)


def _unknown(reasons: Sequence[str], of: str) -> Cell:
    title = " ".join(UNMEASURED[Unmeasured(reason)] for reason in reasons)
    words = ", ".join(reasons).replace("_", " ").replace("gpu ", "GPU ")
    text = f"unknown: {words}" if words else "unknown"
    return Cell(text, of, "unknown", title)


class BarSegment(NamedTuple):
    """A part of a bar: its share of it. ``look`` is c0 … c7, ended, unattributed or reserved."""

    size: float
    look: str
    words: str


class Drawn(NamedTuple):
    """A rectangle of a bar; ``left`` and ``width`` are SVG lengths."""

    look: str
    left: str
    width: str
    words: str


class Bar(NamedTuple):
    """Use by container, side by side, with a thin line of the allocations below it."""

    about: str
    used: Sequence[Drawn]
    allocated: Sequence[Drawn]


def drawn(segments: Iterable[BarSegment]) -> list[Drawn]:
    """The segments side by side, as far as they fit."""
    # Averages of parts may add up to more than the whole. A bar ends where it is full.
    made, at = [], 0.0
    for size, look, words in segments:
        shown = min(size, 1 - at)
        if shown > LEAST:
            made.append(Drawn(look, share(at), share(shown), words))
            at += shown
    return made


class Meter(NamedTuple):
    """Use of a limit, or of a whole GPU. ``width`` is "" if nothing is used."""

    about: str
    look: str
    width: str


def meter(about: str, filled: float | None, *, limited: bool, over: bool) -> Meter | None:
    """The meter; None if the use is not known, because empty would mean zero."""
    if filled is None:
        return None
    look = "free" if not limited else "over" if over else "fill"
    return Meter(about, look, share(min(filled, 1)) if filled else "")


class Spark(NamedTuple):
    """The last ten minutes as a line over an area: SVG paths, "" if nothing was measured."""

    about: str
    line: str
    area: str


def spark(about: str, values: Sequence[float | None], top: float) -> Spark:
    """A line with gaps where nothing was measured. It ends now."""
    line, area = "", ""
    run: list[str] = []
    start = POINTS - len(values)
    # The None behind the last value ends the last run.
    for number, value in enumerate([*values, None]):
        if value is not None:
            height = HEIGHT - 1 - min(max(value / (top or 1.0), 0), 1) * (HEIGHT - 2)
            run.append(f"{start + number} {height:.1f}")
        elif run:
            path, first, last = "L".join(run), run[0].split(" ")[0], run[-1].split(" ")[0]
            # A point alone would draw nothing.
            line += f"M{path}" + ("h.5" if len(run) == 1 else "")
            area += f"M{first} {HEIGHT}L{path}L{last} {HEIGHT}Z"
            run = []
    return Spark(about, line, area)


def share(part: float) -> str:
    """A share as an SVG length."""
    return f"{part * 100:.2f}%"


def sum_of(series: Iterable[Sequence[float | None]]) -> list[float | None]:
    """The sum of series that end at the same time.

    A series adds nothing before its first point. A sum is None where one of its terms is None.
    """
    listed = list(series)
    made: list[float | None] = []
    for back in range(max(map(len, listed), default=0), 0, -1):
        here = [one[-back] for one in listed if len(one) >= back]
        known = [value for value in here if value is not None]
        made.append(sum(known) if len(known) == len(here) else None)
    return made
