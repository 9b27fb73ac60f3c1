"""Pods whose annotations and limits a scenario holds as their sharing system writes them.

Limits and annotations are those of each system's documents and source code: Volcano
``devices/nvidia/gpushare``; Aliyun's gpushare-device-plugin ``pkg/gpu/nvidia/const.go``;
gpu-manager ``pkg/types/types.go`` (units of 256 MiB, cards by minor, by the container's place);
elastic-gpu-agent ``pkg/common/const.go`` (MiB, cards in the order of PCI addresses, by the
container's name); Huawei CCE (units of 128 MiB) and Baidu CCE (GiB), which name no card; Volcano
``devices/nvidia/vgpu`` (a segment for each container that asks); ACK by arena's
``pkg/apis/types/const.go`` (GiB, cards by index, by the container's place); Koordinator
``apis/extension/device_share.go`` (cards by minor); KAI ``pkg/common/constants/constants.go``.
"""

from typing import Any, NamedTuple

import pytest

from tests.scenario.shared_nodes import cards
from tests.scenario.watched import watched

MIB, GIB = 1 << 20, 1 << 30
ALIYUN_MEM = "ALIYUN_COM_GPU_MEM"
Keys = dict[str, Any]
Part = tuple[str, int]  # container and device number


class Case(NamedTuple):
    """A pod, and its limits on the page: of cores and of memory, by container and device."""

    scheme: str
    containers: tuple[Keys, ...]
    annotations: dict[str, str]
    core: dict[Part, float]
    memory: dict[Part, int]
    labels: dict[str, str] | None = None


def using(name: str, devices: list[int], **limits: str) -> Keys:
    """A container that runs on its devices; it holds memory there, so that it is seen."""
    work = {"device": devices, "duty": 0.2, "memory": "512MiB"} if devices else None
    return {"name": name, "processes": [work] if work else [], "limits": limits}


def of(domain: str, **limits: str) -> dict[str, str]:
    """Limits of resources of one domain; ``_`` stands for ``-``."""
    return {f"{domain}/{name.replace('_', '-')}": amount for name, amount in limits.items()}


