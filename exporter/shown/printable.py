"""Texts that others wrote, as they are shown in a terminal, a message or a cell of CSV. Pure."""

import re
import unicodedata
from datetime import UTC, datetime
from textwrap import wrap

LONGEST_TEXT = 512

_CALCULATED = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # full width too
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,8}m)")


def clean(value: str, *, longest: int | None = LONGEST_TEXT) -> str:
    """The text with every character escaped that a terminal acts on or that has no width.

    It is cut at ``longest``; None stands for any length.
    These are control characters, direction overrides, lone surrogates, combining and invisible
    characters. Every user can give a process such a name.
    """
    return "".join(map(_shown, value[:longest]))


def printable(value: str, *, coloured: bool = False) -> str:
    """As ``clean``, for a text of several lines and any length. A ``coloured`` one stays so."""
    if coloured:
        return "".join(
            part if _COLOUR.fullmatch(part) else printable(part) for part in _COLOUR.split(value)
        )
    if value.isascii() and value.replace("\n", "").isprintable():
        return value
    return "".join(character if character == "\n" else _shown(character) for character in value)


def wrapped(text: str, width: int | None) -> str:
    """The text in lines of at most ``width`` columns; with None as it is.

    A line goes on below, two columns further in. Names, paths and amounts, which people copy, are
    whole: only spaces are broken.
    """
    if width is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        broken = wrap(
            line,
            width,
            subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += broken or [line]
    return "\n".join(lines)


def cell(value: str) -> str:
    """As ``clean``, for a cell of CSV that spreadsheets do not take for a formula.

    They calculate what begins with one of ``= + - @``, and a formula can send the sheet away. An
    apostrophe before it makes it a text; spreadsheets show the text without. Names of Kubernetes
    begin with none of these. Numbers are none of these texts: a cell below zero stays a number.
    """
    text = clean(value, longest=None)
    return f"'{text}" if text.startswith(_CALCULATED) else text


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
