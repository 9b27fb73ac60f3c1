"""What single systems write, beside the cases of ``upstream/``, and what they might."""

import json
from dataclasses import replace

import pytest

from exporter.agent.allocations.registry import decode
from exporter.agent.allocations.terms import Reason
from exporter.model import NodeFacts
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    MIB,
    Told,
    card,
    container,
    granted,
    instance,
    node,
    pod,
    reasons,
    told,
)

NODE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
GPU = "nvidia.com/gpu"
OF_VGPU_MANAGER = {
    f"nvidia.com/vgpu-{name}": text
    for name, text in (("number", "1"), ("cores", "10"), ("memory", "1024"))
}


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        ("MR-V100", "iluvatar.ai/MR-V100-vgpu"),
        ("BI-V999", "iluvatar.ai/BI-V999-vgpu"),
        ("Ascend910C", "huawei.com/Ascend910C"),
        ("Ascend999", "huawei.com/Ascend999"),
        ("xpu", "kunlunxin.com/vxpu"),
        ("Biren", "birentech.com/gpu"),
        ("aws-neuron", "aws.amazon.com/neuron"),
    ],
)
def test_hamis_lists_of_other_vendors_are_read_for_who_asked(key: str, resource: str) -> None:
    annotations = {f"hami.io/{key}-devices-allocated": "d-0,X,1024,1:;"}
    decoded = decode(pod(container("a", {resource: "1"}), annotations=annotations), NODE)
    assert told(decoded) == [("a", None, None, GIB)]
    forged = decode(pod(container("a", {GPU: "1"}), annotations=annotations), NODE)
    assert [a.scheme for a in forged.allocations] == ["nvidia-device-plugin"]
    assert Reason.NOT_REQUESTED in reasons(forged)


def test_hamis_whole_cards_of_kunlun_have_a_key_of_their_own() -> None:
    annotations = {"hami.io/kunlun-allocated": "d-0,Kunlun,0,0:;"}
    asking = container("a", {"kunlunxin.com/xpu": "1"})
    assert told(decode(pod(asking, annotations=annotations), NODE)) == [("a", None, None, None)]


def test_thousands_of_hamis_lists_end() -> None:
    lists = {f"hami.io/Ascend{n}-devices-allocated": "d,X,1,1:;" for n in range(3000)}
    decoded = decode(pod(container("a", {"huawei.com/x": "1"}), annotations=lists), NODE)
    assert len(decoded.allocations) <= 32


@pytest.mark.parametrize("start", [4, 5, "x", -1, None, 2**80])
def test_hamis_instance_is_found_by_its_placement_before_its_uuid_is_written(start: object) -> None:
    made = replace(instance(0, 0), placement_start=4)
    record = {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": "GPU-0",
        "placement": {"start": start, "size": 1},
    }
    annotations = {
        "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,4864,14:;",
        "hami.io/vgpu-mig-allocations": json.dumps([record]),
    }
    facts = replace(node(*FOUR_CARDS, made), annotations={"hami.io/node-nvidia-register": "x"})
    decoded = decode(pod(container("a", {GPU: "1"}), annotations=annotations), facts)
    assert [a.device for a in decoded.allocations] == [made.uuid if start == 4 else None]


