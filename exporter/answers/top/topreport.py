"""An overview as a table that is printed once. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from exporter.answers.reading.feeds.overview import (
    Arrangement,
    Figure,
    Line,
    LineKind,
    Overview,
    SortKey,
    rows,
)
from exporter.answers.top import linetable
from exporter.answers.top.linetable import Piece, Tone
from exporter.model import Unmeasured
from exporter.shown.printable import utc, wrapped
from exporter.shown.reasonwords import UNMEASURED
from exporter.shown.words import narrow_memory, plural

WIDE = 120  # used if the output is not a terminal
NARROW = 40
_COLOURS = {
    Tone.STRONG: "\x1b[1m",
    Tone.FAINT: "\x1b[2m",
    Tone.CALM: "\x1b[32m",
    Tone.NEAR: "\x1b[33m",
    Tone.OVER: "\x1b[1;31m",
    Tone.UNKNOWN: "\x1b[35m",
}
_END = "\x1b[0m"
_NO_REASON = "There is no figure, or none yet, and no reason for that."


def report(view: Overview, width: int | None, *, coloured: bool, is_part: bool = False) -> str:
    """Title, troubles, table, and the reason for each question mark; a part has no title."""
    by = SortKey.CORE if view.is_fleet else SortKey.NAME
    shown = rows(view.lines, Arrangement(by, deepest=4))
    cells = max(width or WIDE, NARROW)
    past = any(len(row.line.past) > 1 for row in shown)
    copied = [row for row in shown if row.line.kind is not LineKind.PROCESS]
    whole, longest = linetable.longest_name(copied), linetable.longest_name(shown)
    layout = linetable.layout(cells, longest, past=past, whole_name=whole)

    def said(text: str, tone: Tone = Tone.PLAIN) -> list[list[Piece]]:
        return [[Piece(line, tone)] for line in wrapped(text, width).split("\n")]

    lines = [] if is_part else [*said(title(view), Tone.STRONG), *said(sums(view))]
    lines += [line for trouble in view.troubles for line in said(f"! {trouble}", Tone.OVER)]
    lines += [
        [],
        linetable.head(layout, names_of(view)),
        *(line for row in shown for line in linetable.whole(row, layout)),
    ]
    lines += [] if shown else said(nothing(view), Tone.UNKNOWN)
    named = [one for line in view.lines for one in _named(line)]
    marks = [f"! {name}: {mark.kind}: {mark.detail}" for line, name in named for mark in line.marks]
    lines += [[], *(line for mark in marks for line in said(mark, Tone.OVER))] if marks else []
    if unknown := _unknown_by_reason(named):
        lines += [[], *said("? is not known:", Tone.UNKNOWN)]
        for why, figures in unknown.items():
            reason = UNMEASURED[Unmeasured(why)] if why in set(Unmeasured) else _NO_REASON
            lines += said("\n    ".join([f"  {why}: {reason}", *figures]), Tone.UNKNOWN)
    colours = _COLOURS if coloured else {}
    coded = (
        "".join(f"{colours[p.tone]}{p.text}{_END}" if p.tone in colours else p.text for p in line)
        for line in lines
    )
    return "".join(f"{line.rstrip()}\n" for line in coded)


def title(view: Overview, *state: str, short: bool = False) -> str:
    """The title: the source, the state of the table, the time of the figures, the owners."""
    simulated = "SIMULATED" if short else "SIMULATED: nothing here is measured"
    counts = [plural(view.pods, "pod")] if view.pods else []
    counts += [plural(count, noun) for noun, count in view.groups.items()]
    owners = ", ".join(counts)
    parts = (
        view.source,
        view.simulated and simulated,
        *state,
        view.unix_s and utc(view.unix_s, "%H:%M:%S UTC"),
        owners,
    )
    return " · ".join(part for part in parts if part)


def nothing(view: Overview) -> str:
    """What is said if there is no line."""
    if view.namespace:
        return f"no pod of namespace {view.namespace} with a GPU is known"
    return "no GPU is known"


def names_of(view: Overview) -> str:
    """The title of the column of names: what the levels of lines are."""
    if not view.without_pods:
        return linetable.NAMES_OF_FLEET if view.is_fleet else linetable.NAMES
    nouns = list(view.groups)
    owner = nouns[0] if len(nouns) == 1 else "owner"
    return f"GPU / {owner.upper()} / PROCESS"


def sums(view: Overview) -> str:
    """The node's sums, or those of all nodes; of one namespace, those of its pods."""
    of = view.totals
    if not (of.gpus or of.lost):
        return f"{view.namespace}: on no GPU that is known" if view.namespace else "no GPU"
    memory = "" if of.memory_total is None else f" of {narrow_memory(of.memory_total)}"
    unknown = of.lost + of.unmeasured
    without = f" ({unknown} unknown)" if unknown else ""
    core = "?" if of.core is None else f"{of.core:.2f}"
    parts = (
        f"{view.namespace}: core {core} on {plural(of.gpus, 'GPU')}{without}"
        if view.namespace
        else f"core {core} of {plural(of.gpus + of.lost, 'GPU')}{without}",
        f"memory {'?' if of.memory is None else narrow_memory(of.memory)}{memory}",
        "" if of.watts is None else f"{of.watts:.0f} W",
        "" if of.unattributed is None else f"unattributed {of.unattributed:.2f}",
    )
    return " · ".join(part for part in parts if part)


def _named(line: Line, above: str = "") -> Iterator[tuple[Line, str]]:
    """A line and all below it, each with its name behind the names of those above it."""
    name = f"{above} {line.name}".lstrip()
    yield line, name
    for child in line.children:
        yield from _named(child, name)


def _unknown_by_reason(named: Iterable[tuple[Line, str]]) -> Mapping[str, Sequence[str]]:
    """The unknown figures, by reason."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line, name in named:
        # Of a pod, its containers say the same.
        kinds = {child.kind for child in line.children}
        if line.kind is not LineKind.POD or LineKind.CONTAINER not in kinds:
            for quantity, figure in (("core", line.core), ("memory", line.memory)):
                if is_unknown(figure):
                    found[figure.why].append(f"{quantity} of {name}")
    return found


def is_unknown(figure: Figure) -> bool:
    """Whether a value is missing that should be there."""
    return figure.value is None and bool(figure.why)
