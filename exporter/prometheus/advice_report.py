"""Advice as a table for people, as JSON and as YAML."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from exporter.prometheus.advice import UNITS, Advice, Resource, Workload
from exporter.prometheus.asked import asked
from exporter.prometheus.ranges import written

FORMATS = ("table", "json", "yaml")
Found = Sequence[tuple[Workload, Advice]]

_GIB = 1 << 30
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
    wanted = asked(advice)
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
    wanted = asked(advice)
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
    return f"{amount:.0%}" if resource is Resource.CORE else f"{amount / _GIB:.1f} GiB"


def _freed(found: Found) -> str:
    """What the workloads that should ask for less would give back."""
    core, memory = (
        sum(advice.freed or 0.0 for _, advice in found if advice.resource is resource)
        for resource in Resource
    )
    if not core and not memory:
        return ""
    return f"All that ask for less would give back {core:.2f} GPUs and {memory / _GIB:.1f} GiB.\n"
