"""The command line's grammar: what is said of it, and of what is wrong in it."""

import re
from argparse import ArgumentParser, HelpFormatter, Namespace
from collections.abc import Iterable, Mapping, Sequence
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
        """All long flags that it takes."""
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    def parse(self, argv: Sequence[str]) -> Namespace:
        """Read the arguments; ends with status 2 if one is not known."""
        known = {flag: None for each in (self, *self.commands.values()) for flag in each.flags}
        named = [given.partition("=")[0] for given in argv if given.startswith("--")]
        unknown = [name for name in named if name not in known and name != "--"]
        self._refuse(f"no such flag: {f}{meant(f, known) or '; see --help'}" for f in unknown)
        arguments, left = self.parse_known_args(argv)
        command = arguments.command or "serve"
        self._refuse(f"{command} has no use for {given}" for given in left)
        return arguments

    def _refuse(self, problems: Iterable[str]) -> None:
        lines = [f"mgpu-exporter: {problem}\n" for problem in problems]
        if lines:
            self.exit(USAGE_ERROR, "".join(lines))


class _Form(HelpFormatter):
    """As wide as people read, with what is explained below each flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=8, width=100)
