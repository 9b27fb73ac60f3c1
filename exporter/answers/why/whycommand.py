"""The command ``why``: in a few sentences, how a pod, a workload or a group fares on its GPUs."""

import json
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import NoReturn

from exporter.answers.reading.accessflags import add_arguments as add_access
from exporter.answers.reading.accessflags import far_feed, far_namespace, far_prometheus, here
from exporter.answers.reading.feeds import OwnNode
from exporter.answers.reading.feeds.nodedocument import moment_of_document
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.moment import NodeMoment
from exporter.answers.reading.ranges import add_range, moment, range_of
from exporter.answers.why.case import Case
from exporter.answers.why.nodecase import called, case_of, groups_of, members_of, pods_of
from exporter.answers.why.sentences import sentences
from exporter.answers.why.seriescase import SeriesCase
from exporter.console.output import columns, say, warn
from exporter.console.progress import watch
from exporter.httpclient import NoAnswerError
from exporter.model import GroupKey, PodName, Snapshot
from exporter.shown.printable import clean, utc, wrapped
from exporter.shown.words import joined, short_ids, some_of

SECOND_NS = 10**9
_OK, _UNKNOWN, _NOTHING = 0, 1, 2
_OF_A_PROMETHEUS_NS = 300 * SECOND_NS
_OF_AN_EXPORTER_NS = 5 * SECOND_NS  # its averages are there already
_MAX_NEAR = 5
_MAX_CASES = 8  # of the pods of a workload


class _NoSuchPodError(Exception):
    """The pod is not known, with the message."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    parser.add_argument(
        "pod",
        metavar="NAME",
        help="a pod or a workload (inference/chat-0, inference/chat: all its pods), or a group by "
        "its kind and name (slurm/4711, docker/llm-server, user/dave)",
    )
    group = parser.add_argument_group("why")
    add_range(group, None, "5m; without a Prometheus an exporter's own window, 15s")
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
    return answer(lambda: _cases(arguments, node), arguments)


def answer(asked: Callable[[], Sequence[Case]], arguments: Namespace) -> int:
    """Print the sentences of the cases; the exit status as of ``why``."""
    try:
        cases = asked()
    except _NoSuchPodError as error:
        _warn(arguments, str(error))
        return _UNKNOWN
    except (NoAnswerError, ValueError) as error:
        _warn(arguments, str(error))
        return _NOTHING
    # Of a workload with many pods few are shown: first those of which something is urgent.
    said = sorted(
        ((case, sentences(case)) for case in cases),
        key=lambda each: not any(one.urgent for one in each[1]),
    )
    if arguments.format == "json":
        documents = [
            {
                "namespace": case.namespace,
                "pod": case.pod,
                "timestamp_seconds": case.unix_s,
                "window_seconds": case.window_s,
                "observed_seconds": case.window_s if case.observed_s is None else case.observed_s,
                "parts": [asdict(part) for part in case.parts],
                "sentences": [{"topic": one.topic, "text": one.text} for one in about],
            }
            for case, about in said
        ]
        whole = documents[0] if len(documents) == 1 else {"pods": documents}
        say(json.dumps(whole, indent=1) + "\n")
        return _OK
    lines: list[str] = []
    indent = "  " if len(said) > 1 else ""
    for case, about in said[:_MAX_CASES]:
        node = {part.card.node for part in case.parts if indent} - {""}
        lines += [" on ".join([f"{case.namespace}/{case.pod}", *sorted(node)])] if indent else []
        lines += [f"{indent}{clean(short_ids(one.text), longest=None)}" for one in about]
    if more := len(said) - _MAX_CASES:
        lines += [f"and {more} more, none of them worse"] if more > 0 else []
    say("".join(f"{wrapped(line, columns())}\n" for line in lines))
    return _OK


def _warn(arguments: Namespace, why: str) -> None:
    warn(f"{arguments.program} why: {clean(why, longest=None)}")


def _cases(arguments: Namespace, node: OwnNode | None) -> Sequence[Case]:
    view = far_namespace(arguments)
    namespace, _, pod = arguments.pod.rpartition("/")
    if not pod or "/" in namespace:
        raise NoAnswerError(f"{clean(arguments.pod)}: name the pod as NAMESPACE/POD")
    far = far_feed(arguments)
    if isinstance(far, RemoteFeed):
        return cases_of_exporter(far, (namespace, pod), watched_ns(arguments), view)
    if far is None:
        feed = here(node).open()
        try:
            feed.read()  # the first cycle has been done
            # Both moments are compared, so the second one has to be of a later cycle than this.
            first = feed.snapshot
            before, version = _moment(first), first.version
            owners = _owners(before, (namespace, pod), view, "this node")
            window_ns = feed.window_ns
            watch(watched_ns(arguments) or window_ns)
            feed.read(after=version)  # a cycle that is late, or an interval longer than --since
            now = _moment(feed.snapshot)
        finally:
            feed.close()
        window_s = min(window_ns, max(now.at_ns - before.at_ns, SECOND_NS)) / SECOND_NS
        return _of_moments(before, now, owners, window_s, view, "this node")
    asks = far_prometheus(arguments, namespace=view)
    since_s, until_s = _range(arguments, asks.now() or time.time())

    def reader() -> SeriesCase:
        return SeriesCase(asks, until_s, int(until_s - since_s), view)

    try:
        return _of_series(reader, namespace or view, pod, asks.address)
    finally:  # also where nobody is found: a store that did not answer may know it
        if asks.trouble:
            _warn(arguments, f"{asks.trouble}: what is not said may be there")


def _of_series(
    reader: Callable[[], SeriesCase], namespace: str, pod: str, where: str
) -> Sequence[Case]:
    """The cases of a pod, else of a workload's pods, else of a group on each of its nodes."""
    first = reader()
    known = first.pods()
    namespace = namespace or _namespace_of(pod, known, where)
    if f"{namespace}/{pod}" not in known:
        members = first.members(namespace, pod)
        if len({name for name, _ in members}) > 1:
            _refuse_several([f"{name}/{pod}" for name in {name for name, _ in members}], where)
        cases = [reader().read(*member) for member in members]
        cases += [] if cases else [reader().read_group(one) for one in first.groups(namespace, pod)]
        cases = [case for case in cases if case.parts]
        if cases:
            return cases
    case = first.read(namespace, pod) if namespace else None
    if case and case.parts:
        return [case]
    seen_s = first.last_seen(namespace, pod) if case else None
    if seen_s is not None:
        at = utc(seen_s, "%Y-%m-%d %H:%M UTC")
        said = f"{namespace}/{pod} was last seen at {at}; look further back with --since=1d"
        raise _NoSuchPodError(clean(said))
    raise _NoSuchPodError(_missing(namespace, pod, known, first.group_names(), where))


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
        return None
    since_s, until_s = range_of(arguments, now_s, 1)
    return (until_s - since_s) * SECOND_NS


