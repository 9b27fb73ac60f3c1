"""The command ``mgpu-exporter``."""

import logging
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from exporter import __doc__ as about
from exporter import __version__
from exporter.collector.wiring import read_settings
from exporter.commands import logs
from exporter.commands.commandline import USAGE_ERROR, Parser
from exporter.commands.serve import serve
from exporter.settings import TABLE, Settings, SettingsError, add_arguments, unknown_variables

logger = logging.getLogger(__name__)


_SERVE, _HELP = "serve", "help"
_CHECK_CONFIG = "check-config"  # the only command that runs with settings that cannot be used

_FIRST_LOOK = (
    "For a first look without a GPU: mgpu-exporter serve --simulate=demo --web.open-page, then "
    "http://localhost:10045. For problems on this machine: mgpu-exporter check."
)

INTERRUPTED, NOT_READ = 128 + signal.SIGINT, 128 + signal.SIGPIPE  # as shells report a signal


class _Command(NamedTuple):
    """A sub-command: a function in the module of its name, which is imported when it is needed.

    ``settings``: whether it has the flags of the settings. ``required``: the required arguments in
    its usage line.
    """

    name: str
    about: str
    settings: bool = True
    required: str = ""

    def run(self, settings: Settings, arguments: Namespace) -> int:
        """Run the command and return its exit status."""
        status: int = getattr(self._module, self.name)(settings, arguments)
        return status

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add its own flags."""
        if self.name != _SERVE:
            self._module.add_arguments(parser)

    @property
    def _module(self) -> Any:  # noqa: ANN401 - each has a function of its own name
        return import_module(f"exporter.commands.{self.name.replace('-', '_')}")


_COMMANDS = {
    command.name: command
    for command in (
        _Command(_SERVE, "serve the metrics; the default, if no command is given"),
        _Command("top", "show GPUs, pods and processes, live"),
        _Command("snapshot", "print the usage of the GPUs once"),
        _Command("check", "check this node as serve would use it, and report the problems found"),
        _Command(_CHECK_CONFIG, "report all problems of the configuration, and start nothing"),
        _Command(
            "record",
            "write what the sources return to a file, cycle by cycle",
            required=" --output FILE",
        ),
        _Command(
            "replay",
            "print the page that results from a recording",
            settings=False,
            required=" FILE",
        ),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status; 2 means that the settings cannot be used."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until it is handled, it would end the process
    arguments = _read(sys.argv[1:] if argv is None else argv)
    command = arguments.command or _SERVE
    if command == _CHECK_CONFIG:
        from exporter.commands.check_config import check_config  # noqa: PLC0415 - as the other commands

        return _without_traceback(
            lambda: check_config(_flags(arguments), arguments.format, refused=arguments.refused)
        )
    try:
        settings = read_settings(_flags(arguments))
    except SettingsError as error:
        for problem in error.problems:
            print(f"mgpu-exporter: {problem}", file=sys.stderr)
        return USAGE_ERROR
    logs.configure(settings.log_level, settings.log_format)
    for warning in unknown_variables(os.environ):
        logger.warning("%s", warning)
    if command == _SERVE:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled
        return serve(settings, reread=lambda: read_settings(_flags(arguments)))
    return _without_traceback(lambda: _COMMANDS[command].run(settings, arguments))


def _without_traceback(run: Callable[[], int]) -> int:
    """Run a command. An interrupt or a closed output shows no traceback."""
    try:
        try:
            status = run()
        except KeyboardInterrupt:
            status = INTERRUPTED
        print(end="", flush=True)  # also if there is no standard output
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # at the end Python flushes it once more
        return NOT_READ
    return status


def _read(argv: Sequence[str]) -> Namespace:
    """The parsed arguments. ``serve`` alone does not import the modules of all other commands."""
    if argv and argv[0] == _HELP:
        argv = [*argv[1:2], "--help"]
    parser = _parser([_SERVE])
    named = {given.partition("=")[0] for given in argv}
    others = _COMMANDS.keys() - {_SERVE} | {"-h", "--help"}
    unknown = [name for name in named if name.startswith("--") and name not in parser.flags]
    if unknown or named & others:
        parser = _parser(_COMMANDS)
    return parser.parse(argv, tolerant=_CHECK_CONFIG)


def _flags(arguments: Namespace) -> dict[str, list[str]]:
    """The settings among the arguments, by name."""
    given = vars(arguments)
    return {s.name: given[s.name] for s in TABLE.values() if s.name in given}


def _parser(known: Collection[str] = tuple(_COMMANDS)) -> Parser:
    """The parser. ``known`` are the commands whose own flags it has."""
    parser = Parser(
        prog="mgpu-exporter",
        usage="mgpu-exporter [COMMAND] [FLAG ...]",
        description=f"{(about or '').partition(chr(10))[0]} {_FIRST_LOOK}",
        epilog="Each flag can also be given as the variable shown with it, or by its name in the "
        "YAML file of --config.file. Flags take precedence over variables, and these over the "
        "file. For a command's own flags see mgpu-exporter COMMAND --help.",
        add_help=False,
    )
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    general = parser.add_argument_group("general")
    general.add_argument("-h", "--help", action="help", help="show this help")
    general.add_argument("--version", action="version", version=f"mgpu-exporter {__version__}")
    add_arguments(parser)
    parser.commands = commands.choices
    for name, command in _COMMANDS.items():
        own = commands.add_parser(
            name,
            usage=f"mgpu-exporter {name}{command.required} [FLAG ...]",
            help=command.about,
            description=command.about,
        )
        if name in known:
            command.add_arguments(own)
        if name in known and command.settings:
            add_arguments(own)
    return parser


if __name__ == "__main__":
    sys.exit(main())
