"""Finds the exporters or the Prometheus of a cluster, and asks them what a command is about.

A user's own rights decide what he sees: his token travels through a port-forward to the exporters,
which ask the API server about it (``--web.kubernetes-access``).
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.commands import advise, bill, top, why
from exporter.httpclient import NoAnswerError
from exporter.kubectl import KUBECONFIG, USUAL
from exporter.kubectl.cluster import Cluster
from exporter.kubectl.fleet import FleetFeed
from exporter.kubectl.forward import Forwarder
from exporter.prometheus.why import Case
from exporter.settings import Settings, load
from exporter.sources.pods.answers import ApiError
from exporter.sources.pods.client import KubeconfigError, door_of, from_kubeconfig, namespace_of
from exporter.terminal.access import PROMETHEUS, secret_of
from exporter.terminal.feeds.http import RemoteFeed

_NOTHING = 2
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

    with_prometheus: Callable[[Settings, Namespace], int]
    run: Callable[[_User], int] | None = None


def _top(user: _User) -> int:
    given = user.arguments
    find = partial(user.cluster.exporters, given.selector)
    return top.show(FleetFeed(find, user.cluster.http, user.namespace), given)


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
    "top": _Command(top.top, _top),
    "why": _Command(why.why, _why),
    "advise": _Command(advise.advise),
    "bill": _Command(bill.bill),
}


def ask(arguments: Namespace) -> int:
    """Run the command that the arguments name; its exit status, 2 if nothing can be asked."""
    command = _COMMANDS[arguments.command]
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
    return Path(KUBECONFIG).expanduser()
