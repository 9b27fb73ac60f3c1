"""The table: every setting once, by subject."""

from dataclasses import dataclass, fields, replace
from typing import get_type_hints

from exporter.settings.cluster import Cluster
from exporter.settings.general import General
from exporter.settings.groups import Groups
from exporter.settings.measuring import Measuring
from exporter.settings.metrics import Metrics
from exporter.settings.node import ThisNode
from exporter.settings.setting import Setting
from exporter.settings.web import Web


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Metrics, Measuring, Groups, Cluster, ThisNode, General, Web):
    """The values in force. Durations are nanoseconds; what is not set is "", or () of several."""


def _settings(subject: type) -> dict[str, Setting]:
    hints = get_type_hints(subject, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(subject)}


SUBJECTS: dict[str, dict[str, Setting]] = {
    subject.__doc__ or "": _settings(subject)
    for subject in (Web, General, ThisNode, Cluster, Groups, Measuring, Metrics)
}
"""Title → the settings of a subject, by field name."""

TABLE = {field: setting for subject in SUBJECTS.values() for field, setting in subject.items()}
"""Field name → setting, in the order of the documentation."""

BY_NAME = {setting.name: setting for setting in TABLE.values()}
"""Name → setting."""


def with_live(old: Settings, new: Settings) -> Settings:
    """The old settings with what can change at run time as in the new ones."""
    live = {field: getattr(new, field) for field, setting in TABLE.items() if setting.live}
    return replace(old, **live)


def changed(old: Settings, new: Settings) -> tuple[Setting, ...]:
    """The settings that differ."""
    return tuple(s for field, s in TABLE.items() if getattr(old, field) != getattr(new, field))
