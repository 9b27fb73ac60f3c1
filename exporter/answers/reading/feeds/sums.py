"""What a screen of a fleet shows before anything is opened: sums that the store makes.

An answer has the largest rows only, so that neither questions nor answers grow with the fleet.
What two jobs scrape of one node counts once, as in the recording rules: by cluster and instance.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from exporter.answers.reading.cutting import Cutter, is_too_much
from exporter.answers.reading.feeds.fleetlines import FleetFigures, Look, Sums, namespace_key
from exporter.answers.reading.feeds.nodes import SIMULATED
from exporter.answers.reading.feeds.overview import Key, SortKey, ranked
from exporter.answers.reading.queryapi import (
    NODE_LABELS,
    Prometheus,
    place_of,
    quoted,
    renamings,
)

SOURCE_UP = "mgpu_exporter_source_up"
MOST_DOWN = 20  # sources that are named
MOST_LOST = 10  # nodes with lost cards, which are shown however little they use
MOST_FOUND = 4  # nodes that a filter opens, for a pod on them
_LEAST_NAMESPACES = 8

_INFO, _POD = "mgpu_device_info", "mgpu_pod_info"
_NODE = ", ".join(("cluster", *NODE_LABELS))
_CARD = f"{_NODE}, uuid, exported_uuid"
_NAMESPACE = "cluster, namespace, exported_namespace"
_NAMED = f"{_NAMESPACE}, pod, exported_pod"
_ON_NODE = f"{_NODE}, namespace, exported_namespace, pod, exported_pod"
_OF_NODE = f"{_NAMESPACE}, instance"
_CARDS = {
    "core": "mgpu_device_utilization_ratio",
    "core_limit": "mgpu_device_allocated_core_ratio",
    "memory": "mgpu_device_memory_used_bytes",
    "memory_total": "mgpu_device_memory_total_bytes",
    "watts": "mgpu_device_power_watts",
}
_PODS = {
    "core": "mgpu_pod_core_usage_gpus",
    "core_limit": "mgpu_pod_core_limit_gpus",
    "memory": "mgpu_pod_memory_used_bytes",
    "memory_total": "mgpu_pod_memory_limit_bytes",
}
# Of each node: several Prometheus may record a namespace, each all of its nodes or some of them.
_RECORDED = {
    "core": "namespace_instance:mgpu_core_seconds:sum_rate5m",
    "core_limit": "namespace_instance:mgpu_allocated_core_seconds:sum_rate5m",
    "memory": "namespace_instance:mgpu_memory_used_bytes:sum",
    "pods": "namespace_instance:mgpu_pods:count",
}
_OF_LIMIT = {"memory_of_limit": "mgpu_pod_memory_limit_utilization_ratio"}
AS_RECORDED = "averages of 5 minutes, as the recording rules have them"
NOT_RECORDED = "of now: this Prometheus has not what rules/mgpu-recording.yaml records"


@dataclass(frozen=True, slots=True)
class _Filtered:
    """What a filter chooses: a pattern of names, and by expressions the nodes.

    ``nodes`` are those with such a name, or such a pod; ``most`` those with most such pods.
    """

    pattern: str
    nodes: str
    most: str


class FleetSums:
    """Asks for the sums of a fleet; ``namespace`` "" stands for all."""

    def __init__(self, prometheus: Prometheus, namespace: str = "") -> None:
        self._prometheus = prometheus
        self._namespace = namespace
        self._is_recorded = True
        self._figures = Cutter[str](100, is_too_much)  # all of a row
        self._unix_s = 0.0  # of the newest answer

    def count(self) -> int:
        """How many nodes there are, with pods of the namespace if there is one."""
        found = self._prometheus.at(self._count_of_nodes())
        return round(found[0].samples[-1][1]) if found else 0

    def instances(self) -> Iterator[str]:
        """The label ``instance`` of all nodes, in order."""
        found = self._prometheus.at(f"group by (instance) ({self._there()})")
        yield from sorted({one.labels.get("instance", "") for one in found})

    def read(self, look: Look) -> FleetFigures:
        """What the screen shows of the fleet."""
        found = self._found(look.needle) if look.needle else None
        namespaces, remark = ((), "") if self._namespace else self._namespaces(look, found)
        rows = self._rows(self._totals(), "")
        figures = self._of_nodes()
        # A node without the figure stands behind all others, and is not left out.
        key = f"({figures[_key(look)]} or 0 * group by ({_NODE}) ({self._there()}))"
        if found is not None:
            key = f"({key} and on (cluster, instance) ({found.nodes}))"
        largest = f"topk({look.rows}, {key})"
        if found is not None:
            largest = f"({largest} or {found.most})"
        # A lost card uses nothing: its node would be among the first to fall out of the list.
        elif "lost" in figures:
            largest = f"({largest} or topk({MOST_LOST}, {figures['lost']}))"
        nodes = self._rows(figures, largest)
        return FleetFigures(
            totals=rows[0] if rows else Sums({}),
            nodes=nodes if self._namespace else [one.of_whole for one in nodes],
            namespaces=namespaces,
            pods=dict(self._opened(look, namespaces)),
            found=self._rows({"pods": found.most}, "") if found else (),
            down=self._down(),
            remark=remark,
            unix_s=self._unix_s,
        )

    # --- expressions ---

    def _cards(self, family: str, *matchers: str) -> str:
        # Two jobs, or two replicas, may scrape one exporter: it counts once.
        return f"max by ({_CARD}) ({self._prometheus.selector([family], *matchers)})"

    def _pods(self, family: str, *matchers: str, by: str = _NAMED) -> str:
        own = {"namespace": self._namespace} if self._namespace else {}
        return f"max by ({by}) ({self._prometheus.either([family], *matchers, **own)})"

    def _there(self) -> str:
        """The series that show which nodes there are."""
        if self._namespace:
            return self._pods(_POD, by=_ON_NODE)
        return self._cards(_INFO)

    def _count_of_nodes(self) -> str:
        return f"count(count by (cluster, instance) ({self._there()}))"

    def _totals(self) -> dict[str, str]:
        said = {"nodes": self._count_of_nodes()}
        said["simulated"] = f"max({self._prometheus.selector([SIMULATED])})"
        if self._namespace or not self._is_recorded:
            said["pods"] = f"count({self._pods(_POD)})"
        else:
            said["pods"] = f"sum({self._recorded(_RECORDED['pods'])})"
        if self._namespace:
            used = self._pods(
                "mgpu_container_allocated_gpus", by="cluster, instance, gpu, exported_gpu"
            )
            summed = {name: f"sum({self._pods(family)})" for name, family in _PODS.items()}
            return said | summed | {"gpus": f"count({used})"}
        reasons = self._prometheus.selector(["mgpu_device_unattributed_core_seconds_total"])
        rate = f"max by ({_CARD}, reason) (rate({reasons}[5m]))"
        every = self._pods(_POD, by=_NAMESPACE)
        if self._is_recorded:
            core, pods = (self._recorded(_RECORDED[name]) for name in ("core", "pods"))
            every = f"count by ({_NAMESPACE}) ({core} or {pods})"
        return (
            said
            | {name: f"sum({self._cards(family)})" for name, family in _CARDS.items()}
            | {"gpus": f"count({self._cards(_INFO, _WHOLE)})", "lost": f"count({self._lost()})"}
            | {"unattributed": f"sum({rate})", "namespaces": f"count({every})"}
        )

    def _lost(self) -> str:
        # The parts of a card have its number: a card of which one cannot be read is one.
        down = self._prometheus.selector(["mgpu_device_up"])
        return f"group by ({_NODE}, gpu, exported_gpu) ({down} == 0)"

    def _of_nodes(self) -> dict[str, str]:
        if self._namespace:
            found = {
                name: f"sum by ({_NODE}) ({self._pods(family, by=_ON_NODE)})"
                for name, family in _PODS.items()
            }
            return found | {"pods": f"count by ({_NODE}) ({self._pods(_POD, by=_ON_NODE)})"}
        return {
            **{
                name: f"sum by ({_NODE}) ({self._cards(family)})" for name, family in _CARDS.items()
            },
            "gpus": f"count by ({_NODE}) ({self._cards(_INFO, _WHOLE)})",
            "lost": f"count by ({_NODE}) ({self._lost()})",
        }

    # --- questions ---

    def _namespaces(self, look: Look, found: _Filtered | None) -> tuple[tuple[Sums, ...], str]:
        most = look.rows if look.all else max(look.rows // 3, _LEAST_NAMESPACES)
        patterns = _either("namespace", found.pattern) if found else ("",)
        if self._is_recorded:
            summed = {
                name: f"sum by ({_NAMESPACE}) ({self._recorded(recorded, patterns)})"
                for name, recorded in _RECORDED.items()
            }
            # A namespace whose use cannot be measured stands behind all others.
            rows = self._rows(summed, f"topk({most}, {summed[_key(look)]} or 0 * {summed['pods']})")
            if rows:
                return rows, AS_RECORDED
            self._is_recorded = found is not None  # no namespace has the filter in its name
        summed = {
            name: f"sum by ({_NAMESPACE}) ({self._some(family, patterns)})"
            for name, family in _PODS.items()
            if name != "memory_total"
        }
        summed["pods"] = f"count by ({_NAMESPACE}) ({self._some(_POD, patterns)})"
        key = f"({summed[_key(look)]} or 0 * {summed['pods']})"
        return self._rows(summed, f"topk({most}, {key})"), NOT_RECORDED

    def _recorded(self, name: str, patterns: Iterable[str] = ("",)) -> str:
        every = " or ".join(
            self._prometheus.selector([name], *filter(None, [one])) for one in patterns
        )
        return f"max by ({_OF_NODE}) ({every})"

    def _some(self, family: str, patterns: Iterable[str]) -> str:
        return " or ".join(self._pods(family, *filter(None, [one])) for one in patterns)

    def _opened(
        self, look: Look, namespaces: Iterable[Sums]
    ) -> Iterator[tuple[Key, tuple[Sums, ...]]]:
        """The largest pods of each namespace that is open."""
        for one in namespaces:
            key = namespace_key(one.labels)
            if key not in look.opened:
                continue
            cluster = f"cluster={quoted(one.labels.get('cluster', ''))}"
            own = {"namespace": key[-1]}
            summed = {
                name: f"max by ({_ON_NODE}) ({self._prometheus.either([family], cluster, **own)})"
                for name, family in (_PODS | _OF_LIMIT).items()
            }
            there = f"max by ({_ON_NODE}) ({self._prometheus.either([_POD], cluster, **own)})"
            largest = f"topk({look.rows}, {summed[_key(look)]} or 0 * {there})"
            yield key, self._rows(summed, largest)

    def _found(self, needle: str) -> _Filtered:
        pattern = f"(?i).*{re.escape(needle)}.*"
        names = (f"{name}=~{quoted(pattern)}" for name in ("cluster", *NODE_LABELS))
        by_name = [] if self._namespace else [self._cards(_INFO, one) for one in names]
        places = [f"group by (cluster, instance) ({one})" for one in by_name]
        matchers = (*_either("pod", pattern), *_either("namespace", pattern))
        pods = " or ".join(self._pods(_POD, one, by=_ON_NODE) for one in matchers)
        places.append(f"group by (cluster, instance) ({pods})")
        most = f"topk({MOST_FOUND}, count by ({_NODE}) ({pods}))"
        return _Filtered(pattern, " or ".join(places), most)

    def _down(self) -> tuple[tuple[str, str], ...]:
        """Nodes with a source that is down, and the source."""
        sources = self._prometheus.selector([SOURCE_UP])
        found = self._prometheus.at(f"topk({MOST_DOWN}, {sources} == 0)")
        return tuple(
            (place_of(one.labels), one.labels.get("source", ""))
            for one in sorted(found, key=lambda one: sorted(one.labels.items()))
        )

    def _rows(self, figures: Mapping[str, str], largest: str) -> tuple[Sums, ...]:
        """The figures of what an expression chooses, the largest first."""
        chosen = largest and f" and ignoring (figure) {largest}"
        named = [f'label_replace({of}, "figure", "{name}", "", "")' for name, of in figures.items()]
        # In one answer, if the store gives it, so that all figures of a row are of one moment.
        answers = self._figures.ask(
            named, lambda some: self._prometheus.at(f"({' or '.join(some)}){chosen}")
        )
        rows: dict[frozenset[tuple[str, str]], dict[str, float]] = defaultdict(dict)
        for one in (one for answer in answers for one in answer):
            labels, self._unix_s = dict(one.labels), one.samples[-1][0]
            figure = labels.pop("figure", "")
            if figure in figures:
                rows[frozenset(labels.items())][figure] = one.samples[-1][1]
        sums = [Sums(dict(labels), **own) for labels, own in rows.items()]
        return tuple(
            sorted(sums, key=lambda one: (-ranked(one.core or 0.0), sorted(one.labels.items())))
        )


_WHOLE = 'parent_uuid=""'


def _key(look: Look) -> str:
    """The figure that says which rows are the largest."""
    return "memory" if look.by is SortKey.MEMORY else "core"


def _either(name: str, pattern: str) -> tuple[str, ...]:
    """The matchers of one of our labels, whether or not it was renamed."""
    return tuple(
        ",".join(
            f"{label}=~{quoted(pattern)}" if text else f'{label}=""'
            for label, text in chosen.items()
        )
        for chosen in renamings(**{name: "x"})
    )
