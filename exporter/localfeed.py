"""The feed of this node, for the answers: a collector in this process, without a server.

``ProcessCommands`` adds users, command lines and use of the host for ``top`` on the spot. They are
read from ``/proc`` with the rights of the user of ``top``, and only shown to that user: the
exporter's own documents never contain command lines, because arguments may be secrets.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial

from exporter.agent import api
from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.facts.history import Past
from exporter.agent.hostuse import HostUses
from exporter.agent.settings import Settings
from exporter.agent.simulation import ScenarioError
from exporter.agent.sources import door
from exporter.agent.sources.aside import Aside
from exporter.agent.sources.door import Cut, Reply, Whole
from exporter.agent.sources.groups.groupowners import Users
from exporter.agent.sources.pods.podfactory import node_name
from exporter.answers.reading.feeds.details import ProcessCommand
from exporter.answers.reading.feeds.feed import FeedResult, NodeSight, troubles_of
from exporter.httpclient import NoAnswerError
from exporter.metrics.families import families_without
from exporter.metrics.text import Format, Renderer
from exporter.model import Clock, Process, Snapshot
from exporter.shown.processtree import processes_of, tree_of_snapshot
from exporter.shown.reasonwords import what_to_do
from exporter.shown.tree import Tree

logger = logging.getLogger(__name__)

ENDS_WITHIN_S = 2.0
FIRST_WITHIN_S = 10.0

LONGEST_COMMAND = 4096  # bytes that are read of one
LINE_WITHIN_S = 0.1
MINUTES = api.HISTORY_MINUTES

_Key = tuple[int, int | None]
"""A process: its pid, and when it began."""


class ProcessCommands:
    """Reads once who each process is, and each time what it uses. Those gone are forgotten."""

    def __init__(self, proc_root: str, passwd: str, clock: Clock = time) -> None:
        self._proc_root = proc_root
        self._users = Users(passwd, clock)
        self._known: dict[_Key, ProcessCommand] = {}
        self._lines: Aside[_Key, Reply[bytes]] = Aside("command lines")
        self._uses = HostUses(proc_root, clock)

    def of(self, processes: Iterable[Process]) -> Mapping[int, ProcessCommand]:
        """What is known of processes, by pid."""
        processes = tuple(processes)
        self._lines.keep({(process.pid, process.start_unix_ns) for process in processes})
        known: dict[_Key, ProcessCommand] = {}
        names: dict[int, str] = {}
        for process in processes:
            key = process.pid, process.start_unix_ns
            names[process.pid] = process.name
            found = self._known.get(key) or self._read(key, process.name)
            if found is not None:
                known[key] = found
        self._known = known
        commands = {pid: found for (pid, _), found in known.items()}
        return commands | {
            pid: commands[pid]._replace(host_cpus=use.cpus, host_bytes=use.resident_bytes)
            for pid, use in self._uses.of(names).items()
            if pid in commands
        }

    def _read(self, key: _Key, name: str) -> ProcessCommand | None:
        """The process of this pid if it has this name, else another one has the pid by now.

        A command line lies in its process's memory, which its user may serve: it is asked aside.
        """
        folder = f"{self._proc_root}/{key[0]}"
        about = door.about(folder)
        if not isinstance(about, Whole):
            return None
        uid = about.value.st_uid
        ask = partial(door.read, f"{folder}/cmdline", LONGEST_COMMAND)
        line = self._lines.ask(key, uid, ask, LINE_WITHIN_S)
        # After the command line: by then another process may have the pid, and its arguments were
        # read.
        comm = door.read(f"{folder}/comm", LONGEST_COMMAND)
        if not (isinstance(line, Whole | Cut) and isinstance(comm, Whole)):
            return None
        if comm.value.decode(errors="replace").rstrip("\n") != name:
            return None
        command = " ".join(
            part.decode(errors="replace") for part in line.value.split(b"\0") if part
        )
        return ProcessCommand(self._users.names().get(uid, str(uid)), command)


class ThisNode:
    """Implements ``OwnNode``: the node of these settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.telemetry_path = settings.web_telemetry_path

    def open(self, *, commands: bool = False) -> "LocalFeed":
        """Opens the sources, and starts to collect. Only errors are logged from then on.

        A simulated process has no files, and its pid may be another's: it has no command line.
        """
        settings = self._settings
        # Before the sources are opened: they log that, in a thread of their own.
        logging.getLogger().setLevel(max(logging.getLogger().level, logging.ERROR))
        try:
            sources = open_sources(settings)
        except ScenarioError as error:
            raise NoAnswerError(str(error)) from None
        shown = None
        if commands and not settings.simulate:
            shown = ProcessCommands(settings.path_procfs, settings.path_passwd)
        return LocalFeed(settings, sources, commands=shown)


