"""Advice as a table for people, as JSON and as YAML, with what to write into the pod. Pure."""

import json
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

import yaml

from exporter.answers.prometheus.advice import UNITS, Advice, Resource, Workload
from exporter.answers.prometheus.ranges import written
from exporter.shown.words import gib

FORMATS = ("table", "json", "yaml")
Found = Sequence[tuple[Workload, Advice]]

_PERCENT, _MIB, _GIB = 0.01, 1 << 20, 1 << 30
_CORE, _MEMORY = Resource.CORE, Resource.MEMORY


_HEAD = (
    "workload",
    "",
    "allocated",
    "typical",
    "peak",
    "ask for",
    "advice",
    "confidence",
    "request",
)
_WORDS = {
    "too_early": "seen for less than a day",
    "unmeasured": "more than a tenth of the time is unmeasured",
    "preallocated": "its program takes a constant part at once: use says nothing of need",
    "at_limit": "it used all it may have: it may need more",
    "full_card": "its card was full: it may need more",
    "not_promised": "its sharing system promises no amount",
    "short_lived": "its pods live for less than an hour",
}
# Resources or annotations, and how much one of them is: of a GPU, or bytes. Names are those of a
# usual installation. HAMi's and volcano-vgpu's can be configured, and their memory may be counted
# in several MiB. A system that divides by percentages of a card's memory, or by instances, has no
# entry: an amount of bytes is none of its units.
ASKED: Mapping[tuple[str, Resource], tuple[str, float]] = {
    ("vke-mgpu", _CORE): ("vke.volcengine.com/mgpu-core", _PERCENT),
    ("vke-mgpu", _MEMORY): ("vke.volcengine.com/mgpu-memory", _MIB),
    ("tke-qgpu", _CORE): ("tke.cloud.tencent.com/qgpu-core", _PERCENT),
    ("tke-qgpu", _MEMORY): ("tke.cloud.tencent.com/qgpu-memory", _GIB),
    ("hami", _CORE): ("nvidia.com/gpucores", _PERCENT),
    ("hami", _MEMORY): ("nvidia.com/gpumem", _MIB),
    ("volcano-vgpu", _CORE): ("volcano.sh/vgpu-cores", _PERCENT),
    ("volcano-vgpu", _MEMORY): ("volcano.sh/vgpu-memory", _MIB),
    ("volcano-gpushare", _MEMORY): ("volcano.sh/gpu-memory", _MIB),
    ("kai", _MEMORY): ("gpu-memory", _MIB),
    ("aliyun-gpushare-v1", _MEMORY): ("aliyun.com/gpu-mem", _GIB),
    ("aliyun-ack", _CORE): ("aliyun.com/gpu-core.percentage", _PERCENT),
    ("aliyun-ack", _MEMORY): ("aliyun.com/gpu-mem", _GIB),
    ("aliyun-acs", _CORE): ("alibabacloud.com/gpu-core.percentage", _PERCENT),
    ("tkestack-gpu-manager", _CORE): ("tencent.com/vcuda-core", _PERCENT),
    ("tkestack-gpu-manager", _MEMORY): ("tencent.com/vcuda-memory", 256 * _MIB),
    ("elastic-gpu", _CORE): ("elasticgpu.io/gpu-core", _PERCENT),
    ("elastic-gpu", _MEMORY): ("elasticgpu.io/gpu-memory", _MIB),
    ("huawei-cce", _CORE): ("volcano.sh/gpu-core.percentage", _PERCENT),
    ("huawei-cce", _MEMORY): ("volcano.sh/gpu-mem.128Mi", 128 * _MIB),
    ("koordinator", _CORE): ("koordinator.sh/gpu-core", _PERCENT),
    ("koordinator", _MEMORY): ("koordinator.sh/gpu-memory", 1),
    ("vgpu-manager", _CORE): ("nvidia.com/vgpu-cores", _PERCENT),
    ("vgpu-manager", _MEMORY): ("nvidia.com/vgpu-memory", _MIB),
}


class Asked(NamedTuple):
    """What stands in the pod's limits or annotations."""

    name: str
    quantity: int


def asked(scheme: str, resource: Resource, recommended: float | None) -> Asked | None:
    """What a pod asks for to have this amount; None if nothing is advised or known."""
    name, size = ASKED.get((scheme, resource), ("", 1.0))
    if not name or recommended is None:
        return None
    return Asked(name, ceil(round(recommended / size, 6)))


def written_as(form: str, found: Found, since_s: int, until_s: int) -> str:
    """The advice in one of ``FORMATS``."""
    if form == "table":
        return _table(found, since_s, until_s)
    document = {
        "since": written(since_s),
        "until": written(until_s),
        "advice": [_record(*one) for one in found],
    }
    if form == "json":
        return json.dumps(document, indent=1) + "\n"
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=False))


def _record(workload: Workload, advice: Advice) -> dict[str, Any]:
    wanted = asked(advice.scheme, advice.resource, advice.recommended)
    return {
        **workload._asdict(),
        "resource": advice.resource.value,
        "allocated": advice.allocated,
        "typical": advice.typical,
        "peak": advice.peak,
        "recommended": advice.recommended,
        "freed": advice.freed,
        "unit": UNITS[advice.resource],
        "resource_name": wanted.name if wanted else None,
        "resource_quantity": wanted.quantity if wanted else None,
        "verdict": advice.outcome.verdict,
        "reason": advice.outcome.reason or None,
        "confidence": round(advice.confidence, 2),
        "observed_ratio": round(advice.observed_ratio, 4),
    }


def _table(found: Found, since_s: int, until_s: int) -> str:
    lines = [_HEAD, *(_line(*one) for one in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    body = "\n".join(rows)
    reasons = sorted({one.outcome.reason for _, one in found if one.outcome.reason})
    notes = "".join(f"{reason}: {_WORDS[reason]}\n" for reason in reasons)
    return f"{written(since_s)} to {written(until_s)}\n\n{body}\n\n{_freed(found)}{notes}"


def _line(workload: Workload, advice: Advice) -> tuple[str, ...]:
    name = "/".join(filter(None, workload[:-1]))
    wanted = asked(advice.scheme, advice.resource, advice.recommended)
    amounts = (advice.allocated, advice.typical, advice.peak, advice.recommended)
    return (
        f"{name} {workload.container}".rstrip(),
        advice.resource.value,
        *(_amount(amount, advice.resource) for amount in amounts),
        advice.outcome.words,
        f"{advice.confidence:.1f}",
        f"{wanted.name}: {wanted.quantity}" if wanted else "",
    )


def _amount(amount: float | None, resource: Resource) -> str:
    if amount is None:
        return "-"
    return f"{amount:.0%}" if resource is Resource.CORE else gib(amount)


def _freed(found: Found) -> str:
    """What the workloads that should ask for less would give back."""
    core, memory = (
        sum(advice.freed or 0.0 for _, advice in found if advice.resource is resource)
        for resource in Resource
    )
    if not core and not memory:
        return ""
    return f"All that ask for less would give back {core:.2f} GPUs and {gib(memory)}.\n"
