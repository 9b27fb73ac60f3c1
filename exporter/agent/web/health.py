"""The exporter's own state over HTTP: alive, ready, and ``POST /-/reload`` as in Prometheus.

The state of the sources plays no part in alive and ready.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from exporter.agent.collector import Pulse
from exporter.model import SECOND_NS, Clock, Snapshot

_MIN_TIMEOUT_NS = 15 * SECOND_NS
_TIMEOUT_CYCLES = 10


class CollectorState(Protocol):
    """The collector as the HTTP server needs it."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest Snapshot; never None."""
        ...

    @property
    def pulse(self) -> Pulse:
        """When the collection last made progress, and how many cycles are done."""
        ...


class ProbeAnswer(NamedTuple):
    """The answer to a probe."""

    good: bool
    words: str


def alive(health: CollectorState, clock: Clock) -> ProbeAnswer:
    """Alive means that collection makes progress."""
    # A restart cures a cycle that stands still. It cures no source that fails, so those do not
    # count: a driver that is gone would else restart the pod for ever.
    still_ns = clock.monotonic_ns() - health.pulse.moved_mono_ns
    timeout_ns = max(_TIMEOUT_CYCLES * health.pulse.interval_ns, _MIN_TIMEOUT_NS)
    if still_ns <= timeout_ns:
        return ProbeAnswer(good=True, words="alive")
    return ProbeAnswer(
        good=False,
        words=f"the collection cycle has stood still for {still_ns // SECOND_NS} s; restart",
    )


def ready(health: CollectorState) -> ProbeAnswer:
    """Ready means that the first cycle is done, even if sources failed in it."""
    if health.pulse.done:
        return ProbeAnswer(good=True, words="ready")
    return ProbeAnswer(good=False, words="the first collection cycle is not done yet")


Reload = Callable[[], str | None]
"""Reloads the settings. Returns None, or why the old ones stay. May block; calls never overlap."""

_OFF = "reloading is off; switch it on with --web.enable-lifecycle\n"


def reload_handler(reload: Reload | None) -> Handler:
    """The handler of ``POST /-/reload``. It answers 403 if ``reload`` is None."""
    one_at_a_time = asyncio.Lock()

    async def handler(_: web.Request) -> web.StreamResponse:
        if reload is None:
            raise web.HTTPForbidden(text=_OFF)
        # The settings' file may be on a network mount, so it is read in a thread.
        async with one_at_a_time:
            problem = await asyncio.to_thread(reload)
        if problem is not None:
            raise web.HTTPInternalServerError(text=f"the old settings stay: {problem}\n")
        return web.Response(text="reloaded\n")

    return handler
