"""Which settings a recording holds: numbers, switches and choices, for they shape the result."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.settings import TABLE, Settings, load

Values = Mapping[str, bool | int | str]


def kept(settings: Settings) -> Values:
    """The values by their fields. Texts are left out: they name places on one machine."""
    values = {field: getattr(settings, field) for field in TABLE}
    return {
        field: value
        for field, value in values.items()
        if isinstance(value, int) or (isinstance(value, str) and _is_choice(field))
    }


def restored(values: Values) -> Settings:
    """The defaults with the values kept. What this version does not know of is left out."""
    defaults = load({}, {})
    known: dict[str, Any] = {
        field: value
        for field, value in values.items()
        if field in TABLE
        and type(value) is type(getattr(defaults, field))
        and (value >= 0 if isinstance(value, int) else _is_choice(field))
    }
    return replace(defaults, **known)


def _is_choice(field: str) -> bool:
    return TABLE[field].kind.allowed.startswith("one of ")
