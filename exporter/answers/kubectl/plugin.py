"""The command line of ``kubectl mgpu``.

What runs a command is imported once it is named, so that ``--help`` is there at once.
"""

import logging
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import NamedTuple

from exporter import __version__
from exporter.answers.kubectl import EXPORTERS, KUBECONFIG, USUAL
from exporter.console import logs
from exporter.console.commandline import USAGE_ERROR, Parser, without_traceback


class _PluginParser(Parser):
    """The same parser under the plugin's name."""

    program = "kubectl mgpu"


class _PluginCommand(NamedTuple):
    """A command. ``required``: the required arguments in its usage line."""

    about: str
    required: str = ""


_COMMANDS = {
    "top": _PluginCommand("show GPUs and pods, live"),
    "why": _PluginCommand(
        "how a pod fares on its GPUs: use, who ran instead, what to do",
        " [NAMESPACE/]POD",
    ),
    "advise": _PluginCommand("what each workload should ask for"),
    "bill": _PluginCommand("what the GPUs cost, and who pays for what"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given = sys.argv[1:] if argv is None else argv
    # Only the commands that are named are imported, for their flags: a help text would otherwise
    # wait for them all.
    arguments = _parser(_COMMANDS.keys() & set(given)).parse(given)
    logs.configure("warn", logs.PLAIN, program=_PluginParser.program)
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    if not arguments.command:
        _parser(()).print_help()
        return USAGE_ERROR
    from exporter.answers.kubectl.asking import ask  # noqa: PLC0415 - see above

    return without_traceback(lambda: ask(arguments), _PluginParser.program)


def _parser(known: Collection[str]) -> Parser:
    """The parser. ``known`` are the commands whose own flags it has."""
    parser = _PluginParser(
        prog="kubectl mgpu",
        usage="kubectl mgpu COMMAND [FLAG ...]",
        description="Who uses the cluster's GPUs, by the exporters or the Prometheus in it.",
        epilog="For a command's own flags see kubectl mgpu COMMAND --help.",
    )
    parser.add_argument("--version", action="version", version=f"kubectl-mgpu {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    parser.commands = commands.choices
    for name, command in _COMMANDS.items():
        own = commands.add_parser(
            name,
            usage=f"kubectl mgpu {name}{command.required} [FLAG ...]",
            help=command.about,
            description=command.about,
        )
        if name in known:
            import_module(f"exporter.answers.{name}.{name}command").add_arguments(own)
        group = own.add_argument_group("cluster")
        group.add_argument("--context", default="", help="of the kubeconfig [default its current]")
        group.add_argument("--kubeconfig", metavar="FILE", help=f"[$KUBECONFIG, or {KUBECONFIG}]")
        own.set_defaults(all_namespaces=False)
        if name != "bill":  # a bill is of whole cards
            group.add_argument(
                *("-A", "--all-namespaces"),
                action="store_true",
                help="all that you may see, and not only the namespace of -n or of the context",
            )
        group.add_argument(
            "--selector", default=EXPORTERS, help=f"label of the exporters' pods [{EXPORTERS}]"
        )
        group.add_argument(
            *("--exporter-namespace",),
            default="",
            metavar="NAMESPACE",
            help="where the exporters, or the Prometheus, are, if it is none of "
            f"{', '.join(USUAL)}: your token is shown to what is there",
        )
    return parser
