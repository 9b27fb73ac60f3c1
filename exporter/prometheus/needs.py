"""What a Prometheus saw of the containers of each workload over a range, for advice."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from exporter.httpclient import NoAnswerError
from exporter.metrics.families import PREFIX
from exporter.prometheus.advice import FULL, Point, Resource, Seen
from exporter.prometheus.client import Grid, Labels, Prometheus, label, selector

BY = ("owner", "pod")

_CONTAINER, _DEVICE = f"{PREFIX}_container_", f"{PREFIX}_device_"
_ALLOCATION = f"{_CONTAINER}allocation_info"
_POD_INFO = f"{PREFIX}_pod_info"
_KV_USE, _KV_POOL = "vllm:kv_cache_usage_perc", "vllm:cache_config_info"
_KV_BYTES = "kv_cache_memory_bytes"
_SHORTEST_STEP_S, _MOST_STEPS, _WHOLE_STEP_S = 300, 700, 60


_ByTime = dict[float, dict[str, float]]  # values by device


class Workload(NamedTuple):
    """A container of the pods of one owner."""

    namespace: str
    owner_kind: str
    owner: str
    container: str


class _Pod(NamedTuple):
    namespace: str
    pod: str


class _Key(NamedTuple):
    """A container of a pod."""

    pod: _Pod
    container: str


@dataclass(slots=True)
class _Had:
    """What one container of one pod had, by time; values are by device."""

    times: set[float] = field(default_factory=set)
    core: _ByTime = field(default_factory=lambda: defaultdict(dict))
    memory: _ByTime = field(default_factory=lambda: defaultdict(dict))
    share: float | None = None
    limit: float | None = None
    devices: set[str] = field(default_factory=set)
    scheme: str = ""


class _Pool(NamedTuple):
    """A program's pool of memory: the most used of it, and its size if that is known."""

    used: float
    size: float | None


@dataclass(frozen=True, slots=True)
class _Devices:
    """How busy devices were, by time, and how much memory programs can have of each."""

    busy: Mapping[str, Mapping[float, float]]
    memory: Mapping[str, float]


