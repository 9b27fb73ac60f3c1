"""Settings: the settings file and the log."""

from dataclasses import dataclass
from typing import Annotated

from exporter.settings.setting import Setting
from exporter.settings.values import TEXT, choice


@dataclass(frozen=True, kw_only=True)
class General:
    """The settings file and the log."""

    __slots__ = ()

    config_file: Annotated[
        str,
        Setting(
            "config.file",
            TEXT,
            "",
            "YAML file with settings, by the names of the flags (docs/rules.md).",
            "Flags and environment variables go before it. It is looked at every two seconds; what "
            "has changed in it and is live is taken up.",
        ),
    ]
    log_level: Annotated[
        str,
        Setting(
            "log.level",
            choice("debug", "info", "warning", "error"),
            "info",
            "Least level.",
            live=True,
        ),
    ]
    log_format: Annotated[
        str,
        Setting(
            "log.format", choice("logfmt", "json"), "logfmt", "Form of the log lines.", live=True
        ),
    ]
