"""What a container should ask for, by what was seen of it: core and memory, or a refusal. Pure.

The core is compressed when it is short, so a high percentile and a margin do. Memory is not: the
next step is a crash, so it is the peak and a margin. What was seen at a limit, or on a full card,
is only a lower bound. Confidence, half-life and bounds are those of Kubernetes' Vertical Pod
Autoscaler (kubernetes/autoscaler, recommender): a week raises the upper bound by a seventh.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, isclose
from typing import NamedTuple

MARGIN = 1.15
TYPICAL, HIGH = 0.5, 0.95  # percentiles of the core
HALF_LIFE_S = 86_400
DAY_S, SHORT_S = 86_400, 3600
MOST_UNMEASURED = 0.1  # of the time
AT_LIMIT, FULL = 0.95, 0.95  # of the share, of the card
CENSORED = 0.05  # of the time: on a full card for longer than this
FLAT, POOLED = 0.02, 0.7  # a pool varies by less, and is at least this part of its limit
PERCENT, MIB = 0.01, 1 << 20


class Verdict(StrEnum):
    """What to do with the amount that is allocated."""

    LOWER = "lower"
    RAISE = "raise"
    KEEP = "keep"
    AT_LEAST = "at_least"
    REFUSED = "refused"


class Reason(StrEnum):
    """Why nothing certain is advised. A closed list."""

    TOO_EARLY = "too_early"
    UNMEASURED = "unmeasured"
    PREALLOCATED = "preallocated"
    AT_LIMIT = "at_limit"
    FULL_CARD = "full_card"
    NOT_PROMISED = "not_promised"
    SHORT_LIVED = "short_lived"


class Resource(StrEnum):
    """What is advised on."""

    CORE = "core"
    MEMORY = "memory"


UNITS = {Resource.CORE: "gpus", Resource.MEMORY: "bytes"}


class Point(NamedTuple):
    """A step of a pod's container: seconds before the range's end, and its use of one card.

    Of several cards it is the card that it used most. ``card``: how busy that card was.
    """

    age_s: float
    used: float
    card: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of a container of a workload, over all its pods.

    ``allocated`` is of one card, None where nothing is promised. ``whole``: the most that one card
    can give. ``present`` steps is how many it was there for; ``life_s`` is from the first to the
    last of them, ``longest_s`` that of its longest pod. ``pool_bytes`` and ``pool_used``: its pool
    of memory and the most that was used of it, if the program says.
    """

    resource: Resource
    allocated: float | None
    points: Sequence[Point]
    present: int
    step_s: int
    life_s: float
    longest_s: float
    ended: bool = False
    whole: float | None = None
    pool_bytes: float | None = None
    pool_used: float | None = None
    scheme: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to ask for. Amounts are in GPUs or bytes, of one card; None is not known.

    ``scheme`` is the sharing system that allocated; "" if it is not known.
    """

    resource: Resource
    allocated: float | None
    typical: float | None
    peak: float | None
    recommended: float | None
    verdict: Verdict
    reason: Reason | None
    confidence: float
    observed_ratio: float
    scheme: str = ""


def advise(seen: Seen) -> Advice:
    """The advice, or a refusal with its reason."""
    values = [point.used for point in seen.points]
    made = Advice(
        resource=seen.resource,
        allocated=seen.allocated,
        typical=percentile(seen.points, TYPICAL) if values else None,
        peak=max(values, default=None),
        recommended=None,
        verdict=Verdict.REFUSED,
        reason=_refusal(seen),
        confidence=confidence(seen),
        observed_ratio=len(values) / seen.present if seen.present else 0.0,
        scheme=seen.scheme,
    )
    if made.reason is not None:
        return made
    return _of_core(seen, made) if seen.resource is Resource.CORE else _of_memory(seen, made)


def confidence(seen: Seen) -> float:
    """VPA's: days of life, or as many full days as there are samples, whichever is less."""
    return min(seen.life_s / DAY_S, len(seen.points) * seen.step_s / DAY_S)