class LocalFeed:
    """Implements ``NodeFeed``. Owns the sources: it starts them, and closes them at the end.

    ``commands`` adds users and command lines to what is read; without it there are none.
    """

    name = "this node"

    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        clock: Clock = time,
        commands: ProcessCommands | None = None,
    ) -> None:
        self._commands = commands
        self._clock = clock
        self._sources = sources
        self._collector: Collector = make_collector(settings, sources, clock)
        # A simulated node is not the machine that it is shown on.
        name = "" if settings.simulate else node_name(settings.node_name)
        self._about = api.About(name, settings.collection_window_ns)
        self._renderer = Renderer(families_without(settings.metrics_left_out))
        self._stop, self._ended = threading.Event(), threading.Event()
        self._interval_s = settings.collection_interval_ns / 1e9
        for source in sources.listening:
            source.start()
        self._thread = threading.Thread(target=self._collect, name="collector", daemon=True)
        self._thread.start()

    @property
    def window_ns(self) -> int:
        """How long the window is that averages are of."""
        return self._about.window_ns

    @property
    def snapshot(self) -> Snapshot:
        """The newest Snapshot."""
        return self._collector.snapshot

    def read(self, after: int = 0) -> FeedResult:
        """The newest Snapshot; waits for one that is newer than this version."""
        waited_s = 0.0
        while (
            self.snapshot.version <= after
            and not self._ended.is_set()
            and waited_s < FIRST_WITHIN_S
        ):
            self._stop.wait(self._interval_s / 10)
            waited_s += self._interval_s / 10
        if self._collector.fatal is not None:
            raise NoAnswerError(str(self._collector.fatal))
        snapshot = self.snapshot
        if not snapshot.version:
            raise NoAnswerError("the first collection cycle does not end; see mgpu-exporter check")
        return FeedResult((self._sight(snapshot),))

    @property
    def document(self) -> api.Document:
        """The newest Snapshot as ``/api/v1/snapshot`` has it."""
        return api.snapshot(self.snapshot, self._about, self._age_ns(self.snapshot))

    @property
    def metrics(self) -> bytes:
        """The newest Snapshot as the metrics page has it."""
        return self._renderer.render(self.snapshot, Format.TEXT)

    def _sight(self, snapshot: Snapshot) -> NodeSight:
        age_ns = self._age_ns(snapshot)
        is_stale = age_ns > snapshot.stale_after_ns
        processes = [] if is_stale else list(processes_of(snapshot))
        tree = Tree() if is_stale else tree_of_snapshot(snapshot)
        past = Past(snapshot.history, MINUTES * 60 * 10**9 // snapshot.history.step_ns)
        sources = [(s.name, s.up, s.detail or what_to_do(s)) for s in snapshot.sources]
        return NodeSight(
            tree,
            self._about.node,
            snapshot.unix_ns,
            snapshot.simulated,
            tuple(name for name, _, _ in sources),
            tuple(troubles_of(sources, age_ns / 1e9 if is_stale else None)),
            {key: tuple(points["core_utilization_ratio"]) for key, points in past.items()},
            self._commands.of(processes) if self._commands is not None else {},
        )

    def _age_ns(self, snapshot: Snapshot) -> int:
        return self._clock.monotonic_ns() - snapshot.mono_ns

    def close(self) -> None:
        """Ends the collector and closes the sources. A source that hangs is not waited for."""
        self._stop.set()
        self._thread.join(ENDS_WITHIN_S)
        for source in self._sources.all:
            try:
                source.close()
            except Exception:
                logger.exception("a source could not be closed")

    def _collect(self) -> None:
        try:
            self._collector.run(self._stop)
        except Exception:
            logger.exception("the collector failed")
        self._ended.set()
