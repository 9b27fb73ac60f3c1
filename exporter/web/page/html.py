"""HTML elements, and numbers as people read them.

``h`` is the only place where text becomes markup. It escapes everything else.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape

# Control characters, characters that change the direction of text, and lone halves of surrogate
# pairs, which UTF-8 cannot encode. Each is shown as a mark.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
SPECIAL = re.compile(f"[&<>\"'{UNSEEN.pattern[1:-1]}]")  # what is not written as it is
VOID = frozenset({"input", "link", "meta"})
NBSP = "\u00a0"
_GIB, _MIB = 2**30, 2**20


class Html(str):
    """Text that is markup already. Only ``h`` makes it."""

    __slots__ = ()


Child = str | None | Iterable["Child"]
Attributes = Mapping[str, str | float | bool | None]


def h(name: str, attributes: Attributes | None = None, *children: Child) -> Html:
    """An element. An attribute that is None or False is left out; one that is True has no value."""
    start = f"<{name}{_attributes(attributes)}>" if attributes else f"<{name}>"
    if name in VOID:
        return Html(start)
    return Html(f"{start}{''.join(map(_markup, children))}</{name}>")


def _attributes(attributes: Attributes) -> str:
    return "".join(
        f" {name}" if value is True else f' {name}="{_escaped(str(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )


def _markup(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return _escaped(child)
    return "".join(map(_markup, child))


def _escaped(text: str) -> str:
    """The text, escaped for elements and attributes. Most texts need nothing: a quick test."""
    if SPECIAL.search(text) is None:
        return text
    return escape(UNSEEN.sub("\ufffd", text))


TAIL = 8  # characters of a name's end that remain visible


def cut(name: str, kind: str = "name") -> Html:
    """A name that is cut in the middle where there is little room.

    The second text is seen only where the first does not fit; it is neither read aloud nor copied.
    A name without a visible character is shown as "(no name)".
    """
    name = name if name.strip() else "(no name)"
    if len(name) <= 2 * TAIL:
        return h("bdi", {"class": kind}, name)
    head, tail = h("span", None, name[:-TAIL]), h("span", None, name[-TAIL:])
    short = h("span", {"aria-hidden": "true"}, head, tail)
    return h("bdi", {"class": f"{kind} cut", "title": name}, h("span", None, name), short)


def percent(ratio: float | None) -> str:
    """A ratio in percent, with one decimal below ten; "?" if it is None."""
    if ratio is None:
        return "?"
    value = ratio * 100
    if 0 < value < 0.05:  # noqa: PLR2004 - would be written as 0.0
        return f"<0.1{NBSP}%"
    return f"{value:.{0 if value >= 9.95 or value == 0 else 1}f}{NBSP}%"  # noqa: PLR2004 - 9.95 would be 10.0


def gibibytes(count: float | None) -> str:
    """Bytes in GiB, or in MiB below one GiB; "?" if they are None."""
    if count is None:
        return "?"
    if abs(count) >= _GIB:
        return f"{count / _GIB:.1f}{NBSP}GiB"
    return f"{count / _MIB:.0f}{NBSP}MiB" if count else "0"


def held_of(used: float | None, limit: float | None) -> str:
    """Bytes against a limit, with the unit once if both have the same."""
    if limit is None or used is None:
        return gibibytes(used)
    figure, of = gibibytes(used), gibibytes(limit)
    if figure.endswith("GiB") and of.endswith("GiB"):
        figure = figure.removesuffix(f"{NBSP}GiB")
    return f"{figure} of{NBSP}{of}"


def seconds(count: float) -> str:
    """A duration in seconds, in its largest unit or two."""
    whole = int(count)
    for unit, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{NBSP}{unit}" + (f" {rest}{NBSP}{below}" if rest else "")
    return f"{whole // 60}{NBSP}min" if whole >= 60 else f"{whole}{NBSP}s"  # noqa: PLR2004 - a minute


def age(count: float) -> str:
    """The age of the figures, with tenths of a second below ten seconds."""
    return f"{count:.1f}{NBSP}s" if count < 10 else seconds(count)  # noqa: PLR2004 - seconds


def many(count: int, one: str, more: str = "") -> str:
    """A number with its noun in singular or plural."""
    return f"{count}{NBSP}{one if count == 1 else more or one + 's'}"