def _refusal(seen: Seen) -> Reason | None:
    if seen.resource is Resource.CORE and seen.allocated is None:
        return Reason.NOT_PROMISED
    if seen.longest_s < SHORT_S and (seen.ended or seen.life_s >= DAY_S):
        return Reason.SHORT_LIVED
    if seen.life_s < DAY_S:
        return Reason.TOO_EARLY
    if len(seen.points) < (1 - MOST_UNMEASURED) * seen.present:
        return Reason.UNMEASURED
    return None


def _of_core(seen: Seen, made: Advice) -> Advice:
    high = percentile(seen.points, HIGH)
    target = rounded(max(high * MARGIN, PERCENT), PERCENT)
    share = seen.allocated or 0.0
    on_full = [point for point in seen.points if (point.card or 0.0) >= FULL and point.used > 0]
    if high >= AT_LIMIT * share:
        return _at_least(seen, made, target, Reason.AT_LIMIT)
    if len(on_full) > CENSORED * len(seen.points):
        return _at_least(seen, made, target, Reason.FULL_CARD)
    return _judged(seen, made, target)


def _of_memory(seen: Seen, made: Advice) -> Advice:
    peak = made.peak or 0.0
    limit = seen.allocated or seen.whole
    target = rounded(max(peak * MARGIN, MIB), MIB)
    if limit and _is_pool(seen, limit):
        if seen.pool_used is None:
            return replace(made, reason=Reason.PREALLOCATED)
        if seen.pool_used >= AT_LIMIT:
            return _at_least(seen, made, target, Reason.AT_LIMIT)
        if seen.pool_bytes is None:
            return replace(made, reason=Reason.PREALLOCATED)
        need = peak - min(seen.pool_bytes, peak) * (1 - seen.pool_used)
        target = rounded(max(need * MARGIN, MIB), MIB)
    elif seen.allocated and peak >= AT_LIMIT * seen.allocated:
        return _at_least(seen, made, target, Reason.AT_LIMIT)
    if seen.allocated is None:
        return _at_least(seen, made, target, Reason.NOT_PROMISED)
    return _judged(seen, made, target)


def _is_pool(seen: Seen, limit: float) -> bool:
    """Whether it holds a constant part of its limit, as programs do that take all at once."""
    held = sorted(point.used for point in seen.points if point.used > 0)
    if not held:
        return False
    low, high = held[int(len(held) * CENSORED)], held[-1]  # while it starts, it holds less
    return high >= POOLED * limit and high - low <= FLAT * high


def _at_least(seen: Seen, made: Advice, target: float, reason: Reason) -> Advice:
    """A lower bound. It never lowers what is allocated."""
    recommended = _capped(seen, max(target, seen.allocated or 0.0))
    return replace(made, recommended=recommended, verdict=Verdict.AT_LEAST, reason=reason)


def _judged(seen: Seen, made: Advice, target: float) -> Advice:
    """Keep what is allocated if it is within VPA's bounds."""
    allocated, target = seen.allocated or 0.0, _capped(seen, target)
    upper = target * (1 + 1 / made.confidence)
    lower = target * (1 + 0.001 / made.confidence) ** -2
    if allocated > upper:
        return replace(made, recommended=target, verdict=Verdict.LOWER)
    if allocated < lower:
        return replace(made, recommended=target, verdict=Verdict.RAISE)
    return replace(made, recommended=allocated, verdict=Verdict.KEEP)


def _capped(seen: Seen, amount: float) -> float:
    """Not more than a card has, and not less than what is allocated of it already."""
    if seen.whole is None:
        return amount
    return min(amount, max(seen.whole, seen.allocated or 0.0))


def percentile(points: Sequence[Point], part: float) -> float:
    """The value that this part of the weight is not above. Weight halves with each day of age."""
    ordered = sorted((point.used, 0.5 ** (point.age_s / HALF_LIFE_S)) for point in points)
    wanted = part * sum(weight for _, weight in ordered)
    counted = 0.0
    for value, weight in ordered:
        counted += weight
        if counted >= wanted:
            return value
    return ordered[-1][0]


def rounded(amount: float, unit: float) -> float:
    """Up to whole units."""
    count = round(amount / unit) if isclose(amount / unit, round(amount / unit)) else amount / unit
    return round(ceil(count) * unit, 9)
