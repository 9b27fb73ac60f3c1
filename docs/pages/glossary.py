"""The words that the live page explains, from the tables of docs/glossary.md."""

import json
import re

# What the page shows: its own name for a word, and the glossary's.
SHOWN = {
    "core": "core",
    "memory": "memory",
    "allocation": "allocation",
    "limit": "request, limit",
    "unattributed": "unattributed",
    "unmeasured": "unmeasured",
    "reason": "reason",
    "owner": "owner",
    "group": "group",
    "scheme": "scheme",
    "traffic": "memory activity",
}
ROW = re.compile(r"^\| (?P<words>[^|]+) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)


def glossary(page: str) -> str:
    """The JSON of the words with their meanings.

    Raises:
        KeyError: the glossary lacks a word that the page shows.

    """
    rows = {row["words"].strip(): _plain(row["meaning"]) for row in ROW.finditer(page)}
    meanings = {word: rows[entry] for word, entry in SHOWN.items()}
    return json.dumps(meanings, indent=1) + "\n"


def _plain(meaning: str) -> str:
    return meaning.replace("`", "").strip()
