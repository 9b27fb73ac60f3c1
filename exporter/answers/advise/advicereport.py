"""Advice as a table for people, as JSON and as YAML, with what to write into the pod. Pure."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from exporter.answers.advise.advice import Advice, Found, Workload
from exporter.answers.advise.amounts import DEVICES, Resource, asked, is_known
from exporter.answers.advise.sizing import SizingOutcome
from exporter.answers.reading.ranges import written
from exporter.shown.printable import wrapped
from exporter.shown.words import gib, joined

FORMATS = ("table", "json", "yaml")
_UNITS = {Resource.CORE: "gpus", Resource.MEMORY: "bytes"}
_SOON_S = 1800  # of the beginning of a range
_AMOUNTS = ("allocated", "typical", "peak", "ask for")
_HEAD = ("workload", "", *_AMOUNTS, "advice", "confidence", "request")
_WORDS = {
    "too_early": "seen for less than a day",
    "unmeasured": "more than a tenth of the time is unmeasured",
    "preallocated": "it always holds the same large part of its limit, as vLLM and JAX do: what "
    "it needs of that is not known",
    "at_limit": "it used all it may have: it may need more",
    "full_card": "its card was full: it may need more",
    "not_promised": "its sharing system promises no amount",
    "no_step": "it needs less, but its sharing system is not known to have a smaller amount",
    "short_lived": "its pods, or the group, live for less than an hour",
}


def written_as(
    form: str, found: Found, since_s: int, until_s: int, width: int | None = None
) -> str:
    """The advice in one of ``FORMATS``; a table in at most ``width`` columns, if that is given."""
    if form == "table":
        lines = [_HEAD, *(_line(*one) for one in found.advice)]
        rows = _rows(lines)
        if width is not None and max(map(len, rows)) > width:
            rows = _narrow(lines, width)
        body = "\n".join(rows)
        advice = [one for _, one in found.advice]
        reasons = sorted({one.outcome.reason for one in advice if one.outcome.reason})
        notes = "".join(f"{reason}: {_WORDS[reason]}\n" for reason in reasons)
        span = f"{written(since_s)} to {written(until_s)}"
        if found.first_s - since_s > _SOON_S:
            span += f", of which nothing is known before {written(int(found.first_s))}"
        said = wrapped(f"{_freed(advice)}{notes}{_unknown_steps(advice)}", width)
        return f"{wrapped(span, width)}\n\n{body}\n\n{said}"
    document = {
        "since": written(since_s),
        "until": written(until_s),
        "first_data": written(int(found.first_s)),
        "advice": [_record(*one) for one in found.advice],
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
        "unit": _UNITS[advice.resource],
        "resource_name": wanted.name if wanted else None,
        "resource_quantity": wanted.quantity if wanted else None,
        "is_step_known": is_known(advice.scheme, advice.resource),
        "verdict": advice.outcome.verdict,
        "reason": advice.outcome.reason or None,
        "confidence": round(advice.confidence, 2),
        "observed_ratio": round(advice.observed_ratio, 4),
    }


def _rows(lines: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        gap.join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _narrow(lines: Sequence[Sequence[str]], width: int) -> list[str]:
    """The rows with the workload above its figures and the request, which is copied, below them.

    If that is too wide, the advice and its confidence are below, too.
    """
    figures = _rows([line[1:-1] for line in lines], " ")
    below = 1 if max(map(len, figures)) + 2 <= width else 3
    figures = figures if below == 1 else _rows([line[1:-below] for line in lines], " ")
    found, above = list[str](), ""
    for line, figure in zip(lines, figures, strict=True):
        found += [line[0]] if line[0] != above else []
        above = line[0]
        more = "  ".join(line[-below:-1]), line[-1]
        found += [f"  {figure}", *(f"    {one}" for one in more if one)]
    return found


def _unknown_steps(advice: Sequence[Advice]) -> str:
    """Of which systems it is not known in what steps they take an amount, or they take none."""
    changed = [
        one
        for one in advice
        if one.recommended not in {None, one.allocated} or one.outcome is SizingOutcome.NO_STEP
    ]
    unknown = [one for one in changed if not is_known(one.scheme, one.resource)]
    devices = sorted({one.scheme for one in unknown} & DEVICES)
    of = sorted({f"{one.resource} of {one.scheme}" for one in unknown if one.scheme not in DEVICES})
    said = (
        f"By {joined(devices, 9)} a pod gets whole cards, MIG instances or equal parts: take the "
        "smallest that has both amounts, if there is one (nvidia-smi mig -lgip lists MIG's).\n"
    ) * bool(devices)
    return said + f"The steps are not known of: {joined(of, 9)}.\n" * bool(of)


def _line(workload: Workload, advice: Advice) -> tuple[str, ...]:
    name = "/".join(filter(None, workload[:-1]))
    wanted = asked(advice.scheme, advice.resource, advice.recommended)
    write = "{:.0%}".format if advice.resource is Resource.CORE else gib
    amounts = (advice.allocated, advice.typical, advice.peak, advice.recommended)
    return (
        f"{name} {workload.container}".rstrip(),
        advice.resource.value,
        *("-" if amount is None else write(amount) for amount in amounts),
        advice.outcome.words,
        f"{advice.confidence:.{2 if advice.confidence < 1 else 1}f}",
        f"{wanted.name}: {wanted.quantity}" if wanted else "",
    )


def _freed(found: Sequence[Advice]) -> str:
    """What the workloads that should ask for less would give back."""
    core, memory = (
        sum(advice.freed or 0.0 for advice in found if advice.resource is resource)
        for resource in Resource
    )
    if not core and not memory:
        return ""
    return f"All that ask for less would give back {core:.2f} GPUs and {gib(memory)}.\n"
