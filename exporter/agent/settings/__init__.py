"""The settings: one table, read from flags, environment variables and a file.

Flags take precedence over variables, variables over the file, the file over defaults. This package
reads its file and the environment and nothing else.
"""

from exporter.agent.settings.load import Complaint, SettingsError, examine, load
from exporter.agent.settings.table import (
    FIRST,
    SUBJECTS,
    TABLE,
    Settings,
    add_arguments,
    changed,
    unknown_variables,
    with_live,
)

__all__ = [
    "FIRST",
    "SUBJECTS",
    "TABLE",
    "Complaint",
    "Settings",
    "SettingsError",
    "add_arguments",
    "changed",
    "examine",
    "load",
    "unknown_variables",
    "with_live",
]
