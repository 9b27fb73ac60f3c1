"""The tree of pods, containers and processes, with groups and unattributed use in one form."""

from exporter.api.document import process_type
from exporter.facts.marks import Mark
from exporter.model import Process
from exporter.web.page.cells import (
    ENDED,
    OVER,
    against,
    core_of,
    held_against,
    marked,
    memory_of,
    meter,
    spark,
    sum_of,
    swatch,
    unknown,
)
from exporter.web.page.charts import button
from exporter.web.page.entries import (
    Colours,
    Part,
    Series,
    TreeEntry,
    key_of,
    shortened,
    unmeasured,
    why,
)
from exporter.web.page.html import Html, cut, gibibytes, h, held_of, percent, seconds

COLUMNS = (
    "Container, process",
    "GPU",
    "Type",
    "Core",
    "Memory",
    "Traffic",
    "Encoder",
    "Decoder",
    "Since",
)
MOST_SWATCHES = 4
LEAST = 0.0005  # of a core, that a percentage shows


def line(
    entry: TreeEntry, colours: Colours, series: Series, now_unix_ns: int, hour: Html | None = None
) -> Html:
    """One entry: a line that opens to a table of its containers and processes.

    ``hour``: the charts of its last hour, if they are shown.
    """
    return h(
        "li",
        {"data-k": entry.key},
        h(
            "details",
            {
                "class": "entry ended" if entry.ended else "entry",
                "data-k": entry.key,
                "open": hour is not None,
            },
            h(
                "summary",
                None,
                _name(entry, colours),
                _places(entry),
                _core(entry),
                _memory(entry),
                None if entry.ended else _past(entry, series),
            ),
            _parts(entry, colours, now_unix_ns),
            None
            if entry.kind == "unattributed" or entry.ended
            else h(
                "div",
                {"class": "below"},
                button(entry.key, entry.name, shown=hour is not None),
                hour,
            ),
        ),
    )


def _name(entry: TreeEntry, colours: Colours) -> Html:
    return h(
        "span",
        {"class": "who-name"},
        [swatch(colour) for colour in _colours(entry, colours)],
        h("bdi", {"class": "space"}, entry.space) if entry.space else None,
        cut(shortened(entry.name)),
        marked(_marks(entry)),
        h("bdi", {"class": "note"}, shortened(entry.note)) if entry.note else None,
    )


def _marks(entry: TreeEntry) -> list[Mark]:
    """Those of the entry, then those of its parts that it has not; one of each kind."""
    marks = (*entry.marks, *(mark for part in entry.parts for mark in part.marks))
    return list({mark.kind: mark for mark in reversed(marks)}.values())[::-1]


def _colours(entry: TreeEntry, colours: Colours) -> list[int | None]:
    """The colours of its containers, each once, up to a bound."""
    if entry.kind == "unattributed":
        return [None]
    keys = [(entry.key, part.name, part.uuid) for part in entry.parts]
    return list(dict.fromkeys(colours.get(key) for key in keys if key in colours))[:MOST_SWATCHES]


def _places(entry: TreeEntry) -> Html:
    devices = sorted({part.device for part in entry.parts if part.device is not None})
    text = ", ".join(map(str, devices)) or "not known"
    return h("span", {"class": "gpus"}, h("span", {"class": "lead"}, "GPU "), text)


def _core(entry: TreeEntry) -> Html:
    if entry.ended:
        return h("span", {"class": "measured core"}, ENDED)
    used, limit = entry.figures.core, entry.figures.core_limit
    filled = entry.figures.core_of_limit if limit else used
    # against the limit: only the use of the containers that have one
    within = filled * limit if limit and filled is not None else used
    figure = unknown(unmeasured(entry, "core")) if within is None else percent(within)
    about = f"Core in use {percent(within)}" + (f" of {percent(limit)}" if limit else "")
    if used is not None and within is not None and used - within > LEAST:
        about += f"; {percent(used - within)} more by containers without a share"
    return h(
        "span",
        {"class": "measured core"},
        against(
            figure,
            percent(limit) if limit else None,
            over=bool(limit) and (filled or 0.0) > OVER,
        ),
        meter(about, filled, limited=bool(limit)),
    )


