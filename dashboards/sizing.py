"""What a workload should ask for, as expressions by what rules/mgpu-recording.yaml records of it.

They say what the command ``advise`` says, by the same numbers: those, and the conditions as Python,
are in exporter/answers/prometheus/advice.py. Tests hold both together.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dashboards.frame import to
from dashboards.panels import BAD, FREE, GOOD, IDLE, LOOK, Panel, Words, stat
from dashboards.tables import Column, colored, table, tinted
from exporter.answers.prometheus.advice import (
    DAY,
    FLAT,
    FULL,
    HIGH,
    LATELY,
    LEAST_KNOWN,
    LEVEL,
    MARGIN,
    MOST,
    NOW,
    SOME,
    Outcome,
)
from exporter.answers.prometheus.amounts import UNITS, USUAL, Resource, step_of

_ALLOCATIONS, _LASTING = "mgpu_allocations:count", "mgpu_lasting_pods:count"


class _Terms(NamedTuple):
    """Of a resource: what was used (a range), what is allocated, what is needed; special cases."""

    used: str
    allocated: str
    target: str
    cases: Mapping[Outcome, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of the workloads that matchers choose, over a range of PromQL's (``7d``)."""

    cluster: str
    namespace: str
    over: str

    @property
    def allocations(self) -> str:
        """How many cards each workload was last allocated, by its sharing system."""
        return f"last_over_time({self._of(_ALLOCATIONS, LATELY)})"

    def figures(self, resource: Resource) -> Mapping[str, str]:
        """The expression of each figure: amounts of one card, but ``freed`` of all that it has.

        An outcome is its place in ``Outcome``, from 0; ``advised`` is there where it is no refusal.
        """
        terms = self._core() if resource is Resource.CORE else self._memory()
        used, allocated, target, _ = terms
        conditions = self._conditions(terms)
        refused, bound = (
            " or ".join(text for one, text in conditions.items() if one.verdict == verdict)
            for verdict in ("refused", "at_least")
        )
        # who is at his limit needs no day of data
        refused = f"({refused}) unless {conditions[Outcome.RAISE_EARLY]}"
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
                f"({allocated} - {target}) * {self._last(_ALLOCATIONS, NOW)}"
                f" and {lower} unless ({refused})"
            ),
            "advised": self._lately(f"{allocated} unless ({refused})"),
            "outcome": self._lately(" or ".join(outcomes)),
        }

    def _conditions(self, terms: _Terms) -> Mapping[Outcome, str]:
        """When each outcome holds, if none before it does."""
        used, allocated, target, cases = terms
        steps = f"count_over_time({self._of(_LASTING)})"
        known = f"(count_over_time({used}) or 0 * {steps})"
        upper = f"{target} * (1 + {DAY} / {known})"
        too_early = f"{steps} < {DAY}"
        early = f"{too_early} and ({cases[Outcome.AT_LIMIT]})"
        if taken_at_once := cases.get(Outcome.PREALLOCATED):
            early = f"{early} unless ({taken_at_once})"
        found = {
            Outcome.RAISE_EARLY: f"({early})",
            Outcome.TOO_EARLY: too_early,
            Outcome.SHORT_LIVED: f"max_over_time({self._of(_LASTING)}) == 0",
            Outcome.UNMEASURED: f"{known} / {steps} < {LEAST_KNOWN}",
            Outcome.LOWER: f"{allocated} > {upper}",
            Outcome.RAISE: f"{allocated} < {target}",
            Outcome.KEEP: allocated,
            **cases,
        }
        return {one: found[one] for one in Outcome if one in found}

    def _core(self) -> _Terms:
        used = self._of("mgpu_core_seconds:max_rate5m_15m")
        allocated = self._last("mgpu_core_limit_ratio:max")
        high = f"quantile_over_time({HIGH}, {used})"
        of_one = self._steps(Resource.CORE)
        rounded = f"clamp_min(ceil(round({high} * {MARGIN} * {of_one}, 1e-6)), 1) / {of_one}"
        return _Terms(
            used,
            allocated,
            f"clamp_max({rounded}, 1)",
            {
                Outcome.NO_SHARE: f"{self._last(_ALLOCATIONS)} unless {allocated}",
                Outcome.AT_LIMIT: f"{high} >= {HIGH} * {allocated}",
                Outcome.FULL_CARD: (
                    f"count_over_time({self._of('mgpu_on_full_card:max')})"
                    f" / count_over_time({used}) > {SOME}"
                ),
            },
        )

    def _memory(self) -> _Terms:
        """A program that takes a constant part at once says nothing of its need."""
        needed = self._of("mgpu_memory_needed_bytes:max_15m")
        allocated = self._last("mgpu_memory_limit_bytes:max")
        usable = self._last("mgpu_memory_usable_bytes:max")
        full = f"max_over_time({self._of('mgpu_vllm_kv_cache_usage:max_15m')}) >= {FULL}"
        peak = f"max_over_time({needed})"
        step = self._steps(Resource.MEMORY)
        rounded = f"clamp_min(ceil(round({peak} * {MARGIN} / {step}, 1e-6)), 1) * {step}"
        least = f"quantile_over_time(0.5, {self._of('mgpu_memory_needed_bytes:min_15m')})"
        flat = f"{peak} >= {MOST} * ({allocated} or {usable}) and {least} >= {FLAT} * {peak}"
        return _Terms(
            self._of("mgpu_memory_used_bytes:max_15m"),
            allocated,
            f"({usable} < {rounded} or {rounded})",
            {
                Outcome.PREALLOCATED: f"{flat} unless {full}",
                Outcome.AT_LIMIT: f"{full} or {peak} >= {HIGH} * {allocated}",
                Outcome.NO_LIMIT: f"{peak} unless {allocated}",
            },
        )

    def _steps(self, resource: Resource) -> str:
        """Of each workload's sharing system: how many steps a GPU's core has; a step's bytes."""

        def number(step: float) -> int:
            return round(1 / step) if resource is Resource.CORE else round(step)

        # Of all namespaces: a row is looked up for those that are chosen. So the expression is
        # shorter, for a board has to fit into a ConfigMap.
        def last_count(of_schemes: str) -> str:
            counts = f"{LEVEL}{_ALLOCATIONS}{{{self.cluster}{of_schemes}}}"
            return f"last_over_time({counts}[{LATELY}])"

        coarse: dict[float, list[str]] = defaultdict(list)
        for scheme in sorted({scheme for scheme, of in UNITS if of is resource}):
            coarse[step_of(scheme, resource)].append(scheme)
        usual = USUAL[resource]
        coarse.pop(usual, None)
        found = []
        for step, schemes in coarse.items():
            names = "|".join(schemes)
            counts = last_count(f',scheme=~"{names}"')
            found.append(f"{counts} * 0 + {number(step)}")
        found.append(f"{last_count('')} * 0 + {number(usual)}")
        coarser = "min" if resource is Resource.CORE else "max"
        return f"{coarser} without (scheme) ({' or '.join(found)})"

    def _of(self, name: str, over: str = "") -> str:
        return f"{LEVEL}{name}{{{self.cluster},{self.namespace}}}[{over or self.over}]"

    def _last(self, name: str, over: str = LATELY) -> str:
        """The last value, without the series' name, by which rows of a table would fall apart."""
        return f"max without (scheme) (last_over_time({self._of(name, over)}))"

    def _lately(self, expression: str) -> str:
        """Of the workloads that were there lately."""
        return f"({expression}) and {self._last(_ALLOCATIONS)}"


