"""The meanings of words, each one tap away: a button and a popover, which need no script.

The texts are those of docs/glossary.md; ``docs/generate.py`` copies them. The reasons are those of
the JSON document. A browser without popovers shows the meanings as a list below the figures.
"""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from exporter.api.figures import UNATTRIBUTED, UNMEASURED
from exporter.facts.tree import DeviceEntry
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


def explanations(devices: Iterable[DeviceEntry]) -> Html:
    """The popovers of all words, and of the reasons that these devices have."""
    made = [_popover(f"word-{name}", name, text) for name, text in meanings().items()]
    codes: dict[tuple[str, str], str] = {}
    for device in devices:
        for part in device.unattributed:
            codes[OWNED, part.reason] = UNATTRIBUTED[part.reason]
        for why in device.facts.unmeasured.values() if device.facts is not None else ():
            codes[MEASURED, why] = UNMEASURED[why]
    made += [_popover(f"why-{kind}-{code}", code, text) for (kind, code), text in codes.items()]
    return h("div", {"class": "words", "data-k": "words"}, made)


def _popover(name: str, title: str, text: str) -> Html:
    return h(
        "div",
        {"id": name, "class": "meaning", "popover": "auto", "data-k": name},
        h("p", None, h("b", None, title), f" {text}"),
    )
