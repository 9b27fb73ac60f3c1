"""The live view of ``top``: keys, the screen, and a thread that reads the feed.

What is shown is decided in ``nodelines``, ``fleetlines``, ``overview`` and ``linetable``, which are
pure. No text is given to textual as markup.
"""

import threading
from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from exporter.answers.reading.feeds import Feed, GuidedFeed, Recollection, view_of
from exporter.answers.reading.feeds.details import joined, marked
from exporter.answers.reading.feeds.fleetlines import Look
from exporter.answers.reading.feeds.overview import Line, Overview, SortKey, path
from exporter.answers.top.linetable import Piece, Tone
from exporter.answers.top.linetree import CSS, STYLES, LineTree
from exporter.answers.top.topreport import names_of, nothing, sums, title
from exporter.httpclient import NoAnswerError
from exporter.shown.printable import clean

FILTER = "part of a name; Enter keeps it, Escape drops it"
KEYS = "jk move  ←→ fold  s sort  r reverse  / filter  a all  z freeze  ? help  q quit"
LOW_ROWS = 30  # in a terminal of fewer rows, details take one
HELP = """\
j k ↑ ↓ PgUp PgDn  move                g G  first line, last line
← → Space Enter    fold, unfold (a pod's processes are folded)
1 2 3 4    down to GPUs, pods (jobs), containers, processes
a          all lines, or as many as fit: +2 after a GPU's name
           means that two lines of least use are left out
s          sort by the next: name, core, memory, share of limit,
           process id; n c m l p  choose one, again: reversed
r          reverse the order           z    freeze the figures
/          filter by part of a name, user or command
Esc        no filter                   q    quit

CORE       time in use, of one whole GPU; without %: in whole GPUs
OF ONE GPU the same as a bar; ┃ end of the allocation, ▓ beyond it
LIMIT      the allocation, core and memory; 10%+ may use more where
           it is free; for a GPU: the sum of allocated core
MEM        device memory held; OF LIMIT: its part of the allocation
POWER TEMP of a GPU, in watts and degrees Celsius
MBW        time with memory traffic; ENC, DEC: en- and decoder
PAST       core of the last minutes, newest at the right; · unknown
TYPE       as in nvidia-smi: C computes, G draws, M+C is of MPS

?          not known, never 0; the bar and the last lines say why
!          before a name: something is wrong with it, said in the
           last lines: lost, throttled, over its share, …
Use without an owner comes last under each GPU, with its reason,
after one line for all that has ended."""


