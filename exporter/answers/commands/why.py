"""The command ``why``: in a few sentences, how a pod fares on its GPUs."""

import json
import re
import time
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from difflib import get_close_matches

from exporter.answers.prometheus.case import Case
from exporter.answers.prometheus.node_case import Moment, case_of, pods_of
from exporter.answers.prometheus.ranges import add_range, moment, range_of
from exporter.answers.prometheus.series_case import SeriesCase
from exporter.answers.prometheus.why import sentences
from exporter.answers.terminal.access import add_arguments as add_access
from exporter.answers.terminal.access import far_feed, far_namespace, far_prometheus, here
from exporter.answers.terminal.feeds import OwnNode
from exporter.answers.terminal.feeds.document import moment_of_document
from exporter.answers.terminal.feeds.http import RemoteFeed
from exporter.console.commandline import argument
from exporter.console.output import say, warn
from exporter.console.progress import watch
from exporter.httpclient import NoAnswerError
from exporter.inputs.kinds import duration
from exporter.model import PodName, Snapshot
from exporter.shown.printable import clean, utc
from exporter.shown.words import joined

SECOND_NS = 10**9
_OK, _UNKNOWN, _NOTHING = 0, 1, 2
_OF_A_PROMETHEUS_NS = 300 * SECOND_NS
_OF_AN_EXPORTER_NS = 5 * SECOND_NS  # its averages are there already
_MAX_NEAR = 5


