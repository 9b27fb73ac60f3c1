"""The kinds of value that only a scenario file holds. Pure."""

import re
from collections.abc import Callable
from typing import TypeVar

import yaml

from exporter.agent.simulation.work import Curve
from exporter.inputs.valuekinds import ValueKind, duration
from exporter.inputs.values import count, many, matching

T = TypeVar("T")

SECOND = 10**9
MAX_BYTES = 1 << 50
LONGEST_TEXT = 253
LONGEST_VALUE = 1 << 16  # characters of an annotation
_SIZE = re.compile(r"([0-9]{1,16}(?:\.[0-9]{1,9})?)([KMGT]iB|)")
_BYTES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LENGTH = duration("0s", "240000h")


def decimal(low: float, high: float, allowed: str) -> ValueKind[float]:
    """A number between two bounds, both allowed."""

    def read(text: str) -> float:
        number = float(text)
        # Asked in this way, NaN is refused, too: it is neither too small nor too large.
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return ValueKind(read, allowed)


_SECONDS = decimal(0, 240_000 * 3600, "seconds")


def _duration(text: str) -> int:
    if text[-1:].isalpha():
        return _LENGTH.read(text)
    return round(_SECONDS.read(text) * SECOND)


def _sample_period(text: str) -> int:
    period = _duration(text)
    if not SECOND // 50 <= period <= SECOND:
        raise ValueError(text)
    return period


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    size = round(float(match[1]) * _BYTES[match[2]]) if match else -1
    if not 0 <= size <= MAX_BYTES:
        raise ValueError(text)
    return size


def _text(text: str) -> str:
    if not text.isprintable() or len(text) > LONGEST_TEXT:
        raise ValueError(text)
    return text


def structured(read: Callable[[yaml.Node], T], allowed: str) -> ValueKind[T]:
    """A kind that is read from YAML nodes, and in a text from a plain value."""

    def read_text(text: str) -> T:
        return read(yaml.ScalarNode("tag:yaml.org,2002:str", text))

    return ValueKind(read_text, allowed, read_node=read)


def _plain(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or len(node.value) > LONGEST_VALUE:
        raise ValueError(node)
    return str(node.value)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise ValueError(node)  # noqa: TRY004 - every refusal is the same error here
    return list(node.value)


def _texts(node: yaml.Node) -> dict[str, str]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(node)  # noqa: TRY004 - every refusal is the same error here
    return {_text(_plain(key)): _plain(value) for key, value in node.value}


def _granted(node: yaml.Node) -> dict[str, tuple[str, ...]]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(node)  # noqa: TRY004 - every refusal is the same error here
    return {
        _text(_plain(key)): tuple(_text(_plain(part)) for part in _parts(value))
        for key, value in node.value
    }


def _lengths(node: yaml.Node) -> tuple[int, int]:
    low, high = _parts(node) if isinstance(node, yaml.SequenceNode) else (node, node)
    pair = _duration(_plain(low)), _duration(_plain(high))
    if not 0 < pair[0] <= pair[1]:
        raise ValueError(node)
    return pair


def curve(level: ValueKind[float] | ValueKind[int]) -> ValueKind[Curve]:
    """A constant, or a list of [time, value]."""

    def read(node: yaml.Node) -> Curve:
        if isinstance(node, yaml.ScalarNode):
            return Curve(((0, level.read(node.value)),))
        pairs = [_parts(part) for part in _parts(node)]
        points = tuple((_duration(_plain(at)), level.read(_plain(own))) for at, own in pairs)
        times = [at for at, _ in points]
        # Two values of one time would leave open which one holds.
        if not times or times != sorted(set(times)):
            raise ValueError(node)
        return Curve(points)

    return structured(read, f"{level.allowed}; or a list of [time, value], times rising")


TEXT = ValueKind(_text, "a text on one line")
NAME = matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "a name of a-z, 0-9, '-' and '.'")
RATIO = decimal(0, 1, "a number from 0 to 1")
WATTS = decimal(0, 1e5, "a number of watts")
DURATION = ValueKind(_duration, "a time such as 500ms, 7.5s, 2m, 1h, or seconds")
SAMPLE_LENGTH = ValueKind(_sample_period, "a time from 20ms to 1s")
SIZE = ValueKind(_size, "a size such as 512MiB, 16GiB, or bytes")
NUMBERS = many(count(0, 1023))
PROFILE = matching(r"[1-7]g\.\d{1,3}gb(\+(me|gfx))?", "a MIG profile such as 1g.10gb or 1g.5gb+me")
LENGTHS = structured(_lengths, "a time above zero such as 500ms, 2m, or [shortest, longest]")
TEXTS = structured(_texts, "a mapping of texts")
GRANTED = structured(_granted, "a mapping of resources to lists of ids")
