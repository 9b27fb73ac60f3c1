"""What a workload should ask for, by what rules/mgpu-recording.yaml records of it.

Where a Prometheus has not these rules, or has them for a shorter time than the exporters' series,
the same is read of those.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from exporter.answers.advise.amounts import KERNEL, Resource, is_known, smallest_of, steps_of_unit
from exporter.answers.advise.sizing import (
    CARDS,
    FIGURES,
    FOLLOWING,
    LATELY,
    LEVEL,
    RECORDED_S,
    SizingOutcome,
)
from exporter.answers.advise.unrecorded import GROUP_SERIES, LIMITED, SERIES
from exporter.answers.reading.queryapi import Labels, Prometheus, label, quoted, renamings
from exporter.answers.reading.ranges import written
from exporter.httpclient import NoAnswerError

_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3600, 60
_SCRAPE_S = 15
_OFTEN = "namespace:mgpu_core_seconds:sum_rate5m"  # a rule of the same file records it

_OWN = {  # of what is recorded of a workload; and what replicas of a Prometheus differ by
    *("__name__", "namespace", "exported_namespace", "container", "exported_container"),
    *("owner_kind", "owner_name", "scheme", "replica", "prometheus_replica", "prometheus"),
}


class Workload(NamedTuple):
    """A container of the pods of one owner; or a group, its kind and name as the owner's.

    ``cluster``: whatever a store calls it.
    """

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
    outcome: SizingOutcome
    confidence: float
    observed_ratio: float
    scheme: str = ""


class Found(NamedTuple):
    """The advice on workloads, by name. ``first_s``: since when there was anything to go by."""

    advice: list[tuple[Workload, Advice]]
    first_s: float


def advised(
    prometheus: Prometheus,
    since_s: int,
    until_s: int,
    namespace: str = "",
    slow: Callable[[str], None] = lambda _: None,
) -> Found:
    """The advice on each workload that had an allocation in the range.

    Without a namespace also on the groups that the kernel holds to an amount of memory.

    ``slow`` receives the reason if an answer takes long.

    Raises:
        NoAnswerError: none had one.

    """
    advice: list[tuple[Workload, Advice]] = []
    firsts: list[float] = []
    for labels in renamings(namespace=namespace) if namespace else [{}]:
        equal = (f"{name}={quoted(value)}" for name, value in labels.items())
        reader = _FigureReader(
            prometheus, ",".join([*equal, *prometheus.targets]), since_s, until_s
        )
        if reader.first_s is None:
            continue
        firsts.append(reader.first_s)
        if not reader.is_recorded:
            slow(
                f"{reader.lack()}: the exporters' own series are read, which takes longer and says "
                "nothing of vLLM's cache"
            )
        advice += reader.advice()
    if not namespace:
        matchers = ",".join(prometheus.targets)
        reader = _FigureReader(prometheus, matchers, since_s, until_s, of_groups=True)
        if reader.first_s is not None:
            firsts.append(reader.first_s)
            advice += reader.advice()
    if not advice:
        where = f"namespace {namespace}" if namespace else "any namespace"
        groups_too = "" if namespace else ", and no group (job, Docker container) with a limit"
        raise NoAnswerError(
            f"{prometheus.address} knows no container of {where} that was allocated a GPU in this "
            f"range{groups_too}"
        )
    return Found(sorted(advice, key=lambda one: (one[0], one[1].resource)), min(firsts))


class _FigureReader:
    """Reads the figures of the workloads that matchers choose, as recorded or, if need be, not.

    ``of_groups``: of the groups with a limit instead, which no rule records.
    """

    def __init__(
        self,
        prometheus: Prometheus,
        chosen: str,
        since_s: int,
        until_s: int,
        *,
        of_groups: bool = False,
    ) -> None:
        self._series = GROUP_SERIES if of_groups else SERIES
        self._prometheus, self._chosen, self._until_s = prometheus, chosen, until_s
        self._span_s = until_s - since_s
        self.recorded_s = None if of_groups else self._first_s(f"{LEVEL}{CARDS}")
        raw_s = self._first_s(LIMITED if of_groups else "mgpu_container_allocation_info")
        known = [one for one in (self.recorded_s, raw_s) if one is not None]
        self.first_s = min(known, default=None)
        # What the exporters had before the rules recorded is in no recorded series, and would be
        # missing.
        self.is_recorded = self.recorded_s is not None and (
            raw_s is None or self.recorded_s - raw_s < _HOUR_S
        )
        self._step_s = RECORDED_S
        if not self.is_recorded and self.first_s is not None:
            # An hour that is known shall have about as many steps as a day has of recorded ones.
            known_s = until_s - int(self.first_s)
            self._step_s = min(RECORDED_S, max(_MINUTE_S, known_s // 96 // _MINUTE_S * _MINUTE_S))
            self._span_s = known_s + self._step_s

    def lack(self) -> str:
        """Why what the rules record is not read."""
        where, rules = self._prometheus.address, "the rules of mgpu-recording.yaml"
        if self.recorded_s:
            return f"{where} has no series of {rules} from before {written(int(self.recorded_s))}"
        if self._prometheus.at(f"count({_OFTEN}{{{self._chosen}}})", self._until_s):
            return f"{rules} have recorded no workload in {where} yet: they do every 15 minutes"
        return f"{where} has no series of {rules}"

    def advice(self) -> Iterator[tuple[Workload, Advice]]:
        """The advice on each workload that was there lately."""
        schemes: dict[Workload, list[str]] = defaultdict(list)
        for workload, scheme in self._figures(CARDS, "last_over_time", LATELY):
            schemes[workload].append(KERNEL if self._series is GROUP_SERIES else scheme)
        for resource, asked in FIGURES.items():
            if asked["allocated"].series not in self._series:
                continue  # nothing of it is ever promised to a group
            figures = {name: self._by_workload(*one) for name, one in asked.items()}
            for workload, some in schemes.items():
                own = {
                    name: values[workload] for name, values in figures.items() if workload in values
                }
                own["day"] = _DAY_S // self._step_s
                own["by"] = min(steps_of_unit(scheme, resource) for scheme in some)
                if all(is_known(scheme, resource) for scheme in some):
                    own["stepped"] = 1.0
                if smallest := max(smallest_of(scheme, resource) for scheme in some):
                    own["smallest"] = smallest
                advice = _advice(resource, own, some[-1])
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
        elif name in self._series:
            step = f"{self._step_s}s"
            series = f"({self._series[name](self._chosen, self._step_s)})[{long}:{step}]"
        else:
            return {}
        # A function with an argument of its own is given up to the comma behind it.
        call = how if how.endswith(" ") else f"{how}("
        found = self._prometheus.at(f"{call}{series})", self._until_s)
        return {
            (_workload(one.labels), one.labels.get("scheme", "")): one.samples[-1][1]
            for one in found
        }


def _advice(resource: Resource, own: dict[str, float], scheme: str) -> Advice | None:
    """The advice by the figures of a workload."""
    for name, formula in FOLLOWING[resource].items():
        if (value := formula.of(own)) is not None:
            own[name] = value
    if "outcome" not in own:
        return None
    known, seen = own.get("known", 0.0), own.get("steps", 0.0)
    return Advice(
        resource=resource,
        allocated=own.get("allocated"),
        typical=own.get("typical"),
        peak=own.get("peak"),
        recommended=own.get("recommended"),
        freed=own.get("freed"),
        outcome=[*SizingOutcome][int(own["outcome"])],
        confidence=known / own["day"],
        observed_ratio=known / seen if seen else 0.0,
        scheme=scheme,
    )


def _workload(labels: Labels) -> Workload:
    added = sorted(value for name, value in labels.items() if name not in _OWN)
    return Workload(
        labels.get("cluster") or ", ".join(added),  # the cluster, or whatever a store calls it
        label(labels, "namespace"),
        labels.get("owner_kind", ""),
        labels.get("owner_name", ""),
        label(labels, "container"),
    )
