"""The page of one snapshot: summary, sources, GPUs and the tree of pods."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from exporter.api.document import what_to_do
from exporter.api.kinds import counted, plural
from exporter.facts.history import Past
from exporter.facts.marks import Earlier, device_marks
from exporter.model import SourceStatus
from exporter.web.page.cells import POINTS
from exporter.web.page.charts import of_device, of_entry
from exporter.web.page.choice import Choice, device_text, has_all, in_order, matches
from exporter.web.page.entries import TreeEntry, colours, entries, series_of
from exporter.web.page.gauges import Gpu, tenants_by_device
from exporter.web.page.glossary import explanations, meanings, word
from exporter.web.page.gpus import by_use, card, card_name
from exporter.web.page.html import NBSP, Child, Html, gibibytes, h, many
from exporter.web.page.node import Node
from exporter.web.page.shell import around
from exporter.web.page.tree import line

NOTHING_EARLIER: Mapping[str, Earlier] = MappingProxyType({})
GPUS_SHOWN = 24
ENTRIES_SHOWN = 60
LOST_NAMED = 8  # in the banner


class OwnerNames(NamedTuple):
    """The titles that depend on the kinds of owners.

    ``owner`` heads the tables of cards, ``head`` and ``title`` the tree; ``counts`` are sums.
    """

    owner: str
    head: str
    title: str
    counts: tuple[tuple[str, int], ...]


def names_of(node: Node, everyone: Sequence[TreeEntry]) -> OwnerNames:
    """The names for this node."""
    there = [entry for entry in everyone if not entry.ended]
    pods = sum(entry.kind == "pod" for entry in there)
    if not node.is_off_kubernetes:
        return OwnerNames("Container", "Pod", "Pods and processes", (("Pods", pods),))
    counts = counted(entry.space for entry in there if entry.kind == "group")
    if not counts:
        return OwnerNames("Owner", "Owner", "Processes", ())
    head = next(iter(counts)).capitalize() if len(counts) == 1 else "Owner"
    sums = tuple((f"{noun.capitalize()}s", count) for noun, count in counts.items())
    return OwnerNames(head, head, f"{plural(counts).capitalize()}, with processes", sums)


class Page:
    """One node as HTML, for any number of readers and choices. Not thread-safe.

    The cards and lines do not depend on a choice. Each is rendered lazily and then cached.
    ``earlier`` are the devices at an earlier moment, by UUID: what is throttled shows in between.
    """

    def __init__(self, node: Node, earlier: Mapping[str, Earlier] = NOTHING_EARLIER) -> None:
        self._node = node
        self._series = Past(node.history, POINTS)
        self._entries = entries(node.tree, off_kubernetes=node.is_off_kubernetes)
        self._names = names_of(node, self._entries)
        self._texts = {facts.uuid: device_text(facts) for facts, _ in node.devices}
        self._colours = colours(self._entries)
        tenants = tenants_by_device(self._entries, self._colours)
        self._gpus_here = [
            Gpu(
                facts,
                tenants.get(facts.uuid, ()),
                entry.unattributed,
                self._series.get(series_of(facts), {}),
            )
            for facts, entry in node.devices
        ]
        self._marks = {
            facts.uuid: device_marks(facts, node.unix_ns, earlier.get(facts.uuid))
            for facts, _ in node.devices
        }
        self._places = by_use(self._gpus_here)
        self._cards: dict[str, Html] = {}
        self._lines: dict[str, Html] = {}

    def html(self, choice: Choice, age_s: float, metrics_path: str) -> str:
        """The whole document. ``age_s`` is the age of the snapshot in seconds."""
        node = self._node
        matching = [each for each in self._entries if matches(each, choice.words, self._texts)]
        main: list[Child] = [
            _banner(node),
            _shown(node),
            _summary(self._gpus_here, self._entries, choice, self._names),
            _sources(node.sources),
            self._gpus(matching, choice),
            self._tree(in_order(matching, choice), choice),
            explanations(node.tree.devices),
        ]
        return around(main, node, choice, age_s, metrics_path)

    def _gpus(self, matching: Sequence[TreeEntry], choice: Choice) -> Html:
        everything = self._gpus_here
        hosts = {part.uuid for entry in matching for part in entry.parts}
        gpus = [gpu for gpu in everything if gpu.facts.uuid in hosts or self._has(gpu, choice)]
        shown = gpus if choice.all else gpus[:GPUS_SHOWN]
        cards = [self._card(gpu, choice.hour) for gpu in shown]
        has_allocations = any(gpu.facts.allocated.core is not None for gpu in everything)
        return h(
            "section",
            {"aria-labelledby": "gpus", "data-k": "gpus"},
            h(
                "div",
                {"class": "headed"},
                h("h2", {"id": "gpus"}, "GPUs", _count(len(gpus), len(everything))),
                _legend(allocated=has_allocations),
            ),
            h("div", {"class": "cards"}, cards) if cards else h("p", {"class": "quiet"}, "None."),
            _show_all(len(gpus) - len(shown), "GPU", "GPUs", choice),
        )

    def _has(self, gpu: Gpu, choice: Choice) -> bool:
        """Whether a GPU has the words of the filter, those of its marks among them."""
        marks = (mark.kind for mark in self._marks[gpu.facts.uuid])
        return has_all("\n".join((self._texts[gpu.facts.uuid], *marks)), choice.words)

    def _tree(self, matching: Sequence[TreeEntry], choice: Choice) -> Html:
        there = [entry for entry in matching if not entry.ended]
        shown = there if choice.all else there[:ENTRIES_SHOWN]
        heads = (self._names.head, "GPU", "Core", "Memory", "Last ten minutes")
        lines = [self._line(entry, choice.hour) for entry in shown]
        nothing = "No match." if choice.words else "No process uses a GPU."
        return h(
            "section",
            {"aria-labelledby": "tree", "data-k": "tree"},
            h(
                "h2",
                {"id": "tree"},
                self._names.title,
                _count(len(there), sum(not entry.ended for entry in self._entries)),
            ),
            h(
                "div",
                {"class": "heads", "aria-hidden": "true"},
                [h("span", None, name) for name in heads],
            )
            if lines
            else None,
            h("ul", {"class": "entries"}, lines) if lines else h("p", {"class": "quiet"}, nothing),
            _show_all(len(there) - len(shown), "line", "lines", choice),
            self._ended([entry for entry in matching if entry.ended], choice),
        )

    def _ended(self, ended: Sequence[TreeEntry], choice: Choice) -> Html | None:
        """What has ended in the last minutes, on request."""
        if not ended:
            return None
        shown = ended if choice.all else ended[:ENTRIES_SHOWN]
        return h(
            "details",
            {"class": "gone", "data-k": "gone"},
            h("summary", None, f"{len(ended)} ended lately"),
            h("ul", {"class": "entries"}, [self._line(entry, choice.hour) for entry in shown]),
            _show_all(len(ended) - len(shown), "line", "lines", choice),
        )

    def _card(self, gpu: Gpu, hour: str) -> Html:
        uuid = gpu.facts.uuid
        charts = of_device(gpu.facts, self._node.history) if hour == f"gpu-{uuid}" else None
        if charts is None and uuid in self._cards:
            return self._cards[uuid]
        made = card(gpu, self._marks[uuid], self._places[uuid], charts, self._names.owner)
        if charts is None:
            self._cards[uuid] = made
        return made

    def _line(self, entry: TreeEntry, hour: str) -> Html:
        charts = of_entry(entry, self._node.history) if hour == entry.key else None
        if charts is None and entry.key in self._lines:
            return self._lines[entry.key]
        made = line(entry, self._colours, self._series, self._node.unix_ns, charts)
        if charts is None:
            self._lines[entry.key] = made
        return made


def _banner(node: Node) -> list[Html]:
    made = []
    if node.simulated:
        text = "Simulated node: nothing here is measured."
        made.append(h("p", {"class": "banner", "data-k": "simulated"}, text))
    if node.is_stale:
        text = "The last collection cycle ended too long ago, so no figures are shown. A call "
        text += "hangs: see the exporter's log and the kernel's log."
        made.append(h("p", {"class": "banner bad", "role": "alert", "data-k": "stale"}, text))
    if lost := node.unread:
        text = f"{len(lost)} of {many(len(node.devices), 'GPU')} cannot be read: "
        links = [h("a", {"href": f"#gpu-{each.uuid}"}, card_name(each)) for each in lost]
        listed = [links[0], *((", ", link) for link in links[1:LOST_NAMED])]
        more = f" and {len(lost) - LOST_NAMED} more" if len(lost) > LOST_NAMED else ""
        look = {"class": "banner bad", "role": "alert", "data-k": "unread"}
        made.append(h("p", look, text, listed, more, "."))
    return made


def _shown(node: Node) -> Html | None:
    """The namespaces that the reader may see, if those are not all."""
    if node.namespaces is None:
        return None
    text = "You may see the pods of these namespaces only: "
    names = h("bdi", None, ", ".join(node.namespaces))
    return h(
        "p",
        {"class": "quiet filtered", "data-k": "shown"},
        text,
        names,
        ". All other use is one sum.",
    )


def _summary(
    gpus: Sequence[Gpu], everyone: Sequence[TreeEntry], choice: Choice, names: OwnerNames
) -> list[Html]:
    up = [gpu.facts for gpu in gpus if gpu.facts.is_up]
    boards = [facts for facts in up if facts.average.core is not None]
    whole = {facts.device.parent_uuid or facts.uuid for facts in boards}
    processes = sum(len(part.processes) for entry in everyone for part in entry.parts)
    watts = [w for facts in up if (w := facts.sensors.number("power_watts")) is not None]
    held = sum(facts.memory.used_bytes or 0 for facts in boards)
    total = sum(facts.memory.total_bytes or 0 for facts in boards)
    core = sum(facts.average.core or 0.0 for facts in boards)
    unattributed = sum(part.core or 0.0 for gpu in gpus for part in gpu.unattributed)
    lost = len(gpus) - len(up)
    pairs = (
        ("Core in use", f"{core:.2f}" if boards else "?", _of(len(whole), lost)),
        ("Unattributed", f"{unattributed:.2f}" if boards else "?", "GPUs"),
        ("Memory in use", gibibytes(held) if boards else "?", f"of {gibibytes(total)}"),
        ("Power", f"{sum(watts):.0f}{NBSP}W" if watts else "?", ""),
        *((name, str(count), "") for name, count in names.counts),
        ("Processes", str(processes), ""),
    )
    sums = h(
        "dl",
        {"class": "sums", "data-k": "sums"},
        [
            h(
                "div",
                {"data-k": name},
                h("dt", None, _explained(name)),
                h("dd", None, h("b", None, figure), f" {of}"),
            )
            for name, figure, of in pairs
        ],
    )
    if not choice.words:
        return [sums]
    text = "These sums are of the whole node. The filter applies to the lists below."
    return [sums, h("p", {"class": "quiet filtered", "data-k": "filtered"}, text)]


def _explained(name: str) -> Html | str:
    """The name of a sum, with the meaning of its first word if that is one of the glossary."""
    first = name.partition(" ")[0].lower()
    return word(first, name) if first in meanings() else name


def _of(whole: int, lost: int) -> str:
    """The number of GPUs that a sum is of, with those that could not be read."""
    return f"of {many(whole + lost, 'GPU')}" + (f" ({lost} unknown)" if lost else "")


def _sources(sources: Sequence[SourceStatus]) -> Html:
    down = sum(not source.up for source in sources)
    state = (
        f"{many(down, 'source')} down" if down else "all sources answer" if sources else "none yet"
    )
    listed = h("ul", None, [_source(source) for source in sources])
    head = h("h2", {"id": "sources"}, "Sources", h("span", {"class": "count"}, state))
    if sources and not down:
        return h(
            "details",
            {"class": "sources", "data-k": "sources-up"},
            h("summary", None, head),
            listed,
        )
    about = {"class": "sources", "aria-labelledby": "sources", "data-k": "sources"}
    return h("section", about, head, listed)


def _source(source: SourceStatus) -> Html:
    up, advice = source.up, what_to_do(source)
    took = f"{source.duration_ns / 1e6:.1f}{NBSP}ms"
    return h(
        "li",
        {"class": None if up else "down", "data-k": source.name},
        h("span", {"class": "state"}, "up" if up else "down"),
        h("bdi", {"class": "name"}, source.name),
        h("span", {"class": "took"}, took) if up else None,
        h("p", {"class": "detail"}, h("bdi", None, source.detail)) if source.detail else None,
        h("p", {"class": "todo"}, advice) if advice else None,
    )


def _legend(*, allocated: bool) -> Html:
    """What the bars show."""
    below = ("Thin line below a bar: the ", word("allocation", "allocation"), ". ")
    return h(
        "p",
        {"class": "quiet legend"},
        below if allocated else None,
        "Hatched: ",
        word("unattributed", "unattributed"),
        " use, with its ",
        word("reason", "reason"),
        ". “Unknown” is ",
        word("unmeasured", "unmeasured"),
        ", never 0.",
    )


def _count(shown: int, total: int) -> Html:
    return h("span", {"class": "count"}, str(total) if shown == total else f"{shown} of {total}")


def _show_all(hidden: int, one: str, more: str, choice: Choice) -> Html | None:
    if hidden <= 0:
        return None
    link = {"class": "all", "href": f"?{choice.query}"}
    return h("p", {"class": "more-below"}, h("a", link, f"Show {many(hidden, one, more)} more"))
