"""The last hour of a GPU, pod or group as charts with an axis and values. Pure.

The line is SVG. Over it lies one element for each minute, which shows its value while the pointer
or the focus is on it: this needs no script. ``page.js`` lets the arrow keys go from one to the
next. The texts of the axes are HTML, so that they keep their size where the chart is narrow.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from exporter.agent.facts.history import POINTS, Past
from exporter.agent.web.page.cells import sum_of
from exporter.agent.web.page.entries import TreeEntry, series_of
from exporter.model import DeviceFacts, History, SeriesKey
from exporter.shown.tree import Figures
from exporter.shown.words import memory, percent

MINUTES = 60
STOP = 10  # minutes between two stops of the tab key
TICKS = 5  # of the time axis
HEIGHT = 100
MAX_CHARTS = 8  # of one entry
NAMED = 3  # owners in the text of a minute
Values = Sequence[float | None]


class Owned(NamedTuple):
    """What one owner had of a GPU. ``look`` is the class of its colour."""

    name: str
    look: str
    series: SeriesKey


class Course(NamedTuple):
    """What a chart is made of. ``limit`` is drawn as a line if it is known.

    ``parts``: the names, looks and values of those whose sum it is.
    """

    title: str
    values: Values
    top: float
    write: Callable[[float | None], str]
    limit: float | None = None
    parts: Sequence[tuple[str, str, Values]] = ()


class Chart(NamedTuple):
    """A chart. ``axis`` has its values from top to bottom; ``line``, ``limit``, ``areas`` are SVG.

    ``areas``: the look and the shape of each owner's part, one upon the other. ``minutes``: the
    text of each, and whether the tab key stops there.
    """

    title: str
    stats: str
    axis: Sequence[str]
    line: str
    areas: Sequence[tuple[str, str]]
    limit: str | None
    minutes: Sequence[tuple[bool, str]]


class Hour(NamedTuple):
    """The charts of a card or an entry, the times below each, and a note."""

    charts: Sequence[Chart]
    ticks: Sequence[str]
    note: str


def of_device(
    device: DeviceFacts, whole: float, history: History, owners: Sequence[Owned] = ()
) -> Hour:
    """Core and memory of one device, by those who are on it now.

    ``whole`` is what of a GPU's core it has.
    """
    past = Past(history, POINTS)
    own, none = past.get(series_of(device), {}), ()
    known = [(each.name, each.look, past[each.series]) for each in owners if each.series in past]

    def by(quantity: str) -> list[tuple[str, str, Values]]:
        return [(name, look, series[quantity]) for name, look, series in known]

    core, held = own.get("core_utilization_ratio", none), own.get("memory_used_bytes", none)
    total = device.memory.total_bytes or _most(held)
    courses = [
        Course("Core", core, whole, percent, device.allocated.core, by("core_utilization_ratio")),
        Course("Memory", held, total, memory, parts=by("memory_used_bytes")),
    ]
    note = "Coloured: who is on the GPU now. The rest is of what has ended, or unattributed."
    return _hour(courses, history, note if known else "")


def of_entry(entry: TreeEntry, history: History) -> Hour:
    """Core and memory of a pod or group, and of each of its containers on each device."""
    past = Past(history, POINTS)
    known = [part for part in entry.parts if part.series in past]
    courses: list[Course] = []
    if len(known) > 1:
        core = sum_of([past[part.series]["core_utilization_ratio"] for part in known])
        held = sum_of([past[part.series]["memory_used_bytes"] for part in known])
        whose = "" if entry.kind == "group" else " of the pod"
        courses += _both(whose, core, held, entry.figures)
    for part in known[: MAX_CHARTS // 2]:
        series = past[part.series]
        whose = f" of {part.name or 'all containers'} on GPU {part.device}"
        courses += _both(
            "" if len(known) == 1 else whose,
            series["core_utilization_ratio"],
            series["memory_used_bytes"],
            part.figures,
        )
    more = len(known) - MAX_CHARTS // 2
    return _hour(courses, history, f"{more} more are not shown." if more > 0 else "")


def _both(whose: str, core: Values, held: Values, figures: Figures) -> list[Course]:
    limit, most = figures.core_limit, figures.memory_limit_bytes
    return [
        Course(f"Core{whose}", core, max(_most(core), limit or 0.0), percent, limit),
        Course(f"Memory{whose}", held, max(_most(held), most or 0.0), memory, most),
    ]


def _most(values: Values) -> float:
    return max((value for value in values if value), default=0.0)


def _hour(courses: Sequence[Course], history: History, note: str = "") -> Hour:
    each = MINUTES * 60 * 10**9 // (TICKS - 1)
    ends = (history.end_unix_ns - each * back for back in range(TICKS - 1, 0, -1))
    none = "" if courses else "Nothing is known of the last hour."
    charts = [_chart(course, history) for course in courses]
    return Hour(charts, [*map(_clock, ends), "now"], none or note)


def _chart(course: Course, history: History) -> Chart:
    per_minute = max(round(60e9 / history.step_ns), 1)
    minutes = _minutes(course.values, per_minute)
    parts = [(name, _minutes(values, per_minute)) for name, _, values in course.parts]
    top, limit = course.top or 1.0, course.limit
    at = f"{HEIGHT * (1 - limit / top):.1f}" if limit and limit <= top else None
    axis = [course.write(top * part) for part in (1, 0.5, 0)]
    moments = [_moment(course, n, minutes, parts, history) for n in range(MINUTES)]
    # A minute without a figure breaks the line: a line through it would say that it was measured.
    runs: list[list[str]] = [[]]
    for number, minute in enumerate(minutes):
        if minute.mean is None:
            runs.append([])
        else:
            height = _height(minute.mean, top)
            runs[-1].append(f"{number} {height}L{number + 1} {height}")
    line = "".join(f"M{'L'.join(run)}" for run in runs if run)
    areas = _areas([means for _, means in parts], top)
    looks = (look for _, look, _ in course.parts)
    drawn = [pair for pair in zip(looks, areas, strict=True) if pair[1]]
    # The same in words, for who reads no chart.
    known = [value for value in course.values if value is not None]
    stats = "not measured"
    if known:
        now, mean = course.write(course.values[-1]), course.write(sum(known) / len(known))
        allocated = "" if course.limit is None else f", allocated {course.write(course.limit)}"
        stats = f"now {now}, mean {mean}, most {course.write(max(known))}{allocated}"
    return Chart(course.title, stats, axis, line, drawn, at, moments)


def _areas(parts: Sequence[Sequence["Minute"]], top: float) -> list[str]:
    """The shape of each part by minute, the first lowest; "" of one that had nothing."""
    # Each area stands on the one before. What was not measured is drawn as nothing: it would lift
    # all areas above it.
    below, made = [0.0] * MINUTES, []
    for minutes in parts:
        above = [b + (each.mean or 0.0) for b, each in zip(below, minutes, strict=True)]
        edge = "".join(f"V{_height(v, top)}H{n + 1}" for n, v in enumerate(above))
        back = "".join(f"V{_height(below[n], top)}H{n}" for n in reversed(range(MINUTES)))
        made.append(f"M0 {_height(below[0], top)}{edge}{back}Z" if above != below else "")
        below = above
    return made


def _height(value: float, top: float) -> str:
    return f"{HEIGHT * (1 - min(max(value / top, 0), 1)):.1f}"


class Minute(NamedTuple):
    """The mean and the largest value of a minute; None if nothing was measured."""

    mean: float | None
    most: float | None


def _minutes(values: Values, per_minute: int) -> list[Minute]:
    """The last hour by minutes, the newest last."""
    # From the newest back: a history that is shorter than an hour lacks its first minutes.
    made = []
    for back in range(MINUTES, 0, -1):
        end = len(values) - (back - 1) * per_minute
        some = values[max(end - per_minute, 0) : max(end, 0)]
        known = [value for value in some if value is not None]
        made.append(Minute(sum(known) / len(known), max(known)) if known else Minute(None, None))
    return made


def _moment(
    course: Course,
    number: int,
    minutes: Sequence[Minute],
    parts: Sequence[tuple[str, Sequence[Minute]]],
    history: History,
) -> tuple[bool, str]:
    ago, minute = MINUTES - number, minutes[number]
    when = _clock(history.end_unix_ns - (ago - 1) * 60 * 10**9)
    said = "not measured" if minute.mean is None else course.write(minute.mean)
    if minute.most is not None and course.write(minute.most) != said:
        said += f", at most {course.write(minute.most)}"
    means = ((name, each[number].mean or 0.0) for name, each in parts)
    largest = sorted((pair for pair in means if pair[1]), key=lambda pair: -pair[1])
    said += "".join(f"; {name} {course.write(mean)}" for name, mean in largest[:NAMED])
    return ago % STOP == 1, f"{when} UTC: {said}"


def _clock(unix_ns: int) -> str:
    return datetime.fromtimestamp(max(unix_ns, 0) / 1e9, UTC).strftime("%H:%M")
