"""The command ``mgpu-exporter``."""

import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence

from exporter import __doc__ as about
from exporter import __version__, logs
from exporter.serve import serve
from exporter.settings import Settings, SettingsError, add_arguments, load

_COMMANDS: dict[str, Callable[[Settings], int]] = {"serve": serve}
_USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a sub-command and return the exit status; 2 means that the settings cannot be used."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until it is served, it would end the process
    flags = vars(_parser().parse_args(argv))
    command = flags.pop("command")
    try:
        settings = load(flags)
    except SettingsError as error:
        for problem in error.problems:
            print(f"mgpu-exporter: {problem}", file=sys.stderr)
        return _USAGE_ERROR
    logs.configure(settings.log_level, settings.log_format)
    return _COMMANDS[command](settings)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="mgpu-exporter",
        description=(about or "").partition("\n")[0],
        epilog="Flags go before environment variables, these before the settings file.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "command", nargs="?", choices=_COMMANDS, default="serve", help="what to do (default serve)"
    )
    parser.add_argument("--version", action="version", version=f"mgpu-exporter {__version__}")
    add_arguments(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
