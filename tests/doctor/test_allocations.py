"""Which pods have allocations that cannot be used: HAMi's with plain ``nvidia.com/gpu``."""

from dataclasses import replace

import pytest

from exporter.doctor import CheckVerdict, privileges
from exporter.doctor.allocations import allocations
from exporter.model import NodeFacts, PodTable
from tests.allocations.build import FOUR_CARDS, container, node, pod
from tests.doctor.looking import by_subject, evidence, settings

REGISTER = "hami.io/node-nvidia-register"
PODS = PodTable(
    pods={
        name: replace(
            pod(
                container("a", {"nvidia.com/gpu": "1"}),
                annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,30:;"},
            ),
            uid=name,
            name=name,
        )
        for name in ("first", "second")
    }
)


@pytest.mark.parametrize(
    ("known", "privilege"),
    [
        (node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"}), ""),
        (NodeFacts(allocatable={"nvidia.com/gpu": "4"}), privileges.NODES),
    ],
)
def test_pods_whose_system_is_not_seen_on_the_node_are_named(
    known: NodeFacts, privilege: str
) -> None:
    found = by_subject(allocations(evidence(settings(), table=PODS, node=known)))
    one = found["hami: unproven"]
    assert (one.verdict, one.found) == (CheckVerdict.NOTE, "default/first, default/second")
    assert "whether its sharing system runs on this node" in one.remedy
    assert one.privilege == privilege


def test_with_hamis_register_they_are_hamis() -> None:
    facts = replace(
        node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"}), annotations={REGISTER: "GPU-1,1,:"}
    )
    found = by_subject(allocations(evidence(settings(), table=PODS, node=facts)))
    assert {subject: one.found for subject, one in found.items()} == {
        "hami": "allocations of 2 pods"
    }
