"""The command ``mgpu-exporter``."""

import logging
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter import __doc__ as about
from exporter import __version__, check, check_config, logs, record, replay, snapshot, top
from exporter.commandline import USAGE_ERROR, Parser
from exporter.serve import serve
from exporter.settings import TABLE, Settings, SettingsError, add_arguments, unknown_variables
from exporter.wiring import read_settings

logger = logging.getLogger(__name__)


_CHECK_CONFIG = "check-config"  # the only one that is run with settings that cannot be used


class _Command(NamedTuple):
    """A sub-command. ``settings``: whether it takes the flags of the settings.

    ``required``: what its usage says must be given.
    """

    about: str
    run: Callable[[Settings, Namespace], int]
    add_arguments: Callable[[ArgumentParser], None] = lambda _: None
    settings: bool = True
    required: str = ""


def _serve(settings: Settings, arguments: Namespace) -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is heeded
    return serve(settings, reread=lambda: read_settings(_flags(arguments)))


_COMMANDS = {
    "serve": _Command("serve the metrics; the default, if no command is given", _serve),
    "top": _Command("show GPUs, pods and processes, live", top.top, top.add_arguments),
    "snapshot": _Command(
        "print what is on the GPUs once", snapshot.snapshot, snapshot.add_arguments
    ),
    "check": _Command(
        "look at this node as serve would, and say what hinders it",
        check.check,
        check.add_arguments,
    ),
    _CHECK_CONFIG: _Command(
        "say all that is wrong with the configuration, and start nothing",
        lambda *_: 0,
        check_config.add_arguments,
    ),
    "record": _Command(
        "write down what the sources say, cycle by cycle",
        record.record,
        record.add_arguments,
        required=" --output FILE",
    ),
    "replay": _Command(
        "print the page that a recording comes to",
        replay.replay,
        replay.add_arguments,
        settings=False,
        required=" FILE",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status; 2 means that the settings cannot be used."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until it is served, it would end the process
    arguments = _parser().parse(sys.argv[1:] if argv is None else argv)
    command = arguments.command or "serve"
    if command == _CHECK_CONFIG:
        return check_config.check_config(_flags(arguments), arguments.format)
    try:
        settings = read_settings(_flags(arguments))
    except SettingsError as error:
        for problem in error.problems:
            print(f"mgpu-exporter: {problem}", file=sys.stderr)
        return USAGE_ERROR
    logs.configure(settings.log_level, settings.log_format)
    for warning in unknown_variables(os.environ):
        logger.warning("%s; it is not heeded", warning)
    return _COMMANDS[command].run(settings, arguments)


def _flags(arguments: Namespace) -> dict[str, list[str]]:
    """The settings among the arguments, by name."""
    given = vars(arguments)
    return {s.name: given[s.name] for s in TABLE.values() if s.name in given}


def _parser() -> Parser:
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
        command.add_arguments(own)
        if command.settings:
            add_arguments(own)
    return parser


if __name__ == "__main__":
    sys.exit(main())
