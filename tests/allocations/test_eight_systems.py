"""Pods of eight sharing systems on one node: each is read by its own, and by no other."""

import json
from dataclasses import replace

import pytest

from exporter.allocations import registry
from exporter.allocations.rules import make
from exporter.model import (
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
    SchemeDescription,
)
from tests.allocations.build import GIB, MIB

CARDS = tuple(Device(f"GPU-{n}", n, "nvidia", minor=7 - n, memory_bytes=80 * GIB) for n in range(8))
GPU = "nvidia.com/gpu"


def of(name: str, limits: dict[str, str], **more: object) -> Pod:
    own = Container("a", limits=limits)
    return Pod(name, "tenants", name, phase="Running", containers=(own,), **more)  # type: ignore[arg-type]


RESERVATION = Pod(
    "r",
    "gpu-reservations",
    "gpu-reservation-1",
    phase="Running",
    containers=(Container("resource-reservation", limits={GPU: "1"}),),
    labels={"runai-gpu-group": "g"},
    annotations={"run.ai/reserve_for_gpu_index": "GPU-3"},
)
PODS = {
    each.uid: each
    for each in (
        of(
            "hami",
            {GPU: "1", "nvidia.com/gpumem": "1024", "nvidia.com/gpucores": "25"},
            annotations={"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1024,25:;"},
        ),
        of(
            "volcano-vgpu",
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1024"},
            annotations={"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1024,0:"},
        ),
        of(
            "vgpu-manager",
            {f"nvidia.com/vgpu-{k}": v for k, v in (("number", "1"), ("cores", "10"))},
            annotations={"nvidia.com/real-allocated": "a[2_GPU-2_10_81920]"},
        ),
        of(
            "kai",
            {},
            annotations={"gpu-fraction": "0.5"},
            labels={"runai-gpu-group": "g"},
        ),
        of(
            "koordinator",
            {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"},
            annotations={
                "scheduling.koordinator.sh/device-allocated": json.dumps(
                    {"gpu": [{"minor": 99, "id": "GPU-4"}]}
                )
            },
        ),
        replace(of("dra", {}), containers=(Container("a", claims=(ClaimRef("c"),)),)),
        of("nvidia-device-plugin", {GPU: "1"}),
        of(
            "tensor-fusion",
            {"tensor-fusion.ai/index_1": "1"},
            annotations={
                "tensor-fusion.ai/vram-limit": "1Gi",
                "tensor-fusion.ai/gpu-ids": "gpu-7",
            },
        ),
        RESERVATION,
    )
}
RULES = make(
    (
        SchemeDescription(
            name="tensor-fusion",
            memory_key="tensor-fusion.ai/vram-limit",
            memory_unit=1,
            evidence_resource="tensor-fusion.ai/index_",
            placement_annotation="tensor-fusion.ai/gpu-ids",
            index_basis="uuid",
        ),
    )
)
NODE = NodeFacts(
    devices=CARDS,
    labels={"kubernetes.io/os": "linux"},
    annotations={"volcano.sh/node-vgpu-register": "GPU-1,10,8192,NVIDIA-X,true,hami-core:"},
    grants={
        "nvidia-device-plugin": (Grant("a", GPU, ("GPU-6",)),),
        "vgpu-manager": (Grant("a", "nvidia.com/vgpu-number", ("GPU-0::1",)),),
        "hami": (Grant("a", GPU, ("GPU-0-4",)),),
        "r": (Grant("resource-reservation", GPU, ("GPU-3",)),),
    },
    claims={
        ("tenants", "c"): (
            ClaimedDevice(
                "gpu",
                "hami-core-gpu.project-hami.io",
                "n",
                "hami-gpu-5",
                "s",
                consumed={"cores": "30", "memory": "4Gi"},
            ),
        )
    },
    offered={
        ("hami-core-gpu.project-hami.io", "n", "hami-gpu-5"): OfferedDevice(
            {"uuid": "GPU-5"}, {"cores": "100", "memory": "80Gi"}
        )
    },
)
EXPECTED = {
    "hami": ("GPU-0", 0.25, GIB, "enforced"),
    "volcano-vgpu": ("GPU-1", None, 10 * GIB, "enforced"),
    "vgpu-manager": ("GPU-2", 0.1, 81920 * MIB, "fixed"),
    "kai": ("GPU-3", 0.5, 40 * GIB, "unenforced"),
    "koordinator": ("GPU-4", 0.5, 8 * GIB, "unenforced"),
    "dra": ("GPU-5", 0.3, 4 * GIB, "enforced"),
    "nvidia-device-plugin": ("GPU-6", 1.0, 80 * GIB, "enforced"),
    "tensor-fusion": ("GPU-7", None, GIB, ""),
}


def read(name: str, pods: dict[str, Pod]) -> tuple[Allocation, ...]:
    facts = replace(NODE, pods=RULES.neighbours(pods))
    decoded = registry.decode(pods[name], facts, RULES.schemes)
    assert decoded.problems == ()
    return decoded.allocations


@pytest.mark.parametrize("name", EXPECTED)
def test_each_pod_is_read_by_its_own_system(name: str) -> None:
    [found] = read(name, PODS)
    assert found.scheme == name
    assert (found.device, found.core, found.memory_bytes, found.policy) == EXPECTED[name]


def test_reservation_uses_nothing() -> None:
    assert read("r", PODS) == ()


def test_no_pod_depends_on_the_order_of_the_others() -> None:
    turned = dict(reversed(PODS.items()))
    assert [read(name, turned) for name in EXPECTED] == [read(name, PODS) for name in EXPECTED]
