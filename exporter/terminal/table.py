"""Lines as text of a given width, with the columns that fit, by rank. Pure."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from exporter.terminal import draw
from exporter.terminal.draw import Cell, Piece, Tone
from exporter.terminal.reading import fitted, width
from exporter.terminal.view import Line, LineKind, ShownLine

NAMES = "GPU / POD / CONTAINER / PROCESS"
LEAST_NAME = 24
GOOD_NAME = 30  # before columns of rank EXTRA take room
EXTRA = 7
_OPEN, _SHUT, _LEAF = "▾ ", "▸ ", "  "
_TONES = {
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


def _plain(drawn: Callable[[Line], Cell]) -> Callable[[Line, int], Cell]:
    return lambda line, _: drawn(line)


def _engine(number: int, line: Line, _: int) -> Cell:
    return draw.engine(line, number)


PAST = TableColumn("PAST", 6, 7, lambda line, cells: draw.spark(line.past, cells), grows=54)
COLUMNS = (
    TableColumn("TYPE", 4, 8, _plain(draw.letters), left=True),
    TableColumn("POWER", 5, 5, _plain(draw.watts)),
    TableColumn("TEMP", 5, 6, _plain(draw.celsius)),
    TableColumn("CORE", 5, 0, _plain(draw.core)),
    TableColumn("OF ONE GPU", 10, 2, draw.bar, grows=22, left=True),
    TableColumn("LIMIT", 5, 3, _plain(draw.core_limit)),
    TableColumn("MEM", 5, 1, _plain(draw.memory)),
    TableColumn("LIMIT", 5, 4, _plain(draw.memory_limit)),
    TableColumn("OF LIMIT", 8, 9, draw.memory_bar, grows=8, left=True),
    TableColumn("MBW", 4, 10, partial(_engine, 0)),
    TableColumn("ENC", 4, 11, partial(_engine, 1)),
    TableColumn("DEC", 4, 12, partial(_engine, 2)),
    PAST,
)


class Layout(NamedTuple):
    """The number of cells for the name, and for each column that is shown."""

    name: int
    columns: tuple[tuple[TableColumn, int], ...]


def layout(cells: int, longest_name: int = LEAST_NAME, *, past: bool = True) -> Layout:
    """The layout of a line of so many cells; ``past``: there is history to show."""
    shown: list[TableColumn] = []
    wanted = [column for column in COLUMNS if past or column is not PAST]
    for column in sorted(wanted, key=lambda column: column.rank):
        least = GOOD_NAME if column.rank >= EXTRA else LEAST_NAME
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


def line(row: ShownLine, of: Layout) -> list[Piece]:
    """One row in the width of the layout."""
    sign = _SHUT if row.hidden else _OPEN if row.line.children else _LEAF
    mark = "! " if row.line.marks else ""
    lead, more = "  " * row.depth + sign + mark, f" +{row.more}" if row.more else ""
    room = max(of.name - len(lead) - len(more), 0)
    whole = row.line.kind is LineKind.PROCESS  # a command says most at its start
    name = fitted(row.line.name, min(width(row.line.name), room), middle=not whole)
    tone = Tone.OVER if row.line.marks else _TONES.get(row.line.kind, Tone.PLAIN)
    pieces = [Piece(fitted(lead + name + more, of.name), Tone.FAINT if row.line.ended else tone)]
    for column, cells in of.columns:
        pieces.append(Piece(" "))
        pieces += _aligned(column.draw(row.line, cells), cells, left=column.left)
    return pieces


def _aligned(cell: Cell, cells: int, *, left: bool) -> list[Piece]:
    drawn = [Piece(piece.text[:cells], piece.tone) for piece in cell if piece.text]
    blank = Piece(" " * (cells - sum(len(piece.text) for piece in drawn)))
    return [*drawn, blank] if left else [blank, *drawn]


def column_at(of: Layout, cell: int) -> int:
    """The column that a cell of the line is in: -1 is the name, others the number in the layout."""
    ends = of.name
    for number, (_, cells) in enumerate(of.columns):
        if cell < ends:
            return number - 1
        ends += cells + 1
    return len(of.columns) - 1
