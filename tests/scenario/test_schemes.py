"""What a pod of each sharing system carries, as that system's documents have it."""

from typing import Any

import pytest

from exporter.model import Pod
from exporter.simulation.load import describe
from exporter.simulation.node import Node
from tests.scenario.clock import ManualClock
from tests.scenario.nodes import A10

VKE = "vke.volcengine.com"
TKE = "tke.cloud.tencent.com"
GPUS = [
    {**A10, "uuid": "GPU-a", "minor": 6, "pci_bus_id": "00000000:20:00.0"},
    {**A10, "uuid": "GPU-b", "minor": 5, "pci_bus_id": "00000000:10:00.0"},
]
H100 = {"model": "NVIDIA H100 80GB HBM3", "memory": "80GiB", "uuid": "GPU-a", "minor": 6}
MIG = [H100, {"parent": 0, "profile": "1g.5gb+me", "memory": "4864MiB", "uuid": "MIG-a"}]
SHARED = [{**GPUS[0], "sharing": "time-slicing", "replicas": 4}]


def _node(*containers: dict[str, Any], devices: Any = GPUS, **keys: Any) -> Node:
    pod = {"name": "p", "namespace": "n", "containers": list(containers), **keys}
    return Node(describe({"devices": devices, "pods": [pod]}, "f"), ManualClock())


def _pod(node: Node) -> Pod:
    return next(pod for pod in node.pod_table().pods.values() if pod.name == "p")


def _marks(*containers: dict[str, Any], **keys: Any) -> tuple[list[dict[str, str]], dict[str, str]]:
    found = _pod(_node(*containers, **keys))
    return [dict(c.limits) for c in found.containers], dict(found.annotations)


