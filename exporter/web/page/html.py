"""HTML elements. The only place where text becomes markup: all other text is escaped."""

import re
from collections.abc import Iterable, Mapping
from html import escape

# Control characters, characters that change the direction of text, and lone halves of surrogate
# pairs, which UTF-8 cannot encode. Each is shown as a mark.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
VOID = frozenset({"input", "link", "meta"})


class Html(str):
    """Text that is markup already; made by ``h`` only."""

    __slots__ = ()


Child = str | None | Iterable["Child"]
Attributes = Mapping[str, str | float | bool | None]


def h(name: str, attributes: Attributes | None = None, *children: Child) -> Html:
    """Return an element. An attribute that is None or False is left out; True has no value."""
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
    """Escapes for text and attributes. Most texts are alphanumeric, which is quick to see."""
    if text.isascii() and text.isalnum():
        return text
    return escape(UNSEEN.sub("\ufffd", text))
