"""Elements. The only place where text becomes markup: what is not an element is escaped."""

import re
from collections.abc import Iterable, Mapping
from html import escape

UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
VOID = frozenset({"input", "link", "meta"})


class Html(str):
    """Text that is markup already; made by ``h`` only."""

    __slots__ = ()


Child = str | None | Iterable["Child"]
Attributes = Mapping[str, str | float | bool | None]


def h(name: str, attributes: Attributes | None = None, *children: Child) -> Html:
    """Make an element. An attribute that is None or False is left out; True has no value."""
    text = "".join(map(_markup, children))
    start = f"<{name}{_attributes(attributes or {})}>"
    return Html(start if name in VOID else f"{start}{text}</{name}>")


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
    """Escaped for text and attributes.

    Half a surrogate pair, which UTF-8 cannot say, is shown as a mark, and so is what would have
    text run the other way or do something else unseen.
    """
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return escape(UNSEEN.sub("\ufffd", whole))
