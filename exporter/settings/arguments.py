"""The settings as flags, for argparse."""

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any, TypeVar

from exporter.settings.setting import Setting
from exporter.settings.table import SUBJECTS
from exporter.settings.values import Kind

T = TypeVar("T")


def add_arguments(parser: ArgumentParser) -> None:
    """Add every setting's flag, by subject. A flag that is not given leaves no attribute."""
    for title, subject in SUBJECTS.items():
        group = parser.add_argument_group(title.rstrip("."))
        for setting in subject.values():
            switch: dict[str, Any] = {}
            if setting.default in ("true", "false"):
                switch = {"nargs": "?", "const": "true"}
            group.add_argument(
                f"--{setting.name}",
                dest=setting.name,
                default=SUPPRESS,
                action="append",
                metavar="VALUE",
                help=_help(setting),
                **switch,
            )


def argument(kind: Kind[T]) -> Callable[[str], T]:
    """Make what reads a sub-command's own argument of this kind, for argparse."""

    def read(text: str) -> T:
        try:
            return kind.read(text)
        except (ValueError, KeyError):
            raise ArgumentTypeError(f"{text!r} is not {kind.allowed}") from None

    return read


def _help(setting: Setting) -> str:
    default = f"default {setting.default}" if setting.default else "not set by default"
    repeat = "; repeatable" if setting.kind.many else ""
    text = f"{setting.about} [{setting.kind.allowed}; {default}; ${setting.variable}{repeat}]"
    return text.replace("%", "%%")
