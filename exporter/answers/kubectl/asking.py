"""Finds the exporters or the Prometheus of a cluster, and asks them what a command is about.

A user's own rights decide what he sees: his token travels through a port-forward to the exporters,
which ask the API server about it (``--web.kubernetes-access``).
"""

import json
import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from exporter.answers.advise import advisecommand
from exporter.answers.bill import billcommand
from exporter.answers.kubectl import KUBECONFIG, USUAL
from exporter.answers.kubectl.apiroute import door_of, namespace_of
from exporter.answers.kubectl.cluster import Exporter, UserCluster
from exporter.answers.kubectl.clusterfeed import FleetFeed
from exporter.answers.kubectl.forward import Forwarder
from exporter.answers.reading.accessflags import (
    PROMETHEUS,
    URL,
    far_headers,
    far_namespace,
    secret_of,
)
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.jsonclient import Credentials
from exporter.answers.top import topcommand
from exporter.answers.top.once import OK, TROUBLE
from exporter.answers.why import whycommand
from exporter.answers.why.case import Case
from exporter.apiserver.client import from_kubeconfig
from exporter.apiserver.kubeconfig import KubeconfigError
from exporter.apiserver.serveranswers import ApiError
from exporter.console.output import say, warn
from exporter.httpclient import NoAnswerError

_NOTHING = 2
_CERTIFICATE = (
    "Your kubeconfig logs in without a token, or acts as another, and an exporter can only check "
    "a token: give one with --token-file, such as the output of kubectl create token NAME."
)


@dataclass(frozen=True, slots=True)
class _User:
    """Who asks: a cluster, the namespace to look at ("" is all), and the arguments."""

    cluster: UserCluster
    namespace: str
    arguments: Namespace


class _AskingCommand(NamedTuple):
    """A command. ``run`` asks exporters; without it the command needs a Prometheus."""

    with_prometheus: Callable[[Namespace], int]
    run: Callable[[_User], int] | None = None


def _top(user: _User) -> int:
    given = user.arguments
    if given.format == "metrics":
        raise NoAnswerError("--format=metrics: of one exporter (mgpu-exporter top --url)")
    if given.format == "json" and user.namespace:
        raise NoAnswerError("--format=json has all of each node that you may see: add -A")
    find = partial(user.cluster.exporters, given.selector)
    feed = FleetFeed(find, user.cluster.http, namespace=user.namespace)
    if given.format != "json":
        return topcommand.show(feed, given, user.namespace)
    try:
        # Prints the document of each node in a line, as they come.
        errors = list[NoAnswerError]()
        answered = False
        for document in feed.documents():
            if isinstance(document, NoAnswerError):
                errors.append(document)
            else:
                answered = True
                say(json.dumps(document) + "\n")
        if not answered:
            raise errors[0]
        failed = [one for one in errors if one.status != HTTPStatus.FORBIDDEN]
        for error in failed:
            warn(f"kubectl mgpu top: {error}")
        return TROUBLE if failed else OK
    finally:
        feed.close()


def _cases(user: _User) -> Sequence[Case]:
    given = user.arguments
    namespace, _, pod = given.pod.rpartition("/")
    elsewhere = not namespace and not far_namespace(given)  # none was named
    node, namespace = user.cluster.node_of(namespace or user.namespace, pod, elsewhere=elsewhere)
    exporters = user.cluster.exporters(given.selector, node)
    # Two releases may have an exporter on this node. One that does not answer costs nothing while
    # another does; the last one's error is the user's answer.
    *others, last = exporters
    for exporter in others:
        with suppress(NoAnswerError):
            return _cases_of(user, exporter, namespace, pod)
    return _cases_of(user, last, namespace, pod)


def _cases_of(user: _User, exporter: Exporter, namespace: str, pod: str) -> Sequence[Case]:
    feed = RemoteFeed(user.cluster.http(exporter))
    return whycommand.cases_of_exporter(
        feed, (namespace, pod), whycommand.watched_ns(user.arguments)
    )


_COMMANDS = {
    "top": _AskingCommand(topcommand.top, _top),
    "why": _AskingCommand(
        whycommand.why, lambda user: whycommand.answer(lambda: _cases(user), user.arguments)
    ),
    "advise": _AskingCommand(advisecommand.advise),
    "bill": _AskingCommand(billcommand.bill),
}


def ask(arguments: Namespace) -> int:
    """Run the command that the arguments name; its exit status, 2 if nothing can be asked."""
    command = _COMMANDS[arguments.command]
    # A flag or a variable may name the server to ask. The variable of an exporter counts only for
    # commands that can ask exporters.
    url = command.run is not None and os.environ.get(URL)
    has_address = arguments.url or arguments.prometheus or os.environ.get(PROMETHEUS) or url
    try:
        if has_address:
            _look_at_own_namespace(arguments)
            return command.with_prometheus(arguments)
        return _in_cluster(command, arguments)
    except (NoAnswerError, KubeconfigError, ApiError) as error:
        warn(f"kubectl mgpu {arguments.command}: {error}")
        return _NOTHING


def _look_at_own_namespace(arguments: Namespace) -> None:
    """Complete the namespace as in a cluster: it is that of the context, where none is named."""
    if arguments.all_namespaces:
        arguments.namespace = ""
        return
    if arguments.command == "bill" or far_namespace(arguments):  # a bill is of whole cards
        return
    # Who gives an address may have no kubeconfig at all. Then no namespace is meant.
    path, namespace = _kubeconfig(arguments), ""
    files = (Path(each).expanduser() for each in path.split(os.pathsep) if each)
    if arguments.kubeconfig or arguments.context or any(file.exists() for file in files):
        namespace = namespace_of(path, arguments.context)
    if arguments.command != "why":
        arguments.namespace = namespace
    elif namespace and "/" not in arguments.pod:  # -n would also hide the names of all others
        arguments.pod = f"{namespace}/{arguments.pod}"


def _kubeconfig(arguments: Namespace) -> str:
    usual = str(Path(KUBECONFIG).expanduser())
    return arguments.kubeconfig or os.environ.get("KUBECONFIG") or usual


def _in_cluster(command: _AskingCommand, arguments: Namespace) -> int:
    kubeconfig = _kubeconfig(arguments)
    credentials = from_kubeconfig(kubeconfig, arguments.context)
    door = door_of(credentials)
    given = secret_of("token-file", arguments)
    namespace = ""
    if not arguments.all_namespaces:
        namespace = far_namespace(arguments) or namespace_of(kubeconfig, arguments.context)
    with Forwarder(door) as forwarder:
        trusted = (arguments.exporter_namespace,) if arguments.exporter_namespace else USUAL
        further = far_headers(arguments)

        def shown() -> Credentials:  # each time, since a plugin's token runs out
            return Credentials(token=given or door.token, headers=further)

        cluster = UserCluster(credentials, forwarder, shown, trusted)
        if command.run is None:
            arguments.prometheus, arguments.prometheus_name = cluster.prometheus()
            if arguments.command == "advise":  # a bill is of whole cards
                arguments.namespace = namespace
            return command.with_prometheus(arguments)
        status = command.run(_User(cluster, namespace, arguments))
        if status == _NOTHING and not shown().token:
            warn(_CERTIFICATE)
        return status
