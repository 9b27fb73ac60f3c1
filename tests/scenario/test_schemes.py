"""What a pod of each sharing system carries, as that system's documents have it."""

from typing import Any

import pytest

from exporter.scenario.load import describe
from exporter.scenario.node import Node
from tests.scenario.clock import ManualClock
from tests.scenario.nodes import A10

VKE = "vke.volcengine.com"
TKE = "tke.cloud.tencent.com"
GPUS = [{**A10, "uuid": "GPU-a"}, {**A10, "uuid": "GPU-b"}]


def _marks(*containers: dict[str, Any], **keys: Any) -> tuple[list[dict[str, str]], dict[str, str]]:
    pod = {"name": "p", "namespace": "n", "containers": list(containers), **keys}
    node = Node(describe({"devices": GPUS, "pods": [pod]}, "f"), ManualClock())
    (found,) = node.pod_table().pods.values()
    return [dict(c.limits) for c in found.containers], dict(found.annotations)


CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, str], dict[str, str]]] = [
    (
        {"scheme": "mgpu", "policy": "fixed-share"},
        {"devices": [1], "core": 30, "memory": "1GiB"},
        {f"{VKE}/mgpu-core": "30", f"{VKE}/mgpu-memory": "1024"},
        {
            f"{VKE}/assumed": "true",
            f"{VKE}/mgpu-compute-policy": "fixed-share",
            f"{VKE}/gpu-index-container-c": "1",
        },
    ),
    (
        {"scheme": "mgpu", "policy": "native-burst-share"},
        {"devices": [1, 0], "core": 40, "memory": "4GiB"},
        {f"{VKE}/mgpu-core": "80", f"{VKE}/mgpu-memory": "8192"},
        {
            f"{VKE}/assumed": "true",
            f"{VKE}/mgpu-compute-policy": "native-burst-share",
            f"{VKE}/container-multiple-gpu": "2",
            f"{VKE}/gpu-index-container-c": "1,0",
        },
    ),
    (
        {"scheme": "mgpu"},
        {"devices": [0, 1], "core": 100, "memory": "24GiB"},
        {f"{VKE}/mgpu-core": "200"},
        {f"{VKE}/assumed": "true", f"{VKE}/gpu-index-container-c": "0,1"},
    ),
    (
        {"scheme": "qgpu"},
        {"devices": [0, 1], "core": 80, "memory": "30GiB"},
        {f"{TKE}/qgpu-core": "160", f"{TKE}/qgpu-memory": "60"},
        {f"{TKE}/qgpu": "true", f"{TKE}/qgpu-pgpu-c": "0,1"},
    ),
    (
        {"scheme": "qgpu", "app_class": "offline"},
        {"devices": [0], "core": 50, "memory": "2GiB", "placed": False},
        {f"{TKE}/qgpu-core-greedy": "50", f"{TKE}/qgpu-memory": "2"},
        {f"{TKE}/qgpu": "true", f"{TKE}/app-class": "offline"},
    ),
    (
        {"scheme": "hami"},
        {"devices": [0, 1], "core": 3, "memory": "500MiB"},
        {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "500", "nvidia.com/gpucores": "3"},
        {
            "hami.io/vgpu-node": "gpu-node",
            "hami.io/bind-phase": "success",
            "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,500,3:GPU-b,NVIDIA,500,3:;",
        },
    ),
    ({"scheme": "nvidia"}, {"devices": [0, 1]}, {"nvidia.com/gpu": "2"}, {}),
    ({}, {}, {}, {}),
]


@pytest.mark.parametrize(("pod", "container", "limits", "annotations"), CASES)
def test_limits_and_annotations_are_the_sharing_systems_own(
    pod: dict[str, Any],
    container: dict[str, Any],
    limits: dict[str, str],
    annotations: dict[str, str],
) -> None:
    assert _marks({"name": "c", **container}, **pod) == ([limits], annotations)


def test_hami_leaves_an_empty_segment_for_a_container_without_a_gpu() -> None:
    _, annotations = _marks(
        {"name": "side"}, {"name": "gpu", "devices": 1, "memory": "4000MiB"}, scheme="hami"
    )
    assert annotations["hami.io/vgpu-devices-allocated"] == ";GPU-b,NVIDIA,4000,0:;"


def test_mgpu_counts_the_shared_cards_of_each_container() -> None:
    _, annotations = _marks(
        {"name": "a", "devices": [1, 0], "core": 40, "memory": "4GiB"},
        {"name": "b", "devices": 1, "core": 10, "memory": "1GiB"},
        scheme="mgpu",
    )
    assert annotations[f"{VKE}/container-multiple-gpu"] == "2,0"


def test_the_node_offers_what_its_sharing_systems_count() -> None:
    pods = [
        {"name": s, "namespace": "n", "scheme": s, "containers": [{"name": "c", "devices": 0}]}
        for s in ("mgpu", "qgpu")
    ]
    scenario = {"devices": GPUS, "pods": pods, "node": {"labels": {"gpu": "a10"}}}
    facts = Node(describe(scenario, "f"), ManualClock()).facts()
    assert facts.labels == {
        "gpu": "a10",
        "vke.node.gpu.schedule": "mgpu",
        "qgpu-device-enable": "enable",
    }
    assert facts.allocatable == {
        f"{VKE}/mgpu-core": "200",
        f"{VKE}/mgpu-memory": str(48 * 1024),
        f"{TKE}/qgpu-core": "200",
        f"{TKE}/qgpu-memory": "48",
    }
