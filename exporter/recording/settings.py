"""The settings that a recording holds: those that affect the result and name nothing of the node.

They are numbers, switches, choices, and the keys of the labels of pods that are shown.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exporter.allocations.registry import ANNOTATION_PREFIXES
from exporter.model import SchemeDescription
from exporter.recording.names import PUBLIC_LABEL
from exporter.settings import TABLE, Settings, load
from exporter.settings.values import KEY

Value = bool | int | str | tuple[str, ...]
Values = Mapping[str, Value]


def recordable(settings: Settings) -> Values:
    """Returns the recorded values by field. Texts are left out: they name places on one machine."""
    values = {field: getattr(settings, field) for field in TABLE}
    return {field: value for field, value in values.items() if _is_recordable(field, value)}


def disguised(settings: Settings) -> Settings:
    """Returns the settings without private label keys and the user's own schemes and names."""
    own = {scheme.name for scheme in settings.allocations_schemes}
    bases = tuple(pair for pair in settings.allocations_index_basis if pair[0] not in own)
    labels, annotations = settings.pods_labels, settings.pods_annotations
    return replace(
        settings,
        allocations_schemes=(),
        allocations_index_basis=bases,
        allocations_hami=(),
        allocations_kai_namespaces=(),
        pods_labels=tuple(k for k in labels if k == "*" or PUBLIC_LABEL.fullmatch(k)),
        pods_annotations=tuple(
            key
            for key in annotations
            if any(known.startswith(key.removesuffix("*")) for known in ANNOTATION_PREFIXES)
        ),
    )


def restored(
    values: Values,
    schemes: tuple[SchemeDescription, ...] = (),
    index_bases: Mapping[str, str] | None = None,
    hami: Mapping[str, str] | None = None,
) -> Settings:
    """Returns the defaults with the recorded values. Unknown settings are left out."""
    known: dict[str, Any] = {
        field: value
        for field, value in values.items()
        if field in TABLE and _is_recordable(field, value) and _is_allowed(field, value)
    }
    return replace(
        load({}, {}),
        **known,
        allocations_schemes=schemes,
        allocations_index_basis=tuple((index_bases or {}).items()),
        allocations_hami=tuple((hami or {}).items()),
    )


def _is_recordable(field: str, value: object) -> bool:
    harmless = TABLE[field].kind.allowed.startswith(("one of ", "a group (", KEY.allowed))
    return isinstance(value, int) or (harmless and isinstance(value, str | tuple))


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