CASES = {
    "volcano-gpushare": Case(
        "volcano-gpushare",
        (
            using("a", [1], **of("volcano.sh", gpu_memory="3000")),
            using("b", [1], **of("volcano.sh", gpu_memory="2048")),
        ),
        {"volcano.sh/gpu-index": "1", "volcano.sh/predicate-time": "1700000000000000000"},
        {},
        {("a", 1): 3000 * MIB, ("b", 1): 2 * GIB},
    ),
    "volcano-gpushare-whole": Case(
        "volcano-gpushare",
        (using("a", [2, 0], **of("volcano.sh", gpu_number="2")),),
        {"volcano.sh/gpu-index": "2,0", "volcano.sh/predicate-time": "1700000000000000000"},
        {("a", 2): 1, ("a", 0): 1},
        {("a", 2): 24 * GIB, ("a", 0): 24 * GIB},
    ),
    "aliyun": Case(
        "aliyun-gpushare-v1",
        (
            using("a", [2], **of("aliyun.com", gpu_mem="3")),
            using("b", [2], **of("aliyun.com", gpu_mem="8")),
        ),
        {
            f"{ALIYUN_MEM}_IDX": "2",
            f"{ALIYUN_MEM}_POD": "11",
            f"{ALIYUN_MEM}_DEV": "24",
            f"{ALIYUN_MEM}_ASSIGNED": "true",
            f"{ALIYUN_MEM}_ASSUME_TIME": "1700000000000000000",
            f"{ALIYUN_MEM}_ASSIGN_TIME": "1700000000000000000",
        },
        {},
        {("a", 2): 3 * GIB, ("b", 2): 8 * GIB},
    ),
    "aliyun-mib": Case(  # the device plugin is configured for MiB
        "aliyun-gpushare-v1",
        (using("a", [1], **of("aliyun.com", gpu_mem="3000")),),
        {
            f"{ALIYUN_MEM}_IDX": "1",
            f"{ALIYUN_MEM}_POD": "3000",
            f"{ALIYUN_MEM}_DEV": str(24 * 1024),
            f"{ALIYUN_MEM}_ASSIGNED": "true",
            f"{ALIYUN_MEM}_ASSUME_TIME": "1700000000000000000",
        },
        {},
        {("a", 1): 3000 * MIB},
    ),
    "gpu-manager": Case(
        "tkestack-gpu-manager",
        (
            using("log", []),
            using("a", [1], **of("tencent.com", vcuda_core="20", vcuda_memory="16")),
            using("b", [2, 0], **of("tencent.com", vcuda_core="200")),
        ),
        {
            "tencent.com/gpu-assigned": "true",
            "tencent.com/predicate-gpu-idx-1": "0",
            "tencent.com/predicate-gpu-idx-2": "1,2",
            "tencent.com/predicate-node": "gpu-node",
            "tencent.com/predicate-time": "1700000000000000000",
        },
        {("a", 1): 0.2, ("b", 2): 1, ("b", 0): 1},
        {("a", 1): 4 * GIB, ("b", 2): 24 * GIB, ("b", 0): 24 * GIB},
    ),
    "elastic-gpu": Case(
        "elastic-gpu",
        (
            using("a", [0], **of("elasticgpu.io", gpu_core="20", gpu_memory="4096")),
            using("b", [1, 2], **of("elasticgpu.io", gpu_core="200")),
        ),
        {
            "elasticgpu.io/assumed": "true",
            "elasticgpu.io/container-a": "2",
            "elasticgpu.io/container-b": "0,1",
        },
        {("a", 0): 0.2, ("b", 1): 1, ("b", 2): 1},
        {("a", 0): 4 * GIB, ("b", 1): 24 * GIB, ("b", 2): 24 * GIB},
    ),
    "volcano-vgpu": Case(
        "volcano-vgpu",
        (
            using("log", []),
            using("a", [0, 1], **of("volcano.sh", vgpu_number="2", vgpu_memory="2048")),
            using("b", [0], **of("volcano.sh", vgpu_number="1", vgpu_memory="1k", vgpu_cores="30")),
        ),
        {
            "volcano.sh/vgpu-node": "gpu-node",
            "volcano.sh/bind-phase": "success",
            "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,2048,0:GPU-1,NVIDIA,2048,0:;"
            "GPU-0,NVIDIA,1000,30:",
        },
        {("b", 0): 0.3},
        {("a", 0): 2 * GIB, ("a", 1): 2 * GIB, ("b", 0): 1000 * MIB},
    ),
    "ack": Case(
        "aliyun-ack",
        (
            using("log", []),
            using(
                "a", [0, 2], **{"aliyun.com/gpu-mem": "8", "aliyun.com/gpu-core.percentage": "60"}
            ),
        ),
        {
            "scheduler.framework.gpushare.allocation": '{"1":{"0":4,"2":4}}',
            "gpushare.alibabacloud.com/core-percentage": '{"1":{"0":30,"2":30}}',
            "scheduler.framework.gpushare.assigned": "true",
            "scheduler.framework.gpushare.assume-time": "1700000000000000000",
        },
        {("a", 0): 0.3, ("a", 2): 0.3},
        {("a", 0): 4 * GIB, ("a", 2): 4 * GIB},
    ),
    "koordinator": Case(
        "koordinator",
        (using("a", [1], **of("koordinator.sh", gpu_core="50", gpu_memory_ratio="50")),),
        {
            "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"resources":{'
            '"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"12Gi",'
            '"koordinator.sh/gpu-memory-ratio":"50"}}]}'
        },
        {("a", 1): 0.5},
        {("a", 1): 12 * GIB},
    ),
    "kai": Case(
        "kai",
        (using("log", []), using("a", [1])),
        {
            "gpu-fraction": "0.25",
            "gpu-fraction-container-name": "a",
            "received-resource-type": "Fraction",
        },
        {("a", 1): 0.25},
        {("a", 1): 6 * GIB},
        {"runai-gpu-group": "g"},
    ),
    "huawei": Case(
        "huawei-cce",
        (
            using(
                "a",
                [1],
                **{"volcano.sh/gpu-mem.128Mi": "40", "volcano.sh/gpu-core.percentage": "25"},
            ),
        ),
        {},
        {("a", 1): 0.25},
        {("a", 1): 5 * GIB},
    ),
    "baidu": Case(
        "baidu-cce",
        (
            using(
                "a",
                [0, 2],
                **{"baidu.com/gpu_cgpu": "2"},
                **{"baidu.com/gpu_cgpu_core": "100", "baidu.com/gpu_cgpu_memory": "24"},
            ),
        ),
        {},
        {("a", 0): 0.5, ("a", 2): 0.5},
        {("a", 0): 12 * GIB, ("a", 2): 12 * GIB},
    ),
}


RESERVATION = {  # KAI's: holds the card for the group, and says which one it is
    "name": "gpu-reservation",
    "namespace": "kai-resource-reservation",
    "scheme": "nvidia",
    "labels": {"runai-gpu-group": "g"},
    "annotations": {"run.ai/reserve_for_gpu_index": "GPU-1"},
    "containers": [{"name": "resource-reservation", "devices": [1]}],
}


@pytest.mark.parametrize("name", CASES)
def test_limits_are_what_the_system_s_own_text_says(name: str) -> None:
    case = CASES[name]
    pod = {
        "name": "p",
        "namespace": "team",
        "containers": list(case.containers),
        "annotations": case.annotations,
        "labels": case.labels or {},
    }
    devices = [{**card, "uuid": f"GPU-{number}"} for number, card in enumerate(cards())]
    pods = [pod, RESERVATION] if name == "kai" else [pod]
    node = watched({"devices": devices, "pods": pods, "sample_rule": "random"}, 5)
    uuids = [device.uuid for device in node.node.scenario.devices]
    by = ("container", "uuid")
    core = {(container, uuids[number]): x for (container, number), x in case.core.items()}
    memory = {(container, uuids[number]): x for (container, number), x in case.memory.items()}
    assert node.read("mgpu_container_core_limit_ratio", by) == core
    assert node.read("mgpu_container_memory_limit_bytes", by) == memory
    schemes = node.read("mgpu_container_allocation_info", ("pod", "scheme"))
    assert set(schemes) == {("p", case.scheme)}
    rejected = node.page.all("mgpu_exporter_rejected_samples_total")
    assert [labels for labels, count in rejected if count] == []
