"""Polls the sources for a few seconds, as the cycle does, and defines the results of checks."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from exporter.agent.collector import FIRST_LIST_S, Sources
from exporter.agent.settings import Settings
from exporter.agent.sources.gpus.gpusource import GpuSource, RestartRequiredError
from exporter.agent.sources.node.nodesource import merged
from exporter.agent.sources.pods.podreader import NOT_YET
from exporter.model import (
    CgroupIdentity,
    Clock,
    NodeFacts,
    PartCost,
    PodTable,
    Reading,
    Sampling,
    SourceStatus,
    Unattributed,
)

LIST_S = 10.0  # for the first list of pods: a busy node takes seconds to load the client
READS = 5
READ_EVERY_S = 0.5  # the driver samples six times a second at most: a window needs two reads


class ClockReading(NamedTuple):
    """Both clocks at one moment."""

    mono_ns: int
    unix_ns: int


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """What the sources returned. ``fatal``: why a source needs a new process, "" if it does not.

    ``begun`` and ``ended`` are the clocks before and after. By device UUID, ``windows`` is the end
    of the last window (Unix ns) if there was one, ``costs`` the time spent on the device until
    each reading, and ``sampling`` what the last window says of its samples.
    """

    settings: Settings
    begun: ClockReading
    ended: ClockReading
    readings: tuple[Reading, ...] = ()
    windows: Mapping[str, int] = field(default_factory=dict)
    costs: Mapping[str, Sequence[Mapping[str, PartCost]]] = field(default_factory=dict)
    sampling: Mapping[str, Sampling] = field(default_factory=dict)
    fatal: str = ""
    identities: Mapping[int, CgroupIdentity | Unattributed] = field(default_factory=dict)
    table: PodTable = field(default_factory=PodTable)
    node: NodeFacts = field(default_factory=NodeFacts)
    sources: tuple[SourceStatus, ...] = ()

    def status(self, name: str) -> SourceStatus | None:
        """The status of a source; None if there is no source of this name."""
        return next((source for source in self.sources if source.name == name), None)


def gather(
    settings: Settings, sources: Sources, clock: Clock, every_s: float = READ_EVERY_S
) -> ProbeResults:
    """Start the sources, poll them for some seconds, and close them."""
    begun = ClockReading(clock.monotonic_ns(), clock.time_ns())
    try:
        for listening in sources.listening:
            listening.start()
        # If nothing says that the list fails, this waits longer than the cycle does: the cycle
        # comes again, and a check has one try to name the pods.
        for _ in range(int(LIST_S / FIRST_LIST_S)):
            is_listed = sources.pods.wait(FIRST_LIST_S)
            if is_listed or not sources.pods.status().detail.startswith(NOT_YET):
                break
        found = _read(sources.gpus, every_s, ProbeResults(settings, begun, begun))
        memories = [device.memory for reading in found.readings for device in reading.devices]
        pids = {p.pid for memory in memories if memory for p in memory.processes or ()}
        table = sources.pods.table()
        facts = merged(node.facts(table) for node in sources.nodes)
        devices = tuple(d.device for reading in found.readings for d in reading.devices)
        return replace(
            found,
            ended=ClockReading(clock.monotonic_ns(), clock.time_ns()),
            identities=sources.processes.resolve(pids),
            table=table,
            node=replace(facts, devices=devices),
            sources=tuple(
                [reading.status for reading in found.readings]
                + [source.status() for source in sources.reporting]
            ),
        )
    finally:
        for source in sources.all:
            source.close()


def _read(gpus: tuple[GpuSource, ...], every_s: float, found: ProbeResults) -> ProbeResults:
    """The results with what ``READS`` reads of the GPUs bring."""
    windows: dict[str, int] = {}
    costs: dict[str, list[Mapping[str, PartCost]]] = defaultdict(list)
    sampling: dict[str, Sampling] = {}
    found = replace(found, windows=windows, costs=costs, sampling=sampling)
    try:
        for _ in range(READS):
            found = replace(found, readings=tuple(source.read() for source in gpus))
            for one in (device for reading in found.readings for device in reading.devices):
                costs[one.device.uuid].append(one.costs)
                if one.window:
                    windows[one.device.uuid] = one.window.end_unix_ns
                    sampling[one.device.uuid] = one.window.sampling
            threading.Event().wait(every_s)
    except RestartRequiredError as error:
        # The other checks go on: they may show what led to it.
        return replace(found, fatal=str(error))
    return found


class CheckVerdict(StrEnum):
    """The outcome of a check. A note is information: nothing that was asked for is affected."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report.

    ``remedy`` is what to do. ``privilege`` is what a pod needs for it, in the terms of its
    manifest: hostPID, a hostPath, a rule of a ClusterRole. Both are "" if there is nothing to do.
    """

    subject: str
    verdict: CheckVerdict
    found: str
    remedy: str = ""
    privilege: str = ""


def ok(subject: str, found: str) -> CheckResult:
    """A result without a problem."""
    return CheckResult(subject, CheckVerdict.OK, found)


def note(subject: str, found: str, remedy: str = "", privilege: str = "") -> CheckResult:
    """A result about something missing that was not asked for, or that may be intended."""
    return CheckResult(subject, CheckVerdict.NOTE, found, remedy, privilege)


def problem(subject: str, found: str, remedy: str, privilege: str = "") -> CheckResult:
    """A result about something that was asked for and does not work."""
    return CheckResult(subject, CheckVerdict.PROBLEM, found, remedy, privilege)
