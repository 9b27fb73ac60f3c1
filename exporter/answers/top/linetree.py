"""The table as a widget, and its colours. Only the visible rows are drawn."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from exporter.answers.reading.feeds.overview import Arrangement, Key, Line, ShownLine, SortKey, rows
from exporter.answers.top import linetable
from exporter.answers.top.linetable import Piece, Tone

STYLES = {
    Tone.PLAIN: Style(),
    Tone.STRONG: Style(bold=True, color="#f2f4f8"),
    Tone.FAINT: Style(color="#8b93a1"),
    Tone.CALM: Style(color="#5fc08b"),
    Tone.NEAR: Style(color="#e2b34c"),
    Tone.OVER: Style(color="#ff6b6b", bold=True),
    Tone.UNKNOWN: Style(color="#c49bff"),
}

CSS = """
Screen { background: #14171c; color: #d5d9e0; layout: vertical; }
#sums { background: #1b2028; color: #d5d9e0; padding: 0 1; height: 1; }
#title { background: #23303d; color: #f2f4f8; text-style: bold; padding: 0 1; height: 1; }
#troubles { color: #ff8585; padding: 0 1; max-height: 3; }
#head { height: 1; padding: 0 1; background: #1b2028; }
#tree { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; scrollbar-color: #3c4657;
  scrollbar-background: #14171c; }
#below { height: auto; dock: bottom; }
#details { background: #1b2028; padding: 0 1; height: auto; min-height: 3; max-height: 4; }
.low #details { min-height: 1; max-height: 1; }
#filter { height: 1; border: none; padding: 0 1; background: #23303d; }
#keys { color: #8b93a1; padding: 0 1; height: 1; }
Help { align: center middle; background: #14171c 60%; }
#help { width: 72; max-width: 100%; height: auto; max-height: 100%; background: #1b2028;
  scrollbar-size-vertical: 1; border: round #3c4657; padding: 0 1; }
"""

_CURSOR = Style(bgcolor="#2d3a4a", bold=True)
_SORTS = {"name": SortKey.NAME, "CORE": SortKey.CORE, "OF ONE GPU": SortKey.CORE}
_SORTS |= {"MEM": SortKey.MEMORY, "OF LIMIT": SortKey.SHARE, "LIMIT": SortKey.SHARE}


class LineTree(ScrollView, can_focus=True):
    """Lines with a cursor, which stays on its line when other lines come and go."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up"),
        Binding("down,j", "move(1)", "down"),
        Binding("pageup", "page(-1)", "page up"),
        Binding("pagedown", "page(1)", "page down"),
        Binding("home,g", "move(-1000000)", "to the top"),
        Binding("end,G", "move(1000000)", "to the end"),
        Binding("left", "fold", "fold"),
        Binding("right,plus", "unfold", "unfold"),
        Binding("enter,space", "fold_or_unfold", "fold or unfold"),
    ]

    class Selected(Message):
        """The cursor is on another line, or its line has changed."""

        def __init__(self, line: Line | None) -> None:
            super().__init__()
            self.line = line

    class Arranged(Message):
        """The arrangement or the layout has changed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name for it
        super().__init__(id=id)
        self.arrangement = Arrangement(fits=True)
        self._all: tuple[Line, ...] = ()
        self._shown: list[ShownLine] = []
        self._cursor = 0
        self._columns = linetable.layout(80)

    @property
    def selected(self) -> Line | None:
        """The line that has the cursor."""
        return self._shown[self._cursor].line if self._shown else None

    def show(self, lines: tuple[Line, ...]) -> None:
        """Shows other lines. The cursor stays on its line if that is still there."""
        self._all = lines
        self._refill()

    def rearrange(self, arrangement: Arrangement) -> None:
        """Shows the same lines in another arrangement."""
        self.arrangement = arrangement
        self._refill()
        self.post_message(self.Arranged())

    def head(self, names: str) -> list[Piece]:
        """The columns' titles. ``names`` is that of the column of names."""
        return linetable.head(self._columns, names)

    def title_at(self, cell: int) -> SortKey | None:
        """The sort key of the title at a cell; None if that column does not sort."""
        at = linetable.column_at(self._columns, cell - self.styles.padding.left)
        title = "name" if at < 0 else self._columns.columns[at][0].title
        return _SORTS.get(title)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        at = y + self.scroll_offset.y
        cells = self.scrollable_content_region.width
        if at >= len(self._shown):
            return Strip.blank(cells, self.rich_style)
        pieces = linetable.line(self._shown[at], self._columns)
        strip = Strip([Segment(piece.text, STYLES[piece.tone]) for piece in pieces])
        under = self.rich_style + _CURSOR if at == self._cursor else self.rich_style
        return strip.adjust_cell_length(cells).apply_style(under)

    # --- inside ---

    def _refill(self) -> None:
        before = self.selected.key if self.selected else ()
        self._shown = rows(self._all, self.arrangement, self.scrollable_content_region.height)
        cells = max((self.scrollable_content_region.width or self.size.width) - 1, 1)
        self._columns = linetable.layout(cells, linetable.longest_name(self._shown))
        self._cursor = self._place_of(before)
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._shown))
        self._reveal()
        self.refresh()
        self.post_message(self.Selected(self.selected))

    def _place_of(self, key: Key) -> int:
        """The place of a line, or of its nearest remaining parent, or the same place."""
        places = {row.line.key: at for at, row in enumerate(self._shown)}
        while key:
            if key in places:
                return places[key]
            key = key[:-1]
        return min(self._cursor, max(len(self._shown) - 1, 0))

    def on_resize(self, _: events.Resize) -> None:
        """Lays the columns out again."""
        self._refill()
        self.post_message(self.Arranged())

    def _reveal(self) -> None:
        region = Region(0, self._cursor, 1, 1)
        self.scroll_to_region(region, animate=False, force=True, x_axis=False)

    def _move_to(self, at: int) -> None:
        self._cursor = min(max(at, 0), max(len(self._shown) - 1, 0))
        self._reveal()
        self.refresh()
        self.post_message(self.Selected(self.selected))

    # --- keys and the mouse ---

    def action_move(self, by: int) -> None:
        """Moves the cursor down by so many rows."""
        self._move_to(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Moves the cursor down by so many screens."""
        self._move_to(self._cursor + by * max(self.scrollable_content_region.height - 1, 1))

    def action_fold(self) -> None:
        """Folds the line. If it is folded or has no children, moves the cursor to its parent."""
        line, now = self.selected, self.arrangement
        if line is None:
            return
        if line.children and not self._shown[self._cursor].hidden:
            key = {line.key}
            self.rearrange(now._replace(folded=now.folded | key, opened=now.opened - key))
            return
        depth = self._shown[self._cursor].depth
        above = (at for at in range(self._cursor, -1, -1) if self._shown[at].depth < depth)
        self._move_to(next(above, self._cursor))

    def action_unfold(self) -> None:
        """Shows the line's children."""
        line, now = self.selected, self.arrangement
        if line is not None and self._shown[self._cursor].hidden:
            key = {line.key}
            self.rearrange(now._replace(folded=now.folded - key, opened=now.opened | key))

    def action_fold_or_unfold(self) -> None:
        """Folds or unfolds the line."""
        if self._shown and self._shown[self._cursor].hidden:
            self.action_unfold()
        elif self.selected and self.selected.children:
            self.action_fold()

    def on_click(self, event: events.Click) -> None:
        """Moves the cursor there. On the sign before a name, folds or unfolds the line."""
        self.focus()
        at = event.y + self.scroll_offset.y
        if at < len(self._shown):
            self._move_to(at)
            sign = 2 * self._shown[at].depth + self.styles.padding.left
            if sign <= event.x < sign + 2:
                self.action_fold_or_unfold()
