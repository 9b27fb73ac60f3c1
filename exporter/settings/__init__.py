"""What a person may set: flags > environment > file > default, each setting once.

This room reads its file and the environment and nothing else; it starts nothing.
"""

from exporter.settings import boundedyaml
from exporter.settings.boundedyaml import told
from exporter.settings.load import Complaint, examine, load
from exporter.settings.problem import MAX_PROBLEMS, Place, Problem, SettingsError
from exporter.settings.table import (
    SUBJECTS,
    TABLE,
    Settings,
    add_arguments,
    argument,
    changed,
    meant,
    unknown_variables,
    with_live,
)
from exporter.settings.values import Address, Setting, count, duration
from exporter.settings.yamlfile import contents, read_bytes

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
    "add_arguments",
    "argument",
    "boundedyaml",
    "changed",
    "contents",
    "count",
    "duration",
    "examine",
    "load",
    "meant",
    "read_bytes",
    "told",
    "unknown_variables",
    "with_live",
]
