"""The feed from a Prometheus that scrapes exporters, for users without access to the nodes.

``series`` turns them back into facts.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from exporter.answers.prometheus.client import Grid, Prometheus, label, quoted
from exporter.answers.prometheus.lives import START, target_of
from exporter.answers.terminal.feeds.feed import FeedResult, NodeSight, troubles_of
from exporter.answers.terminal.feeds.nodes import SIMULATED, Nodes
from exporter.answers.terminal.feeds.series import Series, facts_from
from exporter.answers.terminal.view import Past
from exporter.httpclient import NoAnswerError, TooLongError
from exporter.metrics.families import FAMILIES, LEVELS
from exporter.model import Clock, ContainerKey, SeriesKey, Unattributed, sum_of_all
from exporter.shown.tree import DeviceEntry, Others, tree_of

_OWN = dict.fromkeys(
    name for family in FAMILIES for name in (*LEVELS[family.level], *family.labels)
)
HISTORY_NS = 30 * 10**9
HISTORY_S, STEP_S = 600, 15
LESS = "one namespace (-n) or one node (--target=instance=NODE)"
MAX_SHOWN = 200_000  # series of owners, as 1,500 GPUs have them
MAX_UUIDS = 64  # in one selector; for more, all devices are queried

_POD_LEVELS = ("container", "pod")
_UNATTRIBUTED = "mgpu_device_unattributed_core_seconds_total"
_DEVICE = (
    *("info", "up", "unmeasured", "utilization_ratio", "memory_total_bytes", "memory_used_bytes"),
    *("allocated_core_ratio", "allocated_memory_bytes", "power_watts", "power_limit_watts"),
    *("temperature_celsius", "memory_active_ratio", "encoder_utilization_ratio"),
    *("decoder_utilization_ratio", "method_info", "xid_errors_total", "xid_last_timestamp_seconds"),
    *("row_remapping", "retired_pages_pending", "recovery_action", "throttle_seconds_total"),
    "unattributed_memory_bytes",
)
SOURCE_UP = "mgpu_exporter_source_up"
_EXPORTER = SIMULATED, SOURCE_UP
_CORE = "mgpu_container_core_utilization_ratio"


class PrometheusFeed:
    """Implements ``Feed``. ``namespace`` "" stands for all namespaces."""

    def __init__(self, prometheus: Prometheus, namespace: str = "", clock: Clock = time) -> None:
        self._prometheus = prometheus
        self._namespace = namespace
        self._clock = clock
        self._history: dict[str, dict[SeriesKey, Past]] = {}
        self._history_due_ns = clock.monotonic_ns()
        self._at_once = len(FAMILIES)
        self._nodes = Nodes((), {})

    @property
    def name(self) -> str:
        """The namespace and the address."""
        return f"{self._namespace or 'all namespaces'} by {self._prometheus.address}"

    def read(self) -> FeedResult:
        """The newest samples, and from time to time the last minutes."""
        found = self._owners()
        if not found:
            where = f"namespace {self._namespace}" if self._namespace else "any namespace"
            why = "does this Prometheus scrape exporters, and has a pod a GPU?"
            said = f"there are no series of {where} now: {why}"
            return FeedResult((), (*self._partial(), said))
        found += self._devices(label(series.labels, "uuid") for series in found)
        every, ours = (self._prometheus.selector([name]) for name in (START, SIMULATED))
        started = {
            target_of(one.labels): one.samples[-1][1]
            for one in self._prometheus.at(f"{every} and {ours}")
            if one.labels.get("__name__") == START
        }
        self._nodes = Nodes(found, started)
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._history_due_ns:
            self._history_due_ns = now_ns + HISTORY_NS
            with suppress(NoAnswerError):  # the longest question; the figures go on without it
                self._history = self._past()
        unattributed = f"rate({self._prometheus.selector([_UNATTRIBUTED])}[1m])"
        nobody = {} if self._namespace else self._by_node(self._ask(unattributed, _UNATTRIBUTED))
        nodes = [
            self._node(name, some, nobody.get(name, ()))
            for name, some in sorted(self._by_node(found).items())
        ]
        if self._namespace:  # each exporter has series of its own
            nodes = [node for node in nodes if node.tree.devices or node.tree.nowhere]
        return FeedResult(nodes, (*self._partial(), *self._nodes.troubles), self._namespace)

    def _partial(self) -> tuple[str, ...]:
        """What is said where some stores did not answer."""
        return (self._prometheus.trouble,) if self._prometheus.trouble else ()

    def _by_node(self, found: Iterable[Series]) -> dict[str, list[Series]]:
        """The series of each node, with the exporter's own labels."""
        nodes: dict[str, list[Series]] = defaultdict(list)
        for series in found:
            name = self._nodes.of({**series.labels, "__name__": series.family})
            if name is not None:
                own = {name: text for name in _OWN if (text := label(series.labels, name))}
                nodes[name].append(series._replace(labels=own))
        return nodes

    def close(self) -> None:
        """Does nothing: no connection is kept."""

    def _node(self, name: str, found: list[Series], nobody: Iterable[Series]) -> NodeSight:
        own = {series.family: series.value for series in found if series.family == SIMULATED}
        up = [
            (s.labels.get("source", ""), s.value == 1, "") for s in found if s.family == SOURCE_UP
        ]
        reasons = {str(reason): reason for reason in Unattributed}
        unattributed: dict[str, dict[Unattributed, float]] = defaultdict(dict)
        for series in nobody:
            if (reason := reasons.get(series.labels.get("reason", ""))) is not None:
                unattributed[series.labels.get("uuid", "")][reason] = series.value
        tree = tree_of(facts_from(found), unattributed=unattributed)
        if self._namespace:
            tree = replace(tree, devices=tuple(map(_with_the_rest, tree.devices)))
        return NodeSight(
            tree=tree,
            name=name,
            unix_ns=self._clock.time_ns(),
            simulated=own.get(SIMULATED) == 1,
            sources=tuple(source for source, _, _ in up),
            troubles=tuple(troubles_of(up, None)),
            past=self._history.get(name, {}),
        )

    def _owners(self) -> list[Series]:
        """The samples of pods and groups; of one namespace, of its pods."""
        levels = _POD_LEVELS if self._namespace else (*_POD_LEVELS, "group")
        names = [f.full_name for f in FAMILIES if f.level in levels]
        found: list[Series] = []
        while True:  # a fleet that is too large for one answer is asked by fewer families at once
            try:
                for begin in range(0, len(names), self._at_once):
                    found += self._ask(self._selected(names[begin : begin + self._at_once]))
                    if len(found) > MAX_SHOWN:
                        said = f"more than {MAX_SHOWN:,} series: look at {LESS}"
                        raise NoAnswerError(f"{self._prometheus.address} has {said}")
            except TooLongError:
                if self._at_once == 1:
                    raise
                self._at_once = min(self._at_once, len(names)) // 2
                found = []
            else:
                return found

    def _selected(self, names: Sequence[str]) -> str:
        own = {"namespace": self._namespace} if self._namespace else {}
        return self._prometheus.either(names, **own)

    def _devices(self, uuids: Iterable[str]) -> list[Series]:
        """The samples of the pods' devices, or of all. Some may read those of no device."""
        known = set(filter(None, uuids))
        names = [f"mgpu_device_{name}" for name in _DEVICE]
        some = "|".join(map(re.escape, sorted(known)))
        is_some = self._namespace and len(known) <= MAX_UUIDS
        chosen = [f"uuid=~{quoted(some)}"] if is_some else []
        found = self._ask(self._prometheus.selector(names, *chosen)) if known else []
        if self._namespace:
            found = [one for one in found if label(one.labels, "uuid") in known]
        return found + self._ask(self._prometheus.selector(_EXPORTER)) if known else []

    def _ask(self, expression: str, family: str = "") -> list[Series]:
        """The series that an expression gives. ``family``: theirs, where a function drops it."""
        return [
            Series(one.labels.get("__name__", family), one.labels, one.samples[-1][1])
            for one in self._prometheus.at(expression)
        ]

    def _past(self) -> dict[str, dict[SeriesKey, Past]]:
        """The core of the last minutes by node and labels, under all numbers that a GPU had."""
        end = self._clock.time_ns() // 10**9
        found: dict[str, dict[SeriesKey, dict[int, float]]]
        found = defaultdict(lambda: defaultdict(dict))
        for one in self._prometheus.over(
            self._selected([_CORE]), Grid(end - HISTORY_S, end, STEP_S)
        ):
            *owner, _, uuid = (label(one.labels, name) for name in LEVELS["container"])
            if (name := self._nodes.of(one.labels)) is not None:
                values = found[name][SeriesKey(ContainerKey(*owner), uuid)]
                values.update((round(at), value) for at, value in one.samples)
        return {
            place: {
                key: tuple(values.get(at) for at in range(min(values), end + 1, STEP_S))
                for key, values in series.items()
                if values
            }
            for place, series in found.items()
        }


def _with_the_rest(device: DeviceEntry) -> DeviceEntry:
    """A device with what is in use beside the pods that are shown, where that is known."""
    if device.facts is None:
        return device
    shown = [pod.figures for pod in device.pods if not pod.ended]
    core = _left(device.facts.average.core, [each.core for each in shown])
    held = _left(device.facts.memory.used_bytes, [each.memory_bytes for each in shown])
    return replace(device, others=Others(core, None if held is None else round(held)))


def _left(of: float | None, parts: Sequence[float | None]) -> float | None:
    """What is left without the parts; None if one of them is not known."""
    shown = sum_of_all(parts) if parts else 0.0
    return None if of is None or shown is None else max(of - shown, 0.0)
