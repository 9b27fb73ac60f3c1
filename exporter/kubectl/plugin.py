"""``kubectl mgpu``: finds the exporters or the Prometheus of a cluster, and asks them.

A user's own rights decide what he sees: his token travels through a port-forward to the exporters,
which ask the API server about it (``--web.kubernetes-access``).
"""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exporter import __version__
from exporter.commands import advise, bill, logs, top, why
from exporter.commands.commandline import USAGE_ERROR, Parser, without_traceback
from exporter.httpclient import NoAnswerError
from exporter.kubectl.cluster import EXPORTERS, USUAL, Cluster
from exporter.kubectl.fleet import FleetFeed
from exporter.kubectl.forward import Forwarder
from exporter.prometheus.why import Case
from exporter.settings import Settings, load
from exporter.sources.pods.answers import ApiError
from exporter.sources.pods.client import KubeconfigError, door_of, from_kubeconfig, namespace_of
from exporter.terminal.access import PROMETHEUS, secret_of
from exporter.terminal.feeds.http import RemoteFeed

_NOTHING = 2
_USUAL = "~/.kube/config"
_CERTIFICATE = (
    "Your kubeconfig logs in without a token, and an exporter can only check a token: give one "
    "with --token-file, such as the output of kubectl create token NAME."
)


@dataclass(frozen=True, slots=True)
class _User:
    """Who asks: a cluster, the namespace to look at ("" is all), and the arguments."""

    cluster: Cluster
    namespace: str
    arguments: Namespace


class _Command(NamedTuple):
    """A command. ``run`` asks exporters; without it the command needs a Prometheus."""

    about: str
    add_arguments: Callable[[ArgumentParser], None]
    with_prometheus: Callable[[Settings, Namespace], int]
    run: Callable[[_User], int] | None = None
    required: str = ""


def _top(user: _User) -> int:
    given = user.arguments
    exporters = user.cluster.exporters(given.selector)
    return top.show(FleetFeed(exporters, user.cluster.http, user.namespace), given)


def _why(user: _User) -> int:
    return why.answer(lambda: _case(user), user.arguments.format)


def _case(user: _User) -> Case:
    given = user.arguments
    namespace, _, pod = given.pod.rpartition("/")
    namespace = namespace or user.namespace
    if not (namespace and pod):
        raise NoAnswerError("name the pod as NAMESPACE/POD, or give -n NAMESPACE")
    node = user.cluster.node_of(namespace, pod)
    exporters = user.cluster.exporters(given.selector, node)
    feed = RemoteFeed(user.cluster.http(exporters[0]))
    return why.case_of_exporter(feed, namespace, pod, given.over)


_COMMANDS = {
    "top": _Command("show GPUs and pods, live", top.add_arguments, top.top, _top),
    "why": _Command(
        "how a pod fares on its GPUs: use, waiting and who ran instead, memory",
        *(why.add_arguments, why.why, _why, " [NAMESPACE/]POD"),
    ),
    "advise": _Command("what each workload should ask for", advise.add_arguments, advise.advise),
    "bill": _Command("what the GPUs cost, and who pays for what", bill.add_arguments, bill.bill),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    arguments = _parser().parse(sys.argv[1:] if argv is None else argv)
    logs.configure("warn", logs.PLAIN)
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    if not arguments.command:
        _parser().print_help()
        return USAGE_ERROR
    return without_traceback(lambda: _run(_COMMANDS[arguments.command], arguments))


def _run(command: _Command, arguments: Namespace) -> int:
    try:
        if arguments.url or _prometheus(arguments):
            if arguments.all_namespaces:
                arguments.namespace = ""
            return command.with_prometheus(load({}, {}), arguments)
        return _in_cluster(command, arguments)
    except (NoAnswerError, KubeconfigError, ApiError) as error:
        print(f"kubectl mgpu {arguments.command}: {error}", file=sys.stderr)
        return _NOTHING


def _in_cluster(command: _Command, arguments: Namespace) -> int:
    kubeconfig = arguments.kubeconfig or os.environ.get("KUBECONFIG") or str(_home())
    credentials = from_kubeconfig(kubeconfig, arguments.context)
    door = door_of(credentials)
    token = secret_of("token-file", arguments) or door.token
    usual = "" if arguments.all_namespaces else namespace_of(kubeconfig, arguments.context)
    namespace = "" if arguments.all_namespaces else arguments.namespace or usual
    with Forwarder(door) as forwarder:
        trusted = (arguments.exporter_namespace,) if arguments.exporter_namespace else USUAL
        cluster = Cluster(credentials, forwarder, token, trusted)
        if command.run is None:
            arguments.prometheus, arguments.prometheus_name = cluster.prometheus()
            if arguments.command == "advise":  # a bill is of whole cards
                arguments.namespace = namespace
            return command.with_prometheus(load({}, {}), arguments)
        status = command.run(_User(cluster, namespace, arguments))
        if status == _NOTHING and not token:
            print(_CERTIFICATE, file=sys.stderr)
        return status


def _prometheus(arguments: Namespace) -> str:
    return arguments.prometheus or os.environ.get(PROMETHEUS, "")


def _home() -> Path:
    return Path(_USUAL).expanduser()


def _parser() -> Parser:
    parser = Parser(
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
        command.add_arguments(own)
        group = own.add_argument_group("cluster")
        group.add_argument("--context", default="", help="of the kubeconfig [default its current]")
        group.add_argument("--kubeconfig", metavar="FILE", help=f"[$KUBECONFIG, or {_USUAL}]")
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
