"""The last hour of a GPU, pod or group as charts with an axis and values. Pure.

The line is SVG. Over it lies one element for each minute, which shows its value while the pointer
or the focus is on it: this needs no script. ``page.js`` lets the arrow keys go from one to the
next. The texts of the axes are HTML, so that they keep their size where the chart is narrow.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from exporter.facts.history import POINTS, Past
from exporter.model import DeviceFacts, History
from exporter.web.page.cells import sum_of
from exporter.web.page.entries import Part, TreeEntry, series_of
from exporter.web.page.gauges import whole_core
from exporter.web.page.html import Html, gibibytes, h, percent

MINUTES = 60
STOP = 10  # minutes between two stops of the tab key
TICKS = 5  # of the time axis
HEIGHT = 100
MOST_CHARTS = 8  # of one entry
Values = Sequence[float | None]


class Chart(NamedTuple):
    """What one chart shows. ``limit`` is drawn as a line if it is known."""

    title: str
    values: Values
    top: float
    write: Callable[[float | None], str]
    limit: float | None = None


def button(key: str, name: str, *, shown: bool) -> Html:
    """Shows or hides the last hour. It sends the page's form, so that the filter stays."""
    attributes = {
        "class": "hour-of",
        "form": "choice",
        "name": "hour",
        "value": "" if shown else key,
        "aria-expanded": "true" if shown else "false",
    }
    text = "Hide the last hour" if shown else "Last hour"
    return h("button", attributes, text, h("span", {"class": "sr"}, f" of {name}"))


def of_device(device: DeviceFacts, history: History) -> Html:
    """Core and memory of one device."""
    past = Past(history, POINTS).get(series_of(device), {})
    core, held = past.get("core_utilization_ratio", ()), past.get("memory_used_bytes", ())
    allocated, total = device.allocated.core, device.memory.total_bytes
    return _all(
        [
            Chart("Core", core, whole_core(device), percent, allocated),
            Chart("Memory", held, total or _most(held), gibibytes),
        ],
        history,
    )


