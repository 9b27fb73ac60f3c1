"""Figures with their limits, bars, meters and sparklines, as markup.

In SVG, positions and sizes are attributes, because the page's policy forbids inline styles.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from exporter.api.figures import UNMEASURED
from exporter.facts.marks import Mark
from exporter.model import Unmeasured
from exporter.web.page.entries import Part, why
from exporter.web.page.html import NBSP, Html, gibibytes, h, held_of, percent

OVER = 1.005  # rounds to 101 %
HATCH = "url(#hatch)"  # unattributed use
POINTS = 60  # of a sparkline: ten minutes
HEIGHT = 24
ENDED = h("span", {"class": "unknown"}, "ended")


def unknown(reasons: Sequence[str]) -> Html:
    """The text for a figure that is not known, with its reasons."""
    title = " ".join(UNMEASURED[Unmeasured(reason)] for reason in reasons)
    text = f"unknown: {', '.join(reasons)}" if reasons else "unknown"
    return h("span", {"class": "unknown", "title": title or None}, text)


@cache
def swatch(colour: int | None) -> Html:
    """The colour of a container in its GPU's bars; None for unattributed use."""
    look = {"fill": HATCH} if colour is None else {"class": f"c{colour}"}
    square = h("rect", {**look, "width": "10", "height": "10", "rx": "2"})
    size = {"class": "swatch", "width": "10", "height": "10", "aria-hidden": "true"}
    return h("svg", size, square)


def marked(marks: Iterable[Mark]) -> list[Html]:
    """What is wrong with a thing, beside its name."""
    return [
        h(
            "span",
            {"class": "mark severe" if mark.is_severe else "mark", "title": f"{mark.detail}."},
            mark.kind,
        )
        for mark in marks
    ]


def core_of(part: Part) -> Html:
    """Core in use against its limit."""
    if part.ended:
        return ENDED
    figures = part.figures
    return against(
        unknown(why(part.unmeasured, "core")) if figures.core is None else percent(figures.core),
        None if figures.core_limit is None else percent(figures.core_limit),
        over=(figures.core_of_limit or 0.0) > OVER,
    )


def memory_of(part: Part) -> Html | None:
    """Memory held against its limit."""
    if part.ended:
        return None
    figures = part.figures
    return held_against(
        figures.memory_bytes,
        figures.memory_limit_bytes,
        unknown(why(part.unmeasured, "memory")),
        over=(figures.memory_of_limit or 0.0) > OVER,
    )


def held_against(used: float | None, limit: float | None, otherwise: Html, *, over: bool) -> Html:
    """Bytes held against a limit, with the unit once if both have the same."""
    if used is None:
        return against(otherwise, None if limit is None else gibibytes(limit), over=over)
    figure, _, of = held_of(used, limit).partition(" ")
    return h("span", {"class": "over" if over else None}, figure, _quiet(of))


def against(figure: str, limit: str | None, *, over: bool) -> Html:
    """A figure against its limit, if there is one."""
    of = "" if limit is None else f"of{NBSP}{limit}"
    return h("span", {"class": "over" if over else None}, figure, _quiet(of))


def _quiet(of: str) -> Html | None:
    return h("span", {"class": "of"}, f" {of}") if of else None


class BarSegment(NamedTuple):
    """A part of a bar.

    ``size`` is its share of the bar. ``look`` is c0 … c7, unattributed or reserved.
    """

    size: float
    look: str
    words: str


def bar(about: str, segments: Sequence[BarSegment], allocated: Sequence[BarSegment] = ()) -> Html:
    """Use by container, side by side, with a thin line of the allocations below it."""
    return h(
        "svg",
        {"class": "bar", "role": "img", "aria-label": about, "width": "100%", "height": "22"},
        h("rect", {"class": "track", "width": "100%", "height": "15", "rx": "3"}),
        _rects(segments, "0", "15"),
        _rects(allocated, "18", "4"),
    )


def _rects(segments: Iterable[BarSegment], top: str, height: str) -> list[Html]:
    made, at = [], 0.0
    for size, look, words in segments:
        shown = min(size, 1 - at)
        if shown > 0.0005:  # noqa: PLR2004 - less is not visible
            place = {"x": share(at), "y": top, "width": share(shown), "height": height}
            fill = {"fill": HATCH} if look == "unattributed" else {}
            made.append(h("rect", {"class": look, **place, **fill}, h("title", None, words)))
            at += shown
    return made


def meter(about: str, filled: float | None, *, limited: bool) -> Html | None:
    """Use of a limit, or of a whole GPU; None if not known, because empty would mean zero."""
    if filled is None:
        return None
    look = "free" if not limited else "over" if filled > OVER else "fill"
    inner = []
    if filled:
        inner = [
            h("rect", {"class": look, "width": share(min(filled, 1)), "height": "6", "rx": "2"})
        ]
    return h(
        "svg",
        {"class": "meter", "role": "img", "aria-label": about, "width": "100%", "height": "6"},
        h("rect", {"class": "track", "width": "100%", "height": "6", "rx": "2"}),
        inner,
    )


def spark(about: str, values: Sequence[float | None], top: float) -> Html:
    """The last ten minutes as a line, with gaps where nothing was measured."""
    line, area = _paths(values, top or 1.0)
    return h(
        "svg",
        {
            "class": "spark",
            "role": "img",
            "aria-label": about,
            "viewBox": f"0 0 {POINTS} {HEIGHT}",
            "preserveAspectRatio": "none",
        },
        h("path", {"class": "area", "d": area}) if area else None,
        h("path", {"class": "line", "d": line}) if line else None,
    )


def _paths(values: Sequence[float | None], top: float) -> tuple[str, str]:
    line: list[str] = []
    area: list[str] = []
    run: list[str] = []
    start = POINTS - len(values)
    for number, value in enumerate([*values, None]):
        if value is not None:
            height = HEIGHT - 1 - min(max(value / top, 0), 1) * (HEIGHT - 2)
            run.append(f"{start + number} {height:.1f}")
        elif run:
            first, last = run[0].split(" ")[0], run[-1].split(" ")[0]
            line.append(f"M{'L'.join(run)}" + ("h.5" if len(run) == 1 else ""))
            area.append(f"M{first} {HEIGHT}L{'L'.join(run)}L{last} {HEIGHT}Z")
            run = []
    return "".join(line), "".join(area)


def share(part: float) -> str:
    """A share as an SVG length."""
    return f"{part * 100:.2f}%"


def sum_of(series: Iterable[Sequence[float | None]]) -> list[float | None]:
    """The sum of series that end at the same time.

    A series adds nothing before its first point. A sum is None where one of its terms is None.
    """
    listed = list(series)
    made: list[float | None] = []
    for back in range(max(map(len, listed), default=0), 0, -1):
        here = [one[-back] for one in listed if len(one) >= back]
        known = [value for value in here if value is not None]
        made.append(sum(known) if len(known) == len(here) else None)
    return made
