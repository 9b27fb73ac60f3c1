"""Whatever a pod or a node says, decoding ends, and what it yields can be true."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.allocations.quantities import MAX_MEMORY_BYTES
from exporter.allocations.reader import MAX_CARDS
from exporter.allocations.registry import SCHEMES, decode
from exporter.allocations.scheme import Reason, Scheme
from exporter.model import Container, Device, NodeFacts, Pod
from tests.allocations.build import card, instance, node

NAMES = ("a", "0", "1", "", "ü", "b" * 300)
NUMBERS = st.one_of(
    st.integers(-5, 400).map(str),
    st.sampled_from(["", "1k", "2e9", "-1", "1.5", "nan", "1Ei", "٣", str(2**80), "9" * 5000]),
    st.text(max_size=8),
)
UUIDS = st.sampled_from(["GPU-0", "GPU-1", "GPU-foreign", "MIG-1-0", "GPU-0[1-2]", "", "é"])
ENTRY = st.tuples(UUIDS, st.sampled_from(["NVIDIA", ""]), NUMBERS, NUMBERS).map(",".join)
SEGMENT = st.lists(st.one_of(ENTRY, st.text(max_size=5)), max_size=4).map(":".join)
VALUES = st.one_of(
    NUMBERS,
    st.lists(NUMBERS, max_size=5).map(",".join),
    st.lists(SEGMENT, max_size=5).map(";".join),
    st.sampled_from(['{"gpu": [', "null", "offline", "0," * 100_000, ";" * 70_000, ":" * 1000]),
    st.text(max_size=30),
)
LABEL_KEYS = st.sampled_from(
    [
        "vke.volcengine.com/mgpu-compute-policy",
        "tke.cloud.tencent.com/qgpu-schedule-policy",
        "nvidia.com/gpu.sharing-strategy",
        "nvidia.com/gpu.replicas",
        "nvidia.com/gpu.memory",
        "nvidia.com/gpu.product",
    ]
)
LABEL_VALUES = st.one_of(
    NUMBERS, st.sampled_from(["mps", "time-slicing", "none", "x-MIG-1g.5gb", "fs"])
)
DEVICES = st.lists(
    st.sampled_from(
        [card(0), card(1), card(0, memory=None), card(1, vendor="amd"), instance(1, 0)]
    ),
    max_size=4,
).map(tuple)


def pods(scheme: Scheme) -> st.SearchStrategy[Pod]:
    resources = [f"{name}1g.5gb" if name.endswith("-") else name for name in scheme.resources]
    containers = st.builds(
        Container,
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(["app", "init", "sidecar", "ephemeral"]),
        limits=st.dictionaries(st.sampled_from(resources), NUMBERS, max_size=4),
    )
    keys = [key + name for key in scheme.annotations for name in ("", *NAMES)] or ["none"]
    return st.builds(
        Pod,
        uid=st.just("u"),
        namespace=st.just("n"),
        name=st.just("p"),
        containers=st.lists(containers, max_size=4).map(tuple),
        annotations=st.dictionaries(st.sampled_from(keys), VALUES, max_size=5),
    )


def nodes(resources: Sequence[str]) -> st.SearchStrategy[NodeFacts]:
    return st.builds(
        NodeFacts,
        devices=DEVICES,
        labels=st.dictionaries(LABEL_KEYS, LABEL_VALUES, max_size=4),
        allocatable=st.dictionaries(st.sampled_from(resources), NUMBERS, max_size=3),
    )


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@given(data=st.data())
def test_any_input_gives_allotments_that_can_be_true(scheme: Scheme, data: st.DataObject) -> None:
    described = data.draw(pods(scheme))
    facts = data.draw(nodes(scheme.resources))
    decoded = scheme.decode(described, facts)  # not the registry's: its guard would hide a raise
    names = {"", *(container.name for container in described.containers)}
    for allocation in decoded.allocations:
        assert allocation.container in names
        assert allocation.device in {None, *(device.uuid for device in facts.devices)}
        assert allocation.core is None or 0 < allocation.core <= 1
        assert allocation.memory_bytes is None or 0 < allocation.memory_bytes <= MAX_MEMORY_BYTES
        assert allocation.replicas is None or allocation.replicas > 0
    assert len(decoded.allocations) <= MAX_CARDS * (4 * len(scheme.resources) + 1)
    assert all(len(problem.detail) <= 200 for problem in decoded.problems)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@given(data=st.data())
def test_no_input_makes_the_registry_meet_a_defect(scheme: Scheme, data: st.DataObject) -> None:
    decoded = decode(data.draw(pods(scheme)), data.draw(nodes(scheme.resources)))
    assert Reason.DECODER_ERROR not in {problem.reason for problem in decoded.problems}


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@given(data=st.data())
def test_container_has_each_device_at_most_once(scheme: Scheme, data: st.DataObject) -> None:
    described = data.draw(pods(scheme))
    containers = {each.name: each for each in described.containers if each.name}
    unique = replace(described, containers=tuple(containers.values()))
    facts = node(*(card(index) for index in range(4)))
    placed = [a for a in scheme.decode(unique, facts).allocations if a.device]
    assert len({(a.container, a.device) for a in placed}) == len(placed)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_ten_megabyte_annotations_are_refused_unread(scheme: Scheme) -> None:
    keys = [key + name for key in scheme.annotations for name in ("", "a")]
    huge = "GPU-0,NVIDIA,1,1:" * 600_000
    described = Pod(
        uid="u",
        namespace="n",
        name="p",
        containers=(Container("a", limits=dict.fromkeys(scheme.resources, "1")),),
        annotations=dict.fromkeys(keys, huge),
    )
    facts = node(Device("GPU-0", 0, "nvidia"), labels={"kubernetes.io/os": "linux"})
    decoded = scheme.decode(described, facts)
    assert {a.device for a in decoded.allocations} <= {None}
    assert all(problem.reason is Reason.BAD_ANNOTATION for problem in decoded.problems)
