"""The settings that a recording holds: those that affect the result and name nothing of the node.

They are numbers, switches, choices, and the keys of the labels of pods that are shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from exporter.allocations.registry import ANNOTATION_PREFIXES
from exporter.model import SchemeDescription
from exporter.recording.names import PUBLIC_LABEL
from exporter.settings import TABLE, Settings, load
from exporter.settings.values import KEY, ValueKind

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
    """Returns the defaults with the recorded values. Unknown settings and words are left out.

    Raises:
        ValueError: a number is out of its setting's bounds.

    """
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
    kind = TABLE[field].kind
    if isinstance(value, int):
        if type(value) is not type(getattr(load({}, {}), field)):
            return False
        if not isinstance(value, bool) and not any(
            _reads(kind, text, value) for text in _texts(value)
        ):
            raise ValueError(f"{field}={value}: {kind.allowed} expected")
        return True
    try:
        return (
            bool(value) and kind.many == isinstance(value, tuple) and bool(kind.read(_text(value)))
        )
    except (ValueError, KeyError):
        return False


def _texts(value: int) -> Iterator[str]:
    """Yields the ways to write a number: as it is, and as a time of so many nanoseconds."""
    seconds, rest = divmod(value, 10**9)
    yield str(value)[:99]
    yield f"{seconds}.{rest:09}s"


def _reads(kind: ValueKind[object], text: str, value: int) -> bool:
    try:
        return kind.read(text) == value
    except (ValueError, KeyError):
        return False


def _text(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)
