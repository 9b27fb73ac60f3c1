"""The tree of pods, containers and processes, with groups and unattributed use in one form."""

from exporter.web.page.cells import (
    OVER,
    against,
    core_of,
    held_against,
    memory_of,
    meter,
    mismatch,
    spark,
    sum_of,
    swatch,
    unknown,
    why,
)
from exporter.web.page.charts import button
from exporter.web.page.entries import (
    Colours,
    Json,
    Part,
    Series,
    TreeEntry,
    key_of,
    shortened,
    unmeasured,
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
ENGINES = ("memory_active", "encoder", "decoder")
RATIOS = ("memory_active_ratio", "encoder_utilization_ratio", "decoder_utilization_ratio")


def line(
    entry: TreeEntry,
    colours: Colours,
    series: Series,
    document: Json,
    hour: Html | None = None,
) -> Html:
    """One entry: a line that opens to a table of its containers and processes.

    ``hour``: the charts of its last hour, if they are shown.
    """
    words, figures = document["words"], entry.figures
    return h(
        "li",
        {"data-k": entry.key},
        h(
            "details",
            {"class": "entry", "data-k": entry.key, "open": hour is not None},
            h(
                "summary",
                None,
                _name(entry, colours),
                _places(entry),
                _core(entry, figures, words),
                _memory(entry, figures, words),
                _past(entry, series),
            ),
            _parts(entry, colours, document),
            None
            if entry.kind == "unattributed"
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
        h("bdi", {"class": "note"}, shortened(entry.note)) if entry.note else None,
    )


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


def _core(entry: TreeEntry, figures: Json, words: Json) -> Html:
    used, limit = figures.get("core_usage_gpus"), figures.get("core_limit_gpus")
    filled = figures.get("core_limit_utilization_ratio") if limit else used
    over = bool(limit) and (filled or 0.0) > OVER
    # against the limit: only the use of the containers that have one
    within = filled * limit if limit and filled is not None else used
    figure = percent(within) if within is not None else unknown(unmeasured(entry, "core"), words)
    about = f"Core in use {percent(within)}" + (f" of {percent(limit)}" if limit else "")
    if used is not None and within is not None and used - within > LEAST:
        about += f"; {percent(used - within)} more by containers without a share"
    return h(
        "span",
        {"class": "measured core"},
        against(figure, percent(limit) if limit else None, over=over),
        meter(about, filled, limited=bool(limit)),
    )


def _memory(entry: TreeEntry, figures: Json, words: Json) -> Html:
    used, limit = figures.get("memory_used_bytes"), figures.get("memory_limit_bytes")
    filled = figures.get("memory_limit_utilization_ratio") if limit else None
    otherwise = unknown(unmeasured(entry, "memory"), words)
    about = f"Memory held {held_of(used, limit)}"
    return h(
        "span",
        {"class": "measured memory"},
        held_against(used, limit, otherwise, over=(filled or 0.0) > OVER),
        meter(about, filled, limited=bool(limit)),
    )


def _past(entry: TreeEntry, series: Series) -> Html:
    listed = [series[p.series]["core_utilization_ratio"] for p in entry.parts if p.series in series]
    values = sum_of(listed)
    top = max([1.0 if len(listed) > 1 else 0.05, *(value for value in values if value)])
    return spark(f"Core of {entry.name}, the last ten minutes", values, top)


def _parts(entry: TreeEntry, colours: Colours, document: Json) -> Html:
    heads = [h("th", {"scope": "col"}, name) for name in COLUMNS]
    rows = [row for part in entry.parts for row in _part(entry, part, colours, document)]
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


def _part(entry: TreeEntry, part: Part, colours: Colours, document: Json) -> list[Html]:
    figures, words = part.figures, document["words"]
    colour = colours.get((entry.key, part.name, part.uuid))
    place = (
        h("span", {"class": "unknown"}, "not known") if part.device is None else str(part.device)
    )
    schemes = [each["scheme"] for each in figures.get("allocation_info", ())]
    own = h(
        "tr",
        {"class": "part", "data-k": key_of(part.name, part.uuid)},
        h(
            "th",
            {"scope": "row"},
            None if colour is None else swatch(colour),
            h("bdi", None, part.name or "(all containers)"),
            [h("span", {"class": "tag"}, scheme) for scheme in schemes],
            mismatch(figures),
        ),
        h("td", None, place),
        h("td", None),
        h("td", {"class": "n"}, core_of(figures, words)),
        h("td", {"class": "n"}, memory_of(figures, words)),
        [
            h("td", {"class": "n"}, _ratio(figures, q, r))
            for q, r in zip(ENGINES, RATIOS, strict=True)
        ],
        h("td", {"class": "n"}, _since(figures.get("observed_since_timestamp_seconds"), document)),
    )
    return [own, *(_process(process, part, document) for process in part.processes)]


def _process(process: Json, part: Part, document: Json) -> Html:
    core, held = process.get("core_utilization_ratio"), process.get("memory_used_bytes")
    return h(
        "tr",
        {"class": "process", "data-k": key_of(part.name, part.uuid, str(process["pid"]))},
        h(
            "th",
            {"scope": "row"},
            h("bdi", None, process.get("name", "(name not known)")),
            h("span", {"class": "pid"}, f"pid {process['pid']}"),
        ),
        h("td", None),
        h("td", None, process.get("type", "")),
        h("td", {"class": "n"}, percent(core) if core is not None else _dash()),
        h("td", {"class": "n"}, gibibytes(held) if held is not None else _dash()),
        [h("td", {"class": "n"}, percent(process[r]) if r in process else _dash()) for r in RATIOS],
        h("td", {"class": "n"}, _since(process.get("start_timestamp_seconds"), document)),
    )


def _ratio(figures: Json, quantity: str, name: str) -> str:
    if name in figures:
        return percent(figures[name])
    reasons = why(figures, quantity)
    return h("span", {"class": "unknown"}, ", ".join(reasons)) if reasons else _dash()


def _dash() -> Html:
    return h("span", {"class": "unknown", "title": "not known"}, "?")


def _since(start: float | None, document: Json) -> str:
    """The time between a start and the snapshot; "" if the start is not known."""
    if start is None:
        return ""
    return seconds(max(document["snapshot"]["timestamp_seconds"] - start, 0.0))
