from dataclasses import replace

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.schemes.gke import SCHEME
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import NodeFacts
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    container,
    decoder,
    granted,
    instance,
    node,
    pod,
)

decode = decoder(SCHEME)

GPU = "nvidia.com/gpu"
GKE = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
STRATEGY = "cloud.google.com/gke-gpu-sharing-strategy"
CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
SHARING = {**GKE, STRATEGY: "time-sharing", CLIENTS: "8"}
MPS = {**GKE, STRATEGY: "mps", CLIENTS: "8"}
PARTITIONED = {**GKE, "cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
PARTS = tuple(replace(instance(1, n), gpu_instance=n + 3) for n in range(2))
DEVICES = (*FOUR_CARDS, *PARTS)  # minors run against indices: nvidia6 is GPU-1
Placed = tuple[str | None, float | None, int | None, int | None]


def held(*ids: str, labels: dict[str, str]) -> NodeFacts:
    return replace(node(*DEVICES, labels=labels), grants=granted({GPU: ids}))


@pytest.mark.parametrize(
    ("ids", "labels", "placed"),
    [
        (["nvidia6"], GKE, [("GPU-1", 1.0, CARD_MEMORY, None)]),
        (["nvidia6"], {}, [("GPU-1", 1.0, CARD_MEMORY, None)]),
        (["nvidia7", "nvidia4"], GKE, [(f"GPU-{n}", 1.0, CARD_MEMORY, None) for n in (0, 3)]),
        (["nvidia6/gi4"], PARTITIONED, [("MIG-1-1", None, 5 * GIB, None)]),
        (["nvidia6/vgpu0"], SHARING, [("GPU-1", None, None, 1)]),
        (["nvidia6/vgpu0", "nvidia6/vgpu7"], SHARING, [("GPU-1", None, None, 2)]),
        (["nvidia6/gi3/vgpu1"], {**PARTITIONED, **SHARING}, [("MIG-1-0", None, None, 1)]),
        (["nvidia6/vgpu0"], MPS, [("GPU-1", 0.125, CARD_MEMORY // 8, 1)]),
        ([f"nvidia6/vgpu{n}" for n in range(3)], MPS, [("GPU-1", 0.375, CARD_MEMORY * 3 // 8, 3)]),
        (
            ["nvidia6/vgpu0", "nvidia6/vgpu1"],
            {**MPS, CLIENTS: "1"},
            [("GPU-1", 1.0, CARD_MEMORY, 2)],
        ),
        (["nvidia6/vgpu0"], {**MPS, CLIENTS: "9" * 15}, [("GPU-1", 1 / (10**15 - 1), None, 1)]),
        (["nvidia6/gi3/vgpu1"], {**PARTITIONED, **MPS}, [("MIG-1-0", None, 5 * GIB // 8, 1)]),
    ],
)
def test_granted_ids_place_devices(
    ids: list[str], labels: dict[str, str], placed: list[Placed]
) -> None:
    decoded = decode(pod(container(limits={GPU: str(len(ids))})), held(*ids, labels=labels))
    found = [(a.device, a.core, a.memory_bytes, a.replicas) for a in decoded.allocations]
    assert found == placed
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("count", "labels", "shares"),
    [
        (2, GKE, [(1.0, CARD_MEMORY, None)] * 2),
        (1, SHARING, [(None, None, 1)]),
        (3, MPS, [(0.375, CARD_MEMORY * 3 // 8, 3)]),
        (2, PARTITIONED, [(None, 5 * GIB, None)] * 2),
    ],
)
def test_labels_tell_what_a_device_is_before_it_is_placed(
    count: int, labels: dict[str, str], shares: list[tuple[float | None, int | None, int | None]]
) -> None:
    decoded = decode(pod(container(limits={GPU: str(count)})), node(*DEVICES, labels=labels))
    assert [(a.core, a.memory_bytes, a.replicas) for a in decoded.allocations] == shares
    assert {a.device for a in decoded.allocations} == {None}


@pytest.mark.parametrize(
    "facts",
    [
        node(*DEVICES, labels={"kubernetes.io/os": "linux"}),
        held("GPU-1", labels=GKE),
        held("nvidia6", "GPU-1", labels=GKE),
        held("nvidia6/gi", labels=GKE),
        node(*DEVICES, labels={**GKE, "nvidia.com/gpu.count": "4"}),
    ],
    ids=["not gke", "nvidia's ids", "ids of two plugins", "no id", "nvidia's discovery"],
)
def test_pod_of_nvidias_plugin_is_left_to_it(facts: NodeFacts) -> None:
    described = pod(container(limits={GPU: "1"}))
    assert decode(described, facts) == Decoded()
    assert {a.scheme for a in registry.decode(described, facts).allocations} == {
        "nvidia-device-plugin"
    }


@pytest.mark.parametrize(
    ("device_id", "labels", "reason"),
    [
        ("nvidia999", GKE, Reason.UNKNOWN_DEVICE),
        ("nvidia6/gi9", PARTITIONED, Reason.UNKNOWN_DEVICE),
        ("nvidia6/vgpu0", {**GKE, STRATEGY: "mps"}, Reason.UNKNOWN_REPLICAS),
        ("nvidia6/vgpu0", {**GKE, STRATEGY: "magic"}, Reason.UNKNOWN_POLICY),
    ],
)
def test_bad_part_is_counted(device_id: str, labels: dict[str, str], reason: Reason) -> None:
    decoded = decode(pod(container(limits={GPU: "1"})), held(device_id, labels=labels))
    assert [p.reason for p in decoded.problems] == [reason]
    assert len(decoded.allocations) == 1


def test_number_may_be_declared_to_be_the_index() -> None:
    facts = replace(held("nvidia1", labels=GKE), index_bases={"gke": "nvml_index"})
    decoded = decode(pod(container(limits={GPU: "1"})), facts)
    assert [a.device for a in decoded.allocations] == ["GPU-1"]
