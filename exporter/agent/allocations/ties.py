"""What the pods of a node have in common, so that one's allocation depends on others. Pure.

A tie is a ResourceClaim or a group of KAI's. Each pod says something of its ties, and a decoder
reads, for each tie of its pod, how often each thing is said. So no decoder walks over other pods:
that would be a product of what one tenant may choose.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from exporter.agent.allocations.scheme import Scheme
from exporter.model import Grant, NodeFacts, Pod, Said, Tie

Sayings = Mapping[Tie, Mapping[Said, int]]


class Knowledge(NamedTuple):
    """A pod with what follows from it alone: what it says of its ties, and the claims it names."""

    pod: Pod
    grants: tuple[Grant, ...]
    says: Sayings
    claims: frozenset[tuple[str, str]]


def has_ended(pod: Pod) -> bool:
    """Whether a pod holds nothing any more."""
    return pod.terminal or pod.deleted


def knowledge_of(pod: Pod, grants: tuple[Grant, ...], schemes: Sequence[Scheme]) -> Knowledge:
    """Return what follows from a pod and its grants alone. One that has ended says nothing."""
    says: dict[Tie, Counter[Said]] = {}
    claims: set[tuple[str, str]] = set()
    if not has_ended(pod):
        for scheme in schemes:
            for tie, said in scheme.ties(pod, grants):
                says.setdefault(tie, Counter())[said] += 1
        claims = {(pod.namespace, ref.claim) for c in pod.containers for ref in c.claims}
    return Knowledge(pod, grants, says, frozenset(claims))


def together(sayings: Iterable[Sayings]) -> Sayings:
    """Return how often each thing is said of each tie."""
    every: dict[Tie, Counter[Said]] = {}
    for says in sayings:
        for tie, said in says.items():
            every.setdefault(tie, Counter()).update(said)
    return every


def node_for(known: Knowledge, node: NodeFacts, every: Sayings) -> NodeFacts:
    """Return the node as far as a pod's allocation depends on it.

    A decoder sees nothing else. So its result changes only if the pod does, or this.
    """
    pod = known.pod
    of_claims: dict[str, Any] = {"claims": {}, "offered": {}}
    if known.claims:
        claims = {key: node.claims[key] for key in known.claims if key in node.claims}
        of_claims = {"claims": claims, "offered": node.offered}
    return replace(
        node,
        grants={pod.uid: known.grants} if known.grants else {},
        ties={tie: every[tie] for tie in known.says},
        **of_claims,
    )
