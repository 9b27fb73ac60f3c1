"""How a workload asks its sharing system for an amount: the resource's name, in its own unit. Pure.

Names are those of a usual installation. HAMi's and volcano-vgpu's can be configured, and their
memory may be counted in several MiB. A system that divides by percentages of a card's memory, or
by instances, has no entry: an amount of bytes is none of its units.
"""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from exporter.prometheus.advice import Advice, Resource

_PERCENT, _MIB, _GIB = 0.01, 1 << 20, 1 << 30


class Unit(NamedTuple):
    """A resource or annotation, and how much one of it is: of a GPU, or bytes."""

    name: str
    size: float


UNITS: Mapping[str, Mapping[Resource, Unit]] = {
    scheme: {
        resource: unit
        for resource, unit in ((Resource.CORE, core), (Resource.MEMORY, memory))
        if unit is not None
    }
    for scheme, core, memory in (
        (
            "vke-mgpu",
            Unit("vke.volcengine.com/mgpu-core", _PERCENT),
            Unit("vke.volcengine.com/mgpu-memory", _MIB),
        ),
        (
            "tke-qgpu",
            Unit("tke.cloud.tencent.com/qgpu-core", _PERCENT),
            Unit("tke.cloud.tencent.com/qgpu-memory", _GIB),
        ),
        ("hami", Unit("nvidia.com/gpucores", _PERCENT), Unit("nvidia.com/gpumem", _MIB)),
        (
            "volcano-vgpu",
            Unit("volcano.sh/vgpu-cores", _PERCENT),
            Unit("volcano.sh/vgpu-memory", _MIB),
        ),
        ("volcano-gpushare", None, Unit("volcano.sh/gpu-memory", _MIB)),
        ("kai", None, Unit("gpu-memory", _MIB)),
        ("aliyun-gpushare-v1", None, Unit("aliyun.com/gpu-mem", _GIB)),
        (
            "aliyun-ack",
            Unit("aliyun.com/gpu-core.percentage", _PERCENT),
            Unit("aliyun.com/gpu-mem", _GIB),
        ),
        ("aliyun-acs", Unit("alibabacloud.com/gpu-core.percentage", _PERCENT), None),
        (
            "tkestack-gpu-manager",
            Unit("tencent.com/vcuda-core", _PERCENT),
            Unit("tencent.com/vcuda-memory", 256 * _MIB),
        ),
        (
            "elastic-gpu",
            Unit("elasticgpu.io/gpu-core", _PERCENT),
            Unit("elasticgpu.io/gpu-memory", _MIB),
        ),
        (
            "huawei-cce",
            Unit("volcano.sh/gpu-core.percentage", _PERCENT),
            Unit("volcano.sh/gpu-mem.128Mi", 128 * _MIB),
        ),
        (
            "koordinator",
            Unit("koordinator.sh/gpu-core", _PERCENT),
            Unit("koordinator.sh/gpu-memory", 1),
        ),
        (
            "vgpu-manager",
            Unit("nvidia.com/vgpu-cores", _PERCENT),
            Unit("nvidia.com/vgpu-memory", _MIB),
        ),
    )
}


class Asked(NamedTuple):
    """What stands in the pod's limits or annotations."""

    name: str
    quantity: int


def asked(advice: Advice) -> Asked | None:
    """What a pod asks for to have the advised amount; None if nothing is advised or known."""
    unit = UNITS.get(advice.scheme, {}).get(advice.resource)
    if unit is None or advice.recommended is None:
        return None
    return Asked(unit.name, ceil(round(advice.recommended / unit.size, 6)))
