"""The rules by which a workload's need is judged, stated once. Pure.

``advise`` works them out. The rules of mgpu-recording.yaml that the board shows are written from
them by rules/generate.py.

The core is compressed when it is short, so a high percentile and a margin do. Memory is not: the
next step is a crash, so it is the peak and a margin. What was seen at a limit, or on a full card,
is only a lower bound. Confidence and the upper bound are those of Kubernetes' Vertical Pod
Autoscaler (kubernetes/autoscaler, recommender): a week raises the bound by a seventh.
"""

from collections.abc import Mapping
from enum import Enum
from functools import reduce
from typing import NamedTuple

from exporter.answers.advise.amounts import Resource
from exporter.answers.advise.formula import Formula, figure, steps

LEVEL = "namespace_workload_container:"
LATELY, NOW, WHOLE = "1d", "1h", ""  # of the end of a range; all of it
RECORDED_S = 900  # of one value of what is recorded

LEAST_KNOWN = 0.9  # the part of the time
MARGIN, HIGH = 1.15, 0.95  # on a need; the percentile that it is, and the part of a limit
FULL, SOME = 0.95, 0.05  # of vLLM's cache; of the time on a full card, which bounds the core
MOST, FLAT = 0.7, 0.98  # of what it may have; of its peak: a program that takes that at once


class SizingOutcome(Enum):
    """A verdict on what is allocated, and the reason if nothing certain is advised: closed lists.

    The first that fits counts. Refusals stand together.
    """

    # Rules record the place of an outcome in this list, and ``_is_refused`` is a range of them: one
    # that is put in between changes what stored samples mean.
    RAISE_EARLY = "raise", "too_early"
    NO_SHARE = "refused", "not_promised"
    TOO_EARLY = "refused", "too_early"
    SHORT_LIVED = "refused", "short_lived"
    UNMEASURED = "refused", "unmeasured"
    PREALLOCATED = "refused", "preallocated"
    AT_LIMIT = "at_least", "at_limit"
    FULL_CARD = "at_least", "full_card"
    NO_LIMIT = "at_least", "not_promised"
    NO_STEP = "keep", "no_step"
    LOWER = "lower", ""
    RAISE = "raise", ""
    KEEP = "keep", ""

    def __init__(self, verdict: str, reason: str) -> None:
        self.verdict, self.reason = verdict, reason

    @property
    def words(self) -> str:
        """Both, as a person reads them."""
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict

    @property
    def code(self) -> int:
        """Its place, from 0: its value where it is recorded."""
        return [*SizingOutcome].index(self)


class AskedFigure(NamedTuple):
    """A figure: what is recorded of a workload, how it is made one number, and of which time."""

    series: str
    how: str
    over: str = WHOLE


_CORE, _USED = "mgpu_core_seconds:max_rate5m_15m", "mgpu_memory_used_bytes:max_15m"
_NEEDED, _PODS = "mgpu_memory_needed_bytes:max_15m", "mgpu_lasting_pods:count"
CARDS = "mgpu_allocations:count"
# Amounts are of one card. Figures too are: ``day``, the values of a day; ``by``, the steps of one
# unit that the sharing system has; ``stepped``, there if these are known; ``smallest``, an amount.
_OF_BOTH = {
    "there": AskedFigure(CARDS, "last_over_time", LATELY),
    "cards": AskedFigure(CARDS, "last_over_time", NOW),
    "steps": AskedFigure(_PODS, "count_over_time"),
    "lasting": AskedFigure(_PODS, "max_over_time"),
}
FIGURES: Mapping[Resource, Mapping[str, AskedFigure]] = {
    Resource.CORE: {
        **_OF_BOTH,
        "known": AskedFigure(_CORE, "count_over_time"),
        "typical": AskedFigure(_CORE, "quantile_over_time(0.5, "),
        "needed": AskedFigure(_CORE, f"quantile_over_time({HIGH}, "),
        "peak": AskedFigure(_CORE, "max_over_time"),
        "full": AskedFigure("mgpu_on_full_card:max", "count_over_time"),
        "allocated": AskedFigure("mgpu_core_limit_ratio:max", "last_over_time", LATELY),
    },
    Resource.MEMORY: {
        **_OF_BOTH,
        "known": AskedFigure(_USED, "count_over_time"),
        "typical": AskedFigure(_USED, "quantile_over_time(0.5, "),
        "peak": AskedFigure(_USED, "max_over_time"),
        "needed": AskedFigure(_NEEDED, "max_over_time"),
        "least": AskedFigure("mgpu_memory_needed_bytes:min_15m", "quantile_over_time(0.5, "),
        "full": AskedFigure("mgpu_vllm_kv_cache_usage:max_15m", "max_over_time"),
        "usable": AskedFigure("mgpu_memory_usable_bytes:max", "last_over_time", LATELY),
        "allocated": AskedFigure("mgpu_memory_limit_bytes:max", "last_over_time", LATELY),
    },
}

