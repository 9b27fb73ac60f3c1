"""What ``why`` and ``top`` say of a pod at a moment, held to the truth."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from exporter.answers.reading.feeds.feed import FeedResult
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.reading.ranges import written
from tests.agent.simulation.clock import SECOND, ManualClock
from tests.histories.checks import Said, command
from tests.histories.page import is_at
from tests.histories.seen import STALE_S, Seen
from tests.histories.values import History, Hold, Pod, at

WINDOW_S = 600
_ROUNDED = 0.02  # of a card


class Moment(NamedTuple):
    """A time at which all that a pod is asked for is known: it and its scrapes go on around it."""

    unix_s: int
    pod: Pod


def moments(history: History, rng: Random, count: int) -> Iterator[Moment]:
    """Some moments of pods that are there, were scraped just before, and bear their name alone."""
    seen = {machine.id: Seen(history, machine) for machine in history.machines}
    begin_s = max(history.since_s, history.kept_from_s) + WINDOW_S
    pods = [pod for pod in history.pods if pod.there.end_s > begin_s]
    rng.shuffle(pods)
    for pod in pods:
        first_s, last_s = max(begin_s, pod.there.begin_s), min(history.until_s, pod.there.end_s)
        if last_s - first_s < 1:
            continue
        unix_s = rng.randrange(int(first_s), int(last_s))
        if count and is_known(history, seen[pod.machine], pod, unix_s):
            count -= 1
            yield Moment(unix_s, pod)


def is_known(history: History, seen: Seen, pod: Pod, unix_s: float) -> bool:
    """Whether scrapes just before a time have the pod, its card, and nobody else of its name."""
    begin_s = max(unix_s - STALE_S / 2, pod.there.begin_s)
    machine = history.machine(pod.machine)
    named = [one for one in history.pods if (one.namespace, one.name) == (pod.namespace, pod.name)]
    around = (unix_s - WINDOW_S - STALE_S, unix_s + STALE_S)
    return (
        seen.is_scraped(begin_s, unix_s)
        and not any(around[0] < edge < around[1] for _, there in machine.lost for edge in there)
        and not any(is_at(there, unix_s) for _, there in machine.lost)
        and sum(is_at(one.there, unix_s) for one in named) == 1
    )


def wrong_why(history: History, address: str, moment: Moment) -> Iterator[str]:
    """What ``why`` says of the last minutes of a pod that is not the truth."""
    unix_s, pod = moment
    span = [f"--since={written(unix_s - WINDOW_S)}", f"--until={written(unix_s)}"]
    said = command(address, "why", f"{pod.namespace}/{pod.name}", *span, "--format=json")
    what = f"why {pod.namespace}/{pod.name} at {unix_s - history.since_s} s"
    if said.status:
        yield from _refused(history, moment, said, what)
        return
    parts = {part["card"]["uuid"]: part for part in json.loads(said.out)["parts"]}
    holds = {hold.uuid: hold for hold in pod.holds}
    if parts.keys() != holds.keys():
        yield f"{what}: on {sorted(parts)}, right: {sorted(holds)}"
    for uuid in parts.keys() & holds.keys():
        for one in _wrong_part(history, moment, holds[uuid], parts[uuid]):
            yield f"{what}: {uuid}: {one}"


def _refused(history: History, moment: Moment, said: Said, what: str) -> Iterator[str]:
    """A refusal is right where a pod of this name was elsewhere in the window too."""
    pod, begin_s = moment.pod, moment.unix_s - WINDOW_S - STALE_S
    others = [
        one
        for one in history.pods
        if (one.namespace, one.name) == (pod.namespace, pod.name)
        and one is not pod
        and one.there.begin_s < moment.unix_s
        and one.there.end_s > begin_s
    ]
    if not others and "page_copied_by_a_tenant" not in history.twists:
        yield f"{what}: refused: {said.err.strip()}"


def _wrong_part(
    history: History, moment: Moment, hold: Hold, part: dict[str, Any]
) -> Iterator[str]:
    unix_s, pod = moment
    if abs((part["share"] or 0.0) - min(1.0, hold.allocated)) > _ROUNDED:
        yield f"share {part['share']}, right: {hold.allocated}"
    begin_s = unix_s - WINDOW_S - STALE_S
    uses = [used for since_s, used in hold.used if begin_s < since_s <= unix_s]
    uses.append(at(hold.used, max(begin_s, pod.there.begin_s)))
    core = part["core"]
    if core is not None and not min(uses) - _ROUNDED <= core <= max(uses) + _ROUNDED:
        yield f"used {core:.3f}, right: {min(uses):.3f} to {max(uses):.3f}"
    if history.machine(pod.machine).node != part["card"]["node"].rpartition("/")[2]:
        yield f"on node {part['card']['node']}"
    around = [one for one in history.pods if one is not pod and one.machine == pod.machine]
    on_it = [one for one in around if any(each.uuid == hold.uuid for each in one.holds)]
    sure = {_name(o) for o in on_it if o.there.begin_s < unix_s - STALE_S <= unix_s < o.there.end_s}
    maybe = {_name(o) for o in on_it if o.there.begin_s <= unix_s < o.there.end_s + STALE_S}
    others = set(part["card"]["others"] or ())
    if not sure <= others | {_name(pod)} or not others <= maybe:
        yield f"with {sorted(others)}, right: {sorted(sure)}"


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


_Key = tuple[str, str, str]
"""A card, and a pod's namespace and name."""


def wrong_top(history: History, address: str, unix_s: int) -> Iterator[str]:
    """What ``top`` shows of all pods at a moment that is not the truth."""
    clock = ManualClock(unix_s * SECOND)
    found = _shown(PrometheusFeed(Prometheus(HttpClient(address)), clock=clock).read())
    what = f"top at {unix_s - history.since_s} s"
    there = [
        (pod, hold)
        for pod in history.pods
        if pod.there.begin_s <= unix_s < pod.there.end_s + STALE_S
        for hold in pod.holds
    ]
    for key in found.keys() - {(hold.uuid, pod.namespace, pod.name) for pod, hold in there}:
        yield f"{what}: {'/'.join(key)} is not there"
    for pod, hold in there:
        seen = Seen(history, history.machine(pod.machine))
        if pod.there.begin_s < unix_s - STALE_S and is_known(history, seen, pod, unix_s):
            uses = [used for since_s, used in hold.used if unix_s - STALE_S < since_s <= unix_s]
            uses.append(at(hold.used, unix_s - STALE_S))
            key = hold.uuid, pod.namespace, pod.name
            if not min(uses) - _ROUNDED <= found.get(key, -1.0) <= max(uses) + _ROUNDED:
                yield f"{what}: {'/'.join(key)} uses {found.get(key)}, right: {uses}"


def _shown(result: FeedResult) -> dict[_Key, float]:
    """The core of each pod on each card, as ``top`` shows it."""
    found: dict[_Key, float] = {}
    for sight in result.nodes:
        for device in sight.tree.devices:
            for entry in device.pods:
                if not entry.ended:
                    cores = [held.average.core or 0.0 for held in entry.holdings]
                    found[device.uuid, entry.namespace, entry.pod] = sum(cores)
    return found
