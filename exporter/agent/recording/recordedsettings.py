"""The settings that a recording holds: those that affect the result and name nothing of the node.

They are numbers, switches, choices, sharing systems, and the keys of labels of pods that are shown.
Each stands as its text, as in a flag, and is read by its setting's own kind.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from exporter.agent.allocations.rules import Rules
from exporter.agent.recording.pseudonyms import PUBLIC_LABEL
from exporter.agent.settings import TABLE, Settings, load
from exporter.agent.settings.schemes import KEYS, SCHEMES
from exporter.inputs.valuekinds import StructureError
from exporter.inputs.values import KEY, Setting
from exporter.model import SchemeDescription

Texts = Mapping[str, str]

_OF_SYSTEMS = ("allocations.schemes", "allocations.index-basis", "allocations.hami")
# Beginnings of ``ValueKind.allowed``. Whoever rewords one there has to do so here.
_HARMLESS = ("one of ", "a group (", "a number ", "a duration ", "true or false", KEY.allowed)


def recordable(settings: Settings) -> Texts:
    """Returns the texts by setting. Other texts are left out: they name places on one machine."""
    return {
        setting.name: _text(field, getattr(settings, field))
        for field, setting in TABLE.items()
        if _is_recordable(setting)
    }


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
            if any(known.startswith(key.removesuffix("*")) for known in Rules().annotations)
        ),
    )


def restored(texts: Texts) -> Settings:
    """Returns the defaults with the recorded values. Settings of other versions are left out.

    Raises:
        ValueError: a text is none of its setting; the message names both.

    """
    values: dict[str, Any] = {}
    for field, setting in TABLE.items():
        text = texts.get(setting.name)
        if text and _is_recordable(setting):
            try:
                values[field] = setting.kind.read(text)
            except StructureError as error:
                raise ValueError(f"{setting.name}: {error}") from None
            except (ValueError, KeyError):
                allowed = setting.kind.allowed
                raise ValueError(f"{setting.name}={text[:99]!r}: {allowed} expected") from None
    return replace(load({}, {}), **values)


def _is_recordable(setting: Setting) -> bool:
    # By the kind of value, not by a list of names: a new setting that may hold a path or a name is
    # left out until somebody lists it.
    return setting.name in _OF_SYSTEMS or setting.kind.allowed.startswith(_HARMLESS)


def _text(field: str, value: Any) -> str:  # noqa: ANN401 - of the setting's kind
    """A value as it stands in a flag; "" if it is not set."""
    if TABLE[field].kind is SCHEMES:
        return _text_of(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and field.endswith("_ns"):
        # A float would not read back as the same number of nanoseconds.
        return "{}.{:09}s".format(*divmod(value, 10**9))
    if isinstance(value, tuple):
        return ",".join("=".join(own) if isinstance(own, tuple) else own for own in value)
    return str(value)


def _text_of(schemes: Iterable[SchemeDescription]) -> str:
    """The schemes as a text that is read as the same; "" for none."""
    usual = SchemeDescription(name="")
    said = [
        {
            key.name: ",".join(value) if isinstance(value, tuple) else str(value)
            for key in KEYS.values()
            if (value := getattr(scheme, key.field)) != getattr(usual, key.field)
        }
        for scheme in schemes
    ]
    return json.dumps(said) if said else ""
