"""Lines as text of a given width: the columns that fit, by rank, with bars and sparklines. Pure.

Everything can be read without colour: the allocation is marked in its bar, use beyond it has other
blocks, and unknown values are question marks.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from exporter.answers.reading.feeds.overview import Figure, Line, LineKind, Past, ShownLine
from exporter.answers.reading.untrusted import fitted, width
from exporter.model.alerts import OVER_MEMORY, OVER_SHARE
from exporter.shown.words import narrow_memory as amount
from exporter.shown.words import narrow_percent as percent

NEAR = 0.9  # of a limit


class Tone(StrEnum):
    """The meaning of a piece of text. The caller chooses the colours."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    CALM = "calm"
    NEAR = "near"
    OVER = "over"
    UNKNOWN = "unknown"


class Piece(NamedTuple):
    """A piece of text."""

    text: str
    tone: Tone = Tone.PLAIN


Cell = Sequence[Piece]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL, _BEYOND, _MARK, _FREE = "█", "▓", "┃", "·"
_SPARKS = "▁▂▃▄▅▆▇█"
_GAP = "·"
_MANY = {LineKind.NAMESPACE, LineKind.NODE}


# --- cells ---


def tone_of(line: Line, figure: Figure) -> Tone:
    """The tone of a line's figure by its share of the limit.

    It is calm without one: what is allocated of a device is no limit of its core.
    """
    share = None if line.kind is LineKind.DEVICE and figure is line.core else figure.of_bound
    if share is None or share < NEAR:
        return Tone.CALM
    most = OVER_SHARE if figure is line.core else OVER_MEMORY
    return Tone.OVER if share > most else Tone.NEAR


def core(line: Line, _: int) -> Cell:
    """The core in use, in percent of a GPU; of more than GPUs and what is on them, in GPUs."""
    return _value(line, line.core, "{:.1f}".format if line.kind in _MANY else percent)


def core_limit(line: Line, _: int) -> Cell:
    """The allocated core in percent; with ``+`` where more is allowed as long as it is free."""
    if line.kind in _MANY:
        return _given(line.core.limit, "{:.1f}".format, Tone.FAINT)
    more = "+" * line.core.may_borrow
    return _given(line.core.limit, lambda share: percent(share) + more, Tone.FAINT)


def _value(line: Line, figure: Figure, write: Callable[[float], str]) -> Cell:
    if figure.value is None:
        return [Piece("?" if figure.why else "", Tone.UNKNOWN)]
    return [Piece(write(figure.value), tone_of(line, figure))]


def _given(value: float | None, write: Callable[[float], str], tone: Tone = Tone.PLAIN) -> Cell:
    return [] if value is None else [Piece(write(value), tone)]


def _engine(which: int) -> Callable[[Line, int], Cell]:
    """Memory traffic, encoder or decoder, in percent of its time."""

    def draw(line: Line, _: int) -> Cell:
        value = line.engines[which]
        return _given(value, percent, Tone.PLAIN if value else Tone.FAINT)

    return draw


def bar(line: Line, cells: int) -> Cell:
    """Core in use as a bar with a mark at the end of the allocation, or why it is not known."""
    if line.ended:
        return [Piece("ended"[:cells], Tone.FAINT)]
    if line.kind is LineKind.NAMESPACE:  # has no whole
        return []
    value, limit = (
        None if of is None else of / line.gpus for of in (line.core.value, line.core.limit)
    )
    return _bar_or_why(line, line.core, value, limit, cells)


def memory_bar(line: Line, cells: int) -> Cell:
    """Memory held against the allocation as a bar, or why it is not known."""
    return _bar_or_why(line, line.memory, line.memory.share, 1.0, cells)


