"""What a workload should ask for, by what rules/mgpu-recording.yaml records of it.

Where a Prometheus has not these rules, or has them for a shorter time than the exporters' series,
the same is read of those. dashboards/sizing.py says the same as expressions.

The core is compressed when it is short, so a high percentile and a margin do. Memory is not: the
next step is a crash, so it is the peak and a margin. What was seen at a limit, or on a full card,
is only a lower bound. Confidence and the upper bound are those of Kubernetes' Vertical Pod
Autoscaler (kubernetes/autoscaler, recommender): a week raises the bound by a seventh.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from exporter.answers.prometheus.amounts import Resource, in_steps
from exporter.answers.prometheus.client import Labels, Prometheus, label, quoted, renamings
from exporter.answers.prometheus.ranges import written
from exporter.answers.prometheus.unrecorded import SERIES
from exporter.httpclient import NoAnswerError

LEVEL = "namespace_workload_container:"
LATELY, NOW = "1d", "1h"  # what is said of a workload at the end of a range
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3600, 60
_RECORDED_S = 900  # the rules record each 15 minutes
_SCRAPE_S = 15

# What advice goes by, here and in the expressions of dashboards/sizing.py.
DAY, LEAST_KNOWN = _DAY_S // _RECORDED_S, 0.9  # recorded steps, and the part of the time
MARGIN, HIGH = 1.15, 0.95  # on a need; the percentile that it is, and the part of a limit
FULL, SOME = 0.95, 0.05  # of vLLM's cache; of the time on a full card, which bounds the core
MOST, FLAT = 0.7, 0.98  # of what it may have; of its peak: a program that takes that at once


class Outcome(Enum):
    """A verdict on what is allocated, and the reason if nothing certain is advised: closed lists.

    The first that fits counts.
    """

    RAISE_EARLY = "raise", "too_early"
    NO_SHARE = "refused", "not_promised"
    TOO_EARLY = "refused", "too_early"
    SHORT_LIVED = "refused", "short_lived"
    UNMEASURED = "refused", "unmeasured"
    PREALLOCATED = "refused", "preallocated"
    AT_LIMIT = "at_least", "at_limit"
    FULL_CARD = "at_least", "full_card"
    NO_LIMIT = "at_least", "not_promised"
    LOWER = "lower", ""
    RAISE = "raise", ""
    KEEP = "keep", ""

    def __init__(self, verdict: str, reason: str) -> None:
        self.verdict, self.reason = verdict, reason

    @property
    def words(self) -> str:
        """Both, as a person reads them."""
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict


_OWN = {  # of what is recorded of a workload; and what replicas of a Prometheus differ by
    *("__name__", "namespace", "exported_namespace", "container", "exported_container"),
    *("owner_kind", "owner_name", "scheme", "replica", "prometheus_replica", "prometheus"),
}


class Workload(NamedTuple):
    """A container of the pods of one owner. ``cluster``: whatever a store calls it."""

    cluster: str
    namespace: str
    owner_kind: str
    owner: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to ask for. Amounts are in GPUs or bytes, of one card; None is not known.

    ``freed`` is of all cards of all pods. ``scheme`` is the sharing system that allocated.
    ``confidence`` is in days that were measured.
    """

    resource: Resource
    allocated: float | None
    typical: float | None
    peak: float | None
    recommended: float | None
    freed: float | None
    outcome: Outcome
    confidence: float
    observed_ratio: float
    scheme: str = ""


class Found(NamedTuple):
    """The advice on workloads, by name. ``first_s``: since when there was anything to go by."""

    advice: list[tuple[Workload, Advice]]
    first_s: float


_USED, _NEEDED = "mgpu_memory_used_bytes:max_15m", "mgpu_memory_needed_bytes:max_15m"
_CORE, _ALL = "mgpu_core_seconds:max_rate5m_15m", ""
# What is asked for: each figure's series, how it is made one number, and of which time; "" is all.
_OF_BOTH = {
    "cards": ("mgpu_allocations:count", "last_over_time", NOW),
    "steps": ("mgpu_lasting_pods:count", "count_over_time", _ALL),
    "lasting": ("mgpu_lasting_pods:count", "max_over_time", _ALL),
}
_ASKED = {
    Resource.CORE: {
        "known": (_CORE, "count_over_time", _ALL),
        "typical": (_CORE, "quantile_over_time(0.5, ", _ALL),
        "needed": (_CORE, f"quantile_over_time({HIGH}, ", _ALL),
        "peak": (_CORE, "max_over_time", _ALL),
        "full": ("mgpu_on_full_card:max", "count_over_time", _ALL),
        "allocated": ("mgpu_core_limit_ratio:max", "last_over_time", LATELY),
    },
    Resource.MEMORY: {
        "known": (_USED, "count_over_time", _ALL),
        "typical": (_USED, "quantile_over_time(0.5, ", _ALL),
        "peak": (_USED, "max_over_time", _ALL),
        "needed": (_NEEDED, "max_over_time", _ALL),
        "least": ("mgpu_memory_needed_bytes:min_15m", "quantile_over_time(0.5, ", _ALL),
        "full": ("mgpu_vllm_kv_cache_usage:max_15m", "max_over_time", _ALL),
        "usable": ("mgpu_memory_usable_bytes:max", "last_over_time", LATELY),
        "allocated": ("mgpu_memory_limit_bytes:max", "last_over_time", LATELY),
    },
}


