"""Boards that share their host's memory: the driver reports none, and a label of the node does."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.agent.allocations.devicenames import with_labelled_memory
from exporter.agent.allocations.registry import decode
from exporter.model import ClaimedDevice, ClaimRef, NodeFacts
from tests.agent.allocations.build import MIB, card, container, granted, instance, node, pod

LABEL = "nvidia.com/gpu.memory"
LABELLED, WHOLE, HALF = 122_880, 122_880 * MIB, 61_440 * MIB
GB10 = node(card(0, None), labels={LABEL: str(LABELLED)}, allocatable={"nvidia.com/gpu": "1"})


def labelled(**labels: str) -> NodeFacts:
    named = {f"nvidia.com/gpu.{name.replace('_', '-')}": text for name, text in labels.items()}
    return replace(GB10, labels={**GB10.labels, **named})


@pytest.mark.parametrize(
    ("limits", "facts", "expected"),
    [
        pytest.param({"nvidia.com/gpu": "1"}, GB10, WHOLE, id="NVIDIA's plugin"),
        pytest.param(
            {"nvidia.com/gpu": "1"},
            labelled(replicas="2", sharing_strategy="mps"),
            HALF,
            id="NVIDIA's plugin, MPS",
        ),
        pytest.param(
            {"nvidia.com/gpu": "1"},
            replace(GB10, grants=granted({"nvidia.com/gpu": ["GPU-0"]})),
            WHOLE,
            id="NVIDIA's plugin, by PodResources",
        ),
        pytest.param(
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}, GB10, HALF, id="HAMi"
        ),
        pytest.param({"nvidia.com/vgpu-number": "1"}, GB10, WHOLE, id="vgpu-manager"),
        pytest.param(
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory-percentage": "50"},
            GB10,
            HALF,
            id="Volcano",
        ),
        pytest.param({"koordinator.sh/gpu": "50"}, GB10, HALF, id="Koordinator"),
        pytest.param({"nvidia.com/gpu": "500m"}, GB10, HALF, id="Huawei"),
        pytest.param(
            {"baidu.com/v100_cgpu": "1", "baidu.com/v100_cgpu_memory_percent": "50"},
            GB10,
            HALF,
            id="Baidu",
        ),
        pytest.param({"alibabacloud.com/gpu-memory.percentage": "50"}, GB10, HALF, id="ACS"),
        pytest.param({"vke.volcengine.com/mgpu-core": "100"}, GB10, WHOLE, id="mGPU"),
        pytest.param({"tke.cloud.tencent.com/qgpu-core": "100"}, GB10, WHOLE, id="qGPU"),
        pytest.param({"tencent.com/vcuda-core": "100"}, GB10, WHOLE, id="gpu-manager"),
    ],
)
def test_a_part_of_the_cards_memory_is_one_of_the_labels(
    limits: Mapping[str, str], facts: NodeFacts, expected: int
) -> None:
    own = pod(container(limits=limits))
    assert [a.memory_bytes for a in decode(own, facts).allocations] in ([None], [expected])
    found = decode(own, with_labelled_memory(facts)).allocations
    assert [each.memory_bytes for each in found] == [expected]


def test_a_claimed_board_has_the_labels_memory() -> None:
    claimed = ClaimedDevice("gpu", "gpu.nvidia.com", "n1", "gpu-7")
    facts = replace(GB10, claims={("default", "c"): (claimed,)})
    user = replace(container(), claims=(ClaimRef("c"),))
    [found] = decode(pod(user), with_labelled_memory(facts)).allocations
    assert (found.device, found.core, found.memory_bytes) == ("GPU-0", 1, WHOLE)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(replace(GB10, labels={}), id="no label"),
        pytest.param(replace(GB10, labels={LABEL: "0"}), id="a label of 0"),
        pytest.param(replace(GB10, labels={LABEL: "9" * 12}), id="beyond belief"),
        pytest.param(replace(GB10, labels={LABEL: "many"}), id="no number"),
        pytest.param(replace(GB10, devices=(card(0, None), card(1))), id="another board's"),
        pytest.param(replace(GB10, devices=(card(0, None, "amd"),)), id="another vendor's"),
    ],
)
def test_a_label_that_is_not_the_boards_counts_for_nothing(facts: NodeFacts) -> None:
    assert with_labelled_memory(facts) == facts


def test_a_label_is_no_instances_size() -> None:
    part = replace(instance(0, 1), memory_bytes=None)
    found = with_labelled_memory(replace(GB10, devices=(card(0, None), part)))
    assert [each.memory_bytes for each in found.devices] == [None, None]