def _bar_or_why(
    line: Line, of: Figure, ratio: float | None, mark: float | None, cells: int
) -> Cell:
    if of.value is None:
        why = of.why.replace("_", " ")
        return [Piece(why if len(why) <= cells else f"{why[: cells - 1]}…", Tone.UNKNOWN)]
    if ratio is None:
        return []
    tone = tone_of(line, of)
    eighths = round(8 * cells * min(max(ratio, 0.0), 1.0))
    if ratio > 0 and not eighths:
        eighths = 1  # so that little is not shown as nothing
    full, part = divmod(eighths, 8)
    drawn = _FULL * full + (_EIGHTHS[part] if part else "")
    place = None if mark is None or mark >= 1 else min(int(mark * cells), cells - 1)
    if place is None:
        return [Piece(drawn, tone), Piece(_FREE * (cells - len(drawn)), Tone.FAINT)]
    if place >= len(drawn):
        gap = _FREE * (place - len(drawn))
        rest = _FREE * (cells - place - 1)
        return [Piece(drawn, tone), Piece(gap, Tone.FAINT), Piece(_MARK), Piece(rest, Tone.FAINT)]
    beyond = drawn[place + 1 :].replace(_FULL, _BEYOND)
    rest = _FREE * (cells - len(drawn))
    pieces = [Piece(drawn[:place], tone), Piece(_MARK), Piece(beyond, tone)]
    return [*pieces, Piece(rest, Tone.FAINT)]


def spark(past: Past, cells: int) -> Cell:
    """A sparkline, the newest at the right. A whole GPU is a full cell; a gap is not known."""
    each = max(ceil(len(past) / cells), 1)
    ends = range(len(past), 0, -each)
    drawn, tallest = "", len(_SPARKS) - 1
    for end in ends:
        known = [point for point in past[max(end - each, 0) : end] if point is not None]
        height = round(sum(known) / len(known) * tallest) if known else 0
        drawn = (_SPARKS[min(max(height, 0), tallest)] if known else _GAP) + drawn
    return [Piece(drawn.rjust(cells), Tone.CALM)]


# --- the table ---

NAMES = "GPU / POD / CONTAINER / PROCESS"
NAMES_OF_FLEET = "NODE / GPU / POD / CONTAINER"
LEAST_NAME = 24
GOOD_NAME = 30  # before columns of rank EXTRA take room
EXTRA = 7
_OPEN, _SHUT, _LEAF = "▾ ", "▸ ", "  "
_TONES = {
    LineKind.PLACES: Tone.STRONG,
    LineKind.DEVICE: Tone.STRONG,
    LineKind.NOWHERE: Tone.STRONG,
    LineKind.ENDED: Tone.FAINT,
    LineKind.REST: Tone.FAINT,
    LineKind.PROCESS: Tone.FAINT,
}


class TableColumn(NamedTuple):
    """A column. In a narrow terminal, columns of the highest ``rank`` are dropped first.

    ``grows`` is the number of cells that it may take in addition.
    """

    title: str
    cells: int
    rank: int
    draw: Callable[[Line, int], Cell]
    grows: int = 0
    left: bool = False


PAST = TableColumn("PAST", 6, 7, lambda line, cells: spark(line.past, cells), grows=54)
COLUMNS = (
    TableColumn("TYPE", 4, 8, lambda line, _: [Piece(line.letters)], left=True),
    TableColumn("POWER", 5, 5, lambda line, _: _given(line.watts, "{:.0f}W".format)),
    TableColumn("TEMP", 5, 6, lambda line, _: _given(line.celsius, "{:.0f}°C".format)),
    TableColumn("CORE", 5, 0, core),
    TableColumn("OF ONE GPU", 10, 2, bar, grows=22, left=True),
    TableColumn("LIMIT", 5, 3, core_limit),
    TableColumn("MEM", 5, 1, lambda line, _: _value(line, line.memory, amount)),
    TableColumn("LIMIT", 5, 4, lambda line, _: _given(line.memory.limit, amount, Tone.FAINT)),
    TableColumn("OF LIMIT", 8, 9, memory_bar, grows=8, left=True),
    TableColumn("MBW", 4, 10, _engine(0)),
    TableColumn("ENC", 4, 11, _engine(1)),
    TableColumn("DEC", 4, 12, _engine(2)),
    PAST,
)


class Layout(NamedTuple):
    """The number of cells for the name, and for each column that is shown."""

    name: int
    columns: tuple[tuple[TableColumn, int], ...]


