"""The lives of pods, containers and processes over time, and how processes share a GPU.

A recurring pod is a new one each time: it has a new uid, name, container id and process ids.

If several processes want a GPU at the same time, the driver gives each a slice of about 2 ms in
turn. Over anything longer each has an equal part, which is computed without the slices. Only
``running`` looks at the turn.
"""

import re
from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from exporter.agent.simulation import identity
from exporter.agent.simulation.description import ContainerSpec, PodSpec, ProcessSpec, Scenario
from exporter.agent.simulation.identity import mix

FIRST_PID = 2001
PIDS = 4_000_000  # below the kernel's largest pid_max, 2^22
NUMBERED = re.compile(r"\{([0-9]{1,9})\}", re.ASCII)


class PodName(NamedTuple):
    """The names of one occurrence of a pod.

    ``kubelet_uid`` is a static pod's configuration hash, otherwise the uid.
    """

    uid: str
    name: str
    owner_name: str
    kubelet_uid: str


def pod_name(seed: int, pod: PodSpec, number: int) -> PodName:
    """The names of a pod's n-th occurrence."""
    parts_of_id = (seed, "pod", pod.namespace, pod.name, number)
    uid = identity.uuid(*parts_of_id)
    if pod.span.every_ns is None:
        # The kubelet gives a static pod the hash of its file as UID, and cgroups have that. The API
        # server gives its mirror another one.
        hashed = identity.digest(*parts_of_id, "manifest")[:32] if pod.static else uid
        return PodName(uid, pod.name, pod.owner_name, hashed)
    job = f"{pod.owner_name or pod.name}-{number}"
    return PodName(uid, f"{job}-{identity.suffix(*parts_of_id)}", job, uid)


def container_id(seed: int, pod: PodSpec, container: ContainerSpec, number: int) -> str:
    """64 hexadecimal digits."""
    return identity.digest(seed, "container", pod.namespace, pod.name, container.name, number)


def pod_key(seed: int, pod: PodSpec) -> int:
    """What a pod's lengths of life are drawn from."""
    return identity.number(seed, "span", pod.namespace, pod.name)


# Compared by identity: lives are keys, and a pod's mappings have no hash.
@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """A process of the file, with the keys that its chances are drawn from.

    ``pod`` and ``container`` are None for a host process.
    """

    order: int
    key: int
    pod_key: int
    process: ProcessSpec
    pod: PodSpec | None
    container: ContainerSpec | None

    def ratio(self, engine: str) -> float:
        """How long it keeps an engine busy for each unit of core time."""
        return 1.0 if engine == "core" else float(getattr(self.process, engine))


class ProcessLife(NamedTuple):
    """A process from its start to its end (exclusive), in ns since the scenario's start.

    ``number`` is that of its pod's occurrence, or outside pods of its own.
    """

    pid: int
    start_ns: int
    end_ns: int
    resident: Resident
    number: int

    @property
    def in_pod(self) -> bool:
        """Whether it is a pod's."""
        return self.resident.pod is not None


class Burst(NamedTuple):
    """A process wants the device from start to end."""

    start_ns: int
    end_ns: int
    life: ProcessLife