def advised(
    prometheus: Prometheus,
    since_s: int,
    until_s: int,
    namespace: str = "",
    slow: Callable[[str], None] = lambda _: None,
) -> Found:
    """The advice on each workload that had an allocation in the range.

    ``slow`` receives the reason if an answer takes long.

    Raises:
        NoAnswerError: none had one.

    """
    advice: list[tuple[Workload, Advice]] = []
    firsts: list[float] = []
    for labels in renamings(namespace=namespace) if namespace else [{}]:
        equal = (f"{name}={quoted(value)}" for name, value in labels.items())
        reader = _Reader(prometheus, ",".join([*equal, *prometheus.targets]), since_s, until_s)
        if reader.first_s is None:
            continue
        firsts.append(reader.first_s)
        if not reader.is_recorded:
            before = f" from before {written(int(reader.recorded_s))}" if reader.recorded_s else ""
            slow(
                f"{prometheus.address} has no series of the rules of mgpu-recording.yaml{before}: "
                "the exporters' own are read, which takes longer and says nothing of vLLM's cache"
            )
        advice += reader.advice()
    if not advice:
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise NoAnswerError(
            f"{prometheus.address} knows no container of {where} that was allocated a GPU in this "
            "range"
        )
    return Found(sorted(advice, key=lambda one: (one[0], one[1].resource)), min(firsts))


