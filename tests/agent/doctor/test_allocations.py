"""Which pods have allocations that cannot be used: HAMi's with plain ``nvidia.com/gpu``."""

from dataclasses import replace

import pytest

from exporter.agent.allocations.room import MAX_OF_POD
from exporter.agent.doctor import CheckVerdict, privileges
from exporter.agent.doctor.allocationchecks import allocations
from exporter.model import NodeFacts, PodTable
from tests.agent.allocations.build import FOUR_CARDS, container, node, pod
from tests.agent.doctor.looking import by_subject, evidence, settings

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


def test_pods_that_ask_for_more_than_is_kept_are_named() -> None:
    """One alone asks for too much; of the others there are too many."""
    one = container("a", {"nvidia.com/gpu": "1"})
    names = [replace(one, name=f"c{n}") for n in range(MAX_OF_POD + 1)]
    sizes = {"alone": MAX_OF_POD + 1, **{f"p{n}": MAX_OF_POD for n in range(9)}}
    table = PodTable(
        pods={
            name: replace(pod(*names[:size]), uid=name, name=name) for name, size in sizes.items()
        }
    )
    facts = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
    found = by_subject(allocations(evidence(settings(), table=table, node=facts)))
    one_note = found["nvidia-device-plugin: too_many_allocations"]
    assert one_note.found == "default/alone, default/p8"
    assert f"at most {MAX_OF_POD}" in one_note.remedy
