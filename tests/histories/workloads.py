"""What ``advise`` says of workloads, held to what their pods were allocated and used."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from exporter.answers.reading.ranges import written
from tests.histories.checks import command
from tests.histories.seen import Seen
from tests.histories.values import History, Pod

_ROUNDED = 0.03  # of a card
_LASTING_S = 3600  # so long a use stands in some average of five minutes
_DAY_S = 86_400
_Workload = tuple[str, str, str]
"""A namespace, and the kind and the name of an owner."""


class _Use(NamedTuple):
    """A use of a card that lasts for a while."""

    length_s: float
    part: float


def wrong_advice(history: History, address: str) -> Iterator[str]:
    """What ``advise`` says of the range that is not the truth."""
    span = [f"--since={written(history.since_s)}", f"--until={written(history.until_s)}"]
    said = command(address, "advise", *span, "--format=json")
    owned = _owned(history)
    if said.status:
        if any(_is_there(history, pod) for many in owned.values() for pod in many):
            yield f"advise refused: {said.err.strip()}"
        return
    advice: dict[_Workload, dict[str, Any]] = {
        (one["namespace"], one["owner_kind"], one["owner"]): one
        for one in json.loads(said.out)["advice"]
        if one["resource"] == "core"
    }
    for workload, many in owned.items():
        is_sure = any(_is_there(history, pod) and len(pod.owner) == 1 for pod in many)
        if workload not in advice and is_sure:
            yield f"advise: nothing of {'/'.join(workload)}"
    for workload, one in advice.items():
        for wrong in _wrong_core(history, owned.get(workload, []), one):
            yield f"advise: {'/'.join(workload)} {wrong}"


def _owned(history: History) -> dict[_Workload, list[Pod]]:
    """The pods of each workload, at any time."""
    owned: dict[_Workload, list[Pod]] = defaultdict(list)
    for pod in history.pods:
        for _, (kind, name) in pod.owner:
            owned[pod.namespace, kind, name].append(pod)
    return owned


def _is_there(history: History, pod: Pod) -> bool:
    """Whether scrapes saw it for an hour of the last day."""
    begin_s = max(history.since_s, history.until_s - _DAY_S, pod.there.begin_s)
    seen = Seen(history, history.machine(pod.machine))
    hour_s = range(int(begin_s), int(begin_s) + _LASTING_S, 300)
    lost = {uuid for uuid, _ in history.machine(pod.machine).lost}
    return (
        min(history.until_s, pod.there.end_s) - begin_s > _LASTING_S + 300
        and all(seen.is_scraped(at_s, at_s + 300) for at_s in hour_s)
        and not any(hold.uuid in lost for hold in pod.holds)
    )


def _wrong_core(history: History, pods: Sequence[Pod], one: dict[str, Any]) -> Iterator[str]:
    allocated = {min(1.0, hold.allocated) for pod in pods for hold in pod.holds}
    if not any(abs(each - one["allocated"]) < _ROUNDED for each in allocated):
        yield f"is allocated {one['allocated']}, right: {sorted(allocated)}"
    uses = list(_uses(history, pods))
    most = max((use.part for use in uses), default=0.0)
    if one["peak"] is not None and one["peak"] > most + _ROUNDED:
        yield f"uses {one['peak']:.3f} at most, right: {most:.3f}"
    if one["verdict"] == "lower" and one["recommended"] < max(
        (use.part for use in uses if use.length_s > _LASTING_S), default=0.0
    ):
        yield f"is to have {one['recommended']:.3f}, and uses {most:.3f}"


def _uses(history: History, pods: Sequence[Pod]) -> Iterator[_Use]:
    """What pods used of one card in the range, and for how long."""
    for pod in pods:
        for hold in pod.holds:
            ends = [since_s for since_s, _ in hold.used[1:]] + [pod.there.end_s]
            for (since_s, part), end_s in zip(hold.used, ends, strict=True):
                begin_s = max(since_s, history.since_s, pod.there.begin_s)
                yield _Use(min(end_s, history.until_s, pod.there.end_s) - begin_s, part)
