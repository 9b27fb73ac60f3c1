"""Converts the frozen values of ``exporter.model`` to JSON and back, by their declared types. Pure.

A dataclass becomes an object without the fields that have their default, a named tuple a list. The
types in ``OBJECTS`` are named tuples for speed, and become objects too. So older recordings stay
readable when a later version adds a field with a default. A value that is read has the declared
types or is refused; only these constructors are called.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from exporter.metrics.families import BOARD
from exporter.model import (
    CgroupIdentity,
    DeviceReading,
    Engines,
    ProcessActivity,
    RawSamples,
    Reading,
    Sensors,
    SourceStatus,
    Window,
)
from exporter.recording.cycle import Cycle

T = TypeVar("T")

Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
Reader = Callable[[Any], Any]

LARGEST = 1 << 63  # of an integer; the accounts stay below it for centuries
OBJECTS = frozenset(
    {CgroupIdentity, DeviceReading, Engines, RawSamples, Reading, SourceStatus, Window}
)
NAMES: Mapping[type, Mapping[str, str]] = {
    Window: {"per_sample": "told_apart", "unmeasured_pids": "untold"},
    Cycle: {"node_facts": "told", "group_facts": "called"},
}
"""The names of fields on file, where they are not those of today: files are read by any version."""

GONE: Mapping[type, frozenset[str]] = {
    ProcessActivity: frozenset({"idle_in_samples_ns"}),
    Window: frozenset({"unclaimed_ns"}),
}
"""Fields that older files have. In a list they are at the end."""

SENSORS: Mapping[str, str] = {
    "throttle_seconds_total": "throttle_ns",
    "ecc_errors_total": "ecc_errors",
    "pcie_bytes_total": "pcie_bytes",
    "nvlink_bytes_total": "nvlink_bytes",
}
"""The same for the families of ``Sensors``, which is an object of all its families on file."""

_SHAPES: dict[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
    types.NoneType: "null",
}


class CodecError(ValueError):
    """A value does not have its declared type. The text says where and what was expected."""


def to_json(value: object) -> Json:
    """Returns the JSON form of a value of the model.

    Raises:
        TypeError: no value of the model has this type.

    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return _mapping_to_json(value)
    if isinstance(value, Sensors):
        families = {**value.numbers, **value.labelled}
        return {SENSORS.get(name, name): to_json(own) for name, own in families.items()}
    if _is_object(type(value)):
        return {
            _on_file(type(value), name): to_json(own)
            for name, default in _defaults(type(value)).items()
            if not _same(own := getattr(value, name), default)
        }
    if isinstance(value, tuple | frozenset):
        return [to_json(one) for one in (value if isinstance(value, tuple) else sorted(value))]
    raise TypeError(f"{type(value).__name__} has no form in a recording")


def _mapping_to_json(mapping: Mapping[Any, object]) -> Json:
    """An object, or a list of pairs if keys are tuples."""
    if any(isinstance(key, tuple) for key in mapping):
        return [[to_json(key), to_json(own)] for key, own in mapping.items()]
    return {str(key): to_json(own) for key, own in mapping.items()}


def from_json(kind: type[T], data: Json) -> T:
    """Returns the value of this type from its JSON form.

    Raises:
        CodecError: the data has another type.

    """
    value: T = _reader(kind)(data)  # type: ignore[arg-type] # types are hashable
    return value


def _is_object(kind: Any) -> bool:  # noqa: ANN401 - any type form
    """Whether values of this type become objects."""
    return kind in OBJECTS or is_dataclass(kind)


def _defaults(kind: Any) -> Mapping[str, object]:  # noqa: ANN401 - of a type that is an object
    """Default values by field name; MISSING if a field has none."""
    if kind in OBJECTS:
        return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }


def _on_file(kind: type, name: str) -> str:
    """The name of a field in a recording."""
    return NAMES.get(kind, {}).get(name, name)


def _same(own: object, default: object) -> bool:
    """Whether a value is its field's default. Python treats 0, 0.0, -0.0 and False as equal."""
    return own == default and (not isinstance(own, int | float) or repr(own) == repr(default))


@cache
def _reader(kind: Any) -> Reader:  # noqa: ANN401 - any type form
    if get_origin(kind) is not None:
        return _generic(get_origin(kind), get_args(kind))
    if kind in _SHAPES:
        return _plain(kind)
    if kind is Sensors:
        return _sensors()
    if _is_object(kind):
        return _named(kind)
    if issubclass(kind, StrEnum):
        return _enum(kind)
    if hasattr(kind, "_fields"):
        return _named_tuple(kind)
    raise TypeError(f"{kind} has no form in a recording")


def _generic(origin: Any, arguments: tuple[Any, ...]) -> Reader:  # noqa: ANN401 - any type form
    if origin in {Union, types.UnionType}:
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        one = _reader(arguments[0])
        return lambda data: frozenset(_each(one, _list(data)))
    if issubclass(origin, Mapping):
        return _mapping(*arguments)
    raise TypeError(f"{origin} has no form in a recording")


def _shape(kind: Any) -> str:  # noqa: ANN401 - any type form
    """The JSON shape of a type's values."""
    origin = get_origin(kind) or kind
    if origin in _SHAPES:
        return _SHAPES[origin]
    if issubclass(origin, str):
        return "text"
    is_list = issubclass(origin, tuple | frozenset) and not _is_object(origin)
    return "list" if is_list else "object"


