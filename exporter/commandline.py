"""The command line's grammar: what is said of it, and of what is wrong in it."""

import re
import sys
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from exporter.settings import meant

USAGE_ERROR = 2

_NO_CHOICE = re.compile(r"argument (?P<of>\S+): invalid choice: '(?P<given>.*?)' \(choose from ")


class Parser(ArgumentParser):
    """Answers an error with one line, and the name that is most like what was given.

    Nobody reads a usage of forty flags to find the one letter that was wrong.
    """

    commands: Mapping[str, "Parser"] = {}

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(allow_abbrev=False, formatter_class=_Form, **options)

    def error(self, message: str) -> NoReturn:
        """Say it, and end with status 2."""
        choice = _NO_CHOICE.match(message)
        if choice and choice["of"] == "COMMAND":
            given = choice["given"]
            near = meant(given, self.commands) or f"; known: {', '.join(self.commands)}"
            message = f"no such command: {given}{near}"
        self.exit(USAGE_ERROR, f"mgpu-exporter: {message}\n")

    @property
    def flags(self) -> list[str]:
        """All flags that it knows."""
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    def refuse(self, unknown: Iterable[str], command: str) -> NoReturn:
        """End because of arguments that are neither flags of the command nor their values."""
        known = self.commands[command].flags
        for given in unknown:
            name = given.partition("=")[0]
            if name.startswith("-"):
                said = f"no such flag: {name}{meant(name, known) or '; see --help'}"
            else:
                said = f"unexpected argument: {given}"
            print(f"mgpu-exporter: {said}", file=sys.stderr)
        sys.exit(USAGE_ERROR)


class _Form(HelpFormatter):
    """As wide as people read, with what is explained below each flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=8, width=100)