class Population:
    """The processes of a scenario. Stateless: any range of time may be asked for."""

    def __init__(self, scenario: Scenario) -> None:
        self.seed = scenario.seed
        self._all = tuple(
            Resident(
                order,
                # Drawn by its place, with the seed: the same file is the same node each time.
                identity.number(scenario.seed, "process", order),
                pod_key(scenario.seed, pod) if pod else 0,
                *(process, pod, container),
            )
            for order, (process, pod, container) in enumerate(scenario.residents())
        )
        self._on = tuple(
            tuple(i for i in self._all if device.number in i.process.devices)
            for device in scenario.devices
        )

    def lives(self, begin_ns: int, end_ns: int, device: int | None = None) -> Iterator[ProcessLife]:
        """Processes that live at some time in [begin, end), on one device or anywhere."""
        for resident in self._all if device is None else self._on[device]:
            yield from self._lives_of(resident, begin_ns, end_ns)

    def bursts(self, device: int, begin_ns: int, end_ns: int) -> list[Burst]:
        """When processes want a device in [begin, end), in no order."""
        return [
            Burst(start, end, life)
            for life in self.lives(begin_ns, end_ns, device)
            for start, end in life.resident.process.work.bursts(
                identity.mix(life.resident.key, life.pid),
                (life.start_ns, life.end_ns),
                begin_ns,
                end_ns,
            )
        ]

    def cgroup(self, life: ProcessLife) -> str:
        """The cgroup of a process outside pods: of each occurrence, under a new id or number."""
        process, number = life.resident.process, life.number
        parts_of_id = (self.seed, "cgroup", process.cgroup, process.called, number)
        path = process.cgroup.replace("{id}", identity.digest(*parts_of_id))
        return NUMBERED.sub(lambda found: str(int(found[1]) + number), path)

    def first_lives(self) -> list[ProcessLife]:
        """One life of each process of the file, for what all its lives have alike."""
        return [ProcessLife(0, 0, 0, resident, 0) for resident in self._all]

    def _lives_of(self, resident: Resident, begin_ns: int, end_ns: int) -> Iterator[ProcessLife]:
        process, pod = resident.process, resident.pod
        if pod is None:
            for number, start, end in process.span.occurrences(resident.key, begin_ns, end_ns):
                yield ProcessLife(self._pid(resident, number), start, end, resident, number)
            return
        for home in pod.span.occurrences(resident.pod_key, begin_ns, end_ns):
            # The times of a process are those of its pod's age: each pod of a job has the same
            # life.
            since = home.start_ns
            for number, start, end in process.span.occurrences(
                resident.key, begin_ns - since, min(end_ns, home.end_ns) - since
            ):
                # The pod comes again or its process does, never both (``read_process``): one of
                # them is 0.
                pid = self._pid(resident, home.number or number)
                stop = min(since + end, home.end_ns)
                yield ProcessLife(pid, since + start, stop, resident, home.number)

    def _pid(self, resident: Resident, number: int) -> int:
        """Unique among all that live within minutes; used again after millions."""
        return FIRST_PID + (resident.order + len(self._all) * number) % PIDS


SLICE_NS = 2_000_000


class Segment(NamedTuple):
    """A time in which the same processes shared the device; never empty of either."""

    start_ns: int
    end_ns: int
    lives: tuple[ProcessLife, ...]  # by pid

    def parts(self) -> Iterator[tuple[ProcessLife, int]]:
        """Each process's part in ns; the parts add up to the length exactly."""
        part, rest = divmod(self.end_ns - self.start_ns, len(self.lives))
        for place, life in enumerate(self.lives):
            yield life, part + (place < rest)


def segments(bursts: Iterable[Burst]) -> Iterator[Segment]:
    """The bursts of one device as segments, in order of time."""
    lives: dict[int, ProcessLife] = {}
    edges: list[tuple[int, bool, int]] = []
    for start, end, life in bursts:
        lives[life.pid] = life
        edges.append((start, True, life.pid))
        edges.append((end, False, life.pid))
    edges.sort()  # at the same instant ends come before starts
    active: list[int] = []
    since = 0
    for at, starts, pid in edges:
        if active and at > since:
            yield Segment(since, at, tuple(lives[p] for p in active))
        since = at
        if starts:
            insort(active, pid)
        else:
            active.remove(pid)


def cut(parts: Iterable[Segment], bounds: Iterable[int]) -> Iterator[Segment]:
    """The same segments, cut where a bound lies inside one. Bounds rise."""
    ahead = iter(bounds)
    bound = next(ahead, None)
    for start, end, lives in parts:
        left = start
        while bound is not None and bound < end:
            if bound > left:
                yield Segment(left, bound, lives)
                left = bound
            bound = next(ahead, None)
        yield Segment(left, end, lives)


def busy_ns(bursts: Iterable[Burst]) -> int:
    """How long at least one process had the device."""
    busy = reached = 0
    for start, end, _ in sorted(bursts, key=lambda burst: burst.start_ns):
        busy += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return busy


def running(segment: Segment) -> ProcessLife:
    """Whose turn it is at the end of a segment.

    Drawn for each slice: slices of exactly equal length would beat against the samples.
    """
    turn = (segment.end_ns - 1) // SLICE_NS
    return segment.lives[mix(turn) % len(segment.lives)]
