"""Whatever a pod or a node says, decoding ends, and what it yields can be true."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from exporter.agent.allocations.quantities import MAX_MEMORY_BYTES
from exporter.agent.allocations.reader import MAX_CARDS
from exporter.agent.allocations.registry import NODE_ANNOTATION_PREFIXES, SCHEMES, decode, read_by
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Reason
from exporter.model import Container, Device, NodeFacts, Pod
from tests.agent.allocations.build import card, instance, node
from tests.agent.allocations.mutated import Case, cases, near

NAMES = ("a", "0", "1", "", "ü", "b" * 300)
NUMBERS = st.one_of(
    st.sampled_from(["1", "2", "10", "100", "200"]),
    st.integers(-5, 400).map(str),
    st.sampled_from(["", "1k", "2e9", "-1", "1.5", "nan", "1Ei", "٣", str(2**80), "9" * 5000]),
    st.text(max_size=8),
)
UUIDS = st.sampled_from(["GPU-0", "GPU-1", "GPU-foreign", "MIG-1-0", "GPU-0[1-2]", "", "é"])
PLACES = st.one_of(
    st.sampled_from(["0", "1", "0,1", "1,0"]), st.lists(NUMBERS, max_size=5).map(",".join)
)
ENTRY = st.tuples(UUIDS, st.sampled_from(["NVIDIA", ""]), NUMBERS, NUMBERS).map(",".join)
SEGMENT = st.lists(st.one_of(ENTRY, st.text(max_size=5)), max_size=4).map(":".join)
# What a document may hold in place of a number, and what mostly it does.
ODD: st.SearchStrategy[object] = st.sampled_from(
    [-1, 2**80, -(2**80), True, None, 1.5, "x", "1e9", "\ud800", [], {}]
)
FEW = st.one_of(st.sampled_from([0, 1, 6, 7]), st.sampled_from([0, 1]), ODD)
AMOUNT = st.one_of(st.sampled_from([50, "50", "16Gi", 8]), st.sampled_from([100, 4]), ODD)
KEYS = st.one_of(st.sampled_from(["0", "1", "7"]), st.sampled_from(["01", "-1", "9" * 30, "ü", ""]))
ROW = st.dictionaries(KEYS, AMOUNT, max_size=4)
TABLES = st.dictionaries(KEYS, st.one_of(ROW, ROW, ODD), max_size=4).map(json.dumps)
RESOURCES = st.dictionaries(
    st.sampled_from([f"koordinator.sh/gpu-{name}" for name in ("core", "memory", "memory-ratio")]),
    AMOUNT,
)
DEVICE = st.fixed_dictionaries({"minor": FEW, "resources": st.one_of(RESOURCES, RESOURCES, ODD)})
DEVICE_LIST = st.lists(st.one_of(DEVICE, DEVICE, ODD), max_size=5)
DEVICE_LISTS = st.fixed_dictionaries({"gpu": st.one_of(DEVICE_LIST, DEVICE_LIST, ODD)}).map(
    json.dumps
)
RECORD = st.fixed_dictionaries(
    {"containerIndex": FEW, "deviceIndex": FEW, "gpuUUID": st.one_of(UUIDS, UUIDS, ODD)},
    optional={"migUUID": st.one_of(UUIDS, ODD)},
)
RECORDS = st.lists(st.one_of(RECORD, RECORD, ODD), max_size=4).map(json.dumps)
SEGMENTS = st.lists(SEGMENT, max_size=5).map(";".join)
VALUES = st.one_of(
    NUMBERS,
    *(TABLES, DEVICE_LISTS, RECORDS, SEGMENTS, PLACES),
    st.sampled_from(["offline", "mig", "mps,", '{"gpu": [', "null", "NaN", '"\\ud800"']),
    st.text(max_size=30),
)
# What the annotations of some schemes are made of; of the others, anything.
SHAPES = {
    "scheduler.framework.gpushare.allocation": TABLES,
    "gpushare.alibabacloud.com/core-percentage": TABLES,
    "scheduling.koordinator.sh/device-allocated": DEVICE_LISTS,
    "hami.io/vgpu-mig-allocations": RECORDS,
    "hami.io/vgpu-devices-allocated": SEGMENTS,
    "hami.io/amd-devices-allocated": SEGMENTS,
    "volcano.sh/vgpu-ids-new": SEGMENTS,
    "volcano.sh/gpu-index": PLACES,
    "ALIYUN_COM_GPU_MEM_IDX": PLACES,
}
LABEL_KEYS = st.sampled_from(
    [
        "vke.volcengine.com/mgpu-compute-policy",
        "tke.cloud.tencent.com/qgpu-schedule-policy",
        "nvidia.com/gpu.sharing-strategy",
        "nvidia.com/gpu.replicas",
        "nvidia.com/gpu.memory",
        "nvidia.com/gpu.product",
        "ack.node.gpu.schedule",
        "cgpu",
        "mixed-qgpu-enable",
    ]
)
LABEL_VALUES = st.one_of(
    NUMBERS,
    st.sampled_from(
        ["mps", "time-slicing", "none", "x-MIG-1g.5gb", "fs", "true", "cgpu", "enable"]
    ),
)
REGISTERS = st.one_of(
    SEGMENT,
    st.lists(st.fixed_dictionaries({"id": UUIDS, "devmem": AMOUNT}), max_size=3).map(json.dumps),
    VALUES,
)
DEVICES = st.lists(
    st.sampled_from(
        [card(0), card(1), card(0, memory=None), card(1, vendor="amd"), instance(1, 0)]
    ),
    max_size=4,
).map(tuple)


# Of resources that are named by their beginning.
ENDINGS = {"nvidia.com/mig-": "1g.5gb", "baidu.com/": "a10_24g_cgpu"}


def pods(scheme: Scheme) -> st.SearchStrategy[Pod]:
    resources = [name + ENDINGS.get(name, "") for name in scheme.resources]
    if scheme.name == "baidu-cce":
        resources += [resources[0] + part for part in ("_core", "_memory", "_memory_percent")]
    resources = resources or ["example.com/gpu"]
    containers = st.builds(
        Container,
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(["app", "init", "sidecar", "ephemeral"]),
        limits=st.dictionaries(st.sampled_from(resources), NUMBERS, max_size=4),
    )
    keys = [key + name for key in scheme.annotations for name in ("", *NAMES)] or ["none"]
    shapes = {key: SHAPES.get(key, VALUES) for key in scheme.annotations if key[-1] != "-"}
    for prefix in (key for key in scheme.annotations if key[-1] == "-"):
        shapes |= {prefix + name: PLACES for name in ("a", "0")}  # a container's name, or position
    shaped = st.fixed_dictionaries({}, optional=shapes)
    return st.builds(
        Pod,
        uid=st.just("u"),
        namespace=st.just("n"),
        name=st.just("p"),
        containers=st.lists(containers, max_size=4).map(tuple),
        annotations=st.one_of(
            st.dictionaries(st.sampled_from(keys), VALUES, max_size=5), shaped, shaped
        ),
        labels=st.dictionaries(st.sampled_from([*scheme.labels, "app"]), NUMBERS, max_size=2),
    )


def nodes(resources: Sequence[str]) -> st.SearchStrategy[NodeFacts]:
    return st.builds(
        NodeFacts,
        devices=DEVICES,
        labels=st.dictionaries(LABEL_KEYS, LABEL_VALUES, max_size=4),
        allocatable=st.dictionaries(st.sampled_from([*resources, "cpu"]), NUMBERS, max_size=3),
        card_policies=st.dictionaries(st.integers(0, 3), NUMBERS, max_size=2),
        annotations=st.dictionaries(
            st.sampled_from(NODE_ANNOTATION_PREFIXES), REGISTERS, max_size=2
        ),
    )


@cache  # hypothesis looks a strategy over once, which takes it longer than a decoder
def inputs(scheme: Scheme) -> st.SearchStrategy[Case]:
    """Published examples and what is near them, then anything."""
    anything = st.builds(Case, pods(scheme), nodes(scheme.resources))
    return st.one_of(*(near(case, VALUES) for case in cases(scheme)), anything)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@settings(max_examples=settings().max_examples * 3 // 5)
@given(data=st.data())
def test_any_input_gives_allocations_that_can_be_true(scheme: Scheme, data: st.DataObject) -> None:
    described, facts = data.draw(inputs(scheme))
    decoded = read_by(scheme, described, facts)  # not the registry's: its guard would hide a raise
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
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_no_input_makes_the_registry_meet_a_defect(scheme: Scheme, data: st.DataObject) -> None:
    decoded = decode(*data.draw(inputs(scheme)))
    assert Reason.DECODER_ERROR not in {problem.reason for problem in decoded.problems}


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@settings(max_examples=settings().max_examples // 3)
@given(data=st.data())
def test_container_has_each_device_at_most_once(scheme: Scheme, data: st.DataObject) -> None:
    described, facts = data.draw(inputs(scheme))
    containers = {each.name: each for each in described.containers if each.name}
    unique = replace(described, containers=tuple(containers.values()))
    devices = facts.devices or tuple(card(index) for index in range(4))
    decoded = read_by(scheme, unique, replace(facts, devices=devices))
    # A pod's own, told of no container, may be two containers' parts of one device.
    placed = [a for a in decoded.allocations if a.device and a.container]
    assert len({(a.container, a.device) for a in placed}) == len(placed)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_ten_megabyte_annotations_are_refused_unread(scheme: Scheme) -> None:
    keys = [key + name for key in scheme.annotations for name in ("", "a")]
    huge = '{"gpu":[' + "GPU-0,NVIDIA,1,1:" * 600_000
    described = Pod(
        uid="u",
        namespace="n",
        name="p",
        containers=(Container("a", limits=dict.fromkeys(scheme.resources, "1")),),
        annotations=dict.fromkeys(keys, huge),
    )
    facts = node(Device("GPU-0", 0, "nvidia"), labels={"kubernetes.io/os": "linux"})
    decoded = read_by(scheme, described, facts)
    assert {a.device for a in decoded.allocations} <= {None}
    refused = {Reason.BAD_ANNOTATION, Reason.NOT_REQUESTED}
    assert {problem.reason for problem in decoded.problems} <= refused


ENDLESS = [
    *("[" * 60_000, '{"gpu":' * 9_000, "9" * 5000, '{"0":{"0":' + "9" * 5000 + "}}"),
    *('{"gpu":' + "[" * depth + "]" * depth + "}" for depth in (100, 900, 990, 5_000)),
    *("0," * 30_000, ";" * 60_000, ":" * 60_000, "x:;" * 20_000, "GPU-0,,1,1:;" * 5_000),
    *('{"gpu":-Infinity}', '{"gpu":{"gpu":[]}}', '[{"gpuUUID":"\\ud800"}]', "\0", "\x1b[2J"),
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_endless_and_deep_annotations_end_in_few_problems(scheme: Scheme) -> None:
    limits = dict.fromkeys([name + ENDINGS.get(name, "") for name in scheme.resources], "1")
    keys = [key + name for key in scheme.annotations for name in ("", "a", "0")]
    for text in ENDLESS:
        described = Pod(
            uid="u",
            namespace="n",
            name="p",
            containers=(Container("a", limits=limits), Container("b", limits=limits)),
            annotations=dict.fromkeys(keys, text),
        )
        decoded = read_by(scheme, described, node(card(0), labels={"kubernetes.io/os": "linux"}))
        assert len(decoded.problems) <= len(Reason), f"{text[:12]!a}x{len(text)}"
        assert len(decoded.allocations) <= MAX_CARDS, f"{text[:12]!a}x{len(text)}"


@pytest.mark.parametrize(
    "scheme", [s for s in SCHEMES if s.placement], ids=lambda scheme: scheme.name
)
def test_inputs_reach_into_the_format_of_each_scheme(scheme: Scheme) -> None:
    """Raises NoSuchExample unless the first input of the properties above names a device."""
    find(
        inputs(scheme),
        lambda case: any(a.device for a in read_by(scheme, *case).allocations),
        settings=settings(max_examples=1, phases=[Phase.generate], database=None),
    )
