"""Which settings a recording holds: numbers, switches and choices, for they shape the result."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.settings import TABLE, Settings, load

Value = bool | int | str | tuple[str, ...]
Values = Mapping[str, Value]


def kept(settings: Settings) -> Values:
    """The values by their fields. Texts are left out: they name places on one machine."""
    values = {field: getattr(settings, field) for field in TABLE}
    return {field: value for field, value in values.items() if _is_kept(field, value)}


def restored(values: Values) -> Settings:
    """The defaults with the values kept. What this version does not know of is left out."""
    known: dict[str, Any] = {
        field: value
        for field, value in values.items()
        if field in TABLE and _is_kept(field, value) and _is_allowed(field, value)
    }
    return replace(load({}, {}), **known)


def _is_kept(field: str, value: object) -> bool:
    is_choice = TABLE[field].kind.allowed.startswith("one of ")
    return isinstance(value, int) or (is_choice and isinstance(value, str | tuple))


def _is_allowed(field: str, value: Value) -> bool:
    if isinstance(value, int):
        return value >= 0 and type(value) is type(getattr(load({}, {}), field))
    kind = TABLE[field].kind
    try:
        return (
            bool(value) and kind.many == isinstance(value, tuple) and bool(kind.read(_text(value)))
        )
    except (ValueError, KeyError):
        return False


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)
