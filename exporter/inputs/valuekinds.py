"""What a kind of value is, what is wrong with one of several lines, and lengths of time. Pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import yaml

T_co = TypeVar("T_co", covariant=True)

_UNITS = {"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|s|m|h)")


class Form(NamedTuple):
    """Which plain spellings a YAML file may have: a word, and what belongs to it.

    ``charts/forms.py`` makes JSON Schema of it.
    """

    word: str
    of: tuple[Any, ...] = ()


ANY = Form("any")


class StructureProblem(NamedTuple):
    """A problem in a value of several lines; ``where`` is the place in it, such as ``[0].name``."""

    line: int
    where: str
    text: str


class StructureError(ValueError):
    """A value of several lines is not allowed; ``problems`` has all problems found."""

    def __init__(self, problems: Sequence[StructureProblem]) -> None:
        super().__init__("; ".join(f"{where}: {text}" for _, where, text in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class ValueKind(Generic[T_co]):
    """A kind of value. ``read`` returns the value of a text, or raises ValueError or KeyError.

    ``allowed`` describes the allowed values. ``pairs``: the value is written as ``NAME=VALUE`` or
    as a YAML mapping. ``read_node``: the value is YAML, as text too; both readers then raise
    StructureError. ``form``: its plain spellings in a YAML file.
    """

    read: Callable[[str], T_co]
    allowed: str
    many: bool = False
    pairs: bool = False
    read_node: Callable[[yaml.Node], T_co] | None = None
    form: Form = ANY


def _duration(text: str) -> int:
    parts = _DURATION.findall(text)
    # A search passes over what is no duration: all of the text has to be one.
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ValueError(text)
    return sum(round(float(amount) * _UNITS[unit]) for amount, unit in parts)


def duration(low: str, high: str) -> ValueKind[int]:
    """Nanoseconds, written as ``500ms``, ``1s``, ``1m30s``."""
    bounds = _duration(low), _duration(high)

    def read(text: str) -> int:
        return within(_duration(text), *bounds)

    allowed = f"a duration from {low} to {high}, with its units: ms, s, m, h"
    return ValueKind(read, allowed, form=Form("duration", (*bounds, _UNITS)))


def within(value: int, low: int, high: int) -> int:
    """The value, if it is within these bounds; raises ValueError."""
    if not low <= value <= high:
        raise ValueError(value)
    return value
