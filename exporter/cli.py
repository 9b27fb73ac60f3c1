"""The command ``mgpu-exporter``."""

import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter import __doc__ as about
from exporter import __version__, check, logs, record, replay, snapshot, top
from exporter.serve import serve
from exporter.settings import TABLE, Settings, SettingsError, add_arguments
from exporter.wiring import read_settings

_USAGE_ERROR = 2


class _Command(NamedTuple):
    """A sub-command. ``settings``: whether it takes the flags of the settings."""

    about: str
    run: Callable[[Settings, Namespace], int]
    add_arguments: Callable[[ArgumentParser], None] = lambda _: None
    settings: bool = True


_COMMANDS = {
    "serve": _Command("serve the metrics (the default)", lambda settings, _: serve(settings)),
    "top": _Command("show GPUs, pods and processes, live", top.top, top.add_arguments),
    "snapshot": _Command(
        "print what is on the GPUs once", snapshot.snapshot, snapshot.add_arguments
    ),
    "check": _Command(
        "look at this node as serve would, and say what hinders it",
        check.check,
        check.add_arguments,
    ),
    "record": _Command(
        "write down what the sources say, cycle by cycle", record.record, record.add_arguments
    ),
    "replay": _Command(
        "print the page that a recording comes to",
        replay.replay,
        replay.add_arguments,
        settings=False,
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status; 2 means that the settings cannot be used."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until it is served, it would end the process
    arguments = _parser().parse_args(argv)
    given = vars(arguments)
    try:
        settings = read_settings({s.name: given[s.name] for s in TABLE.values() if s.name in given})
    except SettingsError as error:
        for problem in error.problems:
            print(f"mgpu-exporter: {problem}", file=sys.stderr)
        return _USAGE_ERROR
    logs.configure(settings.log_level, settings.log_format)
    return _COMMANDS[arguments.command or "serve"].run(settings, arguments)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="mgpu-exporter",
        description=(about or "").partition("\n")[0],
        epilog="Flags go before environment variables, these before the settings file.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mgpu-exporter {__version__}")
    add_arguments(parser)
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for name, command in _COMMANDS.items():
        own = commands.add_parser(
            name, help=command.about, description=command.about, allow_abbrev=False
        )
        command.add_arguments(own)
        if command.settings:
            add_arguments(own)
    return parser


if __name__ == "__main__":
    sys.exit(main())
