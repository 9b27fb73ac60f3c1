"""The command line of ``mgpu-exporter``.

What runs a command is imported once its arguments are read: ``--version`` takes 0.1 s and not 0.5.
"""

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
from exporter.console import logs
from exporter.console.commandline import USAGE_ERROR, Parser, without_traceback
from exporter.console.output import warn

logger = logging.getLogger(__name__)


_SERVE, _HELP = "serve", "help"
_ANSWERS = "answers"  # the wing of the commands for people
_CHECK_CONFIG = "check-config"  # the only command that runs with settings that cannot be used

_FIRST_LOOK = (
    "For a first look without a GPU: mgpu-exporter serve --simulate=demo --web.open-page, then "
    "http://localhost:10045. For problems on this machine: mgpu-exporter check."
)


_ALL, _CHECK = "--help-all", "check"
_GONE = {"snapshot": ["top", "--once"]}  # a command that was, and what does the same
_ALSO = "It takes the settings of serve, too: mgpu-exporter serve --help-all."
_MORE = f"All settings: mgpu-exporter serve {_ALL}, or docs/configuration.md."


class _Command(NamedTuple):
    """A sub-command: a function in the module of its name, which is imported when it is needed.

    ``settings``: whether it has the flags of the settings. ``required``: the required arguments in
    its usage line. ``wing``: whether it is the agent's, or an answer for people. ``here``: whether
    that answer can be of this node. ``module``: its module, if that is not of the usual name.
    """

    name: str
    about: str
    settings: bool = True
    required: str = ""
    wing: str = "agent"
    here: bool = False
    module: str = ""

    @property
    def of_node(self) -> bool:
        """Whether the settings say anything to it: it looks at this node."""
        return self.settings and (self.here or self.wing != _ANSWERS)

    @property
    def function(self) -> Callable[..., int]:
        """The function that runs it and returns the exit status."""
        function: Callable[..., int] = getattr(self._module, self.name.replace("-", "_"))
        return function

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add its own flags."""
        if self.name != _SERVE:
            self._module.add_arguments(parser)

    @property
    def _module(self) -> Any:  # noqa: ANN401 - each has a function of its own name
        usual = f"exporter.agent.commands.{self.name.replace('-', '_')}"
        if self.wing == _ANSWERS:
            usual = f"exporter.answers.{self.name}.{self.name}command"
        return import_module(self.module or usual)


_COMMANDS = {
    command.name: command
    for command in (
        _Command(_SERVE, "serve the metrics; the default, if no command is given"),
        _Command("top", "show GPUs, pods and processes, live", wing=_ANSWERS, here=True),
        _Command(_CHECK, "check this node as serve would use it, or a running exporter (--url)"),
        _Command(_CHECK_CONFIG, "report all problems of the configuration, and start nothing"),
        _Command(
            "record",
            "write what the sources return to a file, cycle by cycle",
            required=" --output FILE",
        ),
        _Command(
            "bill",
            "what the GPUs that a Prometheus watches cost, and who pays for what",
            wing=_ANSWERS,
            module="exporter.answers.bill.closed.closedcommand",
        ),
        _Command(
            "why",
            "how a pod, workload, job or container fares: use, who ran instead, what to do",
            required=" NAME",
            wing=_ANSWERS,
            here=True,
        ),
        _Command(
            "advise",
            "what each workload should ask for, by what a Prometheus saw of it",
            wing=_ANSWERS,
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
    command = _COMMANDS[arguments.command or _SERVE]
    function = command.function
    if command.name == _CHECK_CONFIG:
        return without_traceback(
            lambda: function(_flags(arguments), arguments.format, refused=arguments.refused)
        )
    from exporter.agent.collector.wiring import read_settings  # noqa: PLC0415 - see above
    from exporter.agent.settings import SettingsError, unknown_variables  # noqa: PLC0415

    try:
        settings = read_settings(_flags(arguments))
    except SettingsError as error:
        for problem in error.problems:
            warn(f"mgpu-exporter: {problem}")
        return USAGE_ERROR
    # Commands are read by people, unless JSON was asked for.
    for_people = command.name != _SERVE and settings.log_format == "logfmt"
    logs.configure(settings.log_level, logs.PLAIN if for_people else settings.log_format)
    for warning in unknown_variables(os.environ):
        logger.warning("%s", warning)
    if command.name == _SERVE:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled
        status: int = function(settings, reread=lambda: read_settings(_flags(arguments)))
        return status
    if command.name == _CHECK and arguments.url:
        from exporter.answers.check_exporter import check_exporter  # noqa: PLC0415

        function = lambda _, arguments: check_exporter(arguments)  # noqa: E731
    if command.wing != _ANSWERS:
        return without_traceback(lambda: function(settings, arguments))
    if not command.here:
        return without_traceback(lambda: function(arguments))
    from exporter.localfeed import ThisNode  # noqa: PLC0415 - see above

    return without_traceback(lambda: function(arguments, ThisNode(settings)))


def _read(argv: Sequence[str]) -> Namespace:
    """The parsed arguments. A command's module is imported if it is named, or a flag is unknown."""
    if list(argv) == ["--version"]:  # programs ask for it often: not after the table of settings
        short = Parser(prog="mgpu-exporter", add_help=False)
        _add_general(short)
        short.parse_args(argv)
    if argv and argv[0] == _HELP:
        argv = [*argv[1:2], "--help"]
    for gone, instead in _GONE.items():
        if gone in argv[:1]:
            warn(f"mgpu-exporter: {gone} is gone; this is {' '.join(instead)}")
            argv = [*instead, *argv[1:]]
    full = _ALL in argv
    argv = ["--help" if given == _ALL else given for given in argv]
    named = {given.partition("=")[0] for given in argv}
    parser = _parser(_COMMANDS.keys() & named, full=full)
    known = {flag for each in (parser, *parser.commands.values()) for flag in each.flags}
    if any(name.startswith("--") and name not in known for name in named):
        parser = _parser(_COMMANDS)
    return parser.parse(argv, tolerant=_CHECK_CONFIG)


