"""Describes GPUs and what processes do on them, for the stand-in library, and says what is true.

Times are unix seconds, memory is in bytes, ratios go from 0 to 1. Both sides count in whole
nanoseconds, so that :func:`truth` is what the library computes too, before it samples and rounds.
"""

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

GIB = 1 << 30
SECOND = 10**9

Engine = Literal["core", "memory", "encoder", "decoder"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A board. ``mig`` None: not capable; ``used`` None: the sum of its processes.

    ``license`` None: the driver has no vGPU software to license. ``sleeps``: no samples while it is
    idle. ``gpm_activity`` False: GPM lacks the figures of the core. ``gpm_still``: they are all 0.
    ``probe``: the capacity that it reports, if not ``ring``. ``rates``: the percent that the calls
    for rates return, if not the newest sample's. ``garbage``: the number of impossible rows.
    ``module_mw``: what only the energy counter has, of the processor on the same module.
    ``inherits``: rows of processes that ended vanish, and the next process has what they used.
    """

    index: int
    uuid: str = ""
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 80 * GIB
    reserved: int = GIB // 2
    used: int | None = None
    minor: int | None = None
    pci: str = ""
    power_mw: int = 350_000
    idle_mw: int = 70_000
    module_mw: int = 0
    limit_mw: int = 400_000
    temperature: int = 50
    memory_temperature: int = 60
    ring: int = 72
    sleeps: bool = False
    inherits: bool = False
    sample_period: float = 1 / 6
    sample_offset: float = 0.0
    probe: int | None = None
    rates: int | None = None
    rule: Literal["last", "end", "longest", "random"] = "last"
    slice: float = 0.002
    energy: bool = True
    energy_step: float = 0.1
    mig: bool | None = None
    gpm: bool = True
    gpm_activity: bool = True
    gpm_still: bool = False
    license: bool | None = None
    slices: int = 7
    garbage: int = 0
    lost: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "uuid", self.uuid or f"GPU-{self.index}")
        object.__setattr__(self, "pci", self.pci or f"00000000:{self.index + 1:02X}:00.0")


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG device of a board with ``mig=True``. ``compute`` None: all its slices."""

    gpu: int
    index: int
    uuid: str = ""
    gi: int | None = None
    ci: int = 0
    slices: int = 1
    compute: int | None = None
    memory: int = 10 * GIB
    profile: str = "1g.10gb"
    sms: int = 14
    start: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", self.index if self.start is None else self.start)
        object.__setattr__(self, "uuid", self.uuid or f"MIG-{self.gpu}-{self.index}")
        object.__setattr__(self, "gi", self.index + 1 if self.gi is None else self.gi)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds a context. ``memory`` None: the driver does not say."""

    gpu: int
    pid: int
    memory: int | None = 0
    kind: Literal["compute", "graphics", "mps"] = "compute"
    instance: int | None = None
    start: float = 0.0
    end: float | None = None
    name: str = "python3"


@dataclass(frozen=True, slots=True)
class Work:
    """When a process keeps which engines busy: ``duty`` of each ``period``, 0 for no pauses."""

    gpu: int
    pid: int
    start: float
    end: float | None = None
    period: float = 0.0
    duty: float = 1.0
    phase: float = 0.0
    core: float = 1.0
    memory: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    instance: int | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with a function, whose name may end in ``*``.

    A hang of 0 seconds lasts until its line is gone.
    """

    kind: Literal["error", "delay", "hang"]
    function: str
    gpu: int | None = None
    code: int = 999
    count: int | None = None
    skip: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Price:
    """CPU that a call takes, in microseconds: in all, and for each process on its GPU.

    ``key``: of a kind of sample (nvmlSamplingType_t), or of one field in a call for many. See
    ``prices`` for what real boards take.
    """

    function: str
    us: float
    process_us: float = 0.0
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field value: ``value + rate * seconds since the driver was loaded``."""

    gpu: int
    id: int
    value: float = 0.0
    rate: float = 0.0
    type: Literal["ulonglong", "uint", "double"] = "ulonglong"
    scope: int = 0
    error: int = 0


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID event. ``at`` None: it happens when the line is first seen."""

    gpu: int
    code: int
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of process utilisation that the driver hands out as it is, at each call."""

    gpu: int
    pid: int
    at_us: int = 0
    core: int = 0
    memory: int = 0
    encoder: int = 0
    decoder: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """The memory limits of a cgroup, by its directory, which must be there. ``hard`` None: none."""

    gpu: int
    cgroup: str
    soft: int = 0
    hard: int | None = None
    used: int = 0


@dataclass(slots=True)
class Scenario:
    """All of it. ``now`` freezes the library's clock, ``offset`` shifts it from the real one.

    ``monotonic``: that is the monotonic clock, which nobody can set.
    """

    gpus: list[Gpu] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    xids: list[Xid] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    prices: Sequence[Price] = ()
    driver: str = "580.65.06"
    cuda: int = 13000
    loaded: float = 0.0
    now: float | None = None
    offset: float = 0.0
    monotonic: bool = False

    def text(self) -> str:
        """The scenario file, as README.md describes it."""
        return "\n".join(self._lines()) + "\n"

    def write(self, path: Path) -> Path:
        """Replaces the file at once; a library that reads it sees it at its next call."""
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_text(self.text(), errors="surrogateescape")
        # The kernel stamps files in steps of some ms and reuses inodes; this stamp is always new.
        os.utime(fresh, ns=(now := time.time_ns(), now))
        return fresh.replace(path)

    def _lines(self) -> Iterator[str]:
        yield _line("driver", version=self.driver, cuda=self.cuda, loaded=self.loaded)
        yield _line("clock", now=self.now, offset=self.offset, monotonic=self.monotonic)
        for gpu in self.gpus:
            yield _record("gpu", gpu, "lost", "garbage")
            yield from [f"lost gpu={gpu.index}"] * gpu.lost
            yield from [f"garbage gpu={gpu.index} rows={gpu.garbage}"] * bool(gpu.garbage)
        for process in self.processes:
            memory = "na" if process.memory is None else process.memory
            yield f"{_record('process', process, 'memory')} memory={memory}"
        for fault in self.faults:
            yield _record(fault.kind, fault, "kind")
        for kind, records in (
            ("instance", self.instances),
            ("work", self.works),
            ("field", self.fields),
            ("xid", self.xids),
            ("row", self.rows),
            ("limit", self.limits),
            ("price", self.prices),
        ):
            yield from (_record(kind, record) for record in records)


def truth(
    scenario: Scenario,
    gpu: int,
    start: float,
    end: float,
    engine: Engine = "core",
    instance: int | None = None,
) -> dict[int, float]:
    """Busy seconds of one engine for each pid: its part of the time-sliced engine, exactly."""
    works = [work for work in scenario.works if (work.gpu, work.instance) == (gpu, instance)]
    seconds: dict[int, float] = dict.fromkeys((work.pid for work in works), 0.0)
    for weights, duration in _spans(works, _ns(start), _ns(end), engine).items():
        for pid, weight in weights:
            seconds[pid] += weight * duration / len(weights) / SECOND
    return seconds


def core_seconds(scenario: Scenario, gpu: int, start: float, end: float) -> float:
    """Busy seconds of the board's cores; a MIG instance counts by its slices."""
    whole = sum(truth(scenario, gpu, start, end).values())
    return whole + sum(
        sum(truth(scenario, gpu, start, end, instance=part.index).values())
        * (part.slices / scenario.gpus[gpu].slices)
        for part in scenario.instances
        if part.gpu == gpu
    )


def energy_joules(scenario: Scenario, gpu: int, start: float, end: float) -> float:
    """Energy that the board used: idle power always, the rest with the cores' busy time."""
    board = scenario.gpus[gpu]
    active = core_seconds(scenario, gpu, start, end) * (board.power_mw - board.idle_mw)
    return ((end - start) * board.idle_mw + active) / 1000


def _spans(
    works: list[Work], start: int, end: int, engine: Engine
) -> Counter[tuple[tuple[int, float], ...]]:
    """How many nanoseconds each set of (pid, weight) shared the engine."""
    edges = sorted(
        (moment, number, step)
        for number, work in enumerate(works)
        for begin, until in _active(work, start, end)
        for moment, step in ((begin, 1), (until, -1))
    )
    running: Counter[int] = Counter()
    spans: Counter[tuple[tuple[int, float], ...]] = Counter()
    before = start
    for moment, number, step in edges:
        if moment > before:
            spans[_weights(works, running, engine)] += moment - before
        before = moment
        running[number] += step
    return spans


def _weights(
    works: list[Work], running: Counter[int], engine: Engine
) -> tuple[tuple[int, float], ...]:
    """Who uses the engine: each pid once, with the greatest weight of its lines."""
    weights: dict[int, float] = {}
    for number, count in running.items():
        work = works[number]
        weight: float = getattr(work, engine)
        if count > 0 and weight > 0:
            weights[work.pid] = max(weight, weights.get(work.pid, 0.0))
    return tuple(sorted(weights.items()))


def _active(work: Work, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans within [start, end) in which the process is active."""
    born = _ns(work.start)
    period = _ns(work.period)
    busy = period * _ns(work.duty) // SECOND
    first = max(start, born)
    last = end if work.end is None else min(end, _ns(work.end))
    if period == 0 or busy >= period:
        if first < last:
            yield first, last
        return
    origin = born - _ns(work.phase)
    for begin in range(origin + (first - origin) // period * period, last, period):
        if max(begin, first) < min(begin + busy, last):
            yield max(begin, first), min(begin + busy, last)


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)


def _record(kind: str, record: object, *skipped: str) -> str:
    """A line of a dataclass's fields, under their own names."""
    assert dataclasses.is_dataclass(record)
    names = [item.name for item in dataclasses.fields(record) if item.name not in skipped]
    return _line(kind, **{name: getattr(record, name) for name in names})


def _line(kind: str, /, **values: str | float | None) -> str:
    pairs = (f"{key}={_value(value)}" for key, value in values.items() if value is not None)
    return " ".join([kind, *pairs])


def _value(value: str | float) -> str:
    """A value as the file has it. The library reads at most nine decimal places, exactly."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int):
        return str(int(value))
    sign, rest = "-" if value < 0 else "", abs(_ns(value))
    return f"{sign}{rest // SECOND}.{rest % SECOND:09d}"