def _grants(node: Node) -> list[tuple[str, str, tuple[str, ...]]]:
    (found,) = (node.facts().grants[uid] for uid in node.facts().grants if uid == _pod(node).uid)
    return [(grant.container, grant.resource, grant.device_ids) for grant in found]


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
    (
        {"scheme": "mgpu", "annotations": {"vke.volcengine.com/assumed": "false"}},
        {"devices": 1, "core": 30, "limits": {"vke.volcengine.com/mgpu-core": "31"}},
        {f"{VKE}/mgpu-core": "31"},
        {f"{VKE}/assumed": "false", f"{VKE}/gpu-index-container-c": "1"},
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


def test_hami_s_init_containers_come_first() -> None:
    (_, _, gpu), annotations = _marks(
        {"name": "log"},
        {"name": "gpu", "devices": 1, "memory": "4000MiB"},
        {"name": "prepare", "kind": "init"},
        scheme="hami",
    )
    assert annotations["hami.io/vgpu-devices-allocated"] == ";;GPU-b,NVIDIA,4000,0:;"
    assert gpu == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4k"}


GRANTS: list[tuple[str, list[dict[str, Any]], dict[str, Any], str, tuple[str, ...]]] = [
    ("nvidia", GPUS, {"devices": [1, 0]}, "nvidia.com/gpu", ("GPU-b", "GPU-a")),
    ("nvidia", SHARED, {"devices": 0, "replicas": 2}, "nvidia.com/gpu", ("GPU-a::0", "GPU-a::1")),
    (
        "nvidia",
        [{**SHARED[0], "resource": "nvidia.com/gpu.shared"}],
        {"devices": 0},
        "nvidia.com/gpu.shared",
        ("GPU-a::0",),
    ),
    ("nvidia", MIG, {"devices": 1}, "nvidia.com/mig-1g.5gb.me", ("MIG-a",)),
    (
        "amd",
        [{"model": "MI300X", "memory": "192GiB", "vendor": "amd", "pci_bus_id": "0000:19:00.0"}],
        {"devices": 0},
        "amd.com/gpu",
        ("0000:19:00.0",),
    ),
    (
        "amd",
        [
            {
                "model": "MI300X",
                "memory": "192GiB",
                "vendor": "amd",
                "partition": "cpx",
                "resource": "amd.com/cpx_nps1",
            }
        ]
        * 2,
        {"devices": [10, 11]},
        "amd.com/cpx_nps1",
        ("0000:91:00.0", "amdgpu_xcp_7"),
    ),
    (
        "intel",
        [{"model": "Max 1100", "memory": "48GiB", "vendor": "intel", "replicas": 3}],
        {"devices": 0, "replicas": 2},
        "gpu.intel.com/i915",
        ("card0-0", "card0-1"),
    ),
    (
        "intel",
        [{"model": "Max 1100", "memory": "48GiB", "vendor": "intel"}],
        {"devices": 0, "resource": "gpu.intel.com/monitoring"},
        "gpu.intel.com/monitoring",
        ("all",),
    ),
]


@pytest.mark.parametrize(("scheme", "devices", "container", "resource", "ids"), GRANTS)
def test_the_kubelet_grants_what_the_container_asks_for_by_the_plugin_s_ids(
    scheme: str,
    devices: list[dict[str, Any]],
    container: dict[str, Any],
    resource: str,
    ids: tuple[str, ...],
) -> None:
    node = _node({"name": "c", **container}, devices=devices, scheme=scheme)
    assert _grants(node) == [("c", resource, ids)]
    assert _pod(node).containers[0].limits == {resource: str(len(ids))}
    assert int(node.facts().allocatable.get(resource, len(ids))) >= len(ids)


def test_virtual_ids_lead_to_another_card() -> None:
    hami = _node({"name": "c", "devices": 0, "memory": "1GiB"}, scheme="hami")
    mgpu = _node({"name": "c", "devices": 0, "core": 2, "memory": "1GiB"}, scheme="mgpu")
    assert _grants(hami) == [("c", "nvidia.com/gpu", ("GPU-b-0",))]
    assert _grants(mgpu) == [("c", f"{VKE}/mgpu-core", ("1-00", "1-01"))]


def test_no_two_containers_are_granted_the_same_replica() -> None:
    both = ({"name": "a", "devices": 0, "replicas": 3}, {"name": "b", "devices": 0})
    node = _node(*both, devices=SHARED, scheme="nvidia")
    ids = [device for _, _, devices in _grants(node) for device in devices]
    assert ids == ["GPU-a::0", "GPU-a::1", "GPU-a::2", "GPU-a::3"]


def test_what_a_plugin_does_not_tell_is_not_granted() -> None:
    node = _node({"name": "c", "devices": 0, "placed": False}, scheme="nvidia")
    assert node.facts().grants == {}


def test_a_pod_that_has_ended_holds_no_grant_any_more() -> None:
    node = _node({"name": "c", "devices": 0}, scheme="nvidia", **{"for": "5s"})
    clock = node._clock
    assert isinstance(clock, ManualClock)
    assert node.facts().grants
    clock.move(6)
    assert _pod(node).terminal
    assert not node.facts().grants


def test_a_claim_names_its_devices_and_the_slice_says_what_they_are() -> None:
    node = _node({"name": "c", "devices": 1, "claim": "two"}, devices=MIG, scheme="dra")
    (ref,) = _pod(node).containers[0].claims
    assert (ref.claim, ref.resource) == ("two", "")
    (device,) = node.facts().claims["n", "two"]
    assert (device.request, device.driver, device.pool) == (
        ref.request,
        "gpu.nvidia.com",
        "gpu-node",
    )
    assert device.device.startswith("gpu-6-mig-1g5gb-me-")
    offered = node.facts().offered[device.driver, device.pool, device.device]
    assert offered.attributes["uuid"] == "MIG-a"
    assert offered.attributes["parentUUID"] == "GPU-a"
    assert offered.capacity == {"memory": "4864Mi"}


def test_a_claim_may_stand_for_an_extended_resource_or_have_a_share() -> None:
    extended = _node({"name": "c", "devices": 0, "resource": "nvidia.com/gpu"}, scheme="dra")
    (container,) = _pod(extended).containers
    assert container.limits == {"nvidia.com/gpu": "1"}
    assert container.claims[0].resource == "nvidia.com/gpu"
    share = _node({"name": "c", "devices": 0, "memory": "10GiB", "claim": "s"}, scheme="dra")
    (device,) = share.facts().claims["n", "s"]
    assert device.consumed == {"memory": "10240Mi"}
    assert device.share_id


def test_feature_discovery_labels_say_how_devices_are_shared() -> None:
    labels = _node({"name": "c", "devices": 0}, devices=SHARED, scheme="nvidia").facts().labels
    assert labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert labels["nvidia.com/gpu.replicas"] == "4"
    assert labels["nvidia.com/gpu.memory"] == str(24 * 1024)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A10-SHARED"


def test_the_node_tells_the_policy_of_a_card_by_its_index() -> None:
    devices = [GPUS[0], {**GPUS[1], "policy": "fixed-share"}]
    node = _node({"name": "c", "devices": 0, "core": 10}, devices=devices, scheme="qgpu")
    assert node.facts().card_policies == {1: "fixed-share"}


def test_facts_are_the_same_object_while_nothing_changes() -> None:
    node = _node({"name": "c", "devices": 0}, scheme="nvidia", start="5s")
    clock = node._clock
    assert isinstance(clock, ManualClock)
    before = node.facts()
    clock.move(1)
    assert node.facts() is before
    clock.move(3)
    assert node.facts() != before


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
