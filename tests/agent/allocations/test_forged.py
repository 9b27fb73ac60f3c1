"""An annotation counts only beside its scheme's resource, and never against the limits' amounts."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.rules import make
from exporter.agent.allocations.trust import agreed
from exporter.model import SchemeDescription
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    MIB,
    container,
    node,
    pod,
    reasons,
)


class Forger(NamedTuple):
    """A pod's limits, and what its owner writes into an annotation beside them."""

    limits: Mapping[str, str]
    annotations: Mapping[str, str]
    core: float | None = 0.2
    memory_bytes: int | None = 4000 * MIB
    counted: tuple[str, ...] = ("limits_differ",)


OWN = SchemeDescription(
    name="own",
    core_resource="example.com/core",
    memory_resource="example.com/memory",
    memory_unit=MIB,
    core_key="example.com/core-of",
    memory_key="example.com/memory-of",
)
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "20", "nvidia.com/gpumem": "4k"}
FORGERS = {
    "hami": Forger(HAMI, {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,9000,90:;"}),
    "hami before": Forger(HAMI, {"4pd.io/vgpu-ids-new": "GPU-0,NVIDIA,9000,90:;"}),
    "hami, hygon": Forger(
        {"hygon.com/dcunum": "1", "hygon.com/dcucores": "20", "hygon.com/dcumem": "4k"},
        {"hami.io/dcu-devices-allocated": "GPU-0,DCU,9000,90:;"},
    ),
    "hami, amd": Forger(
        {"amd.com/gpu": "1", "amd.com/gpumem": "4k"},
        {"hami.io/amd-devices-allocated": "GPU-0,AMDGPU,9000,90:;"},
        core=None,
    ),
    "volcano": Forger(
        {
            "volcano.sh/vgpu-number": "1",
            "volcano.sh/vgpu-cores": "20",
            "volcano.sh/vgpu-memory": "4k",
        },
        {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,9000,90:"},
    ),
    "vgpu-manager": Forger(
        {
            "nvidia.com/vgpu-number": "1",
            "nvidia.com/vgpu-cores": "20",
            "nvidia.com/vgpu-memory": "4k",
        },
        {"nvidia.com/real-allocated": "a[0_GPU-0_90_9000]"},
    ),
    "koordinator": Forger(
        {"koordinator.sh/gpu-core": "20", "koordinator.sh/gpu-memory": str(4000 * MIB)},
        {
            "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":7,"resources":{'
            '"koordinator.sh/gpu-core":90,"koordinator.sh/gpu-memory":"9Gi"}}]}'
        },
    ),
    "koordinator, ratio": Forger(
        {"koordinator.sh/gpu-core": "20", "koordinator.sh/gpu-memory-ratio": "50"},
        {
            "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":7,"resources":{'
            '"koordinator.sh/gpu-core":90,"koordinator.sh/gpu-memory":"9Gi"}}]}'
        },
        memory_bytes=CARD_MEMORY // 2,
    ),
    "aliyun-ack": Forger(
        {"aliyun.com/gpu-core.percentage": "20", "aliyun.com/gpu-mem": "4"},
        {
            "scheduler.framework.gpushare.allocation": '{"0":{"0":9}}',
            "gpushare.alibabacloud.com/core-percentage": '{"0":{"0":90}}',
        },
        memory_bytes=4096 * MIB,
    ),
    "aliyun-ack, memory alone": Forger(
        {"aliyun.com/gpu-mem": "4"},
        {
            "scheduler.framework.gpushare.allocation": '{"0":{"0":4}}',
            "gpushare.alibabacloud.com/core-percentage": '{"0":{"0":90}}',
        },
        core=None,
        memory_bytes=4096 * MIB,
    ),
    "described": Forger(
        {"example.com/core": "20", "example.com/memory": "4k"},
        {"example.com/core-of": "90", "example.com/memory-of": "9000"},
        counted=(),  # its keys may be those of another container
    ),
}
RULES = make([OWN])
KNOWN = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})


@pytest.mark.parametrize("forger", FORGERS.values(), ids=FORGERS)
def test_limits_win_where_the_annotation_says_another_amount(forger: Forger) -> None:
    decoded = RULES.decode(
        pod(container(limits=forger.limits), annotations=forger.annotations), KNOWN
    )
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == [
        (forger.core, forger.memory_bytes)
    ]
    assert tuple(reasons(decoded)) == forger.counted


@pytest.mark.parametrize("forger", FORGERS.values(), ids=FORGERS)
@pytest.mark.parametrize("asked", [{}, {"cpu": "1"}, None], ids=["nothing", "others", "0 of it"])
def test_annotation_without_the_resource_allocates_nothing(
    forger: Forger, asked: Mapping[str, str] | None
) -> None:
    limits = dict.fromkeys(forger.limits, "0") if asked is None else asked
    described = pod(container(limits=limits), annotations=forger.annotations)
    decoded = RULES.decode(described, KNOWN)
    assert decoded.allocations == ()
    assert set(reasons(decoded)) <= {"not_requested", "unproven"}
    assert decoded.problems


@pytest.mark.parametrize("forger", FORGERS.values(), ids=FORGERS)
def test_annotation_does_not_count_for_a_neighbour_without_the_resource(forger: Forger) -> None:
    both = (container("a", forger.limits), container("side"))
    decoded = RULES.decode(pod(*both, annotations=forger.annotations), KNOWN)
    assert {a.container for a in decoded.allocations} == {"a"}


def test_amounts_that_a_scheduler_rounded_down_for_each_card_are_the_limits() -> None:
    reader = PodReader("test", pod(container()), node(*FOUR_CARDS))
    stated = [Share(0.33, 5 * MIB)] * 3

    assert agreed(reader, stated, Share(1.0, 17 * MIB), unit=MIB) == stated
    assert reader.decoded(()).problems == ()
