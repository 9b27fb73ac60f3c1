"""Nothing that a pod's owner writes beside a whole card takes the card's allocation away."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from exporter.agent.allocations.registry import SCHEMES, decode
from exporter.agent.allocations.rules import make
from exporter.model import NodeFacts, SchemeDescription
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    GIB,
    card,
    container,
    granted,
    node,
    pod,
    told,
)

PLAIN = {"kubernetes.io/os": "linux"}
NVIDIA = node(*FOUR_CARDS, labels=PLAIN, allocatable={"nvidia.com/gpu": "4"})
AMD = node(
    *(card(n, vendor="amd") for n in range(2)), labels=PLAIN, allocatable={"amd.com/gpu": "2"}
)
VALUES = (
    *("x", ";;;", "0", "…", "GPU-0", "GPU-0,NVIDIA,1,1:;", "GPU-0,NVIDIA,1,1:", "a[0_GPU-0_1_1]"),
    *("{}", "[]", '{"gpu":"x"}', '{"gpu":[]}', '{"gpu":[{"minor":7}]}', '{"0":{"0":1}}', "1Gi"),
)
ENDS = ("a", "910B-devices-allocated", "a.gpu-memory.limit", "a.gpus.devices")


def written() -> Iterator[tuple[str, str]]:
    """Return every annotation and label that a scheme reads, with what somebody may write there."""
    known = {key for scheme in SCHEMES for key in (*scheme.annotations, *scheme.labels)}
    begun = [key for key in known if not key[-1].isalnum() or key == "hami.io/Ascend"]
    keys = known | {key + end for key in begun for end in ENDS}
    return ((key, value) for key in sorted(keys) for value in VALUES)


@pytest.mark.parametrize(
    ("resource", "facts", "device"),
    [
        ("nvidia.com/gpu", replace(NVIDIA, grants=granted({"nvidia.com/gpu": ["GPU-1"]})), "GPU-1"),
        ("nvidia.com/gpu", NVIDIA, None),
        ("amd.com/gpu", AMD, None),
    ],
    ids=["granted", "not granted", "of AMD"],
)
def test_whole_card_stays_whatever_its_owner_writes(
    resource: str, facts: NodeFacts, device: str | None
) -> None:
    asking = container(limits={resource: "1"})
    whole = [("a", device, 1.0, CARD_MEMORY)]
    assert told(decode(pod(asking), facts)) == whole
    changed = {
        (key, value)
        for key, value in written()
        for changed in (pod(asking, annotations={key: value}), pod(asking, labels={key: value}))
        if told(decode(changed, facts)) != whole
    }
    assert changed == set()


@pytest.mark.parametrize(
    ("resource", "facts"),
    [("nvidia.com/gpu", NVIDIA), ("amd.com/gpu", AMD), ("baidu.com/a10_24g_cgpu", NVIDIA)],
    ids=["NVIDIA", "AMD", "Baidu"],
)
def test_whole_card_stays_beside_a_limit_of_0_of_any_other_resource(
    resource: str, facts: NodeFacts
) -> None:
    """The API server accepts it, and such a pod runs on every node."""
    others = {name for scheme in SCHEMES for name in scheme.resources}
    others |= {"amd.com/gpumem", "amd.com/gpucores"}
    others |= {f"baidu.com/a10_24g_cgpu_{end}" for end in ("core", "memory", "memory_percent")}
    whole = [("a", None, 1.0, CARD_MEMORY)]
    asking = {name: container(limits={name: "0", resource: "1"}) for name in others}
    changed = {name for name, one in asking.items() if told(decode(pod(one), facts)) != whole}
    assert changed == set()


OWN = SchemeDescription(
    name="own",
    core_resource="example.com/core",
    memory_resource="example.com/memory",
    memory_unit=GIB,
    count_key="example.com/count",
)
RULES = make([OWN])
ACK = {"aliyun.com/gpu-core.percentage": "30", "aliyun.com/gpu-mem": "5"}
TABLE = "scheduler.framework.gpushare.allocation"
DIVIDED = {  # what is asked for, and the annotation or label by which it is divided
    "described": ({"example.com/core": "30", "example.com/memory": "5"}, "example.com/count"),
    "aliyun": (ACK, "aliyun.com/gpu-count"),
    "aliyun, by a table": (ACK, TABLE),
    "huawei": (
        {"volcano.sh/gpu-core.percentage": "30", "volcano.sh/gpu-mem.128Mi": "40"},
        "volcano.sh/gpu-num",
    ),
    "vke": (
        {"vke.volcengine.com/mgpu-core": "30", "vke.volcengine.com/mgpu-memory": "5120"},
        "vke.volcengine.com/container-multiple-gpu",
    ),
}


@pytest.mark.parametrize("system", DIVIDED)
@pytest.mark.parametrize("count", ["1", "2", "7", "31", "50", "64", "65", "1000"])
def test_over_however_many_cards_its_owner_divides_a_request_the_sum_stays(
    system: str, count: str
) -> None:
    limits, key = DIVIDED[system]
    table = json.dumps({"0": dict.fromkeys(map(str, range(int(count))), 1)})
    noted = {key: table if key == TABLE else count}
    described = pod(container(limits=limits), annotations=noted, labels=noted)
    found = RULES.decode(described, NVIDIA).allocations
    assert sum(a.core or 0 for a in found) == pytest.approx(0.3)
    assert sum(a.memory_bytes or 0 for a in found) == pytest.approx(5 * GIB, abs=64)


@pytest.mark.parametrize("count", ["1", "2", "65", "0", "x"])
def test_fraction_stays_whatever_number_of_devices_its_owner_states(count: str) -> None:
    reserving = replace(
        pod(container(limits={"nvidia.com/gpu": "1"}), labels={"runai-gpu-group": "g"}),
        uid="r",
        namespace="kai-resource-reservation",
        annotations={"run.ai/reserve_for_gpu_index": "GPU-1"},
    )
    stated = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": count}
    asking = pod(container(), annotations=stated, labels={"runai-gpu-group": "g"})
    found = decode(asking, RULES.tied(NVIDIA, [reserving])).allocations
    assert [(a.core, a.memory_bytes) for a in found] == [(0.5, CARD_MEMORY // 2)]