def _union(kinds: tuple[Any, ...]) -> Reader:
    """Returns a reader that chooses the member of a union by its JSON shape."""
    readers: dict[str, Reader] = {}
    for kind in kinds:
        shape = _shape(kind)
        if shape in readers and shape != "number":
            raise TypeError(f"two of {kinds} are a JSON {shape}")
        readers[shape] = _plain(float) if shape in readers else _reader(kind)
    wanted = " or ".join(readers)

    def read(data: Json) -> object:
        reader = readers.get(_SHAPES[type(data)])
        if reader is None:
            raise CodecError(f"{wanted} expected")
        return reader(data)

    return read


def _plain(kind: type) -> Reader:
    allowed = {float, int} if kind is float else {kind}
    wanted = f"{_SHAPES[kind]} expected" if kind is not int else "whole number expected"

    def read(data: Json) -> object:
        if type(data) not in allowed:
            raise CodecError(wanted)
        if type(data) is int and not -LARGEST <= data < LARGEST:
            raise CodecError("number of 64 bits expected")
        return data

    return read


def _enum(kind: type[StrEnum]) -> Reader:
    members = {str(member): member for member in kind}

    def read(data: Json) -> object:
        if not isinstance(data, str) or data not in members:
            raise CodecError(f"one of {', '.join(members)} expected")
        return members[data]

    return read


def _tuple(kinds: tuple[Any, ...]) -> Reader:
    if kinds[1:] == (...,):
        one = _reader(kinds[0])
        return lambda data: tuple(_each(one, _list(data)))
    readers = tuple(map(_reader, kinds))

    def read(data: Json) -> object:
        items = _list(data)
        if len(items) != len(readers):
            raise CodecError(f"list of {len(readers)} expected")
        return tuple(_at(i, readers[i], item) for i, item in enumerate(items))

    return read


def _mapping(key_kind: Any, kind: Any) -> Reader:  # noqa: ANN401 - any type form
    one = _reader(kind)
    if _shape(key_kind) == "list":
        pair = _reader(tuple[key_kind, kind])
        return lambda data: dict(_each(pair, _list(data))) if data != {} else {}
    key = _whole_key if key_kind is int else _reader(key_kind)

    def read(data: Json) -> object:
        return {_at(name, key, name): _at(name, one, own) for name, own in _object(data).items()}

    return read


def _whole_key(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST))):
        raise CodecError("whole number expected")
    return int(text)


def _named(kind: Any) -> Reader:  # noqa: ANN401 - of a type that is an object
    hints, defaults = get_type_hints(kind), _defaults(kind)
    fields_by_name = {_on_file(kind, name): name for name in defaults}
    readers = {name: _reader(hints[field]) for name, field in fields_by_name.items()}
    needed = {name for name, field in fields_by_name.items() if defaults[field] is MISSING}
    gone = GONE.get(kind, ())

    def read(data: Json) -> object:
        given = {name: own for name, own in _object(data).items() if name not in gone}
        if unknown := given.keys() - readers.keys():
            raise CodecError(f"{min(unknown)[:50]!r} is unknown; made by a newer version?")
        if missing := needed - given.keys():
            raise CodecError(f"{min(missing)} is missing")
        return kind(
            **{fields_by_name[name]: _at(name, readers[name], own) for name, own in given.items()}
        )

    return read


def _sensors() -> Reader:
    """A reader of sensors. Those that the table of families lacks are refused."""
    families = {SENSORS.get(family.name, family.name): family for family in BOARD}
    number, labelled = _reader(float), _reader(Mapping[str, float])

    def read(data: Json) -> object:
        given = _object(data)
        if unknown := given.keys() - families.keys():
            raise CodecError(f"{min(unknown)[:50]!r} is unknown; made by a newer version?")
        readers = {name: labelled if families[name].labels else number for name in given}
        return Sensors.of(
            **{families[name].name: _at(name, readers[name], own) for name, own in given.items()}
        )

    return read


def _named_tuple(kind: Any) -> Reader:  # noqa: ANN401 - a NamedTuple
    names, hints = kind._fields, get_type_hints(kind)
    readers = [_reader(hints[name]) for name in names]
    least = len(names) - len(kind._field_defaults)
    most = len(names) + len(GONE.get(kind, ()))

    def read(data: Json) -> object:
        items = _list(data)
        if not least <= len(items) <= most:
            raise CodecError(f"list of {', '.join(names)} expected")
        ours = enumerate(items[: len(names)])
        return kind(*(_at(names[i], readers[i], item) for i, item in ours))

    return read


def _each(reader: Reader, items: list[Json]) -> list[Any]:
    return [_at(i, reader, item) for i, item in enumerate(items)]


def _at(place: str | int, reader: Reader, data: Json) -> Any:  # noqa: ANN401 - of the reader's type
    """Reads a part. An error names the path to it."""
    try:
        return reader(data)
    except CodecError as error:
        way, _, wanted = str(error).rpartition(": ")
        raise CodecError(f"{str(place)[:50]}{way and '.'}{way}: {wanted}") from None


def _list(data: Json) -> list[Json]:
    if isinstance(data, list):
        return data
    raise CodecError("list expected")


def _object(data: Json) -> dict[str, Json]:
    if isinstance(data, dict):
        return data
    raise CodecError("object expected")