def layout(
    cells: int, longest_name: int = LEAST_NAME, *, past: bool = True, whole_name: int = LEAST_NAME
) -> Layout:
    """The layout of a line of so many cells; ``past``: there is history to show.

    A name of ``whole_name`` cells has room before all columns but the core and the memory.
    """
    # Columns are shown by rank, as long as the name keeps its least width. Room beyond goes to the
    # name, up to the longest, and then to columns that grow, the most important first.
    first = [column for column in COLUMNS if column.rank <= 1]
    kept = max(LEAST_NAME, min(whole_name, cells - _taken(first)))
    shown: list[TableColumn] = []
    wanted = [column for column in COLUMNS if past or column is not PAST]
    for column in sorted(wanted, key=lambda column: column.rank):
        least = max(kept, GOOD_NAME) if column.rank >= EXTRA else kept
        if least + _taken([*shown, column]) > cells:
            break
        shown.append(column)
    room = cells - LEAST_NAME - _taken(shown)
    more = min(max(room, 0), max(longest_name - LEAST_NAME, 0))
    name, room = min(LEAST_NAME, cells) + more, room - more
    extra: dict[str, int] = {}
    for column in sorted(shown, key=lambda column: column.rank):
        extra[column.title] = min(column.grows, max(room, 0)) if column.grows else 0
        room -= extra[column.title]
    columns = (c for c in COLUMNS if c in shown)
    return Layout(name, tuple((column, column.cells + extra[column.title]) for column in columns))


def _taken(columns: Sequence[TableColumn]) -> int:
    return sum(column.cells + 1 for column in columns)


def longest_name(rows: Sequence[ShownLine]) -> int:
    """The number of cells that the longest name takes, with its indentation."""
    lengths = (2 * row.depth + 2 + 2 * bool(row.line.marks) + width(row.line.name) for row in rows)
    return max(lengths, default=0)


def head(of: Layout, names: str = NAMES) -> list[Piece]:
    """The titles. ``names`` is that of the column of names."""
    while len(names) > of.name and " / " in names:  # a level less, not half a word
        names = names.rpartition(" / ")[0]
    pieces = [Piece(fitted(names, of.name), Tone.FAINT)]
    for column, cells in of.columns:
        title = fitted(column.title, cells) if column.left else column.title[:cells].rjust(cells)
        pieces.append(Piece(f" {title}", Tone.FAINT))
    return pieces


def whole(row: ShownLine, of: Layout) -> Iterator[list[Piece]]:
    """One row, on two lines where a name that people copy is longer than its column."""
    name, *figures = line(row, of)
    if row.line.kind is not LineKind.PROCESS and longest_name([row]) > of.name:
        yield line(row, Layout(longest_name([row]), ()))
        name = Piece(" " * of.name)
    yield [name, *figures]


def line(row: ShownLine, of: Layout) -> list[Piece]:
    """One row in the width of the layout."""
    sign = _SHUT if row.hidden else _OPEN if row.line.children else _LEAF
    mark = "! " if row.line.marks else ""
    lead, more = "  " * row.depth + sign + mark, f" +{row.more}" if row.more else ""
    room = max(of.name - len(lead) - len(more), 0)
    # A command says most at its start, other names at both ends.
    middle = row.line.kind is not LineKind.PROCESS
    name = fitted(row.line.name, min(width(row.line.name), room), middle=middle)
    tone = Tone.OVER if row.line.marks else _TONES.get(row.line.kind, Tone.PLAIN)
    pieces = [Piece(fitted(lead + name + more, of.name), Tone.FAINT if row.line.ended else tone)]
    for column, cells in of.columns:
        cell = column.draw(row.line, cells)
        drawn = [Piece(piece.text[:cells], piece.tone) for piece in cell if piece.text]
        blank = Piece(" " * (cells - sum(len(piece.text) for piece in drawn)))
        pieces += [Piece(" "), *([*drawn, blank] if column.left else [blank, *drawn])]
    return pieces


def column_at(of: Layout, cell: int) -> int:
    """The column that a cell of the line is in: -1 is the name, others the place in the layout."""
    ends = of.name
    for at, (_, cells) in enumerate(of.columns):
        if cell < ends:
            return at - 1
        ends += cells + 1
    return len(of.columns) - 1
