"""What a workload should ask for, by what rules/mgpu-recording.yaml records of it.

Each figure is one expression, so that a dashboard shows what the command ``advise`` prints.

The core is compressed when it is short, so a high percentile and a margin do. Memory is not: the
next step is a crash, so it is the peak and a margin. What was seen at a limit, or on a full card,
is only a lower bound. Confidence and the upper bound are those of Kubernetes' Vertical Pod
Autoscaler (kubernetes/autoscaler, recommender): a week raises the bound by a seventh.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple

from exporter.answers.prometheus.client import Labels, Prometheus, label, quoted, renamings
from exporter.httpclient import NoAnswerError

_LEVEL = "namespace_workload_container:"
_ALLOCATIONS, _LASTING = "mgpu_allocations:count", "mgpu_lasting_pods:count"
_DAY = 96  # steps: the rules record each 15 minutes
_LATELY, _NOW = "1d", "1h"  # what is said of a workload at the end of a range


class Outcome(Enum):
    """A verdict on what is allocated, and the reason if nothing certain is advised: closed lists.

    The first that fits counts. The figure "outcome" is their place, from 0.
    """

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


class Resource(StrEnum):
    """What is advised on."""

    CORE = "core"
    MEMORY = "memory"


UNITS = {Resource.CORE: "gpus", Resource.MEMORY: "bytes"}
# Of systems that take core in steps of more than a per cent of a card, the step in per cent.
# qGPU: 5, 10, 15 and so on to 100 (Tencent Cloud, documents 457/59103 and 457/65734).
CORE_STEPS = {"tke-qgpu": 5}


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


class _Terms(NamedTuple):
    """Of a resource: what was used (a range), what is allocated, what is needed; special cases."""

    used: str
    allocated: str
    target: str
    cases: Mapping[Outcome, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of the workloads that matchers choose, over a range of PromQL's (``7d``)."""

    chosen: str
    over: str

    @property
    def allocations(self) -> str:
        """How many cards each workload was last allocated, by its sharing system."""
        return f"last_over_time({self._of(_ALLOCATIONS, _LATELY)})"

    def figures(self, resource: Resource) -> Mapping[str, str]:
        """The expression of each figure: amounts of one card, but ``freed`` of all that it has."""
        terms = self._core() if resource is Resource.CORE else self._memory()
        used, allocated, target, _ = terms
        known, share = self._known(used)
        conditions = self._conditions(terms)
        refused, bound = (
            " or ".join(text for one, text in conditions.items() if one.verdict == verdict)
            for verdict in ("refused", "at_least")
        )
        lower = f"({conditions[Outcome.LOWER]} unless ({bound}))"
        outcomes = (f"({text}) * 0 + {[*Outcome].index(one)}" for one, text in conditions.items())
        return {
            "allocated": allocated,
            "typical": self._lately(f"quantile_over_time(0.5, {used})"),
            "peak": self._lately(f"max_over_time({used})"),
            "recommended": self._lately(
                f"(({allocated} > {target} unless {lower}) or {target}) unless ({refused})"
            ),
            "freed": (
                f"({allocated} - {target}) * {self._last(_ALLOCATIONS, _NOW)}"
                f" and {lower} unless ({refused})"
            ),
            "outcome": self._lately(" or ".join(outcomes)),
            "confidence": f"{known} / {_DAY}",
            "observed_ratio": share,
        }

    def _known(self, used: str) -> tuple[str, str]:
        """In how many steps the use was known, and their part of all steps."""
        steps = f"count_over_time({self._of(_LASTING)})"
        known = f"(count_over_time({used}) or 0 * {steps})"
        return known, f"{known} / {steps}"

    def _conditions(self, terms: _Terms) -> Mapping[Outcome, str]:
        """When each outcome holds, if none before it does."""
        used, allocated, target, cases = terms
        known, share = self._known(used)
        upper = f"{target} * (1 + {_DAY} / {known})"
        found = {
            Outcome.TOO_EARLY: f"count_over_time({self._of(_LASTING)}) < {_DAY}",
            Outcome.SHORT_LIVED: f"max_over_time({self._of(_LASTING)}) == 0",
            Outcome.UNMEASURED: f"{share} < 0.9",
            Outcome.LOWER: f"{allocated} > {upper}",
            Outcome.RAISE: f"{allocated} < {target}",
            Outcome.KEEP: allocated,
            **cases,
        }
        return {one: found[one] for one in Outcome if one in found}

    def _core(self) -> _Terms:
        used = self._of("mgpu_core_seconds:max_rate5m_15m")
        allocated = self._last("mgpu_core_limit_ratio:max")
        high = f"quantile_over_time(0.95, {used})"
        target = _rounded(high, "* 100", "/ 100")
        for scheme, step in CORE_STEPS.items():
            in_steps = _rounded(high, f"* {100 // step}", f"/ {100 // step}")
            target = f"({in_steps} and {self._of_scheme(scheme)} or {target})"
        return _Terms(
            used,
            allocated,
            f"clamp_max({target}, 1)",
            {
                Outcome.NO_SHARE: f"{self._last(_ALLOCATIONS)} unless {allocated}",
                Outcome.AT_LIMIT: f"{high} >= 0.95 * {allocated}",
                Outcome.FULL_CARD: (
                    f"count_over_time({self._of('mgpu_on_full_card:max')})"
                    f" / count_over_time({used}) > 0.05"
                ),
            },
        )

    def _memory(self) -> _Terms:
        """A program that takes a constant part at once says nothing of its need."""
        needed = self._of("mgpu_memory_needed_bytes:max_15m")
        allocated = self._last("mgpu_memory_limit_bytes:max")
        usable = self._last("mgpu_memory_usable_bytes:max")
        full = f"max_over_time({self._of('mgpu_vllm_kv_cache_usage:max_15m')}) >= 0.95"
        peak = f"max_over_time({needed})"
        rounded = _rounded(peak, "/ 1048576", "* 1048576")
        least = f"quantile_over_time(0.5, {self._of('mgpu_memory_needed_bytes:min_15m')})"
        flat = f"{peak} >= 0.7 * ({allocated} or {usable}) and {least} >= 0.98 * {peak}"
        return _Terms(
            self._of("mgpu_memory_used_bytes:max_15m"),
            allocated,
            f"({usable} < {rounded} or {rounded})",
            {
                Outcome.PREALLOCATED: f"{flat} unless {full}",
                Outcome.AT_LIMIT: f"{full} or {peak} >= 0.95 * {allocated}",
                Outcome.NO_LIMIT: f"{peak} unless {allocated}",
            },
        )

    def _of(self, name: str, over: str = "") -> str:
        return f"{_LEVEL}{name}{{{self.chosen}}}[{over or self.over}]"

    def _last(self, name: str, over: str = _LATELY) -> str:
        """The last value, without the series' name, by which rows of a table would fall apart."""
        return f"max without (scheme) (last_over_time({self._of(name, over)}))"

    def _of_scheme(self, scheme: str) -> str:
        """The workloads that this sharing system allocated to."""
        chosen = ",".join(filter(None, (self.chosen, f'scheme="{scheme}"')))
        last = f"last_over_time({_LEVEL}{_ALLOCATIONS}{{{chosen}}}[{_LATELY}])"
        return f"max without (scheme) ({last})"

    def _lately(self, expression: str) -> str:
        """Of the workloads that were there lately."""
        return f"({expression}) and {self._last(_ALLOCATIONS)}"


