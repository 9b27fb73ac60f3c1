"""Bars, sparklines and numbers as pieces of text, each with a tone. Pure.

Everything can be read without colour: the allocation is marked in its bar, use beyond it has other
blocks, and unknown values are question marks.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from exporter.facts.marks import BEYOND
from exporter.terminal.details import amount, percent
from exporter.terminal.view import Figure, Line, LineKind, Past

NEAR = 0.9  # of a limit


class Tone(StrEnum):
    """The meaning of a piece of text. The caller chooses the colours."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    CALM = "calm"
    NEAR = "near"
    OVER = "over"
    UNKNOWN = "unknown"


class Piece(NamedTuple):
    """A piece of text."""

    text: str
    tone: Tone = Tone.PLAIN


Cell = Sequence[Piece]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL, _BEYOND, _MARK, _FREE = "█", "▓", "┃", "·"
_SPARKS = "▁▂▃▄▅▆▇█"
_GAP = "·"


def tone_of(figure: Figure) -> Tone:
    """The tone of a figure by its share of the limit; without a limit it is calm."""
    share = figure.share
    if share is None or share < NEAR:
        return Tone.CALM
    return Tone.OVER if share > BEYOND else Tone.NEAR


def core(line: Line) -> Cell:
    """The core in use, in percent of a GPU."""
    return _value(line.core, percent, _core_tone(line))


def core_limit(line: Line) -> Cell:
    """The allocated core."""
    return [Piece("" if line.core.limit is None else percent(line.core.limit), Tone.FAINT)]


def memory(line: Line) -> Cell:
    """The memory held."""
    return _value(line.memory, amount, tone_of(line.memory))


def memory_limit(line: Line) -> Cell:
    """The allocated memory; for a device, its whole memory."""
    return [Piece("" if line.memory.limit is None else amount(line.memory.limit), Tone.FAINT)]


def watts(line: Line) -> Cell:
    """A device's power."""
    return [Piece("" if line.watts is None else f"{line.watts:.0f}W")]


def celsius(line: Line) -> Cell:
    """A device's temperature."""
    return [Piece("" if line.celsius is None else f"{line.celsius:.0f}°C")]


def letters(line: Line) -> Cell:
    """A process's type."""
    return [Piece(line.letters)]


def engine(line: Line, number: int) -> Cell:
    """Memory traffic, encoder or decoder, in percent of its time."""
    value = line.engines[number]
    return [Piece("" if value is None else percent(value), Tone.PLAIN if value else Tone.FAINT)]


def bar(line: Line, cells: int) -> Cell:
    """Core in use as a bar with a mark at the end of the allocation, or why it is not known."""
    figure = line.core
    if line.ended:
        return [Piece("ended"[:cells], Tone.FAINT)]
    if figure.value is None:
        return [Piece(figure.why.replace("_", " ")[:cells], Tone.UNKNOWN)]
    return _bar(figure.value, figure.limit, cells, _core_tone(line))


def _core_tone(line: Line) -> Tone:
    """What is allocated of a device is no limit of its use."""
    return Tone.CALM if line.kind is LineKind.DEVICE else tone_of(line.core)


def memory_bar(line: Line, cells: int) -> Cell:
    """Memory held against the allocation as a bar, or why it is not known."""
    figure = line.memory
    if figure.value is None:
        return [Piece(figure.why.replace("_", " ")[:cells], Tone.UNKNOWN)]
    if figure.share is None:
        return []
    return _bar(figure.share, 1.0, cells, tone_of(figure))


def _value(figure: Figure, write: Callable[[float], str], tone: Tone) -> Cell:
    if figure.value is None:
        return [Piece("?" if figure.why else "", Tone.UNKNOWN)]
    return [Piece(write(figure.value), tone)]


def _bar(ratio: float, mark: float | None, cells: int, tone: Tone) -> Cell:
    eighths = round(8 * cells * min(max(ratio, 0.0), 1.0))
    if ratio > 0 and not eighths:
        eighths = 1  # so that little is not shown as nothing
    full, part = divmod(eighths, 8)
    drawn = _FULL * full + (_EIGHTHS[part] if part else "")
    place = None if mark is None or mark >= 1 else min(int(mark * cells), cells - 1)
    if place is None:
        return _joined(drawn, cells, tone)
    if place >= len(drawn):
        gap = _FREE * (place - len(drawn))
        rest = _FREE * (cells - place - 1)
        return [Piece(drawn, tone), Piece(gap, Tone.FAINT), Piece(_MARK), Piece(rest, Tone.FAINT)]
    beyond = drawn[place + 1 :].replace(_FULL, _BEYOND)
    rest = _FREE * (cells - len(drawn))
    pieces = [Piece(drawn[:place], tone), Piece(_MARK), Piece(beyond, tone)]
    return [*pieces, Piece(rest, Tone.FAINT)]


def _joined(drawn: str, cells: int, tone: Tone) -> Cell:
    return [Piece(drawn, tone), Piece(_FREE * (cells - len(drawn)), Tone.FAINT)]


def spark(past: Past, cells: int) -> Cell:
    """A sparkline, the newest at the right. A whole GPU is a full cell; a gap is not known."""
    each = max(ceil(len(past) / cells), 1)
    ends = range(len(past), 0, -each)
    means = (_mean(past[max(end - each, 0) : end]) for end in ends)
    drawn = "".join(_GAP if mean is None else _spark(mean) for mean in means)[::-1]
    return [Piece(drawn.rjust(cells), Tone.CALM)]


def _mean(points: Past) -> float | None:
    known = [point for point in points if point is not None]
    return sum(known) / len(known) if known else None


def _spark(point: float) -> str:
    height = round(point * (len(_SPARKS) - 1))
    return _SPARKS[min(max(height, 0), len(_SPARKS) - 1)]