def _namespace_of(pod: str, known: Sequence[str], where: str) -> str:
    """The namespace of the only pod of this name; "" if there is none."""
    found = [name for name in known if name.rpartition("/")[2] == pod]
    if len(found) > 1:
        _refuse_several(found, where)
    return found[0].rpartition("/")[0] if found else ""


def _refuse_several(names: Sequence[str], where: str) -> NoReturn:
    several = joined(sorted(names), _MAX_NEAR)
    raise _NoSuchPodError(clean(f"{where} knows {several}: name one of them"))


def cases_of_exporter(
    feed: RemoteFeed, wanted: PodName, over_ns: int | None = None, view: str = ""
) -> Sequence[Case]:
    """The cases of what is named, on the node of another exporter that is looked at for seconds.

    ``view`` is the viewer's only namespace; "" stands for all.

    Raises:
        NoAnswerError: the exporter does not answer, or does not measure now.

    """
    before = moment_of_document(feed.document)
    owners = _owners(before, wanted, view, feed.name)
    watch(over_ns or _OF_AN_EXPORTER_NS, feed.name)
    now = moment_of_document(feed.document)
    if now.is_stale:
        raise NoAnswerError(f"{feed.name} has measured nothing for a while; its log says why")
    return _of_moments(before, now, owners, now.window_s, view, feed.name)


def _owners(
    moment: NodeMoment, wanted: PodName, view: str, where: str
) -> Sequence[PodName | GroupKey]:
    """Who is meant: a pod, else the pods of a workload, else groups."""
    facts, (space, name) = moment.facts, wanted
    known = pods_of(facts, view)
    namespace = space or view or _namespace_of(name, known, where)
    if f"{namespace}/{name}" in known:
        return [(namespace, name)]
    members = members_of(facts, namespace, name, view)
    if len(spaces := {each for each, _ in members}) > 1:
        _refuse_several([f"{each}/{name}" for each in spaces], where)
    groups = [] if members or view else groups_of(facts, space, name)
    if len(groups) > 1:
        _refuse_several(["/".join(group) for group in groups], where)
    if not (namespace or members or groups):
        raise _NoSuchPodError(_missing("", name, known, called(facts, view), where))
    return members or groups or [(namespace, name)]


def _of_moments(
    before: NodeMoment,
    now: NodeMoment,
    owners: Sequence[PodName | GroupKey],
    window_s: float,
    view: str,
    where: str,
) -> Sequence[Case]:
    cases = [case_of(before, now, owner, window_s, view) for owner in owners]
    found = [case for case in cases if case.parts]
    if not found:
        namespace, name = owners[0]
        known, groups = pods_of(now.facts, view), called(now.facts, view)
        raise _NoSuchPodError(_missing(namespace, name, known, groups, where))
    return found


def _moment(snapshot: Snapshot) -> NodeMoment:
    return NodeMoment(snapshot.facts, snapshot.unix_ns, snapshot.mono_ns)


def _missing(namespace: str, pod: str, pods: list[str], groups: dict[str, str], where: str) -> str:
    """What to say of a name that is not known: names that are like it."""
    known = [*pods, *sorted(name.replace(" ", "/", 1) for name in groups.values())]
    wanted = f"{namespace}/{pod}" if namespace else pod
    if wanted in known:
        return clean(f"{wanted} holds no GPU that is known to {where}")
    begins = [name for name in known if name.startswith(wanted) or name.endswith(f"/{pod}")]
    same = [name for name in known if name.rpartition("/")[2].startswith(pod)]
    near = list(dict.fromkeys([*begins, *same, *get_close_matches(wanted, known, _MAX_NEAR)]))
    if near:
        advice = f"; did you mean {' or '.join(near[:_MAX_NEAR])}?"
    else:
        advice = f"; known there: {some_of(known, _MAX_NEAR) or 'nobody with a GPU'}"
    return clean(f"{wanted} is not known to {where}{advice}")
