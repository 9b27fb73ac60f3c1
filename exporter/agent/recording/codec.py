"""Converts the frozen values of ``exporter.model`` to JSON and back, by their declared types. Pure.

A dataclass or named tuple becomes an object without the fields that have their default. So older
recordings stay readable when a later version adds a field with a default. A value that is read has
the declared types or is refused; only these constructors are called.
"""

import types
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
Reader = Callable[[Any], Any]

BITS = 80  # of an integer: 64 of a driver, also garbage, in a thousandth of its unit, and a sign
LARGEST = 1 << (BITS - 1)
_UNIONS = {Union, types.UnionType}
_PLAIN = {bool: "boolean", int: "number", float: "number", str: "text", types.NoneType: "null"}
_SHAPES = {**_PLAIN, list: "list", dict: "object"}


class CodecError(ValueError):
    """A value does not have its declared type. The text says where and what was expected."""


def to_json(value: object) -> Json:
    """Returns the JSON form of a value of the model. A mapping by tuples is a list of pairs.

    Raises:
        TypeError: no value of the model has this type.

    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        # A key of JSON is a text.
        if any(isinstance(key, tuple) for key in value):
            return [[to_json(key), to_json(own)] for key, own in value.items()]
        return {str(key): to_json(own) for key, own in value.items()}
    kind: Any = type(value)
    if _has_fields(kind):
        return {
            name: to_json(own)
            for name, default in _defaults(kind).items()
            if not _same(own := getattr(value, name), default)
        }
    if isinstance(value, tuple | frozenset):
        # A set has no order. Sorted, the same values make the same bytes, which a diff can compare.
        return [to_json(one) for one in (value if isinstance(value, tuple) else sorted(value))]
    raise TypeError(f"{type(value).__name__} has no form in a recording")


def from_json(kind: type[T], data: Json) -> T:
    """Returns the value of this type from its JSON form.

    Raises:
        CodecError: the data has another type.

    """
    value: T = _reader(kind)(data)  # type: ignore[arg-type] # types are hashable
    return value


def _has_fields(kind: Any) -> bool:  # noqa: ANN401 - any type form
    return is_dataclass(kind) or hasattr(kind, "_fields")


@cache
def _defaults(kind: Any) -> Mapping[str, object]:  # noqa: ANN401 - of a type that has fields
    """Default values by field name; MISSING if a field has none."""
    if not is_dataclass(kind):
        return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }


def _needed(kind: Any) -> AbstractSet[str]:  # noqa: ANN401 - of a type that has fields
    return {name for name, default in _defaults(kind).items() if default is MISSING}


def _same(own: object, default: object) -> bool:
    """Whether a value is its field's default. Python treats 0, 0.0, -0.0 and False as equal."""
    return own == default and (not isinstance(own, int | float) or repr(own) == repr(default))


@cache
def _reader(kind: Any) -> Reader:  # noqa: ANN401 - any type form
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in _UNIONS:
        return _union(arguments)
    if origin in _PLAIN:
        return _plain(origin)
    if _has_fields(origin):
        return _object_of(origin)
    if origin in {tuple, frozenset}:
        return _sequence(origin, arguments)
    if issubclass(origin, Mapping):
        return _mapping(*arguments)
    if issubclass(origin, StrEnum):
        return _enum(origin)
    raise TypeError(f"{kind} has no form in a recording")


def _shape(kind: Any) -> str:  # noqa: ANN401 - any type form
    """The JSON shape of a type's values."""
    origin = get_origin(kind) or kind
    if origin in _PLAIN:
        return _PLAIN[origin]
    if issubclass(origin, str):
        return "text"
    is_list = issubclass(origin, tuple | frozenset) and not _has_fields(origin)
    return "list" if is_list else "object"


