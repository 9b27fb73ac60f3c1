"""A pod's case by the series of a Prometheus."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple, TypeVar

from exporter.httpclient import NoAnswerError
from exporter.metrics.families import PREFIX
from exporter.prometheus.client import (
    Labels,
    Prometheus,
    Series,
    label,
    place_of,
    quoted,
    renamings,
)
from exporter.prometheus.why import Card, Case, OnCard

_LIMITS = ("core_limit_ratio", "memory_limit_bytes")
_HELD = ("memory_used_bytes", "core_utilization_ratio", "allocation_info")
_STATE = ("last_active_timestamp_seconds", "unmeasured", *_LIMITS, *_HELD)
_GAUGES = tuple(f"{PREFIX}_container_{name}" for name in _STATE)
_HOLDERS = tuple(f"{PREFIX}_{level}_{name}" for level in ("container", "group") for name in _HELD)
_CONTAINER, _DEVICE = f"{PREFIX}_container_", f"{PREFIX}_device_"
_POD_INFO = f"{PREFIX}_pod_info"
_CORE, _WAITING = f"{_CONTAINER}core_seconds_total", f"{_CONTAINER}core_waiting_seconds_total"
_CONTENTION = f"{_CONTAINER}core_waiting_on_seconds_total"
_STALE_S = 300  # scrapes are never farther apart: Prometheus forgets a series after that
_SCRAPE_S = 15  # scrapes are hardly ever closer: each sample is the newest for that long
_DAY_S, _STEP_S, _PART = 86_400, 60, 0.1
_OTHERS = "others"
_MAX_CLUSTERS = 5
_REPLICAS = {"replica", "prometheus_replica"}
"""What replicas of a Prometheus differ by, as Thanos and the Prometheus Operator call it."""

K = TypeVar("K")


class _Key(NamedTuple):
    """A container on a device of a node. A device's number is left out: it may change."""

    container: str
    uuid: str
    node: str


class _Counted(NamedTuple):
    """What a counter counted, and in how many seconds; when it was scraped first and last.

    What lies between two scrapes is left out if a restart does, or more than ``_STALE_S``: nobody
    observed it, and it is not zero.
    """

    counted: float
    observed_s: float
    first_s: float
    last_s: float

    @property
    def share(self) -> float | None:
        """Of the time in which it was observed; None if there was no such time."""
        return self.counted / self.observed_s if self.observed_s else None

    def and_(self, other: "_Counted") -> "_Counted":
        """Both: one counter as two series. Of one time, as of two jobs, the longer one stands."""
        if self.first_s < other.last_s and other.first_s < self.last_s:
            return max(self, other, key=lambda one: one.observed_s)
        return _Counted(
            self.counted + other.counted,
            self.observed_s + other.observed_s,
            min(self.first_s, other.first_s),
            max(self.last_s, other.last_s),
        )


