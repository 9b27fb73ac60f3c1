"""How many allocations are kept of a pod and of a node, and whose. Pure.

A tenant may state as many as the API server takes: 110 pods of 500 containers are 55,000. What is
beyond is left out, a pod at a time, and said to be. Each namespace has an equal part of the room,
and what one does not need is the others'.
"""

from collections.abc import Collection, Mapping

from exporter.agent.allocations.terms import Decoded, DecodeProblem, Reason
from exporter.model import Pod

MAX_OF_POD = 256  # of 16 containers with 16 cards each
MAX_OF_NODE = 2048  # as many as 128 tenants on each of 16 cards


def within(
    sizes: Mapping[str, int],
    namespaces: Mapping[str, str],
    before: Collection[str],
    most: int = MAX_OF_NODE,
) -> frozenset[str]:
    """Return the pods, by uid, whose allocations are kept, of pods with so many allocations each.

    ``namespaces`` are by uid. Of a namespace with too many, those of ``before`` come first, so that
    nothing comes and goes.
    """
    if sum(sizes.values()) <= most:
        return frozenset(sizes)
    pods: dict[str, list[str]] = {}
    for uid in sorted(sizes, key=lambda uid: uid not in before):
        pods.setdefault(namespaces[uid], []).append(uid)
    needs = {name: sum(sizes[uid] for uid in uids) for name, uids in pods.items()}
    kept: set[str] = set()
    left = most
    # The smallest first: what it leaves of its part is divided among those after it.
    for served, name in enumerate(sorted(needs, key=lambda name: needs[name])):
        part = left // (len(needs) - served)
        for uid in pods[name]:
            if sizes[uid] <= part:
                part -= sizes[uid]
                left -= sizes[uid]
                kept.add(uid)
    return frozenset(kept)


def left_out(
    found: Mapping[str, Decoded], pods: Mapping[str, Pod], before: Collection[str] = ()
) -> dict[str, DecodeProblem]:
    """Return the problem of each pod whose allocations are not kept, by uid; see ``within``."""
    sizes = {uid: len(one.allocations) for uid, one in found.items() if one.allocations}
    kept = within(sizes, {uid: pods[uid].namespace for uid in sizes}, before)
    reason, all_of = Reason.TOO_MANY_ALLOCATIONS, sum(sizes.values())
    return {
        uid: DecodeProblem(
            *(uid, found[uid].allocations[0].scheme, reason),
            f"{sizes[uid]} of {all_of} on this node",
        )
        for uid in sizes.keys() - kept
    }


def has_too_many(decoded: Decoded) -> bool:
    """Whether a pod alone has more allocations than are kept of one."""
    return any(problem.reason is Reason.TOO_MANY_ALLOCATIONS for problem in decoded.problems)
