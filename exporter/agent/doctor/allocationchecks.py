"""The check of what pods were allocated: which of them have values that could not be used."""

from collections import defaultdict
from collections.abc import Iterator

from exporter.agent.allocations.devicenames import with_labelled_memory
from exporter.agent.allocations.room import left_out
from exporter.agent.allocations.terms import Reason
from exporter.agent.collector.cyclerules import rules_of
from exporter.agent.collector.podallocations import OUTCOMES
from exporter.agent.doctor import privileges
from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok
from exporter.shown.words import plural, some_of

_OTHERWISE = "see this reason in docs/troubleshooting.md"


def allocations(evidence: ProbeResults) -> Iterator[CheckResult]:
    """Allocations of the node's pods by sharing system, and the pods of each problem.

    What is only suspected is left to the cycle, which sees where a container runs.
    """
    rules, pods = rules_of(evidence.settings), evidence.table.pods
    # As in the cycle. In KAI and Run:ai one pod's allocation depends on another pod, which reserves
    # the card.
    node = rules.tied(with_labelled_memory(evidence.node), pods.values())
    schemes: dict[str, set[str]] = defaultdict(set)
    problems: dict[tuple[str, Reason], list[str]] = defaultdict(list)
    found = {uid: rules.decode(pod, node) for uid, pod in pods.items()}
    for uid, decoded in found.items():
        for allocation in decoded.allocations:
            schemes[allocation.scheme].add(uid)
    of_all = (problem for decoded in found.values() for problem in decoded.problems)
    for one in (*of_all, *left_out(found, pods).values()):
        if not one.devices:
            pod = pods[one.pod]
            problems[one.scheme, one.reason].append(f"{pod.namespace}/{pod.name}")
    for scheme, uids in sorted(schemes.items()):
        yield ok(scheme, f"allocations of {plural(len(uids), 'pod')}")
    for (scheme, reason), names in sorted(problems.items()):
        # The node's labels may prove it. Reading them takes a right of its own.
        privilege = privileges.NODES if reason is Reason.UNPROVEN and not node.labels else ""
        remedy = OUTCOMES.get(reason, _OTHERWISE)
        yield note(f"{scheme}: {reason}", some_of(names), remedy, privilege)
