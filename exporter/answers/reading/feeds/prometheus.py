"""The feed from a Prometheus that scrapes exporters, for users without access to the nodes.

``series`` turns them back into facts.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from exporter.answers.reading.cutting import Cutter, is_too_much
from exporter.answers.reading.feeds.feed import FeedResult, NodeSight, troubles_of
from exporter.answers.reading.feeds.fleetlines import Look
from exporter.answers.reading.feeds.nodes import SIMULATED, Nodes
from exporter.answers.reading.feeds.overview import Past
from exporter.answers.reading.feeds.series import FamilySeries, facts_from
from exporter.answers.reading.feeds.sums import SOURCE_UP, FleetSums
from exporter.answers.reading.lives import START, target_of
from exporter.answers.reading.queryapi import Grid, Prometheus, label, place_of, quoted
from exporter.httpclient import NoAnswerError
from exporter.metrics.families import FAMILIES, LEVELS
from exporter.model import Clock, ContainerKey, SeriesKey, Unattributed, sum_of_all
from exporter.shown.printable import clean
from exporter.shown.tree import DeviceEntry, Others, tree_of

_OWN = dict.fromkeys(
    name for family in FAMILIES for name in (*LEVELS[family.level], *family.labels)
)
HISTORY_NS = 30 * 10**9
HISTORY_S, STEP_S = 600, 15
LESS = "one namespace (-n) or one node (--target=instance=NODE)"
MAX_SHOWN = 200_000  # series of owners, as 1,500 GPUs have them
MAX_UUIDS = 64  # in one selector; for more, all devices are queried
FEW_NODES = 8  # of which all is read at once; of more, sums and what is open
MOST_OPEN = 16  # nodes of which all is read each time
AT_ONCE = 4  # nodes of a fleet, where all are read one after the other

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
_EXPORTER = SIMULATED, SOURCE_UP
_CORE = "mgpu_container_core_utilization_ratio"


class PrometheusFeed:
    """Implements ``GuidedFeed``. ``namespace`` "" stands for all namespaces.

    Of a few nodes all is read. Of more the store is asked for sums, the largest rows of them, and
    for all there is on the nodes that are open.
    """

    def __init__(self, prometheus: Prometheus, namespace: str = "", clock: Clock = time) -> None:
        self._prometheus = prometheus
        self._namespace = namespace
        self._clock = clock
        self._history: dict[str, dict[SeriesKey, Past]] = {}
        self._history_due_ns = clock.monotonic_ns()
        self._families = Cutter[str](len(FAMILIES), is_too_much)
        self._nodes = Nodes((), {})
        self._sums = FleetSums(prometheus, namespace)
        self._look = Look()
        self._instances: dict[str, str] = {}  # of the nodes of a fleet, by place
        self._is_fleet = False
        self._chosen: tuple[str, ...] = ()  # matchers of the nodes that are read

    @property
    def name(self) -> str:
        """The namespace and the address."""
        return f"{self._namespace or 'all namespaces'} by {self._prometheus.address}"

    def look(self, look: Look) -> None:
        """Says what the screen shows, for the next read."""
        if look.opened != self._look.opened:
            self._history_due_ns = self._clock.monotonic_ns()
        self._look = look

    def read(self) -> FeedResult:
        """The newest samples, and from time to time the last minutes."""
        if not self._is_fleet:
            self._is_fleet = self._sums.count() > FEW_NODES
        if not self._is_fleet:
            return self._read()
        look = self._look
        fleet = self._sums.read(look)
        rows = (*fleet.nodes, *fleet.found)
        self._instances |= {
            clean(place_of(one.labels)): one.labels.get("instance", "") for one in rows
        }
        places = {*(key[0] for key in look.opened if len(key) == 1)}
        places |= {clean(place_of(one.labels)) for one in fleet.found}
        some = sorted({self._instances[one] for one in places & self._instances.keys()})
        troubles = self._partial()
        if len(some) > MOST_OPEN:
            troubles += (f"only {MOST_OPEN} of the nodes that are open are read",)
        read = self._read(some[:MOST_OPEN]) if some else FeedResult()
        return FeedResult(read.nodes, (*troubles, *read.troubles), self._namespace, fleet)

    def parts(self) -> Iterator[FeedResult]:
        """All of a few nodes; of a fleet its sums, and then the nodes, a few at once."""
        first = self.read()
        yield first
        if first.fleet is not None:
            for part in Cutter[str](AT_ONCE, is_too_much).ask(self._sums.instances(), self._read):
                yield part._replace(is_part=True)

    def _read(self, instances: Sequence[str] = ()) -> FeedResult:
        """All of some nodes, or of all nodes."""
        some = "|".join(map(re.escape, instances))
        self._chosen = (f"instance=~{quoted(some)}",) if instances else ()
        found = self._owners()
        if not found and not self._chosen:  # a node that was chosen may have no pods
            where = f"namespace {self._namespace}" if self._namespace else "any namespace"
            why = "does this Prometheus scrape exporters, and has a pod a GPU?"
            said = f"there are no series of {where} now: {why}"
            return FeedResult((), (*self._partial(), said))
        found += self._devices(label(series.labels, "uuid") for series in found)
        every, ours = (
            self._prometheus.selector([name], *self._chosen) for name in (START, SIMULATED)
        )
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
        # Of scrapes a minute apart a shorter window has one, and a rate takes two.
        unattributed = f"rate({self._prometheus.selector([_UNATTRIBUTED], *self._chosen)}[5m])"
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

    def _by_node(self, found: Iterable[FamilySeries]) -> dict[str, list[FamilySeries]]:
        """The series of each node, with the exporter's own labels."""
        nodes: dict[str, list[FamilySeries]] = defaultdict(list)
        for series in found:
            name = self._nodes.of({**series.labels, "__name__": series.family})
            if name is not None:
                own = {name: text for name in _OWN if (text := label(series.labels, name))}
                nodes[name].append(series._replace(labels=own))
        return nodes

    def close(self) -> None:
        """Does nothing: no connection is kept."""

    def _node(
        self, name: str, found: list[FamilySeries], nobody: Iterable[FamilySeries]
    ) -> NodeSight:
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
        # Each card has such a counter, if only of 0. Without a rate it was scraped once as yet.
        devices = [
            replace(one, is_unattributed_known=one.uuid in unattributed) for one in tree.devices
        ]
        tree = replace(tree, devices=tuple(devices))
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

    def _owners(self) -> list[FamilySeries]:
        """The samples of pods and groups; of one namespace, of its pods."""
        levels = _POD_LEVELS if self._namespace else (*_POD_LEVELS, "group")
        names = [f.full_name for f in FAMILIES if f.level in levels]
        found: list[FamilySeries] = []
        for some in self._families.ask(names, lambda names: self._ask(self._selected(names))):
            found += some
            if len(found) > MAX_SHOWN:
                said = f"more than {MAX_SHOWN:,} series: look at {LESS}"
                raise NoAnswerError(f"{self._prometheus.address} has {said}")
        return found

    def _selected(self, names: Sequence[str]) -> str:
        own = {"namespace": self._namespace} if self._namespace else {}
        return self._prometheus.either(names, *self._chosen, **own)

    def _devices(self, uuids: Iterable[str]) -> list[FamilySeries]:
        """The samples of the pods' devices, or of all. Some may read those of no device."""
        known = set(filter(None, uuids))
        if not known and (self._namespace or not self._chosen):
            return []
        names = [f"mgpu_device_{name}" for name in _DEVICE]
        some = "|".join(map(re.escape, sorted(known)))
        is_some = self._namespace and len(known) <= MAX_UUIDS
        chosen = [*self._chosen, *([f"uuid=~{quoted(some)}"] if is_some else [])]

        def ask(names: Sequence[str]) -> list[FamilySeries]:
            return self._ask(self._prometheus.selector(names, *chosen))

        found = [one for some in self._families.ask(names, ask) for one in some]
        if self._namespace:
            # A viewer of one namespace sees no cards that none of its pods is on, also where the
            # store would show them.
            found = [one for one in found if label(one.labels, "uuid") in known]
        return found + self._ask(self._prometheus.selector(_EXPORTER, *self._chosen))

    def _ask(self, expression: str, family: str = "") -> list[FamilySeries]:
        """The series that an expression gives. ``family``: theirs, where a function drops it."""
        return [
            FamilySeries(one.labels.get("__name__", family), one.labels, one.samples[-1][1])
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