def of_entry(entry: TreeEntry, history: History) -> Html:
    """Core and memory of a pod or group, and of each of its containers on each device."""
    past = Past(history, POINTS)
    known = [part for part in entry.parts if part.series in past]
    charts = _of_all(entry, [past[part.series] for part in known]) if len(known) > 1 else []
    for part in known[: MOST_CHARTS // 2]:
        charts += _of_part(part, past, alone=len(known) == 1)
    more = len(known) - MOST_CHARTS // 2
    note = f"{more} more are not shown." if more > 0 else ""
    return _all(charts, history, note)


def _of_all(entry: TreeEntry, series: Sequence[Mapping[str, Values]]) -> list[Chart]:
    """The sums of a pod or group over its containers and devices."""
    core = sum_of([each["core_utilization_ratio"] for each in series])
    held = sum_of([each["memory_used_bytes"] for each in series])
    limit, most = entry.figures.core_limit, entry.figures.memory_limit_bytes
    whole = "" if entry.kind == "group" else " of the pod"
    return [
        Chart(f"Core{whole}", core, max(_most(core), limit or 0.0), percent, limit),
        Chart(f"Memory{whole}", held, max(_most(held), most or 0.0), gibibytes, most),
    ]


def _of_part(part: Part, past: Past, *, alone: bool) -> list[Chart]:
    series = past[part.series]
    core, held = series["core_utilization_ratio"], series["memory_used_bytes"]
    limit, most = part.figures.core_limit, part.figures.memory_limit_bytes
    whose = "" if alone else f" of {part.name or 'all containers'} on GPU {part.device}"
    return [
        Chart(f"Core{whose}", core, max(_most(core), limit or 0.0), percent, limit),
        Chart(f"Memory{whose}", held, max(_most(held), most or 0.0), gibibytes, most),
    ]


def _most(values: Values) -> float:
    return max((value for value in values if value), default=0.0)


def _all(charts: Sequence[Chart], history: History, note: str = "") -> Html:
    made = [_figure(chart, history) for chart in charts]
    none = "Nothing is known of the last hour." if not made else note
    return h(
        "div", {"class": "hour", "data-k": "hour"}, made, h("p", {"class": "quiet"}, none or None)
    )


def _figure(chart: Chart, history: History) -> Html:
    per_minute = max(round(60e9 / history.step_ns), 1)
    minutes = _minutes(chart.values, per_minute)
    top = chart.top or 1.0
    about = f"{chart.title}, the last hour: {_stats(chart)}"
    limit = chart.limit if chart.limit and chart.limit <= top else None
    return h(
        "figure",
        {"data-k": chart.title},
        h("figcaption", None, h("b", None, chart.title), f" {_stats(chart)}"),
        h(
            "div",
            {"class": "plot"},
            h(
                "div",
                {"class": "y", "aria-hidden": "true"},
                [h("span", None, chart.write(top * part)) for part in (1, 0.5, 0)],
            ),
            h(
                "div",
                {"class": "drawing"},
                _line(about, minutes, top, limit),
                _moments(chart, minutes, history),
            ),
        ),
        h("div", {"class": "x", "aria-hidden": "true"}, _ticks(history)),
    )


def _stats(chart: Chart) -> str:
    known = [value for value in chart.values if value is not None]
    if not known:
        return "not measured"
    now = chart.values[-1]
    allocated = "" if chart.limit is None else f", allocated {chart.write(chart.limit)}"
    mean = chart.write(sum(known) / len(known))
    return f"now {chart.write(now)}, mean {mean}, most {chart.write(max(known))}{allocated}"


class Minute(NamedTuple):
    """The mean and the largest value of a minute; None if nothing was measured."""

    mean: float | None
    most: float | None


def _minutes(values: Values, per_minute: int) -> list[Minute]:
    """The last hour by minutes, the newest last."""
    made = []
    for back in range(MINUTES, 0, -1):
        end = len(values) - (back - 1) * per_minute
        some = values[max(end - per_minute, 0) : max(end, 0)]
        known = [value for value in some if value is not None]
        made.append(Minute(sum(known) / len(known), max(known)) if known else Minute(None, None))
    return made


def _line(about: str, minutes: Sequence[Minute], top: float, limit: float | None) -> Html:
    runs: list[list[str]] = [[]]
    for number, minute in enumerate(minutes):
        if minute.mean is None:
            runs.append([])
        else:
            height = HEIGHT * (1 - min(max(minute.mean / top, 0), 1))
            runs[-1].append(f"{number} {height:.1f}L{number + 1} {height:.1f}")
    drawn = "".join(f"M{'L'.join(run)}" for run in runs if run)
    at = None if limit is None else f"{HEIGHT * (1 - limit / top):.1f}"
    return h(
        "svg",
        {
            "role": "img",
            "aria-label": about,
            "viewBox": f"0 0 {MINUTES} {HEIGHT}",
            "preserveAspectRatio": "none",
        },
        h("title", None, about),
        h("path", {"class": "half", "d": f"M0 {HEIGHT / 2:.0f}H{MINUTES}"}),
        h("path", {"class": "limit", "d": f"M0 {at}H{MINUTES}"}) if at is not None else None,
        h("path", {"class": "line", "d": drawn}) if drawn else None,
    )


def _moments(chart: Chart, minutes: Sequence[Minute], history: History) -> Html:
    """One element for each minute. Every tenth is a stop of the tab key."""
    made = []
    for number, minute in enumerate(minutes):
        ago = MINUTES - number
        when = _clock(history.end_unix_ns - (ago - 1) * 60 * 10**9)
        said = "not measured" if minute.mean is None else chart.write(minute.mean)
        if minute.most is not None and chart.write(minute.most) != said:
            said += f", at most {chart.write(minute.most)}"
        stop = "0" if ago % STOP == 1 else "-1"
        text = f"{when} UTC: {said}"
        made.append(h("span", {"class": "at", "role": "img", "tabindex": stop, "aria-label": text}))
    return h(
        "div", {"class": "moments", "role": "group", "aria-label": f"{chart.title} by minute"}, made
    )


def _ticks(history: History) -> list[Html]:
    """The times below a chart, from an hour ago to now."""
    each = MINUTES * 60 * 10**9 // (TICKS - 1)
    ends = (history.end_unix_ns - each * back for back in range(TICKS - 1, 0, -1))
    return [h("span", None, text) for text in (*map(_clock, ends), "now")]


def _clock(unix_ns: int) -> str:
    return datetime.fromtimestamp(max(unix_ns, 0) / 1e9, UTC).strftime("%H:%M")
