"""Texts that others wrote, as they are shown in a terminal or a message. Pure."""

import unicodedata
from datetime import UTC, datetime

LONGEST_TEXT = 512


def clean(value: str, *, longest: int | None = LONGEST_TEXT) -> str:
    """The text with every character escaped that a terminal acts on or that has no width.

    It is cut at ``longest``; None stands for any length.
    These are control characters, direction overrides, lone surrogates, combining and invisible
    characters. Every user can give a process such a name.
    """
    return "".join(map(_shown, value[:longest]))


def printable(value: str) -> str:
    """As ``clean``, for a text of several lines and any length."""
    return "".join(character if character == "\n" else _shown(character) for character in value)


def utc(unix_s: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A time that another machine states; "?" if no calendar has it."""
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"


def _shown(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    if character.isprintable() and not unicodedata.category(character).startswith("M"):
        return character
    return ascii(character)[1:-1]
