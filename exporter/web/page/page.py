"""The page of one snapshot: summary, sources, GPUs and the tree of pods."""

from collections.abc import Sequence
from typing import NamedTuple

from exporter.api.kinds import counted, is_without_pods, plural
from exporter.facts.history import Past
from exporter.model import HeldCondition, History
from exporter.web.page.alerts import alerts
from exporter.web.page.cells import POINTS
from exporter.web.page.charts import of_device, of_entry
from exporter.web.page.choice import Choice, device_text, has_all, in_order, matches
from exporter.web.page.entries import Json, TreeEntry, colours, entries
from exporter.web.page.gauges import tenants_by_device
from exporter.web.page.glossary import explanations, meanings, word
from exporter.web.page.gpus import by_use, card, card_name
from exporter.web.page.html import NBSP, Child, Html, gibibytes, h, many
from exporter.web.page.shell import around, unread
from exporter.web.page.tree import line

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


def names_of(document: Json, everyone: Sequence[TreeEntry]) -> OwnerNames:
    """The names for this node."""
    pods = sum(entry.kind == "pod" for entry in everyone)
    if not is_without_pods(document):
        return OwnerNames("Container", "Pod", "Pods and processes", (("Pods", pods),))
    counts = counted(entry.space for entry in everyone if entry.kind == "group")
    if not counts:
        return OwnerNames("Owner", "Owner", "Processes", ())
    head = next(iter(counts)).capitalize() if len(counts) == 1 else "Owner"
    sums = tuple((f"{noun.capitalize()}s", count) for noun, count in counts.items())
    return OwnerNames(head, head, f"{plural(counts).capitalize()}, with processes", sums)


class Page:
    """One snapshot as HTML, for any number of readers and choices. Not thread-safe.

    The cards and lines do not depend on a choice. Each is rendered lazily and then cached.
    """

    def __init__(
        self,
        document: Json,
        history: History,
        held: Sequence[HeldCondition] = (),
        at_mono_ns: int = 0,
    ) -> None:
        self._document = document
        self._alerts = alerts(document, held, at_mono_ns)
        self._history = history
        self._series = Past(history, POINTS)
        self._entries = entries(document)
        self._names = names_of(document, self._entries)
        self._texts = {device["uuid"]: device_text(device) for device in document["devices"]}
        self._colours = colours(self._entries)
        self._tenants = tenants_by_device(self._entries, self._colours)
        self._places = by_use(document["devices"], self._series)
        self._cards: dict[str, Html] = {}
        self._lines: dict[str, Html] = {}

    def html(self, choice: Choice, age_s: float, metrics_path: str) -> str:
        """The whole document. ``age_s`` is the age of the snapshot in seconds."""
        document = self._document
        matching = [each for each in self._entries if matches(each, choice.words, self._texts)]
        main: list[Child] = [
            _banner(document),
            _shown(document),
            _summary(document, self._entries, choice, self._names),
            self._alerts,
            _sources(document),
            self._gpus(matching, choice),
            self._tree(in_order(matching, choice), choice),
            explanations(document),
        ]
        return around(main, document, choice, age_s, metrics_path)

    def _gpus(self, matching: Sequence[TreeEntry], choice: Choice) -> Html:
        everything = self._document["devices"]
        hosts = {part.uuid for entry in matching for part in entry.parts}
        devices = [
            device
            for device in everything
            if device["uuid"] in hosts or has_all(self._texts[device["uuid"]], choice.words)
        ]
        shown = devices if choice.all else devices[:GPUS_SHOWN]
        cards = [self._card(device, choice.hour) for device in shown]
        return h(
            "section",
            {"aria-labelledby": "gpus", "data-k": "gpus"},
            h(
                "div",
                {"class": "headed"},
                h("h2", {"id": "gpus"}, "GPUs", _count(len(devices), len(everything))),
                _legend(allocated=any("allocated_core_ratio" in one for one in everything)),
            ),
            h("div", {"class": "cards"}, cards) if cards else h("p", {"class": "quiet"}, "None."),
            _show_all(len(devices) - len(shown), "GPU", "GPUs", choice),
        )

    def _tree(self, matching: Sequence[TreeEntry], choice: Choice) -> Html:
        shown = matching if choice.all else matching[:ENTRIES_SHOWN]
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
                _count(len(matching), len(self._entries)),
            ),
            h(
                "div",
                {"class": "heads", "aria-hidden": "true"},
                [h("span", None, name) for name in heads],
            )
            if lines
            else None,
            h("ul", {"class": "entries"}, lines) if lines else h("p", {"class": "quiet"}, nothing),
            _show_all(len(matching) - len(shown), "line", "lines", choice),
        )

    def _card(self, device: Json, hour: str) -> Html:
        uuid = device["uuid"]
        tenants, place = self._tenants.get(uuid, []), self._places[uuid]
        words = self._document["words"]
        if hour == f"gpu-{uuid}":
            charts = of_device(device, self._history)
            return card(device, tenants, self._series, words, place, charts, self._names.owner)
        if uuid not in self._cards:
            made = card(device, tenants, self._series, words, place, None, self._names.owner)
            self._cards[uuid] = made
        return self._cards[uuid]

    def _line(self, entry: TreeEntry, hour: str) -> Html:
        if hour == entry.key:
            charts = of_entry(entry, self._history)
            return line(entry, self._colours, self._series, self._document, charts)
        if entry.key not in self._lines:
            made = line(entry, self._colours, self._series, self._document)
            self._lines[entry.key] = made
        return self._lines[entry.key]


