"""What the sources say within a few seconds, asked as the cycle asks them.

What an examination finds.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from exporter.collector import FIRST_LIST_S, Sources
from exporter.model import (
    CgroupIdentity,
    Clock,
    PartCost,
    PodTable,
    Reading,
    SourceStatus,
    Tree,
    Unattributed,
)
from exporter.settings import Settings
from exporter.sources.gpus.source import GpuSource, RestartRequiredError

READS = 5
READ_EVERY_S = 0.5  # the driver samples six times a second at most: a window needs two reads


class ClockReading(NamedTuple):
    """Both clocks at one moment."""

    mono_ns: int
    unix_ns: int


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """All of it. ``fatal``: a source said that only a new process can help.

    ``begun`` and ``ended`` are the clocks before and after. Of GPUs, ``read_at`` is the time of the
    last reading, ``windows`` whether a device told of one in any reading, and ``costs`` what was
    spent on it until each reading, by UUID.
    """

    settings: Settings
    begun: ClockReading
    ended: ClockReading
    readings: tuple[Reading, ...] = ()
    windows: Mapping[str, int] = field(default_factory=dict)
    costs: Mapping[str, Sequence[Mapping[str, PartCost]]] = field(default_factory=dict)
    fatal: str = ""
    tree: Tree = field(default_factory=lambda: Tree({}, {}))
    identities: Mapping[int, CgroupIdentity | Unattributed] = field(default_factory=dict)
    table: PodTable = field(default_factory=PodTable)
    sources: tuple[SourceStatus, ...] = ()

    def status(self, name: str) -> SourceStatus | None:
        """How a source fares; None if there is none of this name."""
        return next((source for source in self.sources if source.name == name), None)


def gather(
    settings: Settings, sources: Sources, clock: Clock, every_s: float = READ_EVERY_S
) -> ProbeResults:
    """Start the sources, ask them for some seconds, close them."""
    begun = ClockReading(clock.monotonic_ns(), clock.time_ns())
    try:
        for listening in sources.listening:
            listening.start()
        sources.pods.wait(FIRST_LIST_S)
        gpus = _read(sources.gpus, every_s)
        memories = [device.memory for reading in gpus.readings for device in reading.devices]
        pids = {p.pid for memory in memories if memory for p in memory.processes or ()}
        table = sources.pods.table()
        for node in sources.nodes:
            node.facts(table)
        return ProbeResults(
            settings=settings,
            begun=begun,
            ended=ClockReading(clock.monotonic_ns(), clock.time_ns()),
            **gpus._asdict(),
            tree=sources.processes.tree(),
            identities=sources.processes.resolve(pids),
            table=table,
            sources=tuple(
                [reading.status for reading in gpus.readings]
                + [source.status() for source in sources.reporting]
            ),
        )
    finally:
        for source in sources.all:
            source.close()


class _Gpus(NamedTuple):
    """What was read of them; the names are those of ``ProbeResults``."""

    readings: tuple[Reading, ...]
    windows: Mapping[str, int]
    costs: Mapping[str, Sequence[Mapping[str, PartCost]]]
    fatal: str = ""


def _read(gpus: tuple[GpuSource, ...], every_s: float) -> _Gpus:
    """Read them some times."""
    readings: tuple[Reading, ...] = ()
    windows: dict[str, int] = {}
    costs: dict[str, list[Mapping[str, PartCost]]] = defaultdict(list)
    try:
        for _ in range(READS):
            readings = tuple(source.read() for source in gpus)
            for told in (device for reading in readings for device in reading.devices):
                costs[told.device.uuid].append(told.costs)
                if told.window:
                    windows[told.device.uuid] = told.window.end_unix_ns
            threading.Event().wait(every_s)
    except RestartRequiredError as error:
        return _Gpus(readings, windows, costs, str(error))
    return _Gpus(readings, windows, costs)


class CheckVerdict(StrEnum):
    """How it is. A note is worth knowing and stops nothing that was asked for."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report.

    ``remedy`` is what to do, ``privilege`` what a pod must be given for it, in the terms of its
    manifest: hostPID, a hostPath, a rule of a ClusterRole. Both "" where there is nothing to do.
    """

    subject: str
    verdict: CheckVerdict
    found: str
    remedy: str = ""
    privilege: str = ""


def ok(subject: str, found: str) -> CheckResult:
    """It is as it should be."""
    return CheckResult(subject, CheckVerdict.OK, found)


def note(subject: str, found: str, remedy: str = "", privilege: str = "") -> CheckResult:
    """Something is not there that was not asked for, or may be as wanted."""
    return CheckResult(subject, CheckVerdict.NOTE, found, remedy, privilege)


def problem(subject: str, found: str, remedy: str, privilege: str = "") -> CheckResult:
    """Something that was asked for does not work."""
    return CheckResult(subject, CheckVerdict.PROBLEM, found, remedy, privilege)