def grid_of(since_s: int, until_s: int) -> Grid:
    """The steps of a range: not shorter than 5 minutes, and at most 700."""
    length = until_s - since_s
    whole = -(-length // (_MOST_STEPS * _WHOLE_STEP_S)) * _WHOLE_STEP_S
    step = max(_SHORTEST_STEP_S, whole)
    return Grid(until_s - (length // step - 1) * step, until_s, step)


class Needs:
    """Reads what was seen in the range of ``grid``. ``by`` is one of ``BY``."""

    def __init__(
        self, prometheus: Prometheus, grid: Grid, by: str = "owner", namespace: str = ""
    ) -> None:
        self._prometheus = prometheus
        self._grid = grid
        self._by = by
        self._namespace = namespace
        self._label = "namespace"  # or what Prometheus renamed it to
        self._length_s = grid.end_s - grid.begin_s + grid.step_s

    def read(self) -> list[tuple[Workload, list[Seen]]]:
        """Of each workload what was seen of its core and memory, by name.

        Raises:
            NoAnswerError: no container had an allocation in the range.

        """
        had = self._had()
        if not had and self._namespace:
            self._label = "exported_namespace"
            had = self._had()
        if not had:
            where = f"namespace {self._namespace}" if self._namespace else "any namespace"
            raise NoAnswerError(
                f"{self._prometheus.address} knows no container of {where} that was allocated a "
                "GPU in this range"
            )
        owners, pools, devices = self._owners(), self._pools(), self._devices()
        grouped: dict[Workload, list[tuple[_Key, _Had]]] = defaultdict(list)
        for key, one in had.items():
            kind, name = ("Pod", key.pod.pod)
            if self._by == "owner":
                kind, name = owners.get(key.pod, (kind, name))
            grouped[Workload(key.pod.namespace, kind, name, key.container)].append((key, one))
        return [
            (workload, list(self._seen(grouped[workload], pools, devices)))
            for workload in sorted(grouped)
        ]

    def _seen(
        self, each: Sequence[tuple[_Key, _Had]], pools: Mapping[_Pod, _Pool], devices: _Devices
    ) -> Iterator[Seen]:
        step_s = self._grid.step_s
        times = sorted({at for _, one in each for at in one.times})
        uuids = {uuid for _, one in each for uuid in one.devices}
        of_pods = [pools[key.pod] for key, _ in each if key.pod in pools]
        sizes = [pool.size for pool in of_pods if pool.size is not None]
        core = Seen(
            resource=Resource.CORE,
            allocated=_most(one.share for _, one in each),
            points=self._points([(one.core, one.times) for _, one in each], devices.busy),
            present=sum(len(one.times) for _, one in each),
            step_s=step_s,
            life_s=times[-1] - times[0] + step_s,
            longest_s=max(max(one.times) - min(one.times) for _, one in each) + step_s,
            ended=times[-1] <= self._grid.end_s - step_s,
            whole=1.0,
            scheme=next((one.scheme for _, one in each if one.scheme), ""),
        )
        yield core
        yield replace(
            core,
            resource=Resource.MEMORY,
            allocated=_most(one.limit for _, one in each),
            points=self._points([(one.memory, one.times) for _, one in each], {}),
            whole=_most(devices.memory.get(uuid) for uuid in uuids),
            pool_used=max((pool.used for pool in of_pods), default=None),
            pool_bytes=min(sizes) if sizes and len(sizes) == len(of_pods) else None,
        )

    def _points(
        self,
        each: Sequence[tuple[_ByTime, set[float]]],
        busy: Mapping[str, Mapping[float, float]],
    ) -> list[Point]:
        return [
            self._point(at, by_time[at], busy)
            for by_time, times in each
            for at in sorted(by_time.keys() & times)
        ]

    def _point(
        self, at: float, by_device: Mapping[str, float], busy: Mapping[str, Mapping[float, float]]
    ) -> Point:
        """The card that it used most; a card is full if one of its cards is."""
        full = [busy.get(uuid, {}).get(at, 0.0) for uuid in by_device]
        card = max(full, default=0.0)
        return Point(self._grid.end_s - at, max(by_device.values()), card if card >= FULL else None)

    def _had(self) -> dict[_Key, _Had]:
        step = self._grid.step_s
        found: dict[_Key, _Had] = defaultdict(_Had)
        allocated = self._chosen(_ALLOCATION)
        for labels, samples in self._over(f"count_over_time({allocated}[{step}s])"):
            one = found[_key(labels)]
            one.times.update(at for at, _ in samples)
            one.devices.update(filter(None, [label(labels, "uuid")]))
            one.scheme = labels.get("scheme", one.scheme)
        for labels, samples in self._over(f"rate({self._chosen('core_seconds_total')}[{step}s])"):
            _put(found.get(_key(labels)), "core", labels, samples)
        used = self._chosen("memory_used_bytes")
        for labels, samples in self._over(f"max_over_time({used}[{step}s])"):
            _put(found.get(_key(labels)), "memory", labels, samples)
        for labels, value in self._last(self._chosen("core_limit_ratio")):
            if (key := _key(labels)) in found:
                found[key].share = max(value, found[key].share or 0.0)
        for labels, value in self._last(self._chosen("memory_limit_bytes")):
            if (key := _key(labels)) in found:
                found[key].limit = max(value, found[key].limit or 0.0)
        return found

    def _owners(self) -> dict[_Pod, tuple[str, str]]:
        return {
            _pod(labels): (label(labels, "owner_kind"), label(labels, "owner_name"))
            for labels, _ in self._last(_POD_INFO)
            if label(labels, "owner_name")
        }

    def _pools(self) -> dict[_Pod, _Pool]:
        """The KV caches of vLLM, by the labels of the pod that Prometheus gives its series."""
        sizes = {
            _pod(labels): float(labels[_KV_BYTES])
            for labels, _ in self._last(_KV_POOL)
            if labels.get(_KV_BYTES, "").isdecimal()
        }
        end, length = self._grid.end_s, self._length_s
        found: dict[_Pod, float] = defaultdict(float)
        for one in self._prometheus.at(f"max_over_time({_KV_USE}[{length}s])", end):
            pod = _pod(one.labels)
            found[pod] = max(found[pod], one.samples[-1][1])
        return {pod: _Pool(min(1.0, used), sizes.get(pod)) for pod, used in found.items()}

    def _devices(self) -> _Devices:
        busy: dict[str, dict[float, float]] = defaultdict(dict)
        rate = f"rate({_DEVICE}busy_seconds_total[{self._grid.step_s}s])"
        for labels, samples in self._over(f"{rate} >= {FULL}"):
            busy[label(labels, "uuid")].update(samples)
        total = self._last(f"{_DEVICE}memory_total_bytes")
        reserved = {
            label(labels, "uuid"): value
            for labels, value in self._last(f"{_DEVICE}memory_reserved_bytes")
        }
        usable = {
            uuid: value - reserved.get(uuid, 0.0)
            for uuid, value in ((label(labels, "uuid"), value) for labels, value in total)
        }
        return _Devices(busy, usable)

    def _chosen(self, name: str) -> str:
        full = name if name.startswith(PREFIX) else f"{_CONTAINER}{name}"
        if not self._namespace:
            return full
        return selector([full], **{self._label: self._namespace})

    def _over(self, expression: str) -> list[tuple[Labels, Sequence[tuple[float, float]]]]:
        return [(one.labels, one.samples) for one in self._prometheus.over(expression, self._grid)]

    def _last(self, chosen: str) -> list[tuple[Labels, float]]:
        expression = f"last_over_time({chosen}[{self._length_s}s])"
        found = self._prometheus.at(expression, self._grid.end_s)
        return [(one.labels, one.samples[-1][1]) for one in found]


def _put(
    had: _Had | None, name: str, labels: Labels, samples: Sequence[tuple[float, float]]
) -> None:
    if had is None:
        return
    uuid = label(labels, "uuid")
    by_time: _ByTime = had.core if name == "core" else had.memory
    for at, value in samples:
        by_time[at][uuid] = max(value, by_time[at].get(uuid, 0.0))


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _key(labels: Labels) -> _Key:
    return _Key(_pod(labels), label(labels, "container"))


def _pod(labels: Labels) -> _Pod:
    return _Pod(label(labels, "namespace"), label(labels, "pod"))
