"""The example pods of the table for choosing a share have the share that it says."""

from pathlib import Path

import pytest
import yaml

from docs.pages.choosing import EXAMPLES, WAYS, Way
from tests.agent.allocations.cases import Json, node_of, pod_of, rules_of

ROOT = Path(__file__).parents[3]
GIB = 2**30
CARD = "GPU-00000000-0000-4000-8000-000000000000"
INSTANCE = "MIG-00000000-0000-4000-8000-000000000000"
REGISTERED = f"{CARD},10,32768,100,NVIDIA,0,true:"
RESERVATION = {
    "metadata": {
        "name": "gpu-reservation-n1-g1",
        "namespace": "kai-resource-reservation",
        "uid": "reservation",
        "labels": {"app": "kai-resource-reservation", "runai-gpu-group": "g1"},
        "annotations": {"run.ai/reserve_for_gpu_index": CARD},
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
    "status": {"phase": "Running"},
}


def _cut(strategy: str) -> Json:
    """The labels of a node whose cards the device plugin cuts into four."""
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": strategy}
    return {"node_labels": labels, "node_allocatable": {"nvidia.com/gpu": "4"}}


# What the system adds once the pod is scheduled: to the pod, to the node, and the kubelet's grant.
ADDED: dict[str, tuple[Json, Json, tuple[str, str] | None]] = {
    "hami": (
        {"annotations": {"hami.io/vgpu-devices-allocated": f"{CARD},NVIDIA,8192,25:;"}},
        {"node_annotations": {"hami.io/node-nvidia-register": REGISTERED}},
        ("nvidia.com/gpu", f"{CARD}-0"),
    ),
    "mgpu": ({"annotations": {"vke.volcengine.com/gpu-index-container-main": "0"}}, {}, None),
    "qgpu": ({"annotations": {"tke.cloud.tencent.com/qgpu-pgpu-main": "0"}}, {}, None),
    "kai": (
        {
            "labels": {"runai-gpu-group": "g1"},
            "annotations": {"received-resource-type": "Fraction"},
        },
        {"other_pods": [RESERVATION], "node_labels": {"nvidia.com/gpu.memory": "32768"}},
        None,
    ),
    "time-slicing": ({}, _cut("time-slicing"), ("nvidia.com/gpu", f"{CARD}::0")),
    "mps": ({}, _cut("mps"), ("nvidia.com/gpu", f"{CARD}::0")),
    "mig": ({}, {}, ("nvidia.com/mig-1g.10gb", INSTANCE)),
}


def _scheduled(way: Way) -> Json:
    """The example's pod as it stands in the cluster, and its node."""
    pod: Json = yaml.safe_load((ROOT / EXAMPLES / f"{way.example}.yaml").read_text())
    metadata, node, grant = ADDED[way.example]
    own = {"namespace": "default", "uid": "00000000-0000-4000-8000-000000000001"}
    for key, more in metadata.items():
        own[key] = pod["metadata"].get(key, {}) | more
    pod["metadata"] |= own
    pod["spec"]["nodeName"] = "n1"
    pod["status"] = {"phase": "Running"}
    is_mig = way.example == "mig"
    card = {"uuid": CARD, "index": 0, "minor": 0, "pci": "0000:01:00.0"}
    gpus: list[Json] = [card | {"memory_bytes": (80 if is_mig else 32) * GIB}]
    if is_mig:
        of_card = {"parent_uuid": CARD, "profile": "1g.10gb", "gpu_instance": 7}
        gpus.append(card | {"uuid": INSTANCE, "memory_bytes": 10 * GIB, **of_card})
    node = {"gpus": gpus, **node}
    if grant is not None:
        resource, device = grant
        held = {"name": "main", "devices": [{"resource_name": resource, "device_ids": [device]}]}
        name = pod["metadata"]["name"]
        node["pod_resources"] = [{"namespace": "default", "name": name, "containers": [held]}]
    return {"pod": pod, "node": node}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.example)
def test_the_example_has_the_share_that_the_table_says(way: Way) -> None:
    case = _scheduled(way)
    rules = rules_of(case)
    decoded = rules.decode(pod_of(case["pod"], rules), node_of(case, rules))
    (found,) = decoded.allocations
    memory = None if way.memory_gib is None else way.memory_gib * GIB
    assert not decoded.problems
    assert (found.scheme, found.container) == (way.scheme, "main")
    assert found.core == pytest.approx(way.core)
    assert found.memory_bytes == memory


def test_the_table_has_an_example_for_each_file() -> None:
    files = {path.stem for path in (ROOT / EXAMPLES).glob("*.yaml")}
    assert files == {way.example for way in WAYS} == ADDED.keys()
