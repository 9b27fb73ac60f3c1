"""The meanings of words, each one tap away: a button and a popover, which need no script.

The texts are those of docs/glossary.md; ``docs/generate.py`` copies them. The reasons are those of
the JSON document. A browser without popovers shows the meanings as a list below the figures.
"""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from exporter.shown.reasonwords import UNATTRIBUTED, UNMEASURED
from exporter.shown.tree import DeviceEntry


class Meaning(NamedTuple):
    """What a word means; ``key`` is what its buttons name."""

    key: str
    word: str
    text: str


@cache
def meanings() -> dict[str, str]:
    """The words that can be asked for, with their meanings."""
    text = (files("exporter.agent.web.page") / "glossary.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def explanations(devices: Iterable[DeviceEntry]) -> list[Meaning]:
    """The meanings of all words, and of the reasons that these devices have."""
    made = {
        f"word-{word}": Meaning(f"word-{word}", word, text) for word, text in meanings().items()
    }
    for device in devices:
        for part in device.unattributed:
            key = f"why-unattributed-{part.reason}"
            made[key] = Meaning(key, part.reason, UNATTRIBUTED[part.reason])
        for why in device.facts.unmeasured.values() if device.facts is not None else ():
            key = f"why-unmeasured-{why}"
            made[key] = Meaning(key, why, UNMEASURED[why])
    return list(made.values())
