"""Whether the exporter is alive and ready. No source decides either.

``POST /-/reload``, as Prometheus has it.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from exporter.collector import Pulse
from exporter.model import Clock, Snapshot

_SECOND_NS = 1_000_000_000
_LEAST_PATIENCE_NS = 15 * _SECOND_NS
_PATIENCE_CYCLES = 10


class CollectorState(Protocol):
    """What this room asks of the collector."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest Snapshot; never None."""
        ...

    @property
    def pulse(self) -> Pulse:
        """When the cycle's clock last moved, and how many cycles are done."""
        ...


class ProbeAnswer(NamedTuple):
    """An answer to a probe."""

    good: bool
    words: str


def alive(health: CollectorState, clock: Clock) -> ProbeAnswer:
    """Alive means that the cycle's clock moves."""
    still_ns = clock.monotonic_ns() - health.pulse.moved_mono_ns
    patience_ns = max(_PATIENCE_CYCLES * health.pulse.interval_ns, _LEAST_PATIENCE_NS)
    if still_ns <= patience_ns:
        return ProbeAnswer(good=True, words="alive")
    return ProbeAnswer(
        good=False,
        words=f"the collection cycle has stood still for {still_ns // _SECOND_NS} s; restart",
    )


def ready(health: CollectorState) -> ProbeAnswer:
    """Ready means that the first cycle is done, whatever failed in it."""
    if health.pulse.done:
        return ProbeAnswer(good=True, words="ready")
    return ProbeAnswer(good=False, words="the first collection cycle is not done yet")


Reload = Callable[[], str | None]
"""Reads the settings anew; None, or why the old ones stay. May block; never called twice at once.
"""

_OFF = "reloading is off; switch it on with --web.enable-lifecycle\n"


def reload_handler(reload: Reload | None) -> Handler:
    """Make the handler; without ``reload`` it says that it is off."""
    one_at_a_time = asyncio.Lock()

    async def handler(_: web.Request) -> web.StreamResponse:
        if reload is None:
            raise web.HTTPForbidden(text=_OFF)
        async with one_at_a_time:
            problem = await asyncio.to_thread(reload)
        if problem is not None:
            raise web.HTTPInternalServerError(text=f"the old settings stay: {problem}\n")
        return web.Response(text="reloaded\n")

    return handler