def koordinator(entry: object, facts: NodeFacts = NODE) -> Told:
    annotations = {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": [entry]})}
    asking = container("a", {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "1Gi"})
    return told(decode(pod(asking, annotations=annotations), facts))


@pytest.mark.parametrize(
    ("entry", "device"),
    [
        ({"minor": 7, "id": "GPU-3"}, "GPU-3"),
        ({"minor": 7, "id": "0"}, "GPU-0"),
        ({"minor": 7, "id": 3}, "GPU-0"),
        ({"minor": 7, "id": "ü" * 9999}, "GPU-0"),
        ({"minor": 7}, "GPU-0"),
        ({"minor": 99, "id": "GPU-9"}, None),
    ],
)
def test_koordinators_id_counts_before_its_minor(entry: object, device: str | None) -> None:
    assert koordinator(entry) == [("a", device, 0.5, GIB)]


@pytest.mark.parametrize(
    ("limit", "core"), [("50", 0.5), ("20", 0.3), ("", 0.3), ("101", 0.3), ("ü", 0.3), ("0", 0.3)]
)
def test_gpu_managers_limit_raises_the_share(limit: str, core: float) -> None:
    asking = container("a", {"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "4"})
    described = pod(asking, annotations={"tencent.com/vcuda-core-limit": limit})
    assert told(decode(described, NODE)) == [("a", None, core, GIB)]
    whole = container("a", {"tencent.com/vcuda-core": "200"})
    annotated = pod(whole, annotations={"tencent.com/vcuda-core-limit": limit})
    assert [a.core for a in decode(annotated, NODE).allocations] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "memory"),
    [("500m", CARD_MEMORY // 2), ("333m", 85 * 128 * MIB), ("0m", None), ("1m", None)],
)
def test_huaweis_fraction_is_memory_alone(text: str, memory: int | None) -> None:
    decoded = decode(pod(container("a", {GPU: text})), NODE)
    assert told(decoded) == [("a", None, None, memory)]
    assert {a.scheme for a in decoded.allocations} == {"huawei-cce"}


@pytest.mark.parametrize("text", ["1500m", "0.5", "-500m", "\u0665m", "m", "9" * 5000 + "m"])
def test_fraction_that_is_none_is_counted(text: str) -> None:
    decoded = decode(pod(container("a", {GPU: text})), NODE)
    assert (decoded.allocations, reasons(decoded)) == ((), [Reason.BAD_QUANTITY])


@pytest.mark.parametrize(
    ("core", "memory", "expected", "problems"),
    [
        ("30", "50", (0.3, CARD_MEMORY // 2), []),
        ("101", "50", (None, CARD_MEMORY // 2), [Reason.CORE_OUT_OF_RANGE]),
        ("30", str(2**50), (0.3, None), [Reason.MEMORY_OUT_OF_RANGE]),
        ("30", "ü", (0.3, None), [Reason.BAD_QUANTITY]),
    ],
)
def test_acs_shares_are_per_cent_of_one_card(
    core: str, memory: str, expected: tuple[float | None, int | None], problems: list[Reason]
) -> None:
    keys = (f"alibabacloud.com/gpu-{part}.percentage" for part in ("core", "memory"))
    decoded = decode(pod(container("a", dict(zip(keys, (core, memory), strict=True)))), NODE)
    assert told(decoded) == [("a", None, *expected)]
    assert reasons(decoded) == problems


@pytest.mark.parametrize(
    "key",
    [
        "amd.com/gpu.compute-memory-partition",
        "beta.amd.com/gpu.compute-memory-partition",
        "amd.com/compute-memory-partition",
    ],
)
@pytest.mark.parametrize(("mode", "core"), [("cpx_nps4", None), ("spx_nps1", 1.0), ("SPX", 1.0)])
def test_each_label_of_amds_partitioning_counts(key: str, mode: str, core: float | None) -> None:
    facts = node(card(0, vendor="amd"), labels={key: mode})
    assert [
        a.core for a in decode(pod(container("a", {"amd.com/gpu": "1"})), facts).allocations
    ] == [core]


def test_wsl_has_one_id_for_all_cards() -> None:
    facts = replace(NODE, grants=granted({GPU: ["all"]}))
    decoded = decode(pod(container("a", {GPU: "1"})), facts)
    assert told(decoded) == [("a", f"GPU-{n}", 1.0, CARD_MEMORY) for n in range(4)]


@pytest.mark.parametrize(
    ("resource", "ids", "expected"),
    [
        ("nvidia.com/gpu-10gb", ["GPU-0::0"], [("a", "GPU-0", None, 10 * GIB)]),
        ("nvidia.com/gpu-10gb", [], [("a", None, None, 10 * GIB)]),
        ("nvidia.com/gpu-0gb", [], [("a", None, None, None)]),
        ("nvidia.com/gpu-99999gb", [], []),
        ("mig.das.com/1g.5gb", ["MIG-0-0"], [("a", "MIG-0-0", None, 5 * GIB)]),
        ("mig.das.com/9g.5gb", [], [("a", None, None, None)]),
    ],
)
def test_names_of_other_plugins_for_the_same_devices(
    resource: str, ids: list[str], expected: Told
) -> None:
    facts = replace(NODE, devices=(*FOUR_CARDS, instance(0, 0)), grants=granted({resource: ids}))
    assert told(decode(pod(container("a", {resource: "1"})), facts)) == expected


@pytest.mark.parametrize(
    ("config", "memory"),
    [
        ('{"deviceSplit":10,"coresScaling":1,"memoryFactor":4,"memoryScaling":1}', 4 * GIB),
        *((text, GIB) for text in ("{}", "[" * 9000, "null")),
        *((f'{{"memoryFactor":{factor}}}', GIB) for factor in ("-1", "true")),
    ],
)
def test_vgpu_managers_limits_are_in_units_of_the_nodes_factor(config: str, memory: int) -> None:
    facts = replace(NODE, annotations={"nvidia.com/node-config-info": config})
    mib = memory // MIB
    for listed, device in (("", None), (f"a[0_GPU-0_10_{mib}]", "GPU-0")):
        annotations = {"nvidia.com/real-allocated": listed}
        decoded = decode(pod(container("a", OF_VGPU_MANAGER), annotations=annotations), facts)
        assert told(decoded) == [("a", device, 0.1, memory)]
        assert decoded.problems == ()


def test_vgpu_managers_grants_are_the_kubelets_choice_and_place_nothing() -> None:
    ids = {
        "nvidia.com/vgpu-number": ["GPU-3::1"],
        "nvidia.com/vgpu-cores": ["GPU-2::0", "GPU-2::1"],
    }
    decoded = decode(pod(container("a", OF_VGPU_MANAGER)), replace(NODE, grants=granted(ids)))
    assert told(decoded) == [("a", None, 0.1, GIB)]
    assert {a.scheme for a in decoded.allocations} == {"vgpu-manager"}


def test_koordinators_list_without_a_gpu_leaves_the_pod_to_others() -> None:
    rdma = {"scheduling.koordinator.sh/device-allocated": '{"rdma":[{"minor":0}]}'}
    decoded = decode(pod(container("a", {GPU: "1"}), annotations=rdma), NODE)
    assert [a.scheme for a in decoded.allocations] == ["nvidia-device-plugin"]
