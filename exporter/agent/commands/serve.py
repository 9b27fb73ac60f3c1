"""The command ``serve``: the collector in a thread, the web server in the main one, signals."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from exporter import __version__
from exporter.agent.api import About
from exporter.agent.collector import Sources
from exporter.agent.collector.cyclerules import cycle_rules
from exporter.agent.collector.viewers import Viewers
from exporter.agent.collector.wiring import make_collector, open_for_agent, open_reviewer
from exporter.agent.commands import garbage
from exporter.agent.commands.reload import Reloader
from exporter.agent.settings import Settings
from exporter.agent.simulation import ScenarioError
from exporter.agent.sources.pods.podfactory import node_name
from exporter.agent.web import (
    BindError,
    HttpServer,
    Pages,
    Verdicts,
    WebConfig,
    WebFileError,
    listen,
    make_app,
)
from exporter.console import logs
from exporter.metrics.compat import CompatPage
from exporter.metrics.families import families_without
from exporter.metrics.text import Renderer
from exporter.model import Clock

logger = logging.getLogger(__name__)

_END_WITHIN_S = 0.9
_CYCLE_MAY_TAKE_S = 0.2
_NO_API = (
    "--web.kubernetes-access needs an API server to ask: run in a pod with a ServiceAccount token, "
    "or give --kubeconfig"
)


class NoApiError(Exception):
    """Clients' tokens are to be checked, and there is no API server to ask."""