class Help(ModalScreen[None]):
    """The help. Each of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,h,f1,enter", "dismiss", "close"),
        Binding("j", "scroll(1)", "down"),
        Binding("k", "scroll(-1)", "up"),
        Binding("space", "scroll(10)", "a page down"),
    ]

    def compose(self) -> ComposeResult:
        """One box of text."""
        with VerticalScroll(id="help"):
            yield Static(Text(HELP), markup=False)

    def on_mount(self) -> None:
        """The arrows scroll the box, which says so on its frame."""
        box = self.query_one("#help")
        box.border_subtitle = "↑ ↓ scroll, q closes"
        box.focus()

    def action_scroll(self, rows: int) -> None:
        """Moves the text by so many rows."""
        self.query_one("#help").scroll_relative(y=rows, animate=False)


class Top(App[None]):
    """The screen. ``every_s``: the pause between two reads of the feed."""

    CSS = CSS
    TITLE = "mgpu-exporter top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),  # of the filter's line it is "copy"
        Binding("n", "sort('name')", "sort by name"),
        Binding("c", "sort('core')", "sort by core"),
        Binding("m", "sort('memory')", "sort by memory"),
        Binding("l", "sort('share of limit')", "sort by share of the limit"),
        Binding("s", "next_sort", "sort by the next column"),
        Binding("a", "all", "all lines, or as many as fit"),
        Binding("p", "sort('pid')", "sort by process id"),
        Binding("r", "reverse", "reverse"),
        # Before others, and at once: a key that is typed right behind it is text of the filter.
        Binding("slash", "filter", "filter", priority=True),
        Binding("escape", "unfilter", "no filter"),
        Binding("z", "freeze", "freeze"),
        Binding("question_mark,h,f1", "help", "help"),
        *(Binding(str(depth), f"depth({depth})", f"depth {depth}") for depth in range(1, 5)),
    ]

    def __init__(self, feed: Feed, every_s: float) -> None:
        super().__init__()
        self._feed = feed
        self._every_s = every_s
        self._recollection = Recollection()
        self._stop = threading.Event()
        self._wake = threading.Event()  # something else is to be read, or nothing any more
        self._look = Look()
        self._frozen = False
        self._shown = Overview(feed.name)
        self._problem = ""
        self._title = Static(id="title", markup=False)
        self._sums = Static(id="sums", markup=False)
        self._troubles = Static(id="troubles", markup=False)
        self._head = Static(id="head", markup=False)
        self._tree = LineTree(id="tree")
        self._details = Static(id="details", markup=False)
        self._filter = Input(id="filter", placeholder=FILTER)

    def compose(self) -> ComposeResult:
        """The parts of the screen: title, sums, troubles, table, details of the line, keys."""
        yield from (self._title, self._sums, self._troubles, self._head, self._tree)
        with Vertical(id="below"):
            yield from (self._details, self._filter, Static(KEYS, id="keys", markup=False))

    def on_mount(self) -> None:
        """Begins to read the feed."""
        self._filter.display = False
        self._tree.focus()
        self._show_status()
        threading.Thread(target=self._read, name="feed", daemon=True).start()

    def on_unmount(self) -> None:
        """Stops reading the feed."""
        self._stop.set()
        self._wake.set()

    @property
    def lines_shown(self) -> bool:
        """Whether any line is shown: not before the first read."""
        return bool(self._shown.lines)

    # --- the reading thread ---

    def _read(self) -> None:
        while not self._stop.is_set():
            view, problem = None, ""
            try:
                view = view_of(self._recollection.add_to(self._feed.read()), self._feed.name)
            except NoAnswerError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - a reader that ends would freeze the screen
                problem = f"unexpected: {error!r}"
            if self._stop.is_set():
                return
            try:
                self.call_from_thread(self.show, view, problem)
            except RuntimeError:  # the screen is closed
                return
            self._wake.wait(self._every_s)
            self._wake.clear()

    # --- what is shown ---

    def show(self, view: Overview | None, problem: str = "") -> None:
        """Shows a view; None keeps the last one. The problem is shown in any case."""
        self._problem = problem
        if view is not None and not self._frozen:
            if view.is_fleet and not self._shown.is_fleet:
                self._arrange_by(SortKey.CORE)
            self._shown = view
            self._tree.show(view.lines)
        self._show_status()

    def _show_status(self) -> None:
        """Everything around the table."""
        arranged = self._tree.arrangement
        state = (
            "FROZEN (z to continue)" if self._frozen else "",
            f"filter {arranged.needle!r}" if arranged.needle else "",
            f"by {arranged.by}{' reversed' if arranged.reverse else ''}",
        )
        self._title.update(_one_row([Piece(title(self._shown, *state, short=True))]))
        self._sums.update(_one_row([Piece(sums(self._shown))]))
        troubles = (*((self._problem,) if self._problem else ()), *self._shown.troubles)
        self._troubles.display = bool(troubles)
        said = "".join(f"! {clean(trouble, longest=None)}\n" for trouble in troubles)
        self._troubles.update(Text(said.rstrip("\n")))
        self._head.update(_one_row(self._tree.head(names_of(self._shown))))
        self._show_details(self._tree.selected)

    def _show_details(self, line: Line | None) -> None:
        """Shows the details of a line, or why there is no line."""
        details = Text()
        if line is None:
            details.append("no match for the filter" if self._shown.lines else nothing(self._shown))
        else:
            details.append(f"{line.kind} {path(line)}", STYLES[Tone.STRONG])
            details.append("  " if self._is_low else "\n")
            details.append(joined((*marked(line.marks), *line.details)))
        self._details.update(details)

    @property
    def _is_low(self) -> bool:
        return self.size.height < LOW_ROWS

    def on_resize(self) -> None:
        """Gives the details less room in a low terminal."""
        self.screen.set_class(self._is_low, "low")

    def on_line_tree_selected(self, event: LineTree.Selected) -> None:
        """Shows the details of the line that now has the cursor."""
        self._show_details(event.line)

    def on_line_tree_arranged(self) -> None:
        """Shows the new layout or order around the table; of a fleet other rows may be wanted."""
        self._show_status()
        if isinstance(self._feed, GuidedFeed):
            now, height = self._tree.arrangement, self._tree.size.height
            look = Look(max(height, LOW_ROWS), not now.fits, now.opened, now.needle, now.by)
            if look != self._look:
                self._look = look
                self._feed.look(look)
                self._wake.set()

    def on_click(self, event: events.Click) -> None:
        """Sorts by the column whose title was clicked."""
        if event.widget is not None and event.widget.id == "head":
            self._arrange_by(self._tree.title_at(event.x))

    # --- keys ---

    def action_sort(self, by: str) -> None:
        """Sorts; the same key again reverses the order."""
        self._arrange_by(SortKey(by))

    def _arrange_by(self, by: SortKey | None) -> None:
        if by is not None:
            arranged = self._tree.arrangement
            again = by is arranged.by
            self._tree.rearrange(arranged._replace(by=by, reverse=again and not arranged.reverse))

    def action_next_sort(self) -> None:
        """Sorts by the next of the sort keys."""
        keys, arranged = list(SortKey), self._tree.arrangement
        by = keys[(keys.index(arranged.by) + 1) % len(keys)]
        self._tree.rearrange(arranged._replace(by=by, reverse=False))

    def action_all(self) -> None:
        """Shows all lines, or as many as fit."""
        arranged = self._tree.arrangement
        self._tree.rearrange(arranged._replace(fits=not arranged.fits))

    def action_reverse(self) -> None:
        """Reverses the order."""
        arranged = self._tree.arrangement
        self._tree.rearrange(arranged._replace(reverse=not arranged.reverse))

    def action_depth(self, deepest: int) -> None:
        """Shows all lines of so many levels, and unfolds what was folded by hand."""
        unfolded = self._tree.arrangement._replace(folded=frozenset(), opened=frozenset())
        self._tree.rearrange(unfolded._replace(deepest=deepest, fits=False))

    def action_freeze(self) -> None:
        """Freezes the figures, or continues."""
        self._frozen = not self._frozen
        self._show_status()

    def action_help(self) -> None:
        """Shows the help."""
        self.push_screen(Help())

    def action_filter(self) -> None:
        """Opens the filter."""
        if isinstance(self.screen, ModalScreen):
            return
        if self.focused is self._filter:
            # In its place among the keys that wait there.
            self._filter.post_message(events.Key("slash", "/"))
            return
        self._filter.display = True
        self.screen.set_focus(self._filter)

    def action_unfilter(self) -> None:
        """Removes the filter."""
        self._filter.value = ""
        self._leave_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters while text is typed."""
        self._tree.rearrange(self._tree.arrangement._replace(needle=event.value))

    def on_input_submitted(self) -> None:
        """Closes the filter's line and keeps the filter."""
        self._leave_filter()

    def _leave_filter(self) -> None:
        self._filter.display = False
        self._tree.focus()


def _one_row(pieces: Iterable[Piece]) -> Text:
    """Pieces of text in one row, which is cut off at the right."""
    drawn = Text(no_wrap=True, overflow="ellipsis")
    for piece in pieces:
        drawn.append(clean(piece.text, longest=None), STYLES[piece.tone])
    return drawn
