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


_SERVE = "serve"
_CHECK_CONFIG = "check-config"  # the only one that is run with settings that cannot be used

INTERRUPTED, NOT_READ = 128 + signal.SIGINT, 128 + signal.SIGPIPE  # as shells tell of a signal


class _Command(NamedTuple):
    """A sub-command: the function and the module of its name, imported where it is asked for.

    ``settings``: whether it takes the flags of the settings. ``required``: what its usage says
    must be given.
    """

    name: str
    about: str
    settings: bool = True
    required: str = ""

    def run(self, settings: Settings, arguments: Namespace) -> int:
        """Run it; its exit status."""
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
        _Command("snapshot", "print what is on the GPUs once"),
        _Command("check", "look at this node as serve would, and say what hinders it"),
        _Command(_CHECK_CONFIG, "say all that is wrong with the configuration, and start nothing"),
        _Command(
            "record",
            "write down what the sources say, cycle by cycle",
            required=" --output FILE",
        ),
        _Command(
            "replay",
            "print the page that a recording comes to",
            settings=False,
            required=" FILE",
        ),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status; 2 means that the settings cannot be used."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until it is served, it would end the process
    arguments = _read(sys.argv[1:] if argv is None else argv)
    command = arguments.command or _SERVE
    if command == _CHECK_CONFIG:
        from exporter.commands.check_config import check_config  # noqa: PLC0415 - as the other commands

        return _heard_out(lambda: check_config(_flags(arguments), arguments.format))
    try:
        settings = read_settings(_flags(arguments))
    except SettingsError as error:
        for problem in error.problems:
            print(f"mgpu-exporter: {problem}", file=sys.stderr)
        return USAGE_ERROR
    logs.configure(settings.log_level, settings.log_format)
    for warning in unknown_variables(os.environ):
        logger.warning("%s; it is not heeded", warning)
    if command == _SERVE:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is heeded
        return serve(settings, reread=lambda: read_settings(_flags(arguments)))
    return _heard_out(lambda: _COMMANDS[command].run(settings, arguments))


def _heard_out(run: Callable[[], int]) -> int:
    """Run a command. Whoever breaks it off, or reads no more of it, is shown no traceback."""
    try:
        try:
            status = run()
        except KeyboardInterrupt:
            status = INTERRUPTED
        print(end="", flush=True)  # also where there is no standard output
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # at the end Python flushes it once more
        return NOT_READ
    return status


def _read(argv: Sequence[str]) -> Namespace:
    """Read the arguments. Who only serves does not load the modules of all other commands."""
    parser = _parser([_SERVE])
    named = {given.partition("=")[0] for given in argv}
    others = _COMMANDS.keys() - {_SERVE} | {"-h", "--help"}
    strange = [name for name in named if name.startswith("--") and name not in parser.flags]
    if strange or named & others:
        parser = _parser(_COMMANDS)
    return parser.parse(argv)


def _flags(arguments: Namespace) -> dict[str, list[str]]:
    """The settings among the arguments, by name."""
    given = vars(arguments)
    return {s.name: given[s.name] for s in TABLE.values() if s.name in given}


def _parser(known: Collection[str] = tuple(_COMMANDS)) -> Parser:
    """``known``: the commands whose own flags it knows."""
    parser = Parser(
        prog="mgpu-exporter",
        usage="mgpu-exporter [COMMAND] [FLAG ...]",
        description=(about or "").partition("\n")[0],
        epilog="Each flag can be given as the variable that is named with it, or by its name in "
        "the YAML file of --config.file. Flags go before variables, these before the file. "
        "A command's own flags: mgpu-exporter COMMAND --help.",
        add_help=False,
    )
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    general = parser.add_argument_group("general")
    general.add_argument("-h", "--help", action="help", help="say this, and end")
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