def _flags(arguments: Namespace) -> dict[str, list[str]]:
    """The settings among the arguments, by name."""
    from exporter.agent.settings import TABLE  # noqa: PLC0415 - see above

    given = vars(arguments)
    return {s.name: given[s.name] for s in TABLE.values() if s.name in given}


def _parser(known: Collection[str] = tuple(_COMMANDS), *, full: bool = False) -> Parser:
    """The parser. ``known`` are the commands whose own flags it has.

    ``full``: the help has all settings but the rare ones, and not the first ones of serve only.
    """
    from exporter.agent.settings import FIRST, TABLE, add_arguments  # noqa: PLC0415 - see above

    every = {setting.name for setting in TABLE.values() if not setting.rare}

    parser = Parser(
        prog="mgpu-exporter",
        usage="mgpu-exporter [COMMAND] [FLAG ...]",
        description=f"{(about or '').partition(chr(10))[0]} {_FIRST_LOOK}",
        epilog="Each flag of serve can also be given as the variable shown with it, or by its name "
        "in the YAML file of --config.file. Flags take precedence over variables, and these over "
        f"the file. For a command's own flags see mgpu-exporter COMMAND --help. {_MORE}",
        add_help=False,
    )
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    _add_general(parser)
    add_arguments(parser, shown=every if full else ())
    parser.commands = commands.choices
    for name, command in _COMMANDS.items():
        own = commands.add_parser(
            name,
            usage=f"mgpu-exporter {name}{command.required} [FLAG ...]",
            help=command.about,
            description=command.about,
            epilog=_MORE if name == _SERVE else _ALSO if command.of_node else None,
        )
        if name in known:
            command.add_arguments(own)
        if name in known and name == _CHECK:
            from exporter.answers.reading.accessflags import add_arguments as add_access  # noqa: PLC0415

            add_access(own)
        if name in known and command.settings:
            first = () if name != _SERVE else every if full else FIRST
            add_arguments(own, shown=first)
    return parser


def _add_general(parser: Parser) -> None:
    """Add the flags that are no settings."""
    general = parser.add_argument_group("general")
    general.add_argument("-h", "--help", action="help", help="show this help")
    general.add_argument("--version", action="version", version=f"mgpu-exporter {__version__}")
