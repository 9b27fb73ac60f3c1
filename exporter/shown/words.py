"""Amounts, lengths of time, counts and lists in words: the same on every face. Pure.

Each amount has two forms: one for sentences and the page, which may be "?" or "<1 MiB", and a
narrow one for the columns of a terminal. No line breaks between a number and its unit.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from exporter.model import GIB, KIB, MIB, TIB

NBSP = "\u00a0"

_NARROW_UNITS = ((TIB, "T"), (GIB, "G"), (MIB, "M"), (KIB, "k"))
_ROUNDED = 0.9995  # what is shown as 1.0 of the next unit
_HUNDRED = 99.95  # what is shown as 100
_J, _KJ, _KWH = 1e6, 1e9, 3.6e12  # in microjoules
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_MOST_NAMES = 5
_CONTAINER_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def percent(ratio: float | None) -> str:
    """A ratio in percent, with one decimal below ten; "?" if it is None."""
    if ratio is None:
        return "?"
    value = ratio * 100
    if 0 < value < 0.05:  # noqa: PLR2004 - would be written as 0.0
        return f"<0.1{NBSP}%"
    return f"{value:.{0 if value >= 9.95 or value == 0 else 1}f}{NBSP}%"  # noqa: PLR2004 - 9.95 would be 10.0


def narrow_percent(ratio: float) -> str:
    """A ratio in at most four characters up to 999 %."""
    small = 0 < abs(ratio) < 0.0995  # noqa: PLR2004 - what rounds to 10 %
    return f"{100 * ratio:.1f}%" if small else f"{100 * ratio:.0f}%"


def gib(count: float) -> str:
    """Bytes in GiB, in a sentence."""
    return f"{count / GIB:.1f} GiB"


def memory(count: float | None) -> str:
    """Bytes in GiB, or in MiB below one GiB; "?" if they are None."""
    if count is None:
        return "?"
    if abs(count) >= GIB - MIB / 2:  # less would be written as 1024 MiB
        return f"{count / GIB:.1f}{NBSP}GiB"
    if 0 < count < MIB / 2:  # would be written as 0
        return f"<1{NBSP}MiB"
    return f"{count / MIB:.0f}{NBSP}MiB" if count else "0"


def held_of(used: float | None, limit: float | None) -> str:
    """Bytes against a limit, with the unit once if both have the same."""
    if limit is None or used is None:
        return memory(used)
    figure, of = memory(used), memory(limit)
    if figure.endswith("GiB") and of.endswith("GiB"):
        figure = figure.removesuffix(f"{NBSP}GiB")
    return f"{figure} of{NBSP}{of}"


def narrow_memory(count: float) -> str:
    """Bytes in at most five characters: 512M, 27.0G."""
    for unit, letter in _NARROW_UNITS:
        if abs(count) >= _ROUNDED * unit:
            part = count / unit
            digits = 1 if letter in "TG" and abs(part) < _HUNDRED else 0
            return f"{part:.{digits}f}{letter}"
    return f"{count:.0f}"


def energy(microjoules: float) -> str:
    """Energy in its largest unit: J, kJ or kWh."""
    if microjoules >= _KWH:
        return f"{microjoules / _KWH:.2f} kWh"
    return f"{microjoules / _KJ:.1f} kJ" if microjoules >= _KJ else f"{microjoules / _J:.0f} J"


def duration(seconds: float) -> str:
    """A duration in its largest unit or two: 3 h 5 min."""
    left_s = int(seconds)
    for (unit, size), (below, smaller) in pairwise(
        (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S))
    ):
        if left_s >= size:
            rest = left_s % size // smaller
            return f"{left_s // size}{NBSP}{unit}" + (f" {rest}{NBSP}{below}" if rest else "")
    return f"{left_s // _MINUTE_S}{NBSP}min" if left_s >= _MINUTE_S else f"{left_s}{NBSP}s"


def age(seconds: float) -> str:
    """The age of the figures, with tenths of a second below ten seconds."""
    return f"{seconds:.1f}{NBSP}s" if seconds < 10 else duration(seconds)  # noqa: PLR2004


def gpu_time(seconds: float) -> str:
    """Time on GPUs, in hours from one hour on."""
    return f"{seconds / _HOUR_S:.2f} h" if seconds >= _HOUR_S else f"{seconds:.1f} s"


def length(seconds: float) -> str:
    """A length of time in a sentence: ``minute``, ``5 minutes``, ``3 hours``, ``15 seconds``."""
    for unit_s, unit in ((_DAY_S, "day"), (_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if seconds >= unit_s:
            count = round(seconds / unit_s)
            return unit if count == 1 else f"{count} {unit}s"
    count = round(seconds)
    return "second" if count == 1 else f"{count} seconds"


def ago(seconds: float) -> str:
    """How long ago, in a sentence: ``a minute ago``, ``3 hours ago``."""
    words = length(seconds)
    article = "" if words[0].isdigit() else "an " if words == "hour" else "a "
    return f"{article}{words} ago"


def plural(count: int | str, noun: str, nouns: str = "", *, space: str = " ") -> str:
    """A number with its noun: ``1 pod``, ``2 pods``, ``no pods``."""
    return f"{count}{space}{noun if count == 1 else nouns or noun + 's'}"


def page_plural(count: int, noun: str, nouns: str = "") -> str:
    """As ``plural``, without a line break in it."""
    return plural(count, noun, nouns, space=NBSP)


def short_ids(text: str) -> str:
    """The text with containers' ids of 64 digits as docker shows them, by 12."""
    return _CONTAINER_ID.sub(r"\1", text)


def joined(names: Sequence[str], most: int | None = None) -> str:
    """Names in a sentence: ``a, b and c``; beyond ``most`` of them ``a, b and 2 others``."""
    shown = list(names[:most])
    if len(names) > len(shown):
        shown.append(plural(len(names) - len(shown), "other"))
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def some_of(names: Iterable[str], most: int = _MOST_NAMES) -> str:
    """The first names by the alphabet, and how many more there are: ``a, b, c and 2 more``."""
    known = sorted(names)
    more = len(known) - most
    return ", ".join(known[:most]) + (f" and {more} more" if more > 0 else "")
