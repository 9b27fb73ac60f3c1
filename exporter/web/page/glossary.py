"""The meanings of words, each one tap away: a button and a popover, which need no script.

The texts are those of docs/glossary.md; ``docs/generate.py`` copies them. The reasons are those of
the JSON document. A browser without popovers shows the meanings as a list below the figures.
"""

import json
from functools import cache
from importlib.resources import files

from exporter.web.page.entries import Json
from exporter.web.page.html import Html, h

MEASURED = "unmeasured"
OWNED = "unattributed"


@cache
def meanings() -> dict[str, str]:
    """The words that can be asked for, with their meanings."""
    text = (files("exporter.web.page") / "glossary.json").read_text(encoding="utf-8")
    known: dict[str, str] = json.loads(text)
    return known


def word(name: str, text: str) -> Html:
    """A text that says on request what the word means."""
    return _button(f"word-{name}", text)


def reason(kind: str, code: str, text: str | None = None) -> Html:
    """A reason that says on request what it means. ``kind`` is unmeasured or unattributed."""
    return _button(f"why-{kind}-{code}", text or code)


def _button(target: str, text: str) -> Html:
    about = {"type": "button", "class": "word", "popovertarget": target}
    return h("button", about, text)


def explanations(document: Json) -> Html:
    """The popovers of all words, and of the reasons that the document has for its devices."""
    made = [_popover(f"word-{name}", name, text) for name, text in meanings().items()]
    codes: dict[tuple[str, str], None] = {}
    for device in document["devices"]:
        for part in device["unattributed"]:
            codes[OWNED, part["reason"]] = None
        for each in device.get("unmeasured", ()):
            codes[MEASURED, each["reason"]] = None
    for kind, code in codes:
        text = document["words"].get(kind, {}).get(code, "")
        made.append(_popover(f"why-{kind}-{code}", code, text))
    return h("div", {"class": "words", "data-k": "words"}, made)


def _popover(name: str, title: str, text: str) -> Html:
    return h(
        "div",
        {"id": name, "class": "meaning", "popover": "auto", "data-k": name},
        h("p", None, h("b", None, title), f" {text}"),
    )
