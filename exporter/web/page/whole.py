"""The figures as a whole: summary, sources, GPUs, tree."""

from collections.abc import Sequence

from exporter.web.page.choice import Choice
from exporter.web.page.entries import Entry, Json, Series, colours, entries, found, in_order
from exporter.web.page.gpus import card
from exporter.web.page.html import Child, Html, h
from exporter.web.page.tenants import tenants_of
from exporter.web.page.tree import line
from exporter.web.page.words import NBSP, fixed, gibibytes, gpus, many

GPUS_SHOWN = 24
ENTRIES_SHOWN = 60


def main(document: Json, history: Json, choice: Choice) -> list[Child]:
    """All that follows the figures: what ``page.js`` makes anew."""
    series = {tuple(one["labels"]): one for one in history.get("series", ())}
    listed = entries(document)
    looks = colours(listed)
    shown = in_order(listed, choice)
    return [
        _banner(document),
        _summary(document, listed),
        _sources(document),
        _gpus(document, listed, looks, series, choice),
        _tree(document, shown, looks, series, choice),
    ]


def _banner(document: Json) -> list[Html]:
    made = []
    if document["simulated"]:
        text = "Simulated node: nothing here is measured."
        made.append(h("p", {"class": "banner", "data-k": "simulated"}, text))
    if document["snapshot"]["stale"]:
        text = "No collection cycle has ended for too long, so no figures are shown. A call "
        text += "hangs; the exporter's log and the kernel's log say more."
        made.append(h("p", {"class": "banner bad", "role": "alert", "data-k": "stale"}, text))
    return made


def _summary(document: Json, listed: Sequence[Entry]) -> Html:
    devices = document["devices"]
    up = [device for device in devices if device.get("up")]
    boards = [device for device in up if "utilization_ratio" in device]
    whole = {d.get("info", {}).get("parent_uuid") or d["uuid"] for d in boards}
    pods = sum(entry.kind == "pod" for entry in listed)
    processes = sum(len(part.processes) for entry in listed for part in entry.parts)
    watts = [device["power_watts"] for device in up if "power_watts" in device]
    held = sum(device.get("memory_used_bytes", 0) for device in boards)
    total = sum(device.get("memory_total_bytes", 0) for device in boards)
    core = sum(device["utilization_ratio"] for device in boards)
    nobody = sum(
        part.get("core_utilization_ratio", 0.0) for d in boards for part in d["unattributed"]
    )
    pairs = (
        ("Core in use", gpus(core) if boards else "?", f"of {many(len(whole), 'GPU')}"),
        ("Unattributed", gpus(nobody) if boards else "?", "GPUs"),
        ("Memory in use", gibibytes(held) if boards else "?", f"of {gibibytes(total)}"),
        ("Power", f"{fixed(sum(watts), 0)}{NBSP}W" if watts else "?", ""),
        ("Pods", str(pods), many(processes, "process", "processes")),
    )
    return h(
        "dl",
        {"class": "sums", "data-k": "sums"},
        [
            h(
                "div",
                {"data-k": name},
                h("dt", None, name),
                h("dd", None, h("b", None, figure), f" {of}"),
            )
            for name, figure, of in pairs
        ],
    )


def _sources(document: Json) -> Html:
    sources = document["sources"]
    down = sum(not source["up"] for source in sources)
    state = (
        f"{many(down, 'source')} down" if down else "all sources answer" if sources else "none yet"
    )
    return h(
        "section",
        {"class": "sources", "aria-labelledby": "sources", "data-k": "sources"},
        h("h2", {"id": "sources"}, "Sources", h("span", {"class": "count"}, state)),
        h("ul", None, [_source(source) for source in sources]),
    )


def _source(source: Json) -> Html:
    up = source["up"]
    took = f"{fixed(source['duration_seconds'] * 1000, 1)}{NBSP}ms"
    return h(
        "li",
        {"class": "up" if up else "down", "data-k": source["name"]},
        h("span", {"class": "state"}, "up" if up else "down"),
        h("bdi", {"class": "name"}, source["name"]),
        h("span", {"class": "took"}, took) if up else None,
        h("p", {"class": "detail"}, h("bdi", None, source["detail"])) if source["detail"] else None,
        h("p", {"class": "todo"}, source["what_to_do"]) if "what_to_do" in source else None,
    )


def _gpus(
    document: Json,
    listed: Sequence[Entry],
    looks: dict[tuple[str, str, str], int],
    series: Series,
    choice: Choice,
) -> Html:
    kept = [entry for entry in listed if found(entry, choice.words)]
    hosts = {part.uuid for entry in kept for part in entry.parts}
    devices = [d for d in document["devices"] if not choice.words or d["uuid"] in hosts]
    shown = devices if choice.all else devices[:GPUS_SHOWN]
    cards = [card(d, tenants_of(d, listed, looks), series, document["words"]) for d in shown]
    return h(
        "section",
        {"class": "gpus-section", "aria-labelledby": "gpus", "data-k": "gpus"},
        h("h2", {"id": "gpus"}, "GPUs", _count(len(devices), len(document["devices"]))),
        h("div", {"class": "cards"}, cards) if cards else h("p", {"class": "quiet"}, "None."),
        _show_all(len(devices) - len(shown), "GPU", "GPUs", choice),
    )


def _tree(
    document: Json,
    listed: Sequence[Entry],
    looks: dict[tuple[str, str, str], int],
    series: Series,
    choice: Choice,
) -> Html:
    shown = listed if choice.all else listed[:ENTRIES_SHOWN]
    heads = ("Pod", "GPU", "Core", "Memory", "Last ten minutes")
    lines = [line(entry, looks, series, document) for entry in shown]
    nothing = "Nothing holds all of these words." if choice.words else "Nobody uses a GPU."
    return h(
        "section",
        {"class": "tree", "aria-labelledby": "tree", "data-k": "tree"},
        h("h2", {"id": "tree"}, "Pods and processes", _count(len(listed), len(listed))),
        h(
            "div",
            {"class": "heads", "aria-hidden": "true"},
            [h("span", None, name) for name in heads],
        )
        if lines
        else None,
        h("ul", {"class": "entries"}, lines) if lines else h("p", {"class": "quiet"}, nothing),
        _show_all(len(listed) - len(shown), "line", "lines", choice),
    )


def _count(shown: int, total: int) -> Html:
    return h("span", {"class": "count"}, str(total) if shown == total else f"{shown} of {total}")


def _show_all(hidden: int, one: str, more: str, choice: Choice) -> Html | None:
    if hidden <= 0:
        return None
    link = {"class": "all", "href": f"?{choice.query}"}
    return h("p", {"class": "more-below"}, h("a", link, f"Show {many(hidden, one, more)} more"))