def _banner(document: Json) -> list[Html]:
    made = []
    if document["simulated"]:
        text = "Simulated node: nothing here is measured."
        made.append(h("p", {"class": "banner", "data-k": "simulated"}, text))
    if document["snapshot"]["stale"]:
        text = "The last collection cycle ended too long ago, so no figures are shown. A call "
        text += "hangs: see the exporter's log and the kernel's log."
        made.append(h("p", {"class": "banner bad", "role": "alert", "data-k": "stale"}, text))
    if lost := unread(document):
        text = f"{len(lost)} of {many(len(document['devices']), 'GPU')} cannot be read: "
        links = [h("a", {"href": f"#gpu-{each['uuid']}"}, card_name(each)) for each in lost]
        listed = [links[0], *((", ", link) for link in links[1:LOST_NAMED])]
        more = f" and {len(lost) - LOST_NAMED} more" if len(lost) > LOST_NAMED else ""
        look = {"class": "banner bad", "role": "alert", "data-k": "unread"}
        made.append(h("p", look, text, listed, more, "."))
    return made


def _shown(document: Json) -> Html | None:
    """The namespaces that the reader may see, if those are not all."""
    if "namespaces_shown" not in document:
        return None
    names = ", ".join(document["namespaces_shown"])
    text = "You may see the pods of these namespaces only: "
    look = {"class": "quiet filtered", "data-k": "shown"}
    return h("p", look, text, h("bdi", None, names), ". All other use is one sum.")


def _summary(
    document: Json, everyone: Sequence[TreeEntry], choice: Choice, names: OwnerNames
) -> list[Html]:
    devices = document["devices"]
    up = [device for device in devices if device.get("up")]
    boards = [device for device in up if "utilization_ratio" in device]
    whole = {d.get("info", {}).get("parent_uuid") or d["uuid"] for d in boards}
    processes = sum(len(part.processes) for entry in everyone for part in entry.parts)
    watts = [device["power_watts"] for device in up if "power_watts" in device]
    held = sum(device.get("memory_used_bytes", 0) for device in boards)
    total = sum(device.get("memory_total_bytes", 0) for device in boards)
    core = sum(device["utilization_ratio"] for device in boards)
    unattributed = sum(
        part.get("core_utilization_ratio", 0.0) for d in boards for part in d["unattributed"]
    )
    pairs = (
        ("Core in use", f"{core:.2f}" if boards else "?", _of(len(whole), len(unread(document)))),
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


def _sources(document: Json) -> Html:
    sources = document["sources"]
    down = sum(not source["up"] for source in sources)
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


def _source(source: Json) -> Html:
    up = source["up"]
    took = f"{source['duration_seconds'] * 1000:.1f}{NBSP}ms"
    return h(
        "li",
        {"class": None if up else "down", "data-k": source["name"]},
        h("span", {"class": "state"}, "up" if up else "down"),
        h("bdi", {"class": "name"}, source["name"]),
        h("span", {"class": "took"}, took) if up else None,
        h("p", {"class": "detail"}, h("bdi", None, source["detail"])) if source["detail"] else None,
        h("p", {"class": "todo"}, source["what_to_do"]) if "what_to_do" in source else None,
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
