"""The JSON Schema (draft 7) of each kind of value in a YAML file, for the chart's schema.

A schema refuses all that the kind's reader refuses. It also refuses spellings that nobody needs,
such as ``05s`` or a list as one text. Helm reads the patterns with RE2, so none looks around.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from charts.value import SWITCH, TEXT, Schema
from exporter.inputs.valuekinds import Form

SHORTER = {"s": 60, "m": 60}
"""Unit of a duration → how many of it are one of the next."""

MAX_OF_A_UNIT = 9999  # beyond it one takes the next unit


def matching(pattern: str) -> Schema:
    """A text that matches as a whole."""
    # A schema looks for a pattern anywhere: it is bound at both ends, and so is each alternative in
    # it.
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


def choice(names: Sequence[str]) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(names)}


def count(low: int, high: int) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": low, "maximum": high}


def size(low: int, high: int, powers: Mapping[str, int]) -> Schema:
    """Bytes as a number, or as a text with a unit; ``powers``: bytes of each unit."""
    spelt = [
        f"(?:{numbers(-(-low // power), min(high // power, MAX_OF_A_UNIT))})"
        # A unit alone, such as Mi, is one of it.
        f"{'?' * (unit != '' and low <= power)}{unit}"
        for unit, power in powers.items()
        if power <= high
    ]
    return {**count(low, high), **matching("|".join(spelt)), "type": ["integer", "string"]}


def many(one: Form) -> Schema:
    """A list, or the only one of it."""
    form = schema(one)
    return {"anyOf": [{"type": "array", "items": form, "minItems": 1}, form]}


def pairs(name: Form, value: Form) -> Schema:
    """Values by name."""
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": schema(name),
        "additionalProperties": schema(value),
    }


def keys(known: Mapping[str, Form]) -> dict[str, object]:
    """A mapping with these keys only, each with its own form."""
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {name: schema(form) for name, form in known.items()},
    }


def mappings(
    known: Mapping[str, Form],
    most: int,
    required: Sequence[str],
    some: Sequence[str] = (),
    needs: Mapping[str, Sequence[str]] | None = None,
) -> Schema:
    """A list of mappings with these keys, some of them ``required``, and one of ``some``.

    ``needs``: for a key, those of which one must be there with it.
    """
    item = {**keys(known), "required": list(required)}
    if some:
        item["anyOf"] = _one_of_them(some)
    if needs:
        item["dependencies"] = {name: {"anyOf": _one_of_them(of)} for name, of in needs.items()}
    return {"type": "array", "items": item, "maxItems": most}


def _one_of_them(names: Sequence[str]) -> list[Schema]:
    """The condition, for ``anyOf``, that one of these keys is given."""
    return [{"required": [name]} for name in names]


def duration(low: int, high: int, units: Mapping[str, int]) -> Schema:
    """A duration such as ``500ms``, ``0.5s`` or ``1h30m``, each unit once, the longest first.

    ``units``: nanoseconds of each unit, the shortest first; the bounds are in nanoseconds.
    """
    return matching("|".join(_durations(low, high, units)))


def _durations(low: int, high: int, units: Mapping[str, int]) -> Iterator[str]:
    rest = ""  # what may follow: the shorter units but milliseconds
    for unit, length in units.items():
        first, last = -(-low // length), high // length
        within = min(last - 1, MAX_OF_A_UNIT)  # a fraction or shorter units stay below the last
        if unit == "ms":
            yield f"({numbers(first, min(last, MAX_OF_A_UNIT))})ms"
            continue
        if first <= within:
            yield rf"({numbers(first, within)})(\.[0-9]{{1,9}}{unit}|{unit}{rest})"
        if first <= last <= MAX_OF_A_UNIT:
            yield f"{last}{unit}"
        if 0 < low * 10 <= length <= high:
            yield rf"0\.[1-9][0-9]{{0,8}}{unit}"
        if unit in SHORTER:
            rest = f"(({numbers(0, SHORTER[unit] - 1)}){unit})?{rest}"


def numbers(low: int, high: int) -> str:
    """A pattern of the whole numbers from low to high, without leading zeros."""
    lengths: dict[str, list[int]] = {}  # first digits → how many of any kind may follow
    while low <= high:
        # The largest power of ten whose numbers, from this one on, are all within: they share their
        # first digits.
        free = 0
        while low and low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high:
            free += 1
        rest, digit = divmod(low // 10**free, 10)
        last = min(digit + (high - low + 1) // 10**free - 1, 9)
        digits = f"[{digit}-{last}]" if digit < last else f"{digit}"
        lengths.setdefault(f"{rest or ''}{digits}", []).append(free)
        low += (last - digit + 1) * 10**free
    return "|".join(_followed(first, free) for first, free in lengths.items())


def _followed(first: str, free: list[int]) -> str:
    if free == [0]:
        return first
    fewest, most = free[0], free[-1]
    return f"{first}[0-9]{{{most}}}" if fewest == most else f"{first}[0-9]{{{fewest},{most}}}"


_WORDS: Mapping[str, Callable[..., Schema]] = {
    "any": lambda: TEXT,
    "switch": lambda: SWITCH,
    "matching": matching,
    "choice": choice,
    "count": count,
    "size": size,
    "duration": duration,
    "many": many,
    "pairs": pairs,
    "keys": keys,
    "mappings": mappings,
}


def schema(form: Form) -> Schema:
    """The schema of a kind of value."""
    arguments: tuple[Any, ...] = form.of
    return _WORDS[form.word](*arguments)
