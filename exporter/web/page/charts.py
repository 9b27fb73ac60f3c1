"""Bars and lines as SVG. Places and sizes are attributes, because inline styles are forbidden."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from exporter.web.page.cells import HATCH
from exporter.web.page.html import Html, h

POINTS = 120
HEIGHT = 24


class Segment(NamedTuple):
    """A part of a bar. ``size`` is a share of the bar; ``look`` is c0 … c7, nobody or reserved."""

    size: float
    look: str
    words: str


def bar(about: str, segments: Sequence[Segment], allotted: Sequence[Segment] = ()) -> Html:
    """Use by container, side by side; below it a thin line of what was allotted."""
    return h(
        "svg",
        {"class": "bar", "role": "img", "aria-label": about, "width": "100%", "height": "22"},
        h("rect", {"class": "track", "width": "100%", "height": "15", "rx": "3"}),
        _laid(segments, "0", "15"),
        _laid(allotted, "18", "4"),
    )


def _laid(segments: Iterable[Segment], top: str, height: str) -> list[Html]:
    made, at = [], 0.0
    for size, look, words in segments:
        shown = min(size, 1 - at)
        if shown > 0.0005:  # noqa: PLR2004 - less is not visible
            place = {"x": share(at), "y": top, "width": share(shown), "height": height}
            fill = {"fill": HATCH} if look == "nobody" else {}
            made.append(h("rect", {"class": look, **place, **fill}, h("title", None, words)))
            at += shown
    return made


def meter(about: str, filled: float | None, *, limited: bool) -> Html | None:
    """Use of a limit, or of a whole GPU; None if not known, because empty would mean zero."""
    if filled is None:
        return None
    over = filled > 1.005  # noqa: PLR2004 - rounds to 101 %
    look = "free" if not limited else "over" if over else "fill"
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
    """The last ten minutes as a line, with gaps where nothing was known."""
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


def added(series: Iterable[Sequence[float | None]]) -> list[float | None]:
    """The sum of series that end at the same time; None where one of them, once begun, is None."""
    listed = list(series)
    made: list[float | None] = []
    for back in range(max(map(len, listed), default=0), 0, -1):
        here = [one[-back] for one in listed if len(one) >= back]
        known = [value for value in here if value is not None]
        made.append(sum(known) if len(known) == len(here) else None)
    return made
