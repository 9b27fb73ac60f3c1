"""The page of one Snapshot: what it shows to one reader, as values for its template."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from exporter.agent.facts.history import Past
from exporter.agent.fairness import in_turn
from exporter.agent.hostuse import HostUse
from exporter.agent.web.page.cards import (
    Board,
    Card,
    Gpu,
    boards_of,
    card_name,
    card_of,
    is_faulty,
    ordered,
    owned,
    tenants_by_device,
    whole_core,
)
from exporter.agent.web.page.cells import POINTS
from exporter.agent.web.page.charts import of_device, of_entry
from exporter.agent.web.page.choice import SORTS, Choice, device_text, has_all, in_order, matches
from exporter.agent.web.page.entries import Colours, TreeEntry, colours, entries, series_of
from exporter.agent.web.page.glossary import Meaning, explanations, meanings
from exporter.agent.web.page.lines import PageLine, line_of
from exporter.agent.web.page.nodepage import ShownNode
from exporter.agent.web.page.templates import written
from exporter.model import SourceStatus, cards_of, counted_in_sums, sum_of_known
from exporter.shown.kinds import count_nouns
from exporter.shown.marks import Earlier, Mark, device_marks
from exporter.shown.reasonwords import what_to_do
from exporter.shown.words import NBSP, joined, memory, page_plural

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
NOTHING_EARLIER: Mapping[str, Earlier] = MappingProxyType({})
GPUS_SHOWN = 24
ENTRIES_SHOWN = 60
LOST_NAMED = 8  # in the banner

F = TypeVar("F")
T = TypeVar("T")


class OwnerNames(NamedTuple):
    """The titles that depend on the kinds of owners.

    ``owner`` heads the tables of cards, ``head`` and ``title`` the tree; ``counts`` are sums.
    """

    owner: str
    head: str
    title: str
    counts: tuple[tuple[str, int], ...]


class NodeSum(NamedTuple):
    """A sum of the node, with what it is of."""

    name: str
    figure: str
    of: str = ""

    @property
    def word(self) -> str:
        """The word of the glossary that its name begins with; "" if there is none."""
        first = self.name.partition(" ")[0].lower()
        return first if first in meanings() else ""


class Some(NamedTuple, Generic[T]):
    """The first of a list, with the number of those that match and of all."""

    shown: Sequence[T]
    matching: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the page shows: sources with advice, cards, and lines.

    ``lost`` are the UUIDs and names of the GPUs and their parts that cannot be read, ``lost_cards``
    how many GPUs these are. ``ended`` are the lines of what is there no more.
    """

    node: ShownNode
    choice: Choice
    age_s: float
    names: OwnerNames
    sums: Sequence[NodeSum]
    sources: Sequence[tuple[SourceStatus, str]]
    sources_down: int
    has_allocations: bool
    may_borrow: bool
    lost: Sequence[tuple[str, str]]
    lost_cards: int
    cards: Some[Card]
    lines: Some[PageLine]
    ended: Some[PageLine]
    meanings: Sequence[Meaning]


def page(
    node: ShownNode,
    choice: Choice,
    age_s: float,
    metrics_path: str,
    earlier: Mapping[str, Earlier] = NOTHING_EARLIER,
    host: Callable[[Mapping[int, str]], Mapping[int, HostUse]] = lambda _: {},
) -> str:
    """The page as HTML. Links are relative, so that a proxy may serve it under any path.

    ``age_s`` is the age of the snapshot in seconds. ``earlier`` are the devices at an earlier
    moment, by UUID: what was throttled shows in between. ``host`` reads what processes use of their
    host, by their names by pid.
    """
    return written(
        "page",
        page=_shown(node, choice, age_s, earlier, host),
        metrics=metrics_path.lstrip("/"),
        sorts=SORTS,
        lost_named=LOST_NAMED,
    )


def _shown(
    node: ShownNode,
    choice: Choice,
    age_s: float,
    earlier: Mapping[str, Earlier],
    host: Callable[[Mapping[int, str]], Mapping[int, HostUse]],
) -> Shown:
    everyone = entries(node.tree, off_kubernetes=node.is_off_kubernetes)
    there = [entry for entry in everyone if not entry.ended]
    colour, series = colours(everyone), Past(node.history, POINTS)
    names, gpus = names_of(node, there), _gpus(node, everyone, colour, series)
    marks = {
        g.facts.uuid: device_marks(g.facts, node.unix_ns, earlier.get(g.facts.uuid)) for g in gpus
    }
    texts = {gpu.facts.uuid: device_text(gpu.facts) for gpu in gpus}
    matching = in_order((each for each in everyone if matches(each, choice.words, texts)), choice)
    present, gone = ([e for e in matching if e.ended is ended] for ended in (False, True))
    # The use of the host is read of some processes: in turn one of each namespace or kind.
    used = [(e.space, each) for e in present for part in e.parts for each in part.processes]
    of_host = host({process.pid: process.name for _, process in in_turn(used, itemgetter(0))})
    boards = boards_of(gpus)
    theirs = {part.uuid for entry in matching for part in entry.parts}
    found = _found(boards, theirs, texts, marks, choice)

    def card(gpu: Gpu, parts: Sequence[Card] = (), *, inside: bool = False) -> Card:
        facts, uuid = gpu.facts, gpu.facts.uuid
        is_open = choice.hour == f"gpu-{uuid}"
        hour = of_device(facts, whole_core(facts), node.history, owned(gpu)) if is_open else None
        return card_of(gpu, marks[uuid], hour, names.owner, parts, inside=inside)

    def card_of_board(board: Board) -> Card:
        return card(board.gpu, [card(part, inside=True) for part in board.parts])

    def line(entry: TreeEntry) -> PageLine:
        hour = of_entry(entry, node.history) if choice.hour == entry.key else None
        return line_of(entry, colour, series, node.unix_ns, hour, of_host)

    def some(listed: Sequence[F], most: int, of: int, view: Callable[[F], T]) -> Some[T]:
        """The views of so many of a list, or of all if the reader asked for them."""
        shown = listed if choice.all else listed[:most]
        return Some([view(each) for each in shown], len(listed), of)

    return Shown(
        node=node,
        choice=choice,
        age_s=age_s,
        names=names,
        sums=_sums(gpus, everyone, names),
        sources=[(source, what_to_do(source)) for source in node.sources],
        sources_down=sum(not source.up for source in node.sources),
        may_borrow=any(entry.figures.may_borrow for entry in there),
        has_allocations=any(gpu.facts.allocated.core is not None for gpu in gpus),
        lost=[(facts.uuid, card_name(facts)) for facts in node.unread],
        lost_cards=len(cards_of(node.unread)),
        cards=some(found, GPUS_SHOWN, len(boards), card_of_board),
        lines=some(present, ENTRIES_SHOWN, len(there), line),
        ended=some(gone, ENTRIES_SHOWN, len(gone), line),
        meanings=explanations(node.tree.devices),
    )