BY_WORKLOAD = "cluster, $namespace_label, owner_kind, owner_name, $container_label"
# Of the last week, because a shorter range says nothing of need. The rules know no job and no node.
SIZING_RANGE = "7d"
SIZING = Recorded('cluster=~"$cluster"', '$namespace_label=~"$namespace"', "$__range")
NOT_RECORDED = "The recording rules have seen no allocation"
_VERDICTS = {
    "lower": IDLE,
    "raise": BAD,
    "keep": GOOD,
    "at_least": LOOK,
    "refused": FREE,
}
ADVICE: Words = {str(code): (one.words, _VERDICTS[one.verdict]) for code, one in enumerate(Outcome)}


def freed(resource: Resource, unit: str) -> Panel:
    """What all lower advice together gives back."""
    found = SIZING.figures(resource)
    return stat(
        f"{resource.title()} that could be freed",
        f"What all workloads whose advice is to lower their {resource} would give back, in "
        f"{'GPUs' if resource is Resource.CORE else 'bytes of device memory'}.",
        # none is not nothing where all advice is refused
        f"sum({found['freed']}) or 0 * sum({found['advised']})",
        unit,
        nothing="No workload has advice",
        width=12,
    ).time_from(SIZING_RANGE)


def to_ask_for(resource: Resource, unit: str, of_all: str) -> Panel:
    """A row for each workload: what it has, what it used, what it should ask for."""
    figures = {
        name: f"max by ({BY_WORKLOAD}) ({expr})"  # one name of each label, or rows fall apart
        for name, expr in SIZING.figures(resource).items()
    }
    return table(
        f"{resource.title()} to ask for",
        "What the command advise says, by the same rules: amounts are of one card, what could be "
        "freed is of all pods and cards. docs/your-pods.md says what the advice means.",
        {
            "namespace": "Namespace",
            "owner_kind": "Kind",
            "owner_name": "Owner",
            "container": "Container",
        },
        [
            Column("Could be freed", figures["freed"], of_all, tinted(((None, IDLE),))),
            Column("Allocated", figures["allocated"], unit),
            Column("Typical", figures["typical"], unit),
            Column("Peak", figures["peak"], unit),
            Column("Ask for", figures["recommended"], unit),
            Column("Advice", figures["outcome"], "short", colored(words=ADVICE)),
        ],
        links={"Namespace": to("overview", "overview", namespace="${__value.raw}")},
        nothing=NOT_RECORDED,
        known=SIZING.allocations,
    ).time_from(SIZING_RANGE)
