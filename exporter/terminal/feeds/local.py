"""The feed of this node: a collector in this process, without a server."""

import logging
import threading
import time

from exporter import api
from exporter.collector import Collector, Sources
from exporter.collector.wiring import make_collector
from exporter.model import Clock, Snapshot
from exporter.settings import Settings
from exporter.sources.pods.factory import node_name
from exporter.terminal.feeds.commands import ProcessCommands
from exporter.terminal.feeds.feed import FeedError, FeedResult

logger = logging.getLogger(__name__)

ENDS_WITHIN_S = 2.0
FIRST_WITHIN_S = 10.0


class LocalFeed:
    """Implements ``Feed``. Owns the sources: it starts them, and closes them at the end.

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
        name = "" if settings.simulate else node_name(settings.node_name)
        self._about = api.About(name, settings.collection_window_ns)
        self._stop, self._ended = threading.Event(), threading.Event()
        self._interval_s = settings.collection_interval_ns / 1e9
        for source in sources.listening:
            source.start()
        self._thread = threading.Thread(target=self._collect, name="collector", daemon=True)
        self._thread.start()

    @property
    def snapshot(self) -> Snapshot:
        """The newest Snapshot."""
        return self._collector.snapshot

    def read(self) -> FeedResult:
        """The documents of the newest Snapshot; waits for the first one."""
        waited_s = 0.0
        while not self.snapshot.version and not self._ended.is_set() and waited_s < FIRST_WITHIN_S:
            self._stop.wait(self._interval_s / 10)
            waited_s += self._interval_s / 10
        if self._collector.fatal is not None:
            raise FeedError(str(self._collector.fatal))
        snapshot = self.snapshot
        if not snapshot.version:
            raise FeedError("the first collection cycle does not end; see mgpu-exporter check")
        age_ns = self._clock.monotonic_ns() - snapshot.mono_ns
        made = api.snapshot(snapshot, self._about, age_ns)
        if self._commands is not None:
            self._commands.add_to(made)
        return FeedResult([(made, api.history(snapshot, self._about, age_ns))])

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
