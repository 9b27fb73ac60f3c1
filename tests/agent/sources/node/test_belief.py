from dataclasses import replace

import pytest

from exporter.agent.sources.node.podresources import contribution, held_by_kubelet, wants_devices
from exporter.agent.sources.node.resourceentries import ResourcePod
from exporter.model import ClaimedDevice, ClaimRef, Container, Grant, NodeFacts, Pod
from tests.agent.sources.node.pods import pod, table, uids, unknown_to_kubelet

GPU = ClaimedDevice("", "gpu.nvidia.com", "node-1", "gpu-0")
OTHER = replace(GPU, device="gpu-1")
GRANT = Grant("main", "nvidia.com/gpu", ("GPU-0",))
ENTRY = ResourcePod("ml", "train-0", (GRANT,), {})


@pytest.mark.parametrize(
    ("one", "held"),
    [
        (pod(), True),
        (pod(ids=()), True),
        (pod(acknowledged=False), True),
        (unknown_to_kubelet(pod()), False),
        (pod(phase="Succeeded"), False),
        (pod(phase="Failed"), False),
        (pod(deleted=True), False),
    ],
)
def test_the_kubelet_holds_living_pods_that_it_has_spoken_of(one: Pod, *, held: bool) -> None:
    assert uids(held_by_kubelet(table(one)).values()) == ({one.uid} if held else set())


def test_of_two_living_pods_with_one_name_neither_is_told_apart() -> None:
    assert held_by_kubelet(table(pod(uid="a"), pod(uid="b"))) == {}
    assert uids(held_by_kubelet(table(pod(uid="a"), pod(uid="b", deleted=True))).values()) == {"a"}


def test_a_pod_that_asks_for_nothing_has_nothing() -> None:
    assert wants_devices(pod())
    assert wants_devices(Pod("u", "ml", "p", containers=(Container("c", claims=(ClaimRef("x"),)),)))
    assert not wants_devices(Pod("u", "ml", "p", containers=(Container("c"),)))


def test_grants_go_to_the_uid_that_they_were_believed_of() -> None:
    assert contribution({"uid-1": ENTRY}, table(pod())) == NodeFacts(grants={"uid-1": (GRANT,)})


@pytest.mark.parametrize(
    "now", [table(), table(pod(uid="uid-2")), table(pod(phase="Failed")), table(pod("other"))]
)
def test_a_pod_that_is_another_one_now_has_no_grants(now: object) -> None:
    assert contribution({"uid-1": ENTRY}, now) == NodeFacts()  # type: ignore[arg-type] # a table


def test_an_entry_of_another_name_is_not_the_pods() -> None:
    assert contribution({"uid-1": replace_name(ENTRY, "train-1")}, table(pod())) == NodeFacts()


def replace_name(entry: ResourcePod, name: str) -> ResourcePod:
    return entry._replace(name=name)


@pytest.mark.parametrize(
    ("references", "devices", "expected"),
    [
        ((), (GPU, OTHER), (GPU, OTHER)),
        ((ClaimRef("c"),), (GPU, OTHER), (GPU, OTHER)),
        ((ClaimRef("c", "big"),), (GPU,), (replace(GPU, request="big"),)),
        ((ClaimRef("c"), ClaimRef("c", "big")), (GPU,), (replace(GPU, request="big"),)),
        ((ClaimRef("c", "big"),), (GPU, OTHER), None),
        ((ClaimRef("c", "big"), ClaimRef("c", "small")), (GPU,), None),
        ((ClaimRef("other", "big"),), (GPU, OTHER), (GPU, OTHER)),
    ],
)
def test_a_claims_devices_answer_a_request_only_where_there_is_no_doubt(
    references: tuple[ClaimRef, ...],
    devices: tuple[ClaimedDevice, ...],
    expected: tuple[ClaimedDevice, ...] | None,
) -> None:
    entry = ResourcePod("ml", "train-0", (), {("ml", "c"): devices})

    facts = contribution({"uid-1": entry}, table(pod(claims=references)))

    assert facts.claims == ({} if expected is None else {("ml", "c"): expected})


def test_a_claim_of_another_namespace_is_not_believed() -> None:
    entry = ResourcePod("ml", "train-0", (), {("kube-system", "c"): (GPU,)})

    assert contribution({"uid-1": entry}, table(pod())) == NodeFacts()
