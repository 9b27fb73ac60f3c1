"""Whatever grants, claims, slices, annotations and labels say, decoding ends and costs one pod."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.allocations.claimed import ATTRIBUTES
from exporter.agent.allocations.quantities import MAX_MEMORY_BYTES
from exporter.agent.allocations.reader import MAX_CARDS
from exporter.agent.allocations.registry import decode, read_by
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes import amd, dra, gke, intel, kai, nvidia
from exporter.agent.allocations.terms import Reason
from exporter.model import (
    ClaimedDevice,
    ClaimRef,
    Container,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
)
from tests.agent.allocations.build import card, decoder, instance
from tests.agent.allocations.mutated import Case, cases, near

SCHEMES = [m.SCHEME for m in (nvidia, gke, kai, dra, amd, intel)]
UUID = "0fc3eda5-e98b-a25b-5b0d-cf5c855d1448"
GPU = "nvidia.com/gpu"
NVIDIA = (GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu-slow")
AMD = ("amd.com/gpu", "amd.com/cpx_nps4", "amd.com/spx_nps1")
INTEL = ("gpu.intel.com/i915", "gpu.intel.com/xe", "gpu.intel.com/monitoring")
RESOURCES = (*NVIDIA, *AMD, *INTEL, "é")
NVIDIA_IDS = ("GPU-0", "GPU-0::0", "GPU-0::1", "GPU-1", "GPU-1::é", "GPU-0::", "MIG-0-0::7")
FOREIGN_IDS = (f"GPU-{UUID}", f"GPU-{UUID}::{2**80}", f"MIG-GPU-{UUID}/1/0", f"GPU-{UUID}-3")
GKE_IDS = ("nvidia7", "nvidia7/gi0", "nvidia6/vgpu0", "nvidia6/vgpu1", "nvidia" + "9" * 80)
AMD_IDS = ("0000:19:00.0", "amdgpu_xcp_30", "0000:ff:00.0")
INTEL_IDS = ("card0-0", "card0-9", "card9-0", "all")
ODD_IDS = ("", "nvidia٣", "card٣-0", "x" * 99, "::")

NUMBERS = st.one_of(
    st.integers(-5, 400).map(str),
    st.sampled_from(["", "0.25", "nan", "inf", "-0.5", "1e999", "4864Mi", "1Ei", str(2**80), "٣"]),
    st.text(max_size=8),
)
NAMES = st.sampled_from(["a", "a", "a", "b", "", "ü", "n" * 99])
GROUPS = st.sampled_from(["g", "g", "h", "", "é", "g" * 99])
DEVICE_IDS = st.sampled_from((*NVIDIA_IDS, *FOREIGN_IDS, *GKE_IDS, *AMD_IDS, *INTEL_IDS, *ODD_IDS))


FAMILIES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "nvidia-device-plugin": (NVIDIA, NVIDIA_IDS),
    "gke": ([GPU], GKE_IDS),
    "amd-device-plugin": (AMD, AMD_IDS),
    "intel-device-plugin": (INTEL, INTEL_IDS),
}


def grants(family: str = "") -> st.SearchStrategy[tuple[Grant, ...]]:
    """Return grants of anything, but rather those of one scheme."""
    resources, ids = FAMILIES.get(family, (RESOURCES, ["GPU-0"]))
    own = st.lists(st.sampled_from(ids), min_size=1, max_size=4).map(tuple)
    anything = st.lists(DEVICE_IDS, max_size=4).map(tuple)
    return st.lists(
        st.one_of(
            st.builds(Grant, NAMES, st.sampled_from(resources), own),
            st.builds(Grant, NAMES, st.sampled_from(resources), own),
            st.builds(Grant, NAMES, st.sampled_from(RESOURCES), anything),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple)


DRIVERS = st.sampled_from([*sorted(dra.DRIVERS), "net.example.com", "é"])
DEVICE_NAMES = st.sampled_from(["gpu-7", "gpu-7-mig-1g5gb-19-0", "0000-19-00-0-0x1", "é", ""])
CAPACITY = st.dictionaries(st.sampled_from(["memory", "gpu.nvidia.com/memory", "é"]), NUMBERS)
REQUESTS = st.sampled_from(["", "gpu", "gpu/first", "/", "é"])
CLAIM_NAMES = st.sampled_from(["c", "c", "c", "d", "", "é"])
CLAIMED = st.lists(
    st.builds(
        ClaimedDevice,
        request=REQUESTS,
        driver=DRIVERS,
        pool=st.sampled_from(["p", "é"]),
        device=DEVICE_NAMES,
        share_id=st.sampled_from(["", "", "s"]),
        admin_access=st.sampled_from([False, False, True]),
        consumed=CAPACITY,
    ),
    max_size=4,
).map(tuple)
OFFERED = st.dictionaries(
    st.tuples(DRIVERS, st.just("p"), DEVICE_NAMES),
    st.builds(
        OfferedDevice,
        attributes=st.dictionaries(
            st.sampled_from(sorted(ATTRIBUTES)), st.one_of(DEVICE_IDS, NUMBERS)
        ),
        capacity=CAPACITY,
    ),
    max_size=4,
)

AMD_CARD = replace(card(0, vendor="amd"), pci_bus_id="00000000:19:00.0")
INTEL_CARD = replace(card(7, vendor="intel"), pci_bus_id="0000:19:00.0")  # its minor is 0
PART = replace(instance(0, 0), gpu_instance=0)
ALL_DEVICES = (card(0), card(1), PART, instance(0, 1), AMD_CARD, INTEL_CARD)
DEVICES = st.one_of(
    st.just(ALL_DEVICES),
    st.lists(
        st.sampled_from([*ALL_DEVICES, card(0, memory=None)]),
        max_size=4,
        unique_by=lambda device: device.uuid,
    ).map(tuple),
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
    max_size=4,
)

CONTAINERS = st.lists(
    st.builds(
        Container,
        name=NAMES,
        kind=st.sampled_from(["app", "app", "app", "init", "sidecar", "ephemeral"]),
        limits=st.dictionaries(st.sampled_from(RESOURCES), NUMBERS, max_size=2),
        claims=st.lists(
            st.builds(ClaimRef, CLAIM_NAMES, REQUESTS, st.sampled_from(["", "", *RESOURCES])),
            max_size=2,
        ).map(tuple),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda container: container.name,
).map(tuple)
FRACTIONS = st.dictionaries(
    st.sampled_from(kai.SCHEME.annotations),
    st.one_of(NUMBERS, NAMES, DEVICE_IDS),
)
GROUP_LABELS = st.dictionaries(
    st.sampled_from(["runai-gpu-group", "runai-gpu-group/g", "runai-gpu-group/h", "app"]), GROUPS
)


def pods(uid: str) -> st.SearchStrategy[Pod]:
    return st.builds(
        Pod,
        uid=st.just(uid),
        namespace=st.sampled_from(["n", "n", "n", "kai-resource-reservation"]),
        name=NAMES,
        phase=st.sampled_from(["", "Running"]),
        containers=CONTAINERS,
        annotations=FRACTIONS,
        labels=GROUP_LABELS,
    )


RESERVATIONS = st.builds(
    Pod,
    uid=st.just("r"),
    namespace=st.just("kai-resource-reservation"),
    name=NAMES,
    annotations=st.fixed_dictionaries({"run.ai/reserve_for_gpu_index": DEVICE_IDS}),
    labels=st.fixed_dictionaries({"runai-gpu-group": GROUPS}),
)


def nodes(family: str = "") -> st.SearchStrategy[NodeFacts]:
    alone = st.builds(
        NodeFacts,
        devices=DEVICES,
        labels=NODE_LABELS,
        allocatable=st.dictionaries(st.sampled_from(RESOURCES), NUMBERS, max_size=3),
        grants=st.fixed_dictionaries({"u": grants(family)}, optional={"v": grants()}),
        claims=st.fixed_dictionaries({("n", "c"): CLAIMED}, optional={("n", "d"): CLAIMED}),
        offered=OFFERED,
        index_bases=st.dictionaries(st.sampled_from(["gke", "dra"]), NAMES, max_size=1),
    )
    others = st.tuples(RESERVATIONS, pods("v")) | st.tuples(RESERVATIONS)
    return st.builds(Rules().tied, alone, others)


@cache  # hypothesis looks a strategy over once, which takes it longer than a decoder
def inputs(scheme: Scheme) -> st.SearchStrategy[Case]:
    """Published examples and what is near them, then anything."""
    anything = st.builds(Case, pods("u"), nodes(scheme.name))
    return st.one_of(
        *(near(case, st.one_of(DEVICE_IDS, NUMBERS)) for case in cases(scheme)), anything
    )


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@given(data=st.data())
def test_any_input_gives_allocations_that_can_be_true(scheme: Scheme, data: st.DataObject) -> None:
    described, node = data.draw(inputs(scheme))
    decoded = read_by(scheme, described, node)  # not the registry's: its guard would hide a raise
    names = {"", *(container.name for container in described.containers)}
    for allocation in decoded.allocations:
        assert allocation.pod_uid == described.uid
        assert allocation.container in names
        assert allocation.device in {None, *(device.uuid for device in node.devices)}
        assert allocation.core is None or 0 < allocation.core <= 1
        assert allocation.memory_bytes is None or 0 < allocation.memory_bytes <= MAX_MEMORY_BYTES
        assert allocation.replicas is None or allocation.replicas > 0
    placed = Counter((a.container, a.device) for a in decoded.allocations if a.device)
    assert set(placed.values()) <= {1}
    assert len(decoded.allocations) <= MAX_CARDS * 4 * len(RESOURCES)
    assert all(len(problem.detail) <= 200 for problem in decoded.problems)


@given(described=pods("u"), node=nodes())
def test_no_input_makes_the_registry_meet_a_defect(described: Pod, node: NodeFacts) -> None:
    reasons = {problem.reason for problem in decode(described, node).problems}
    assert Reason.DECODER_ERROR not in reasons


@given(hostile=pods("v"), node=nodes())
def test_hostile_pod_costs_only_itself(hostile: Pod, node: NodeFacts) -> None:
    """Its neighbour, whose device the kubelet names, keeps its allocation."""
    honest = Pod("w", "m", "p", containers=(Container("a", limits={"nvidia.com/gpu": "1"}),))
    known = replace(
        node,
        devices=(card(0), card(1)),
        labels={},
        grants={**node.grants, "w": (Grant("a", "nvidia.com/gpu", ("GPU-1",)),)},
    )
    decoded = decode(honest, Rules().tied(known, [hostile, honest]))
    assert [(a.device, a.core) for a in decoded.allocations] == [("GPU-1", 1.0)]
    assert decoded.problems == ()


def test_ten_megabytes_of_anything_are_refused() -> None:
    huge = "GPU-0::0" * 1_300_000
    hostile = Pod(
        uid="u",
        namespace="n",
        name="p",
        containers=(Container("a", limits={GPU: "1"}, claims=(ClaimRef(huge, huge, huge),)),),
        annotations=dict.fromkeys(kai.SCHEME.annotations, huge),
        labels={"runai-gpu-group": huge},
    )
    held = (
        Grant("a", resource, (huge, *(f"GPU-{n:08x}{UUID[8:]}" for n in range(20_000))))
        for resource in RESOURCES
    )
    facts = NodeFacts(devices=ALL_DEVICES, labels={"a": "b"}, grants={"u": tuple(held)})
    for scheme in SCHEMES:
        decoded = read_by(scheme, hostile, facts)
        assert {a.device for a in decoded.allocations} <= {None}
        assert len(decoded.allocations) <= MAX_CARDS
        assert all(len(problem.detail) <= 200 for problem in decoded.problems)


def test_ten_megabytes_of_a_fraction_are_counted() -> None:
    annotations = dict.fromkeys(kai.SCHEME.annotations, "9" * 10_000_000)
    hostile = Pod(
        uid="u",
        namespace="n",
        name="p",
        containers=(Container("a"),),
        annotations=annotations,
        labels={"runai-gpu-group": "g"},
    )
    reservation = Pod("r", "kai-resource-reservation", "r", labels={"runai-gpu-group": "g"})
    decoded = decoder(kai.SCHEME)(hostile, Rules().tied(NodeFacts(), [reservation]))
    assert [(a.container, a.device, a.core) for a in decoded.allocations] == [("a", None, None)]
    assert {problem.reason for problem in decoded.problems} == {Reason.BAD_ANNOTATION}
