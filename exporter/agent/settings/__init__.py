"""The settings: one table, read from flags, environment variables and a file.

Flags take precedence over variables, variables over the file, the file over defaults. This package
reads its file and the environment and nothing else.
"""

from exporter.agent.settings.load import (
    Complaint,
    Place,
    Problem,
    SettingsError,
    examine,
    load,
)
from exporter.agent.settings.table import (
    SUBJECTS,
    TABLE,
    Settings,
    add_arguments,
    argument,
    changed,
    meant,
    nearest,
    unknown_variables,
    with_live,
)
from exporter.inputs import yamldocument
from exporter.inputs.mapping import MAX_PROBLEMS
from exporter.inputs.values import Address, Setting, count, duration
from exporter.inputs.yamldocument import YamlError, read_bytes

__all__ = [
    "MAX_PROBLEMS",
    "SUBJECTS",
    "TABLE",
    "Address",
    "Complaint",
    "Place",
    "Problem",
    "Setting",
    "Settings",
    "SettingsError",
    "YamlError",
    "add_arguments",
    "argument",
    "changed",
    "count",
    "duration",
    "examine",
    "load",
    "meant",
    "nearest",
    "read_bytes",
    "unknown_variables",
    "with_live",
    "yamldocument",
]
