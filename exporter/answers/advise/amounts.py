"""The amounts that sharing systems take: their units, steps and least amounts, each with a source.

A step that no document or source says is unknown, not 1: advice then says so.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from exporter.model import GIB, MIB

PERCENT = 0.01
_DIGITS = 6  # a need is computed in floats: what is closer to a step than this is on it


class Resource(StrEnum):
    """What is advised on."""

    CORE = "core"
    MEMORY = "memory"


_CORE, _MEMORY = Resource.CORE, Resource.MEMORY
USUAL = {_CORE: PERCENT, _MEMORY: MIB}  # steps of what is advised where none is known


class AmountUnit(NamedTuple):
    """How a pod asks: by this resource or annotation, and how much one of it is.

    That is of a GPU, or bytes. ``step`` and ``least`` count them. ``step`` is None if it is not
    known. Without a ``name``, that is another one for each model of a card. docs/sharing.md has the
    names and steps of the usual systems.
    """

    name: str
    size: float
    step: float | None = 1
    least: int = 1


# Names are those of a usual installation. HAMi's and volcano-vgpu's can be configured, and their
# memory may be counted in several MiB. A system that divides by percentages of a card's memory has
# no entry for it: an amount of bytes is none of its units.
UNITS: Mapping[tuple[str, Resource], AmountUnit] = {
    # At least 256 MiB: Volcano's design proposal on mGPU, "Webhook Admission"
    ("vke-mgpu", _CORE): AmountUnit("vke.volcengine.com/mgpu-core", PERCENT),
    ("vke-mgpu", _MEMORY): AmountUnit("vke.volcengine.com/mgpu-memory", MIB, least=256),
    # 5, 10, 15 and so on to 100; whole GiB: Tencent Cloud, documents 457/59103 and 457/65734
    ("tke-qgpu", _CORE): AmountUnit("tke.cloud.tencent.com/qgpu-core", PERCENT, step=5),
    ("tke-qgpu", _MEMORY): AmountUnit("tke.cloud.tencent.com/qgpu-memory", GIB),
    # Whole numbers: HAMi, pkg/device/nvidia/device.go; the plugin of Volcano, pkg/plugin/server.go
    ("hami", _CORE): AmountUnit("nvidia.com/gpucores", PERCENT),
    ("hami", _MEMORY): AmountUnit("nvidia.com/gpumem", MIB),
    ("volcano-vgpu", _CORE): AmountUnit("volcano.sh/vgpu-cores", PERCENT),
    ("volcano-vgpu", _MEMORY): AmountUnit("volcano.sh/vgpu-memory", MIB),
    ("volcano-gpushare", _MEMORY): AmountUnit("volcano.sh/gpu-memory", MIB),
    # A part of a card with two decimals, pkg/scheduler/cache; or, instead of it, whole MiB:
    # KAI-Scheduler, docs/gpu-sharing/README.md
    ("kai", _CORE): AmountUnit("gpu-fraction", 1.0, step=0.01),
    ("kai", _MEMORY): AmountUnit("gpu-memory", MIB),
    # Whole units of GiB: AliyunContainerService/gpushare-device-plugin, README. Of ACK and ACS no
    # document that could be read says the step of the core.
    ("aliyun-gpushare-v1", _MEMORY): AmountUnit("aliyun.com/gpu-mem", GIB),
    ("aliyun-ack", _CORE): AmountUnit("aliyun.com/gpu-core.percentage", PERCENT, step=None),
    ("aliyun-ack", _MEMORY): AmountUnit("aliyun.com/gpu-mem", GIB),
    ("aliyun-acs", _CORE): AmountUnit("alibabacloud.com/gpu-core.percentage", PERCENT, step=None),
    # The least unit is 5 %; whole GiB: Baidu AI Cloud, CCE/s/1lye233ps
    ("baidu-cce", _CORE): AmountUnit("", PERCENT, step=5),
    ("baidu-cce", _MEMORY): AmountUnit("", GIB),
    # One device for each unit: tkestack/gpu-manager, README; elastic-gpu-agent, pkg/plugins
    ("tkestack-gpu-manager", _CORE): AmountUnit("tencent.com/vcuda-core", PERCENT),
    ("tkestack-gpu-manager", _MEMORY): AmountUnit("tencent.com/vcuda-memory", 256 * MIB),
    ("elastic-gpu", _CORE): AmountUnit("elasticgpu.io/gpu-core", PERCENT),
    ("elastic-gpu", _MEMORY): AmountUnit("elasticgpu.io/gpu-memory", MIB),
    # Core in steps of 5 %: Huawei Cloud, CCE user guide, cce_10_0644; memory by the resource's name
    ("huawei-cce", _CORE): AmountUnit("volcano.sh/gpu-core.percentage", PERCENT, step=5),
    ("huawei-cce", _MEMORY): AmountUnit("volcano.sh/gpu-mem.128Mi", 128 * MIB),
    # Per cent and bytes: Koordinator, apis/extension/device_share.go
    ("koordinator", _CORE): AmountUnit("koordinator.sh/gpu-core", PERCENT),
    ("koordinator", _MEMORY): AmountUnit("koordinator.sh/gpu-memory", 1),
    # Whole numbers: coldzerofear/vgpu-manager, pkg/util/consts.go and pkg/device/allocator
    ("vgpu-manager", _CORE): AmountUnit("nvidia.com/vgpu-cores", PERCENT),
    ("vgpu-manager", _MEMORY): AmountUnit("nvidia.com/vgpu-memory", MIB),
}


# Their units are devices: a pod asks for a number of cards, of MIG instances by their profile, or
# of a card's equal replicas. NVIDIA's MIG User Guide, "Supported MIG Profiles", has each card's.
DEVICES = frozenset({"nvidia-device-plugin", "gke"})
KERNEL = "kernel"  # in place of a sharing system's name: it holds groups to an amount of memory


class AskedAmount(NamedTuple):
    """What stands in the pod's limits or annotations."""

    name: str
    quantity: float


def steps_of_unit(scheme: str, resource: Resource) -> float:
    """How many steps a GPU's core has, or a byte, in which an amount is advised.

    A step is no finer than a per cent or a MiB: a need is not known any better.
    """
    unit = UNITS.get((scheme, resource))
    step = max(USUAL[resource], (unit.step or 1) * unit.size if unit else 0.0)
    # 5 % are 20 steps, and not 19.999.
    return round(1 / step) if resource is _CORE else 1 / step


def smallest_of(scheme: str, resource: Resource) -> float:
    """The smallest amount that the system takes, if that is more than one step; else 0."""
    unit = UNITS.get((scheme, resource))
    return unit.least * unit.size if unit and unit.least > 1 else 0.0


def is_known(scheme: str, resource: Resource) -> bool:
    """Whether the step in which the system takes it is known: the kernel takes any amount."""
    unit = UNITS.get((scheme, resource))
    return scheme == KERNEL or (unit is not None and unit.step is not None)


def asked(scheme: str, resource: Resource, recommended: float | None) -> AskedAmount | None:
    """What a pod asks for to have this amount; None if nothing is advised or known."""
    unit = UNITS.get((scheme, resource))
    if unit is None or not unit.name or recommended is None:
        return None
    step = 1 if unit.step is None or unit.step > 1 else unit.step  # what is advised is in steps
    count = ceil(round(recommended / unit.size / step, _DIGITS))
    return AskedAmount(unit.name, max(unit.least * step, round(count * step, _DIGITS)))