class _Reader:
    """Reads the figures of the workloads that matchers choose, as recorded or, if need be, not."""

    def __init__(self, prometheus: Prometheus, chosen: str, since_s: int, until_s: int) -> None:
        self._prometheus, self._chosen, self._until_s = prometheus, chosen, until_s
        self._span_s = until_s - since_s
        self.recorded_s = self._first_s(f"{LEVEL}mgpu_allocations:count")
        raw_s = self._first_s("mgpu_container_allocation_info")
        known = [one for one in (self.recorded_s, raw_s) if one is not None]
        self.first_s = min(known, default=None)
        self.is_recorded = self.recorded_s is not None and (
            raw_s is None or self.recorded_s - raw_s < _HOUR_S
        )
        self._step_s = _RECORDED_S
        if not self.is_recorded and self.first_s is not None:
            # An hour that is known shall have about as many steps as a day has of recorded ones.
            known_s = until_s - int(self.first_s)
            self._step_s = min(_RECORDED_S, max(_MINUTE_S, known_s // 96 // _MINUTE_S * _MINUTE_S))
            self._span_s = known_s + self._step_s

    def advice(self) -> Iterator[tuple[Workload, Advice]]:
        """The advice on each workload that was there lately."""
        found = self._figures("mgpu_allocations:count", "last_over_time", LATELY)
        schemes = dict(found.keys())
        both = {name: self._by_workload(*asked) for name, asked in _OF_BOTH.items()}
        for resource in Resource:
            figures = {name: self._by_workload(*asked) for name, asked in _ASKED[resource].items()}
            for workload, scheme in schemes.items():
                own = {
                    name: values[workload]
                    for name, values in (both | figures).items()
                    if workload in values
                }
                advice = _advice(resource, own, scheme, _DAY_S // self._step_s)
                if advice is not None:
                    yield workload, advice

    def _first_s(self, name: str) -> float | None:
        """When the first such series was there."""
        step_s = max(300, self._span_s // 2000)
        series, first_s = f"{name}{{{self._chosen}}}", None
        # It is found to a step first, and then to a scrape.
        for there, long_s, by_s in (
            (f"last_over_time({series}[15m])", self._span_s, step_s),
            (series, step_s, _SCRAPE_S),
        ):
            at = f"count({there}) * 0 + time()"
            first = f"min_over_time(({at})[{long_s}s:{by_s}s]) or {at}"
            found = self._prometheus.at(first, first_s or self._until_s)
            said_s = found[0].samples[-1][1] if found else -1.0
            if 0 <= said_s <= self._until_s:  # a store says anything
                first_s = said_s
        return first_s

    def _by_workload(self, name: str, how: str, over: str) -> dict[Workload, float]:
        found: dict[Workload, float] = {}
        for (workload, _), value in self._figures(name, how, over).items():
            found[workload] = max(value, found.get(workload, value))
        return found

    def _figures(self, name: str, how: str, over: str) -> dict[tuple[Workload, str], float]:
        long = over or f"{self._span_s}s"
        if self.is_recorded:
            series = f"{LEVEL}{name}{{{self._chosen}}}[{long}]"
        elif name in SERIES:
            step = f"{self._step_s}s"
            series = f"({SERIES[name](self._chosen, self._step_s)})[{long}:{step}]"
        else:
            return {}
        call = how if how.endswith(" ") else f"{how}("
        found = self._prometheus.at(f"{call}{series})", self._until_s)
        return {
            (_workload(one.labels), one.labels.get("scheme", "")): one.samples[-1][1]
            for one in found
        }


def _advice(resource: Resource, own: Mapping[str, float], scheme: str, day: float) -> Advice | None:
    """The advice by the figures of a workload, of whose time ``day`` steps are a day."""
    steps, known = own.get("steps", 0.0), own.get("known", 0.0)
    needed, allocated = own.get("needed"), own.get("allocated")
    target = None
    if needed is not None:
        most = 1.0 if resource is Resource.CORE else own.get("usable", float("inf"))
        target = min(in_steps(scheme, resource, needed * MARGIN), most)
    holds = {
        **_refusals(resource, own, day),
        **_bounds(resource, own),
        # Less is advised beyond an upper bound only: the nearer, the longer it was measured.
        Outcome.LOWER: bool(known and target and allocated)
        and (allocated or 0.0) > (target or 0.0) * (1 + day / known),
        Outcome.RAISE: None not in {target, allocated} and (allocated or 0.0) < (target or 0.0),
        Outcome.KEEP: allocated is not None,
    }
    outcome = next((one for one in Outcome if holds.get(one)), None)
    if outcome is None:
        return None
    # Only LOWER takes anything away: whatever else is found, what is allocated is the least.
    recommended = None if outcome.verdict == "refused" else target
    if recommended is not None and outcome is not Outcome.LOWER:
        recommended = max(recommended, allocated or 0.0)
    freed = None
    if outcome is Outcome.LOWER and recommended is not None and "cards" in own:
        freed = ((allocated or 0.0) - recommended) * own["cards"]
    return Advice(
        resource=resource,
        allocated=allocated,
        typical=own.get("typical"),
        peak=own.get("peak"),
        recommended=recommended,
        freed=freed,
        outcome=outcome,
        confidence=known / day,
        observed_ratio=known / steps if steps else 0.0,
        scheme=scheme,
    )


def _refusals(resource: Resource, own: Mapping[str, float], day: float) -> dict[Outcome, bool]:
    """Whether nothing can be advised, by why; and whether something can although it is early."""
    steps = own.get("steps", 0.0)
    needed, allocated = own.get("needed"), own.get("allocated")
    is_flat = False
    if resource is Resource.MEMORY and needed is not None:
        have = own.get("usable", float("inf")) if allocated is None else allocated
        # A program that takes a constant part at once says nothing of its need.
        is_flat = needed >= MOST * have and own.get("least", 0.0) >= FLAT * needed
        is_flat = is_flat and own.get("full", 0.0) < FULL
    # Before a day is over nothing is certain but that more is needed: it used all it may have.
    too_early = steps < day
    return {
        Outcome.RAISE_EARLY: too_early and not is_flat and _bounds(resource, own)[Outcome.AT_LIMIT],
        Outcome.NO_SHARE: resource is Resource.CORE and allocated is None,
        Outcome.TOO_EARLY: too_early,
        Outcome.SHORT_LIVED: own.get("lasting") == 0,
        Outcome.UNMEASURED: own.get("known", 0.0) < LEAST_KNOWN * steps,
        Outcome.PREALLOCATED: is_flat,
    }


def _bounds(resource: Resource, own: Mapping[str, float]) -> dict[Outcome, bool]:
    """Whether its need may be more than was seen, by why."""
    needed, allocated, known = own.get("needed"), own.get("allocated"), own.get("known", 0.0)
    at_limit = None not in {needed, allocated} and (needed or 0.0) >= HIGH * (allocated or 0.0)
    is_core = resource is Resource.CORE
    return {
        Outcome.AT_LIMIT: at_limit or (not is_core and own.get("full", 0.0) >= FULL),
        Outcome.FULL_CARD: is_core and bool(known) and own.get("full", 0.0) / known > SOME,
        Outcome.NO_LIMIT: not is_core and needed is not None and allocated is None,
    }


def _workload(labels: Labels) -> Workload:
    added = sorted(value for name, value in labels.items() if name not in _OWN)
    return Workload(
        labels.get("cluster") or ", ".join(added),  # the cluster, or whatever a store calls it
        label(labels, "namespace"),
        labels.get("owner_kind", ""),
        labels.get("owner_name", ""),
        label(labels, "container"),
    )
