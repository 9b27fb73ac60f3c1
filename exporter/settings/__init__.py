"""What a person may set: flags > environment > file > default, each setting once.

This room reads its file and the environment and nothing else; it starts nothing.
"""

from exporter.settings.load import Complaint, SettingsError, add_arguments, argument, load
from exporter.settings.table import TABLE, Setting, Settings
from exporter.settings.values import Address, count, duration

__all__ = [
    "TABLE",
    "Address",
    "Complaint",
    "Setting",
    "Settings",
    "SettingsError",
    "add_arguments",
    "argument",
    "count",
    "duration",
    "load",
]