class SeriesCase:
    """Reads what a Prometheus knows of a pod in the ``window_s`` seconds before ``unix_s``.

    Shares are of the time in which the pod was observed; a card's are of the time since it was
    first seen, or until it was last seen.
    With ``seen``, the viewer's namespace, the pods of other namespaces are "others". ``cluster`` is
    the pod's, as the label says it; None stands for any.
    """

    def __init__(
        self,
        prometheus: Prometheus,
        unix_s: float,
        window_s: int,
        seen: str = "",
        cluster: str | None = None,
    ) -> None:
        self._prometheus = prometheus
        self._select = prometheus.selector
        self._unix_s = unix_s
        self._window_s = window_s
        self._seen = seen
        self._cluster: Mapping[str, str] = {} if cluster is None else {"cluster": cluster}
        self._since_s = unix_s - window_s
        self._until_s, self._span_s = unix_s, window_s  # in which its cards are looked at
        self._pod: Mapping[str, str] = {}  # its labels, of which some may be renamed

    def pods(self) -> list[str]:
        """The pods that are known to the viewer, as ``namespace/pod``."""
        names = [_POD_INFO, f"{_CONTAINER}allocation_info"]
        found = self._at(self._select(names, **self._cluster))
        return sorted(
            {
                _pod(one.labels)
                for one in found
                if self._seen in {"", label(one.labels, "namespace")}
            }
        )

    def read(self, namespace: str, pod: str) -> Case:
        """The case. It has no parts if the pod is not known.

        Raises:
            NoAnswerError: several clusters have such a pod, or Prometheus does not answer.

        """
        ended_s = None
        state = self._state(namespace, pod, self._unix_s)
        if not state:
            ended_s = self.last_seen(namespace, pod)
            if ended_s is None or ended_s <= self._since_s:
                return Case(
                    namespace=namespace, pod=pod, unix_s=self._unix_s, window_s=self._window_s
                )
            state = self._state(namespace, pod, ended_s)
        self._cluster = {"cluster": self._only_cluster(namespace, pod)}
        chosen = {**self._pod, **self._cluster}
        self._until_s = self._unix_s if ended_s is None else ended_s
        core, waiting = self._counted(_CORE, chosen), self._counted(_WAITING, chosen)
        since_s = min((one.first_s for one in core.values()), default=0)
        self._span_s = max(1, ceil(self._until_s - max(since_s, self._since_s)))
        observed_s = max((one.observed_s for one in core.values()), default=self._window_s)
        is_partly = self._window_s - observed_s > max(_STEP_S, self._window_s * _PART)
        others = self._others(chosen, core)
        numbers = {key: label(many[0].labels, "gpu") for key, many in state.items()}
        cards = self._cards(numbers, f"{namespace}/{pod}")
        parts = tuple(
            _part(key, state[key], cards[key], core.get(key), waiting.get(key), others.get(key))
            for key in sorted(state)
        )
        return Case(
            namespace=namespace,
            pod=pod,
            unix_s=self._unix_s,
            window_s=self._window_s,
            parts=parts,
            observed_s=observed_s if is_partly else None,
            is_new=ended_s is None and self._span_s - observed_s <= _STEP_S,
            ended_unix_s=ended_s,
        )

    def last_seen(self, namespace: str, pod: str) -> float | None:
        """When it was last there within a day, in Unix seconds; None if never.

        Its counters last for a while after it: they are no sign of it.
        """
        for chosen in renamings(namespace=namespace, pod=pod):
            gauges = (self._select([name], **chosen, **self._cluster) for name in _GAUGES)
            known = " or ".join(f"timestamp({gauge})" for gauge in gauges)
            times = f"({known})[{_DAY_S}s:{_SCRAPE_S}s]"
            for one in self._prometheus.at(f"max(max_over_time({times}))", self._unix_s):
                seen_s = one.samples[-1][1]
                if self._unix_s - _DAY_S <= seen_s <= self._unix_s:
                    return seen_s
        return None

    def _only_cluster(self, namespace: str, pod: str) -> str:
        """The cluster of a pod; figures of two pods that have one name are no figure."""
        lately = " or ".join(
            f"last_over_time({self._select(_GAUGES, **chosen, **self._cluster)}"
            f"[{max(self._window_s, _STALE_S)}s])"
            for chosen in renamings(namespace=namespace, pod=pod)
        )
        known = self._prometheus.at(f"count by (cluster) ({lately})", self._unix_s)
        found = sorted({one.labels.get("cluster", "") for one in known})
        if len(found) > 1:
            named = " or ".join(f"--cluster={name}" for name in found[:_MAX_CLUSTERS])
            others = f" (of {len(found)})" if len(found) > _MAX_CLUSTERS else ""
            raise NoAnswerError(
                f"several clusters of {self._prometheus.address} have, or had in this time, a pod "
                f"{namespace}/{pod}; add {named}{others}"
            )
        return "".join(found)

    def _state(self, namespace: str, pod: str, at_s: float) -> dict[_Key, list[Series]]:
        found: dict[_Key, list[Series]] = defaultdict(list)
        for self._pod in renamings(namespace=namespace, pod=pod):
            chosen = {**self._pod, **self._cluster}
            for one in self._prometheus.at(self._select(_GAUGES, **chosen), at_s):
                found[_key(one.labels)].append(one)
            if found:
                break
        return _placed(found)

    def _counted(self, name: str, chosen: Mapping[str, str]) -> dict[_Key, _Counted]:
        long = self._window_s + _STALE_S  # with the last scrape before
        found = self._prometheus.at(f"{self._select([name], **chosen)}[{long}s]", self._unix_s)
        known: dict[_Key, _Counted] = {}
        for several in found:  # an exporter's restart may give it another instance label
            one = several._replace(
                samples=tuple(s for s in several.samples if s[0] <= self._until_s)
            )
            if one.samples and one.samples[-1][0] > self._since_s:
                now, before = _counted(one, self._since_s), known.get(_key(one.labels))
                known[_key(one.labels)] = before.and_(now) if before else now
        return known

    def _others(
        self, chosen: Mapping[str, str], core: Mapping[_Key, _Counted]
    ) -> dict[_Key, dict[str, float]]:
        def named(labels: Labels) -> tuple[_Key, str]:
            namespace, pod = labels.get("by_namespace", ""), labels.get("by_pod", "")
            if self._seen and namespace != self._seen:
                return _key(labels), _OTHERS
            name = f"{namespace}/{pod}" if namespace else pod.replace("/", " ", 1)
            return _key(labels), name

        found: dict[_Key, dict[str, float]] = defaultdict(dict)
        grown = f"increase({self._select([_CONTENTION], **chosen)}[{self._window_s}s])"
        for (key, name), seconds in self._once(grown, self._unix_s, named).items():
            if key in core and core[key].observed_s:
                found[key][name] = seconds / core[key].observed_s
        return found

    def _cards(self, numbers: Mapping[_Key, str], pod: str) -> dict[_Key, Card]:
        uuids = sorted({key.uuid for key in numbers if key.uuid})
        if not uuids:
            return {key: Card() for key in numbers}
        matcher = f"uuid=~{quoted('|'.join(map(re.escape, uuids)))}"

        def of_these(*names: str) -> str:
            return self._select(names, matcher, **self._cluster)

        infos = {
            label(one.labels, "uuid"): one.labels for one in self._at(of_these(f"{_DEVICE}info"))
        }
        busy = self._rates(of_these(f"{_DEVICE}busy_seconds_total"), _uuid)
        throttled: dict[str, dict[str, float]] = defaultdict(dict)
        rates = self._rates(of_these(f"{_DEVICE}throttle_seconds_total"), _uuid_and_reason)
        for (uuid, reason), rate in rates.items():
            throttled[uuid][reason] = rate
        on = self._holders(of_these(*_HOLDERS), pod)
        return {
            key: Card(
                uuid=key.uuid,
                gpu=_number(number, infos.get(key.uuid, {})),
                node=key.node,
                model=label(infos.get(key.uuid, {}), "model"),
                busy=busy.get(key.uuid),
                throttled=throttled[key.uuid],
                others=tuple(sorted(on[key.uuid])),
                is_part=bool(label(infos.get(key.uuid, {}), "parent_uuid")),
            )
            for key, number in numbers.items()
        }

    def _holders(self, holders: str, pod: str) -> dict[str, set[str]]:
        """Who else is on each card."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self._at(holders):
            is_pod = _name(one).startswith(_CONTAINER)  # a target has a namespace too
            name = _pod(one.labels) if is_pod else _group(one.labels)
            if is_pod and name == pod:
                continue
            if self._seen and not (is_pod and label(one.labels, "namespace") == self._seen):
                name = _OTHERS
            found[label(one.labels, "uuid")].add(name)
        return found

    def _rates(self, chosen: str, key: Callable[[Labels], K]) -> dict[K, float]:
        return self._once(f"rate({chosen}[{self._span_s}s])", self._until_s, key)

    def _once(self, expression: str, unix_s: float, key: Callable[[Labels], K]) -> dict[K, float]:
        """The sums of what the exporters of a job counted, one after another, by key.

        Of several jobs or servers that scrape the same exporters, the one that has most stands for
        all.
        """
        each: dict[K, dict[str, dict[object, float]]] = defaultdict(lambda: defaultdict(dict))
        for one in self._prometheus.at(expression, unix_s):
            series = frozenset(item for item in one.labels.items() if item[0] not in _REPLICAS)
            of_job, value = each[key(one.labels)][one.labels.get("job", "")], one.samples[-1][1]
            of_job[series] = max(value, of_job.get(series, value))
        return {of: max(sum(many.values()) for many in jobs.values()) for of, jobs in each.items()}

    def _at(self, expression: str) -> list[Series]:
        return self._prometheus.at(expression, self._until_s)


def _counted(one: Series, since_s: float) -> _Counted:
    counted = observed_s = 0.0
    for (before_s, before), (at_s, value) in pairwise(one.samples):
        if at_s > since_s and at_s - before_s <= _STALE_S and value >= before:
            counted += value - before
            observed_s += at_s - before_s
    return _Counted(counted, observed_s, one.samples[0][0], one.samples[-1][0])


def _part(
    key: _Key,
    state: Sequence[Series],
    card: Card,
    core: _Counted | None,
    waiting: _Counted | None,
    waiting_on: Mapping[str, float] | None,
) -> OnCard:
    value = {_name(one).removeprefix(_CONTAINER): one.samples[-1][1] for one in state}
    unmeasured = {
        one.labels.get("quantity", ""): one.labels.get("reason", "")
        for one in state
        if _name(one) == f"{_CONTAINER}unmeasured"
    }
    schemes = {one.labels["scheme"] for one in state if "scheme" in one.labels}
    return OnCard(
        container=key.container,
        card=card,
        core=core.share if core and "core" not in unmeasured else None,
        share=value.get("core_limit_ratio"),
        waiting=waiting.share if waiting else None,
        waiting_on=waiting_on,
        memory_bytes=value.get("memory_used_bytes"),
        memory_limit_bytes=value.get("memory_limit_bytes"),
        last_active_unix_s=value.get("last_active_timestamp_seconds"),
        scheme=", ".join(sorted(schemes)),
        unmeasured=unmeasured,
    )


def _placed(found: dict[_Key, list[Series]]) -> dict[_Key, list[Series]]:
    """Without what is said of a container before its device is known, where that is known now."""
    placed = {key.container for key in found if key.uuid}
    return {key: many for key, many in found.items() if key.uuid or key.container not in placed}


def _key(labels: Labels) -> _Key:
    return _Key(label(labels, "container"), label(labels, "uuid"), place_of(labels))


def _name(one: Series) -> str:
    return one.labels.get("__name__", "")


def _number(gpu: str, info: Labels) -> str:
    """A GPU's number, and behind it a part's own, as ``Device.number``."""
    part = label(info, "gpu_instance")
    return f"{gpu}-{part}" if gpu and part else gpu


def _uuid(labels: Labels) -> str:
    return label(labels, "uuid")


def _uuid_and_reason(labels: Labels) -> tuple[str, str]:
    return _uuid(labels), label(labels, "reason")


def _pod(labels: Labels) -> str:
    return f"{label(labels, 'namespace')}/{label(labels, 'pod')}"


def _group(labels: Labels) -> str:
    return f"{label(labels, 'kind')} {label(labels, 'group')}"
