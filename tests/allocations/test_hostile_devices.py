"""Whatever grants, claims, slices, annotations and labels say, decoding ends and costs one pod."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.allocations import amd, dra, gke, intel, kai, nvidia
from exporter.allocations.quantities import MAX_MEMORY_BYTES
from exporter.allocations.reader import MAX_CARDS
from exporter.allocations.registry import decode
from exporter.allocations.scheme import Reason, Scheme
from exporter.model import (
    ClaimedDevice,
    ClaimRef,
    Container,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
)
from tests.allocations.build import card, instance

SCHEMES = [m.SCHEME for m in (nvidia, gke, kai, dra, amd, intel)]
RESOURCES = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu-slow"),
    *("amd.com/gpu", "amd.com/cpx_nps4", "gpu.intel.com/i915", "gpu.intel.com/monitoring", "é"),
)
UUID = "0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
NVIDIA_IDS = ["GPU-0", "GPU-0::0", "GPU-0::1", "GPU-1::é", "GPU-0::", "MIG-0-0", "MIG-0-0::7"]
FOREIGN_IDS = [f"GPU-{UUID}", f"GPU-{UUID}::{2**80}", f"MIG-GPU-{UUID}/1/0", f"GPU-{UUID}-3"]
GKE_IDS = ["nvidia7", "nvidia7/gi0", "nvidia7/gi0/vgpu1", "nvidia" + "9" * 80, "nvidia٣"]
OTHER_IDS = [
    "0000:19:00.0",
    "amdgpu_xcp_30",
    "card0-0",
    "card0-9",
    "card٣-0",
    "all",
    "",
    "x" * 9999,
]
DEVICE_IDS = st.one_of(
    st.sampled_from([*NVIDIA_IDS, *FOREIGN_IDS, *GKE_IDS, *OTHER_IDS]), st.text(max_size=8)
)
NUMBERS = st.one_of(
    st.integers(-5, 400).map(str),
    st.sampled_from(["", "0.25", "nan", "inf", "-0.5", "1e999", "4864Mi", "1Ei", str(2**80), "٣"]),
    st.text(max_size=8),
)
NAMES = st.sampled_from(["a", "b", "", "ü", "n" * 300])
GROUPS = st.sampled_from(["g", "h", "", "é", "g" * 999])
LABELS = st.dictionaries(
    st.sampled_from(["runai-gpu-group", "runai-gpu-group/g", "runai-gpu-group/h", "app"]), GROUPS
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(kai.SCHEME.annotations),
    st.one_of(NUMBERS, NAMES, DEVICE_IDS, st.just("9" * 100_000)),
)
DRIVERS = st.sampled_from([*sorted(dra.DRIVERS), "net.example.com", "", "é"])
DEVICE_NAMES = st.sampled_from(["gpu-7", "gpu-7-mig-1g5gb-19-0", "0000-03-00-0-0x1", "é", ""])
CAPACITY = st.dictionaries(st.sampled_from(["memory", "gpu.nvidia.com/memory", "é"]), NUMBERS)
REQUESTS = st.sampled_from(["", "gpu", "gpu/first", "/", "é"])
CLAIM_NAMES = st.sampled_from(["c", "d", "", "é"])

GRANTS = st.lists(
    st.builds(
        Grant, NAMES, st.sampled_from(RESOURCES), st.lists(DEVICE_IDS, max_size=6).map(tuple)
    ),
    max_size=4,
).map(tuple)
CLAIMS = st.dictionaries(
    st.tuples(st.sampled_from(["n", "m"]), CLAIM_NAMES),
    st.lists(
        st.builds(
            ClaimedDevice,
            request=REQUESTS,
            driver=DRIVERS,
            pool=NAMES,
            device=DEVICE_NAMES,
            share_id=NAMES,
            admin_access=st.booleans(),
            consumed=CAPACITY,
        ),
        max_size=5,
    ).map(tuple),
    max_size=4,
)
OFFERED = st.dictionaries(
    st.tuples(DRIVERS, NAMES, DEVICE_NAMES),
    st.builds(
        OfferedDevice,
        attributes=st.dictionaries(
            st.sampled_from(sorted(dra.ATTRIBUTES)), st.one_of(DEVICE_IDS, NUMBERS)
        ),
        capacity=CAPACITY,
    ),
    max_size=4,
)
NODE_LABEL_KEYS = [
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.memory",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "cloud.google.com/gke-max-shared-clients-per-gpu",
    "amd.com/compute-memory-partition",
]
NODE_LABELS = st.dictionaries(
    st.sampled_from(NODE_LABEL_KEYS),
    st.one_of(NUMBERS, st.sampled_from(["mps", "time-slicing", "time-sharing", "cpx_nps4"])),
)
AMD_CARD = replace(card(0, vendor="amd"), pci_bus_id="00000000:19:00.0")
DEVICES = st.lists(
    st.sampled_from(
        [
            *(card(0), card(1), card(0, memory=None), AMD_CARD, card(7, vendor="intel")),
            *(replace(instance(0, 0), gpu_instance=0), instance(0, 1)),
        ]
    ),
    max_size=5,
    unique_by=lambda device: device.uuid,
).map(tuple)
CONTAINERS = st.lists(
    st.builds(
        Container,
        name=NAMES,
        kind=st.sampled_from(["app", "init", "sidecar", "ephemeral"]),
        limits=st.dictionaries(st.sampled_from(RESOURCES), NUMBERS, max_size=3),
        claims=st.lists(
            st.builds(ClaimRef, CLAIM_NAMES, REQUESTS, st.sampled_from(["", *RESOURCES])),
            max_size=3,
        ).map(tuple),
    ),
    max_size=4,
    unique_by=lambda container: container.name,
).map(tuple)


def pods(uid: str) -> st.SearchStrategy[Pod]:
    return st.builds(
        Pod,
        uid=st.just(uid),
        namespace=st.sampled_from(["n", "n", "kai-resource-reservation"]),
        name=NAMES,
        phase=st.sampled_from(["", "Running"]),
        containers=CONTAINERS,
        annotations=ANNOTATIONS,
        labels=LABELS,
    )


NODES = st.builds(
    NodeFacts,
    devices=DEVICES,
    labels=NODE_LABELS,
    allocatable=st.dictionaries(st.sampled_from(RESOURCES), NUMBERS, max_size=3),
    grants=st.fixed_dictionaries({}, optional={"u": GRANTS, "v": GRANTS}),
    claims=CLAIMS,
    offered=OFFERED,
    pods=st.fixed_dictionaries({"v": pods("v")}),
    index_bases=st.dictionaries(st.sampled_from(["gke", "dra"]), NAMES),
)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@given(described=pods("u"), node=NODES)
def test_any_input_gives_allotments_that_can_be_true(
    scheme: Scheme, described: Pod, node: NodeFacts
) -> None:
    decoded = scheme.decode(described, node)  # not the registry's: its guard would hide a raise
    names = {"", *(container.name for container in described.containers)}
    for allocation in decoded.allocations:
        assert allocation.pod_uid == "u"
        assert allocation.container in names
        assert allocation.device in {None, *(device.uuid for device in node.devices)}
        assert allocation.core is None or 0 < allocation.core <= 1
        assert allocation.memory_bytes is None or 0 < allocation.memory_bytes <= MAX_MEMORY_BYTES
        assert allocation.replicas is None or allocation.replicas > 0
    placed = Counter((a.container, a.device) for a in decoded.allocations if a.device)
    assert set(placed.values()) <= {1}
    assert len(decoded.allocations) <= MAX_CARDS * 4 * len(RESOURCES)
    assert all(len(problem.detail) <= 200 for problem in decoded.problems)


@given(described=pods("u"), node=NODES)
def test_no_input_makes_the_registry_meet_a_defect(described: Pod, node: NodeFacts) -> None:
    reasons = {problem.reason for problem in decode(described, node).problems}
    assert Reason.DECODER_ERROR not in reasons


@given(hostile=pods("v"), node=NODES)
def test_hostile_pod_costs_only_itself(hostile: Pod, node: NodeFacts) -> None:
    """Its neighbour, whose device the kubelet names, keeps its allotment."""
    honest = Pod("w", "m", "p", containers=(Container("a", limits={"nvidia.com/gpu": "1"}),))
    known = replace(
        node,
        devices=(card(0), card(1)),
        labels={},
        grants={**node.grants, "w": (Grant("a", "nvidia.com/gpu", ("GPU-1",)),)},
        pods={"v": hostile, "w": honest},
    )
    decoded = decode(honest, known)
    assert [(a.device, a.core) for a in decoded.allocations] == [("GPU-1", 1.0)]
    assert decoded.problems == ()