def _gpus(
    node: ShownNode, everyone: Sequence[TreeEntry], colour: Colours, series: Past
) -> list[Gpu]:
    tenants = tenants_by_device(everyone, colour)
    return [
        Gpu(
            facts,
            tenants.get(facts.uuid, ()),
            entry.ended_core or 0.0,
            entry.unattributed,
            series.get(series_of(facts), {}),
        )
        for facts, entry in node.devices
    ]


def _found(
    boards: Sequence[Board],
    theirs: Collection[str],
    texts: Mapping[str, str],
    marks: Mapping[str, Sequence[Mark]],
    choice: Choice,
) -> list[Board]:
    """The boards that have what is looked for, those that are shown first.

    A board has those of its parts that have it, or all of them if only the board itself does.
    ``theirs`` are the devices of the owners that were found.
    """
    faulty = {uuid for uuid, its in marks.items() if any(mark.is_severe for mark in its)}
    # The filter finds a GPU by its owners, its own text and the text of its marks.
    matches_on = {*theirs}
    for uuid, its in marks.items():
        if has_all("\n".join((texts[uuid], *(mark.kind for mark in its))), choice.words):
            matches_on.add(uuid)
    found = []
    for board in ordered(boards, choice.sort, faulty):
        some = [part for part in board.parts if part.facts.uuid in matches_on]
        if some or board.gpu.facts.uuid in matches_on:
            found.append(board._replace(parts=some or board.parts))
    if choice.sort or choice.all:
        return found
    # A long list is cut, but none that is faulty: whoever looks at the page looks for those.
    kept = sorted(found, key=lambda board: not is_faulty(board, faulty))[:GPUS_SHOWN]
    return [*(b for b in found if b in kept), *(b for b in found if b not in kept)]


def names_of(node: ShownNode, there: Sequence[TreeEntry]) -> OwnerNames:
    """The names for this node and what is there."""
    if not node.is_off_kubernetes:
        pods = sum(entry.kind == "pod" for entry in there)
        return OwnerNames("Container", "Pod", "Pods and processes", (("Pods", pods),))
    counts = count_nouns(entry.space for entry in there if entry.kind == "group")
    if not counts:
        return OwnerNames("Owner", "Owner", "Processes", ())
    head = next(iter(counts)).capitalize() if len(counts) == 1 else "Owner"
    nouns = joined([f"{noun}s" for noun in counts])
    sums = tuple((f"{noun.capitalize()}s", count) for noun, count in counts.items())
    return OwnerNames(head, head, f"{nouns.capitalize()}, with processes", sums)


def _sums(gpus: Sequence[Gpu], everyone: Sequence[TreeEntry], names: OwnerNames) -> list[NodeSum]:
    up = [gpu.facts for gpu in gpus if gpu.facts.is_up]
    boards = counted_in_sums([gpu.facts for gpu in gpus])
    measured = cards_of(facts for facts in up if facts.average.core is not None)
    # MIG instances and partitions are parts of one GPU, which is counted once, also where it is
    # lost with them, or one of them is.
    away = cards_of(gpu.facts for gpu in gpus if not gpu.facts.is_up)
    there = cards_of(up) - away
    unknown = len(away) + len(there - measured)
    processes = sum(len(part.processes) for entry in everyone for part in entry.parts)
    watts = [w for facts in up if (w := facts.sensors.value("power_watts")) is not None]
    held = sum_of_known(facts.memory.used_bytes for facts in boards)
    total = sum_of_known(facts.memory.total_bytes for facts in boards)
    core = sum(facts.average.core or 0.0 for facts in boards)
    unattributed = sum(part.core or 0.0 for gpu in gpus for part in gpu.unattributed)
    of = f"of {page_plural(len(there | away), 'GPU')}"
    of += f" ({unknown} unknown)" if unknown else ""
    return [
        NodeSum("Core in use", f"{core:.2f}" if measured else "?", of),
        NodeSum("Unattributed", f"{unattributed:.2f}" if measured else "?", "GPUs"),
        NodeSum("Memory in use", memory(held), f"of {memory(total)}"),
        NodeSum("Power", f"{sum(watts):.0f}{NBSP}W" if watts else "?"),
        *(NodeSum(name, str(count)) for name, count in names.counts),
        NodeSum("Processes", str(processes)),
    ]
