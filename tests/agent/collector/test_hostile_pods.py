"""A cycle with pods as large as the API server takes them: the neighbour has what it has."""

from dataclasses import replace

import pytest

from exporter.agent.allocations.room import MAX_OF_NODE
from exporter.agent.collector.cyclerules import CycleRules
from exporter.agent.sources.pods.claims import decode_claim, decode_slice, offered
from exporter.agent.sources.pods.decode import KeyPrefixes, decode_pod
from exporter.agent.sources.pods.podtable import indexed
from exporter.model import CgroupIdentity, NodeFacts, Unmeasured
from tests.agent.collector.bench import CID, PLACED, POD, SECOND, Bench
from tests.agent.collector.sources import SetNode
from tests.agent.sources.pods.attacks import ATTACKS, NAMESPACE

PODS = 2


@pytest.mark.parametrize("name", ATTACKS)
def test_a_neighbour_has_its_use_and_its_allocation_beside_an_attack(name: str) -> None:
    attack, node = ATTACKS[name], SetNode()
    slices = [one for each in attack.slices if (one := decode_slice(each))]
    claims = {(NAMESPACE, own): decode_claim(one) for own, one in attack.claims.items()}
    node.known = NodeFacts(claims=claims, offered=offered(slices), labels={"a": "b"})
    bench = Bench(nodes=(node,))
    bench.processes.identities[7] = CgroupIdentity(POD.uid, CID, "containerd")
    bench.use(7, SECOND // 2)
    rules = CycleRules().allocations
    keep = KeyPrefixes(rules.annotations, rules.labels)
    pods = [replace(POD, annotations=PLACED)]
    pods += [decode_pod(attack.pod(n, attack.size), keep).pod for n in range(PODS)]
    bench.pods.current = indexed({pod.uid: pod for pod in pods}, 1)

    for _ in range(3):
        facts = bench.cycle().facts

    [neighbour] = [one for one in facts.containers if one.owner.namespace == POD.namespace]
    assert neighbour.used.busy.core == 3 * SECOND // 2
    assert (neighbour.allocation.core, neighbour.unmeasured) == (0.5, {})
    theirs = [one for one in facts.containers if one.owner.namespace == NAMESPACE]
    assert len(theirs) <= MAX_OF_NODE
    reason = Unmeasured.ALLOCATION_OVER_LIMIT
    over = {one.owner.pod for one in theirs if reason in one.unmeasured.values()}
    is_over = attack.reason == "too_many_allocations"
    assert over == ({f"m{n}" for n in range(PODS)} if is_over else set())
