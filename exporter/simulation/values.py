"""The kinds of value that a scenario file holds: how each is read, and what is allowed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from exporter.simulation.work import Curve

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

DURATION_FORM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SIZE_FORM = re.compile(r"(\d+(?:\.\d+)?)([KMGT]iB)")
NAME_FORM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
PROFILE_FORM = re.compile(r"[1-7]g\.\d{1,3}gb(\+(me|gfx))?")
SECOND = 10**9
NANOSECONDS = {"ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
LONGEST_NS = 10_000 * NANOSECONDS["d"]
MOST_BYTES = 1 << 50
LONGEST_TEXT = 253
SHORTEST_SAMPLE_NS = 20 * 10**6


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """How a value is read, raising ValueError if it is none of the kind, and its description.

    ``section``: the value is a list of mappings with the keys of this section, or one of them.
    """

    read: Callable[[object], T_co]
    allowed: str
    section: str = ""
    several: bool = True


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError  # noqa: TRY004 - every refusal is the same error here
    return float(value)


def _ratio(value: object) -> float:
    return _checked(_number(value), lambda ratio: 0 <= ratio <= 1)


def _watts(value: object) -> float:
    return _checked(_number(value), lambda watts: 0 <= watts <= 1e5)  # noqa: PLR2004 - 100 kW


def _checked(value: T, allowed: Callable[[T], bool]) -> T:
    if not allowed(value):
        raise ValueError
    return value


def _in_units(value: object, form: re.Pattern[str], units: dict[str, int], default: int) -> int:
    match = form.fullmatch(value) if isinstance(value, str) else None
    if match:
        return round(float(match[1]) * units[match[2]])
    return round(_checked(_number(value), lambda number: 0 <= number < MOST_BYTES) * default)


def _duration(value: object) -> int:
    ns = _in_units(value, DURATION_FORM, NANOSECONDS, SECOND)
    return _checked(ns, lambda length: length <= LONGEST_NS)


def _sample_period(value: object) -> int:
    return _checked(_duration(value), lambda length: SHORTEST_SAMPLE_NS <= length <= SECOND)


def _lengths(value: object) -> tuple[int, int]:
    low, high = _items(value) if isinstance(value, list) else (value, value)
    return _checked((_duration(low), _duration(high)), lambda pair: 0 < pair[0] <= pair[1])


def _size(value: object) -> int:
    size = _in_units(value, SIZE_FORM, BYTES, 1)
    return _checked(size, lambda length: length <= MOST_BYTES)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - every refusal is the same error here
    return _checked(value, lambda text: text.isprintable() and len(text) <= LONGEST_TEXT)


def _name(value: object) -> str:
    return _checked(_text(value), lambda name: bool(NAME_FORM.fullmatch(name)))


def _flag(value: object) -> bool:
    return bool(_checked(value, lambda flag: isinstance(flag, bool)))


def _items(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError  # noqa: TRY004 - every refusal is the same error here
    return value


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - every refusal is the same error here
    return {_text(key): _text(item) for key, item in value.items()}


def _natural(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError  # noqa: TRY004 - every refusal is the same error here
    return _checked(value, lambda number: number >= 0)


def _numbers(value: object) -> tuple[int, ...]:
    numbers = tuple(map(_natural, value if isinstance(value, list) else [value]))
    return _checked(numbers, lambda those: 0 < len(set(those)) == len(those))


def _profile(value: object) -> str:
    return _checked(_text(value), lambda text: bool(PROFILE_FORM.fullmatch(text)))


TEXT = Kind(_text, "a text on one line")
NAME = Kind(_name, "a name of a-z, 0-9, '-' and '.'")
FLAG = Kind(_flag, "true or false")
RATIO = Kind(_ratio, "a number from 0 to 1")
WATTS = Kind(_watts, "a number of watts")
DURATION = Kind(_duration, "a time such as 500ms, 7.5s, 2m, 1h, or seconds")
SAMPLE_PERIOD = Kind(_sample_period, "a time from 20ms to 1s")
LENGTHS = Kind(_lengths, "a time above zero such as 500ms, 2m, or [shortest, longest]")
SIZE = Kind(_size, "a size such as 512MiB, 16GiB, or bytes")
TEXTS = Kind(_texts, "a mapping of texts")
NUMBERS = Kind(_numbers, "a device's number, or a list of them, none twice")
PROFILE = Kind(_profile, "a MIG profile such as 1g.10gb or 1g.5gb+me")


def choice(*words: str) -> Kind[str]:
    """One of some words."""

    def read(value: object) -> str:
        return words[words.index(_text(value))]

    return Kind(read, "one of " + ", ".join(words))


def integer(low: int, high: int) -> Kind[int]:
    """A whole number between two bounds, both allowed."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError  # noqa: TRY004 - every refusal is the same error here
        return _checked(value, lambda number: low <= number <= high)

    return Kind(read, f"a whole number from {low} to {high}")


def listed(section: str, what: str = "") -> Kind[list[Any]]:
    """A list of mappings with the keys of this section; ``what`` if it must not be empty."""
    return Kind(_items, f"a list of at least one {what}" if what else "a list", section)


def mapping(section: str) -> Kind[dict[str, object]]:
    """A mapping with the keys of this section."""
    return Kind(lambda _: {}, "a mapping of keys", section, several=False)


def curve(level: Kind[float] | Kind[int]) -> Kind[Curve]:
    """A constant, or a list of [time, value]."""

    def read(value: object) -> Curve:
        if not isinstance(value, list):
            return Curve(((0, level.read(value)),))
        pairs = [_checked(_items(item), lambda pair: len(pair) == 2) for item in value]  # noqa: PLR2004 - a pair
        points = tuple((_duration(at), level.read(height)) for at, height in pairs)
        times = [at for at, _ in points]
        return Curve(_checked(points, lambda _: [] != times == sorted(set(times))))

    return Kind(read, f"{level.allowed}; or a list of [time, value], times rising")