class _NoSuchPodError(Exception):
    """The pod is not known, with the message."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    parser.add_argument("pod", metavar="[NAMESPACE/]POD", help="the pod")
    group = parser.add_argument_group("why")
    add_range(group, None, "5m; without a Prometheus so long is watched: 5s, a node's own window")
    group.add_argument("--over", type=argument(duration("1s", "24h")), help=SUPPRESS)  # as before
    group.add_argument(
        "--cluster",
        metavar="NAME",
        type=lambda name: f"cluster={re.escape(name)}",
        dest="target",
        action="append",
        help="as --target=cluster=NAME: of a pod that several clusters of a Prometheus have",
    )
    group.add_argument("--format", choices=("text", "json"), default="text", help="[default text]")
    add_access(parser, prometheus=True)


def why(arguments: Namespace, node: OwnNode | None = None) -> int:
    """Print sentences on a pod: on ``node``, if the arguments name no other machine.

    The exit status is 0; 1 if there is no such pod; 2 on trouble.
    """
    return answer(lambda: _case(arguments, node), arguments)


def answer(asked: Callable[[], Case], arguments: Namespace) -> int:
    """Print the sentences of a case; the exit status as of ``why``."""
    try:
        case = asked()
    except _NoSuchPodError as error:
        _warn(arguments, str(error))
        return _UNKNOWN
    except (NoAnswerError, ValueError) as error:
        _warn(arguments, str(error))
        return _NOTHING
    if arguments.format == "json":
        document = {
            "namespace": case.namespace,
            "pod": case.pod,
            "timestamp_seconds": case.unix_s,
            "window_seconds": case.window_s,
            "observed_seconds": case.window_s if case.observed_s is None else case.observed_s,
            "parts": [asdict(part) for part in case.parts],
            "sentences": [{"topic": one.topic, "text": one.text} for one in sentences(case)],
        }
        say(json.dumps(document, indent=1) + "\n")
    else:
        say("".join(f"{clean(one.text, longest=None)}\n" for one in sentences(case)))
    return _OK


def _warn(arguments: Namespace, why: str) -> None:
    warn(f"{arguments.program} why: {clean(why, longest=None)}")


def _case(arguments: Namespace, node: OwnNode | None) -> Case:
    view = far_namespace(arguments)
    namespace, _, pod = arguments.pod.rpartition("/")
    namespace = namespace or view
    if not pod or "/" in namespace:
        raise NoAnswerError(f"{clean(arguments.pod)}: name the pod as NAMESPACE/POD")
    far = far_feed(arguments)
    if isinstance(far, RemoteFeed):
        return case_of_exporter(far, namespace, pod, watched_ns(arguments), view)
    if far is None:
        return _near(here(node), arguments, (namespace, pod), view)
    less = "a shorter range (--since) or one cluster (--cluster)"
    asks = far_prometheus(arguments, namespace=view, less=less)
    since_s, until_s = _range(arguments, asks.now() or time.time())
    reader = SeriesCase(asks, until_s, int(until_s - since_s), view)
    namespace = namespace or _namespace_of(pod, reader.pods(), asks.address)
    case = reader.read(namespace, pod)
    if asks.trouble:
        _warn(arguments, f"{asks.trouble}: what is not said may be there")
    if not case.parts:
        seen_s = reader.last_seen(namespace, pod)
        if seen_s is not None:
            at = utc(seen_s, "%Y-%m-%d %H:%M UTC")
            said = f"{namespace}/{pod} was last seen at {at}; look further back with --since=1d"
            raise _NoSuchPodError(clean(said))
        raise _NoSuchPodError(_missing(namespace, pod, reader.pods(), asks.address))
    return case


def _range(arguments: Namespace, now_s: float) -> tuple[float, float]:
    """Where the range begins and ends, of a Prometheus whose clock says ``now_s``."""
    if arguments.until == "now":  # to the fraction of a second: the newest scrape is in it
        over_s = (watched_ns(arguments, int(now_s)) or _OF_A_PROMETHEUS_NS) // SECOND_NS
        return now_s - over_s, now_s
    if arguments.since is None:
        raise ValueError("--until: give --since, too")
    return range_of(arguments, int(now_s), 1)


def watched_ns(arguments: Namespace, now_s: int = 0) -> int | None:
    """How long to look, or to look back until now; None if no flag says it.

    Raises:
        ValueError: a flag says what cannot be.

    """
    now_s = now_s or int(time.time())
    if arguments.until != "now" and moment(arguments.until, now_s) < now_s:
        raise ValueError("--until: an exporter knows of now alone; --prometheus has the past")
    if arguments.since is None:
        over_ns: int | None = arguments.over
        return over_ns
    since_s, until_s = range_of(arguments, now_s, 1)
    return (until_s - since_s) * SECOND_NS


def _namespace_of(pod: str, known: list[str], where: str) -> str:
    """The namespace of the only pod of this name."""
    found = [name.rpartition("/")[0] for name in known if name.rpartition("/")[2] == pod]
    if len(found) == 1:
        return found[0]
    if found:
        several = joined([f"{namespace}/{pod}" for namespace in found], _MAX_NEAR)
        raise _NoSuchPodError(clean(f"{where} knows {several}: name one of them"))
    raise _NoSuchPodError(_missing("", pod, known, where))


def case_of_exporter(
    feed: RemoteFeed, namespace: str, pod: str, over_ns: int | None = None, view: str = ""
) -> Case:
    """The case of a pod on the node of another exporter, which is looked at for some seconds.

    ``view`` is the viewer's only namespace; "" stands for all.

    Raises:
        NoAnswerError: the exporter does not answer, or does not measure now.

    """
    before = moment_of_document(feed.document)
    namespace = namespace or _namespace_of(pod, pods_of(before.facts, view), feed.name)
    watch(over_ns or _OF_AN_EXPORTER_NS, feed.name)
    document = feed.document
    now = moment_of_document(document)
    if now.is_stale:
        raise NoAnswerError(f"{feed.name} has measured nothing for a while; its log says why")
    return _of_moments(before, now, (namespace, pod), now.window_s, view, feed.name)


def _near(node: OwnNode, arguments: Namespace, pod: PodName, view: str) -> Case:
    feed = node.open()
    try:
        feed.read()  # the first cycle has been done
        first = feed.snapshot
        before, version = _moment(first), first.version
        namespace, name = pod
        namespace = namespace or _namespace_of(name, pods_of(before.facts, view), "this node")
        pod = namespace, name
        window_ns = feed.window_ns
        watch(watched_ns(arguments) or window_ns)
        feed.read(after=version)  # a cycle that is late, or an interval longer than --over
        now = _moment(feed.snapshot)
    finally:
        feed.close()
    window_s = min(window_ns, max(now.at_ns - before.at_ns, SECOND_NS)) / SECOND_NS
    return _of_moments(before, now, pod, window_s, view, "this node")


def _of_moments(
    before: Moment, now: Moment, pod: PodName, window_s: float, view: str, where: str
) -> Case:
    case = case_of(before, now, *pod, window_s, view)
    if not case.parts:
        raise _NoSuchPodError(_missing(*pod, pods_of(now.facts, view), where))
    return case


def _moment(snapshot: Snapshot) -> Moment:
    return Moment(snapshot.facts, snapshot.unix_ns, snapshot.mono_ns)


def _missing(namespace: str, pod: str, known: list[str], where: str) -> str:
    """What to say of a pod that is not known: names that are like it."""
    wanted = f"{namespace}/{pod}" if namespace else pod
    if wanted in known:
        return clean(f"{wanted} holds no GPU that is known to {where}")
    begins = [name for name in known if name.startswith(wanted) or name.endswith(f"/{pod}")]
    same = [name for name in known if name.rpartition("/")[2].startswith(pod)]
    near = list(dict.fromkeys([*begins, *same, *get_close_matches(wanted, known, _MAX_NEAR)]))
    if near:
        advice = f"; did you mean {' or '.join(near[:_MAX_NEAR])}?"
    elif known:
        advice = f"; pods with a GPU: {', '.join(known[:_MAX_NEAR])}"
    else:
        advice = "; no pod with a GPU is known there"
    return clean(f"{wanted} is not known to {where}{advice}")