_needed, _allocated, _usable = figure("needed"), figure("allocated"), figure("usable")
_steps, _day, _full, _by = figure("steps"), figure("day"), figure("full"), figure("by")
_known = figure("known")
_target, _outcome = figure("target"), figure("outcome")
_stepped = steps(_needed * MARGIN, _by) / _by
_no_less = (figure("smallest") > figure("rounded")).or_(figure("rounded"))
_is_too_much = _allocated > _target * (_day / _known + 1)
_is_full = _full >= FULL  # vLLM's cache
# A program that takes a constant part at once says nothing of its need.
_is_flat = (_needed >= _allocated.or_(_usable) * MOST).and_(figure("least") >= _needed * FLAT)
_is_lower = _outcome.is_(SizingOutcome.LOWER.code)
_is_refused = (_outcome > SizingOutcome.NO_SHARE.code - 1) < SizingOutcome.PREALLOCATED.code + 1

_CASES: Mapping[Resource, Mapping[SizingOutcome, Formula]] = {
    Resource.CORE: {
        SizingOutcome.NO_SHARE: figure("there").unless(_allocated),
        SizingOutcome.AT_LIMIT: _needed >= _allocated * HIGH,
        SizingOutcome.FULL_CARD: _full / _known > SOME,
    },
    Resource.MEMORY: {
        SizingOutcome.PREALLOCATED: figure("preallocated"),
        SizingOutcome.AT_LIMIT: _is_full.or_(_needed >= _allocated * HIGH),
        SizingOutcome.NO_LIMIT: _needed.unless(_allocated),
    },
}


def _outcomes(cases: Mapping[SizingOutcome, Formula]) -> Formula:
    """The first outcome that holds, as its code."""
    too_early = _steps < _day
    # Before a day is over nothing is certain but that more is needed: it used all it may have.
    early = too_early.and_(cases[SizingOutcome.AT_LIMIT])
    if preallocated := cases.get(SizingOutcome.PREALLOCATED):
        early = early.unless(preallocated)
    holds = {
        SizingOutcome.RAISE_EARLY: early,
        SizingOutcome.TOO_EARLY: too_early,
        SizingOutcome.SHORT_LIVED: figure("lasting").is_(0),
        SizingOutcome.UNMEASURED: _known.or_(_steps * 0) / _steps < LEAST_KNOWN,
        # Less is advised beyond an upper bound only: the nearer, the longer it was measured.
        # Where no smaller step is known, as below a whole card or a MIG instance, none is promised.
        SizingOutcome.NO_STEP: _is_too_much.unless(figure("stepped")),
        SizingOutcome.LOWER: _is_too_much,
        SizingOutcome.RAISE: _allocated < _target,
        SizingOutcome.KEEP: _allocated,
        **cases,
    }
    codes = [holds[one] * 0 + one.code for one in SizingOutcome if one in holds]
    return reduce(Formula.or_, codes).and_(figure("there"))


# What several formulas need of a resource: it is found once.
_BEFORE: Mapping[Resource, Mapping[str, Formula]] = {
    Resource.CORE: {"target": _stepped.at_most(1)},  # no system has a smallest amount of it
    Resource.MEMORY: {
        "rounded": _stepped,
        "target": (_usable < _no_less).or_(_no_less),
        "preallocated": _is_flat.unless(_is_full),
    },
}
# What follows from the figures, each also from the ones before it.
FOLLOWING: Mapping[Resource, Mapping[str, Formula]] = {
    resource: {
        **_BEFORE[resource],
        "outcome": _outcomes(cases),
        # Only LOWER takes anything away: whatever else is found, what is allocated is the least.
        "recommended": (_allocated > _target).unless(_is_lower).or_(_target).unless(_is_refused),
        # of all cards of all pods
        "freed": ((_allocated - _target) * figure("cards")).and_(_is_lower),
    }
    for resource, cases in _CASES.items()
}
