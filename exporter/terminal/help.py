"""Keys and columns, explained."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

HELP = """\
↑ ↓ PgUp PgDn Home End  move           ← → Space  fold, unfold
1 2 3 4    down to GPUs, pods, containers, processes
n c m s p  sort by name, core, memory, share of limit, process id
           (the same again: reversed)  r    reverse
/          filter by part of a name    Esc  no filter
z          let the figures stand       q    quit

CORE       time in use, of one whole GPU, averaged over seconds
OF ONE GPU the same as a bar; ┃ the allotment ends, ▓ is beyond it
LIMIT      what was allotted, core and memory; of a GPU: allotted in
           all, and its memory
MEM        device memory held; OF LIMIT: its part of the allotment
MBW        time with memory traffic; ENC, DEC: en- and decoder
PAST       core of the last minutes, newest at the right; · unknown
TYPE       as of nvidia-smi: C computes, G draws, M+C is of MPS

?          not known, never 0; the bar and the last lines say why.
What nobody can be named for stands last in a GPU, by its reason."""


class Help(ModalScreen[None]):
    """Goes away with any of its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,h,f1,enter,space", "dismiss", "close")
    ]

    def compose(self) -> ComposeResult:
        """One box of text."""
        with VerticalScroll(id="help"):
            yield Static(Text(HELP), markup=False)