def _memory(entry: TreeEntry) -> Html:
    if entry.ended:
        return h("span", {"class": "measured memory"})
    used, limit = entry.figures.memory_bytes, entry.figures.memory_limit_bytes
    filled = entry.figures.memory_of_limit if limit else None
    otherwise = unknown(unmeasured(entry, "memory"))
    return h(
        "span",
        {"class": "measured memory"},
        held_against(used, limit, otherwise, over=(filled or 0.0) > OVER),
        meter(f"Memory held {held_of(used, limit)}", filled, limited=bool(limit)),
    )


def _past(entry: TreeEntry, series: Series) -> Html:
    listed = [series[p.series]["core_utilization_ratio"] for p in entry.parts if p.series in series]
    values = sum_of(listed)
    top = max([1.0 if len(listed) > 1 else 0.05, *(value for value in values if value)])
    return spark(f"Core of {entry.name}, the last ten minutes", values, top)


def _parts(entry: TreeEntry, colours: Colours, now_unix_ns: int) -> Html:
    heads = [h("th", {"scope": "col"}, name) for name in COLUMNS]
    rows = [row for part in entry.parts for row in _part(entry, part, colours, now_unix_ns)]
    return h(
        "div",
        {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": entry.title},
        h(
            "table",
            {"class": "parts"},
            h("caption", {"class": "sr"}, f"Containers and processes of {entry.title}"),
            h("thead", None, h("tr", None, heads)),
            h("tbody", None, rows),
        ),
    )


def _part(entry: TreeEntry, part: Part, colours: Colours, now_unix_ns: int) -> list[Html]:
    colour = colours.get((entry.key, part.name, part.uuid))
    place = (
        h("span", {"class": "unknown"}, "not known") if part.device is None else str(part.device)
    )
    average = part.average
    own = h(
        "tr",
        {"class": "part", "data-k": key_of(part.name, part.uuid)},
        h(
            "th",
            {"scope": "row"},
            None if colour is None else swatch(colour),
            h("bdi", None, part.name or "(all containers)"),
            [h("span", {"class": "tag"}, scheme) for scheme in part.schemes],
            marked(part.marks),
        ),
        h("td", None, place),
        h("td", None),
        h("td", {"class": "n"}, core_of(part)),
        h("td", {"class": "n"}, memory_of(part)),
        h("td", {"class": "n"}, _ratio(part, "memory_active", average.memory_active)),
        h("td", {"class": "n"}, _ratio(part, "encoder", average.encoder)),
        h("td", {"class": "n"}, _ratio(part, "decoder", average.decoder)),
        h("td", {"class": "n"}, _since(part.since_unix_ns, now_unix_ns)),
    )
    return [own, *(_process(process, part, now_unix_ns) for process in part.processes)]


def _process(process: Process, part: Part, now_unix_ns: int) -> Html:
    ratios = (process.memory_active, process.encoder, process.decoder)
    held = process.memory_bytes
    return h(
        "tr",
        {"class": "process", "data-k": key_of(part.name, part.uuid, str(process.pid))},
        h(
            "th",
            {"scope": "row"},
            h("bdi", None, process.name or "(name not known)"),
            h("span", {"class": "pid"}, f"pid {process.pid}"),
        ),
        h("td", None),
        h("td", None, process_type(process.kinds or frozenset())),
        h("td", {"class": "n"}, _percent(process.core)),
        h("td", {"class": "n"}, _dash() if held is None else gibibytes(held)),
        [h("td", {"class": "n"}, _percent(ratio)) for ratio in ratios],
        h("td", {"class": "n"}, _since(process.start_unix_ns, now_unix_ns)),
    )


def _ratio(part: Part, quantity: str, value: float | None) -> str | None:
    if part.ended:
        return None
    reasons = why(part.unmeasured, quantity)
    if value is None and reasons:
        return h("span", {"class": "unknown"}, ", ".join(reasons))
    return _percent(value)


def _percent(value: float | None) -> str:
    return _dash() if value is None else percent(value)


def _dash() -> Html:
    return h("span", {"class": "unknown", "title": "not known"}, "?")


def _since(start_unix_ns: int | None, now_unix_ns: int) -> str:
    """The time between a start and the snapshot; "" if the start is not known."""
    if start_unix_ns is None:
        return ""
    return seconds(max(now_unix_ns - start_unix_ns, 0) / 1e9)