def serve(
    settings: Settings,
    open_sources: Callable[[Settings], Sources] = open_for_agent,
    *,
    reread: Callable[[], Settings] | None = None,
    clock: Clock = time,
    stop: threading.Event | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; SIGUSR2 releases the GPU driver or opens it again.

    ``reread`` reads the settings as at the start. It is called at SIGHUP, when their file has
    changed, and at ``POST /-/reload``. The threads wait for ``stop`` between their turns.

    Returns the exit status: 0 after a signal, 1 if it could not start or only a restart helps, 2 if
    the web configuration cannot be used.
    """
    try:
        config = WebConfig(settings.web_config_file, tokens=settings.web_kubernetes_access)
    except WebFileError as error:
        for problem in error.problems:
            logger.error("%s", problem)  # noqa: TRY400 - the message says it all
        return 2
    try:
        verdicts = _open_verdicts(settings, clock)
        sources = open_sources(settings)
        # The port is taken before any thread starts: a second exporter on the node ends here.
        sockets = listen(settings.web_listen_address)
    except (NoApiError, BindError, ScenarioError) as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return 1
    logger.info("mgpu-exporter %s", __version__)
    if settings.simulate:
        logger.warning("SIMULATED NODE (%s): nothing here is measured", settings.simulate)
    garbage.relax()
    stop = stop or threading.Event()
    agent = _Agent(settings, sources, config, reread or (lambda: settings), clock, stop, verdicts)
    return asyncio.run(agent.run(sockets))


def _open_verdicts(settings: Settings, clock: Clock) -> Verdicts | None:
    """The answers of Kubernetes about clients' tokens; None if clients need none."""
    if not settings.web_kubernetes_access:
        return None
    reviewer = open_reviewer(settings)
    if reviewer is None:
        raise NoApiError(_NO_API)
    return Verdicts(reviewer, clock)


class _Agent:
    def __init__(
        self,
        settings: Settings,
        sources: Sources,
        config: WebConfig,
        reread: Callable[[], Settings],
        clock: Clock,
        stop: threading.Event,
        verdicts: Verdicts | None = None,
    ) -> None:
        self._settings = settings
        self._verdicts = verdicts
        self._clock = clock
        self._config = config
        self._sources = sources
        self._collector = make_collector(settings, sources, clock)
        self._viewers = Viewers(clock)
        self._collector.is_watched = self._viewers.are_there
        self._pages = Pages(lambda: self._collector.snapshot, clock, *_writers(settings))
        self._reloader = Reloader(settings, reread, self._follow, clock)
        self._collector.last_reload = lambda: self._reloader.last
        if verdicts is not None:
            self._collector.reviews = lambda: verdicts.reviews
        self._stop = stop
        self._released = settings.nvml_released
        self._status = 0

    async def run(self, sockets: Sequence[socket.socket]) -> int:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        # A driver can be unloaded, as for an upgrade, only while no process has it open.
        loop.add_signal_handler(signal.SIGUSR2, self._toggle_release)
        loop.add_signal_handler(signal.SIGHUP, self._reloader.ask)
        if self._released:
            self._release()
        for source in self._sources.listening:
            source.start()
            status = source.status()
            if status.up and status.detail:  # "names of pods are off", and why
                logger.info("source %s: %s", status.name, status.detail)
        # Python waits at its end for threads that are no daemons. A driver call may hang in this
        # one for minutes.
        cycle = threading.Thread(
            target=self._collect, args=(loop, ended), name="collector", daemon=True
        )
        cycle.start()
        watch = partial(self._reloader.watch, self._stop)
        threading.Thread(target=watch, name="settings", daemon=True).start()
        app = make_app(
            *(self._pages, self._collector, self._settings, self._clock),
            config=self._config,
            about=lambda: _about(self._reloader.settings),
            reload=self._reloader.reload,
            viewers=self._viewers,
            verdicts=self._verdicts,
        )
        server = HttpServer(app)
        await server.start(sockets)
        loop.call_later(garbage.STARTED_S, garbage.freeze)
        await ended.wait()
        # The exporter ends within a second, also while a driver call hangs: Python would wait for
        # the call's thread.
        timer = threading.Timer(_END_WITHIN_S, lambda: os._exit(self._status))
        # Python would wait for a timer that is no daemon, also after a quick end.
        timer.daemon = True
        timer.start()
        logger.info("ending")
        self._stop.set()
        await server.stop()
        cycle.join(_CYCLE_MAY_TAKE_S)
        self._close()
        return self._status

    def _collect(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
        """Run the cycle. If it ends by itself, a new process is needed."""
        try:
            self._collector.run(self._stop)
        except Exception:
            logger.exception("the collector failed; a restart is needed")
            self._status = 1
        if self._collector.fatal is not None:
            logger.error("%s", self._collector.fatal)
            self._status = 1
        with contextlib.suppress(RuntimeError):  # the loop is closed: the end is near anyway
            loop.call_soon_threadsafe(ended.set)

    def _follow(self, settings: Settings) -> None:
        """Apply the live settings, from the next cycle and the next page on."""
        before = self._reloader.settings
        form = settings.log_level, settings.log_format
        # A log that is configured again forgets which messages it has written, and says them once
        # more.
        if form != (before.log_level, before.log_format):
            logs.configure(*form)
        self._collector.follow(cycle_rules(settings))
        self._pages.use(*_writers(settings))

    def _toggle_release(self) -> None:
        self._released = not self._released
        self._release()

    def _release(self) -> None:
        """Release or open the GPU sources, in a thread because a driver call may hang."""
        words = "released" if self._released else "opened again"
        logger.info("the GPU driver is %s (SIGUSR2 changes it)", words)
        threading.Thread(target=self._release_all, name="release", daemon=True).start()

    def _release_all(self) -> None:
        for source in self._sources.gpus:
            source.release(self._released)

    def _close(self) -> None:
        """Close every source, even if closing another one fails."""
        if self._verdicts is not None:
            self._verdicts.close()
        for source in self._sources.all:
            try:
                source.close()
            except Exception:
                logger.exception("a source could not be closed")


def _writers(settings: Settings) -> tuple[Renderer, CompatPage]:
    """The renderers of the pages."""
    return (
        Renderer(families_without(settings.metrics_left_out), created=settings.metrics_created),
        CompatPage(settings.compat, node_name(settings.node_name), settings.metrics_pod_uid),
    )


def _about(settings: Settings) -> About:
    """The node's name and settings for the JSON documents and the page."""
    # The simulated node is another one than this machine, whose name would be found.
    unnamed = settings.simulate and not settings.node_name
    name = "" if unnamed else node_name(settings.node_name)
    families = families_without(settings.documents_left_out)
    return About(name, settings.collection_window_ns, families=families)
