"""Figures of a container with their limits, and the text for a figure that is not known."""

from collections.abc import Sequence

from exporter.web.page.entries import Json
from exporter.web.page.html import Html, h
from exporter.web.page.numbers import NBSP, gibibytes, held_of, percent

OVER = 1.005  # rounds to 101 %
HATCH = "url(#hatch)"  # unattributed use


def unknown(reasons: Sequence[str], words: Json) -> Html:
    """The text for a figure that is not known, with its reasons."""
    title = " ".join(words.get("unmeasured", {}).get(reason, reason) for reason in reasons)
    text = f"unknown: {', '.join(reasons)}" if reasons else "unknown"
    return h("span", {"class": "unknown", "title": title or None}, text)


def why(figures: Json, quantity: str) -> list[str]:
    """The reasons why a quantity is not known."""
    listed = figures.get("unmeasured", ())
    return [each["reason"] for each in listed if each["quantity"] in {quantity, "device"}]


def swatch(colour: int | None) -> Html:
    """The colour of a container in its GPU's bars; None for unattributed use."""
    look = {"fill": HATCH} if colour is None else {"class": f"c{colour}"}
    square = h("rect", {**look, "width": "10", "height": "10", "rx": "2"})
    size = {"class": "swatch", "width": "10", "height": "10", "aria-hidden": "true"}
    return h("svg", size, square)


def mismatch(figures: Json) -> Html | None:
    """A mark on a container that uses a device which its allotment does not name."""
    if not figures.get("placement_mismatch"):
        return None
    title = "It runs on a device that its allotment does not name."
    return h("span", {"class": "mark", "title": title}, "not allotted here")


def core_of(figures: Json, words: Json) -> Html:
    """Core in use against its limit."""
    used, limit = figures.get("core_utilization_ratio"), figures.get("core_limit_ratio")
    ratio = figures.get("core_limit_utilization_ratio")
    return against(
        percent(used) if used is not None else unknown(why(figures, "core"), words),
        None if limit is None else percent(limit),
        over=(ratio or 0.0) > OVER,
    )


def memory_of(figures: Json, words: Json) -> Html:
    """Memory held against its limit."""
    used, limit = figures.get("memory_used_bytes"), figures.get("memory_limit_bytes")
    ratio = figures.get("memory_limit_utilization_ratio")
    return held_against(
        used, limit, unknown(why(figures, "memory"), words), over=(ratio or 0.0) > OVER
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