def _rounded(need: str, divided: str, multiplied: str) -> str:
    """The need and 15 %, up to whole units, at least one."""
    return f"clamp_min(ceil(round({need} * 1.15 {divided}, 0.000001)), 1) {multiplied}"


def advised(
    prometheus: Prometheus, since_s: int, until_s: int, namespace: str = ""
) -> list[tuple[Workload, Advice]]:
    """The advice on each workload that had an allocation in the range, by name.

    Raises:
        NoAnswerError: the rules recorded none.

    """
    advice: list[tuple[Workload, Advice]] = []
    is_known = False
    for labels in renamings(namespace=namespace) if namespace else [{}]:
        equal = (f"{name}={quoted(value)}" for name, value in labels.items())
        recorded = Recorded(",".join([*equal, *prometheus.targets]), f"{until_s - since_s}s")
        schemes = {
            _workload(one.labels): one.labels.get("scheme", "")
            for one in prometheus.at(recorded.allocations, until_s)
        }
        if not schemes:
            continue
        is_known = True
        found = {one: _figures(prometheus, recorded, one, until_s) for one in Resource}
        advice += [
            (workload, _advice(resource, figures, outcome, schemes[workload]))
            for workload in sorted(schemes)
            for resource in Resource
            if (figures := found[resource].get(workload)) and (outcome := _outcome(figures))
        ]
    if not is_known:
        where = f"namespace {namespace}" if namespace else "any namespace"
        raise NoAnswerError(
            f"{prometheus.address} knows no container of {where} that was allocated a GPU in this "
            "range, by the rules of mgpu-recording.yaml, which look every 15 minutes"
        )
    return advice


def _figures(
    prometheus: Prometheus, recorded: Recorded, resource: Resource, until_s: int
) -> Mapping[Workload, Mapping[str, float]]:
    found: dict[Workload, dict[str, float]] = defaultdict(dict)
    for name, expression in recorded.figures(resource).items():
        for one in prometheus.at(expression, until_s):
            found[_workload(one.labels)][name] = one.samples[-1][1]
    return found


def _outcome(figures: Mapping[str, float]) -> Outcome | None:
    """The outcome of this number; None for one that is not listed."""
    return dict[float, Outcome](enumerate(Outcome)).get(figures.get("outcome", -1.0))


def _advice(
    resource: Resource, figures: Mapping[str, float], outcome: Outcome, scheme: str
) -> Advice:
    amounts = {
        name: figures.get(name) for name in ("allocated", "typical", "peak", "recommended", "freed")
    }
    return Advice(
        resource=resource,
        **amounts,
        outcome=outcome,
        confidence=figures.get("confidence", 0.0),
        observed_ratio=figures.get("observed_ratio", 0.0),
        scheme=scheme,
    )


def _workload(labels: Labels) -> Workload:
    return Workload(
        _store_of(labels),
        label(labels, "namespace"),
        labels.get("owner_kind", ""),
        labels.get("owner_name", ""),
        label(labels, "container"),
    )


def _store_of(labels: Labels) -> str:
    """The cluster: its label, or else all labels that a store added."""
    added = sorted(value for name, value in labels.items() if name not in _OWN)
    return labels.get("cluster") or ", ".join(added)