def _union(kinds: tuple[Any, ...]) -> Reader:
    """Returns a reader that chooses the member of a union by its JSON shape.

    Of two objects it is the second if that has all the given fields and needs one of them.
    """
    readers: dict[str, Reader] = {}
    second: tuple[AbstractSet[str], AbstractSet[str], Reader] | None = None
    for kind in kinds:
        shape = _shape(kind)
        if shape in readers and shape == "object" and second is None and _needed(kind):
            second = (_needed(kind), _defaults(kind).keys(), _reader(kind))
            continue
        if shape in readers and shape != "number":
            raise TypeError(f"two of {kinds} are a JSON {shape}")
        # Of an integer or a float, which JSON does not distinguish, the one that takes both.
        readers[shape] = _plain(float) if shape in readers else _reader(kind)
    wanted = " or ".join(readers)

    def read(data: Json) -> object:
        reader = readers.get(_SHAPES[type(data)])
        if reader is None:
            raise CodecError(f"{wanted} expected")
        # As a source's answer and its failure: a recording has no names of types, so they
        # are known by their fields.
        if second and isinstance(data, dict) and second[0] <= data.keys() <= second[1]:
            reader = second[2]
        return reader(data)

    return read


def _plain(kind: type) -> Reader:
    allowed = {float, int} if kind is float else {kind}
    wanted = f"{_PLAIN[kind]} expected" if kind is not int else "whole number expected"

    def read(data: Json) -> object:
        # Not isinstance: in Python True is a number.
        if type(data) not in allowed:
            raise CodecError(wanted)
        if type(data) is int and not -LARGEST <= data < LARGEST:
            raise CodecError(f"number of {BITS} bits expected")
        return data

    return read


def _enum(kind: type[StrEnum]) -> Reader:
    members = {str(member): member for member in kind}

    def read(data: Json) -> object:
        if not isinstance(data, str) or data not in members:
            raise CodecError(f"one of {', '.join(members)} expected")
        return members[data]

    return read


def _sequence(origin: type, kinds: tuple[Any, ...]) -> Reader:
    if origin is frozenset or kinds[1:] == (...,):
        one = _reader(kinds[0])
        return lambda data: origin(_each(one, data))
    readers = tuple(map(_reader, kinds))

    def read(data: Json) -> object:
        if not isinstance(data, list) or len(data) != len(readers):
            raise CodecError(f"list of {len(readers)} expected")
        return tuple(_at(i, readers[i], item) for i, item in enumerate(data))

    return read


def _mapping(key_kind: Any, kind: Any) -> Reader:  # noqa: ANN401 - any type form
    one = _reader(kind)
    if issubclass(get_origin(key_kind) or key_kind, tuple):
        pair = _reader(tuple[key_kind, kind])
        # An empty mapping is written as an object: by its content nobody knows that its keys are
        # tuples.
        return lambda data: dict(_each(pair, data)) if data != {} else {}
    key = _whole_key if key_kind is int else _reader(key_kind)

    def read(data: Json) -> object:
        return {_at(name, key, name): _at(name, one, own) for name, own in _object(data).items()}

    return read


def _whole_key(text: str) -> int:
    # int() would also take spaces, underscores and the digits of other scripts.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST))):
        raise CodecError("whole number expected")
    return int(text)


def _object_of(kind: Any) -> Reader:  # noqa: ANN401 - of a type that has fields
    hints, defaults = get_type_hints(kind), _defaults(kind)
    readers = {name: _reader(hints[name]) for name in defaults}
    needed = _needed(kind)

    def read(data: Json) -> object:
        given = _object(data)
        # It is not passed over: a replay without it would show other figures as those of the
        # recording.
        if unknown := given.keys() - readers.keys():
            raise CodecError(f"{min(unknown)[:50]!r} is unknown; made by another version?")
        if missing := needed - given.keys():
            raise CodecError(f"{min(missing)} is missing")
        return kind(**{name: _at(name, readers[name], own) for name, own in given.items()})

    return read


def _each(reader: Reader, data: Json) -> list[Any]:
    if not isinstance(data, list):
        raise CodecError("list expected")
    return [_at(i, reader, item) for i, item in enumerate(data)]


def _at(place: str | int, reader: Reader, data: Json) -> Any:  # noqa: ANN401 - of the reader's type
    """Reads a part. An error names the path to it."""
    try:
        return reader(data)
    except CodecError as error:
        way, _, wanted = str(error).rpartition(": ")
        raise CodecError(f"{str(place)[:50]}{way and '.'}{way}: {wanted}") from None


def _object(data: Json) -> dict[str, Json]:
    if isinstance(data, dict):
        return data
    raise CodecError("object expected")
