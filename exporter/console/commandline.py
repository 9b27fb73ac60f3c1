"""The command-line parser: one-line errors with suggestions. How commands end."""

import re
import signal
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    ArgumentTypeError,
    HelpFormatter,
    Namespace,
)
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from exporter.console.output import NOT_READ, OutputError, say, warn
from exporter.inputs.problems import meant, nearest
from exporter.shown.printable import clean

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from exporter.inputs.valuekinds import ValueKind

T = TypeVar("T")

USAGE_ERROR = 2
INTERRUPTED = 128 + signal.SIGINT  # as shells report a signal
_COMMON = dict.fromkeys(("--port", "--listen", "--listen-address"), "--web.listen-address")
"""Flags that other exporters have, and ours."""
_ELSEWHERE, _HERE = {"--url", "--prometheus"}, {"serve", "check", "check-config", "record"}
"""Flags that name another machine, and commands that look at their own."""

_NO_CHOICE = re.compile(r"argument (?P<of>\S+): invalid choice: '(?P<given>.*?)' \(choose from ")


class Refusal(NamedTuple):
    """An argument that no command takes, what is wrong with it, and what to give instead."""

    argument: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        """The message."""
        return f"{self.what}: {self.argument}{self.advice}"


class Parser(ArgumentParser):
    """Reports an error in one line with the most similar name, without the usage of all flags."""

    commands: Mapping[str, "Parser"] = {}
    program = "mgpu-exporter"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        # Without abbreviations: one would mean another flag once a new one begins like it.
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormat, **options)

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        choice = _NO_CHOICE.match(message)
        if choice and choice["of"] == "COMMAND":
            given = choice["given"]
            near = meant(given, self.commands) or f"; known: {', '.join(self.commands)}"
            message = f"no such command: {given}{near}"
        self.exit(USAGE_ERROR, f"{self.program}: {clean(message, longest=None)}\n")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print what argparse says, help and errors, as commands do."""
        if file is not sys.stdout or file is None:
            warn(message.rstrip("\n"))
            return
        try:
            say(message)
        except OutputError as error:
            sys.exit(_unwritten(error, self.program))

    @property
    def flags(self) -> list[str]:
        """All its long flags."""
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    @property
    def shown(self) -> list[str]:
        """Its long flags that its help shows."""
        options = self._option_string_actions
        return [flag for flag in self.flags if options[flag].help != SUPPRESS]

    def parse(self, argv: Sequence[str], tolerant: str = "") -> Namespace:
        """The parsed arguments. Exits with status 2 if one is unknown.

        A command's flags may stand before it. The command ``tolerant`` gets unknown ones as
        ``refused`` of the result, to report them.
        """
        argv = self._ordered(argv)
        known = {flag for each in (self, *self.commands.values()) for flag in each.flags}
        named = [given.partition("=")[0] for given in argv if given.startswith("--")]
        unknown = [name for name in named if name not in known and name != "--"]
        command = next((given for given in argv if given in self.commands), "serve")
        flags = [*self.flags, *(self.commands[command].flags if command in self.commands else ())]
        refused = [Refusal(flag, "no such flag", _suggestion(flag, flags)) for flag in unknown]
        # Before argparse parses: it ends at the first error of its own, and would hide the others.
        if command != tolerant:
            self._refuse(refused)
        arguments, left = self.parse_known_args(argv)
        command = arguments.command or "serve"
        more = [given for given in left if given.partition("=")[0] not in unknown]
        refused += self._refused(more, command)
        if command != tolerant:
            self._refuse(refused)
        arguments.refused = refused
        arguments.program = self.program
        return arguments

    def _ordered(self, argv: Sequence[str]) -> Sequence[str]:
        """The arguments with a command's flags behind it; as they are if they name no command."""
        own, moved, rest = list[str](), list[str](), list(argv)
        while rest and rest[0].startswith("-"):
            name, equals, _ = rest[0].partition("=")
            group = own if name in self._option_string_actions else moved
            group.append(rest.pop(0))
            if not equals and self._takes_value(name) and rest:
                group.append(rest.pop(0))
        return [*own, rest[0], *moved, *rest[1:]] if rest and rest[0] in self.commands else argv

    def _takes_value(self, flag: str) -> bool:
        """Whether the next argument is the flag's value."""
        options: list[Mapping[str, Action]] = [
            parser._option_string_actions  # noqa: SLF001 - argparse has no other way to ask
            for parser in (self, *self.commands.values())
        ]
        return any(flag in each and each[flag].nargs is None for each in options)

    def _refused(self, left: Iterable[str], command: str) -> Iterator[Refusal]:
        """What a command does not take. A flag of other commands stands for its value too."""
        is_value = False
        for given in left:
            name, equals, _ = given.partition("=")
            having = [other for other, parser in self.commands.items() if name in parser.shown]
            if is_value and not having:
                is_value = False
            elif having:
                is_value = not equals and self._takes_value(name)
                advice = f"; it is one of {', '.join(having)}"
                if name in _ELSEWHERE and command in _HERE:
                    advice += f", and {command} looks at the machine that it runs on: run it there"
                yield Refusal(name, f"no flag of {command}", advice)
            else:
                yield Refusal(given, f"unexpected argument of {command}")

    def _refuse(self, problems: Iterable[Refusal]) -> None:
        lines = [f"{self.program}: {clean(str(one), longest=None)}\n" for one in problems]
        if lines:
            self.exit(USAGE_ERROR, "".join(lines))


def _suggestion(flag: str, known: Sequence[str]) -> str:
    """What to give instead of an unknown flag of a command that has the ``known`` ones."""
    if flag in _COMMON:
        return f"; did you mean {_COMMON[flag]}?"
    near = nearest(flag.lstrip("-"), [name.lstrip("-") for name in known])
    return f"; did you mean --{near}?" if near else "; see --help"


class _HelpFormat(HelpFormatter):
    """A help of at most 100 columns; a long flag has its explanation below it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=100)


def without_traceback(run: Callable[[], int], program: str = Parser.program) -> int:
    """Run a command. An interrupt shows no traceback, nor does an output that cannot be written.

    What a terminal's encoding lacks is written as its escape.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # A shell starts what a script runs beside it with SIGINT ignored. Then Python would not end at
    # it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        return _unwritten(error, program)


def _unwritten(error: OutputError, program: str) -> int:
    """The status; who is not read is silent."""
    if error.status != NOT_READ:
        warn(f"{program}: {error}")
    return error.status


def argument(kind: "ValueKind[T]") -> Callable[[str], T]:
    """A reader of a sub-command's own argument of this kind, for argparse."""

    def read(text: str) -> T:
        try:
            return kind.read(text)
        except (ValueError, KeyError):
            raise ArgumentTypeError(f"{text!r} is not {kind.allowed}") from None

    return read
