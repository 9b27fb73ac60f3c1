"""How many requests are served at once, and who gives way to whom where they are too many."""

import asyncio
import logging
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler

from exporter.web.connection import Connection, Limits, peer
from exporter.web.peers import Shares

logger = logging.getLogger(__name__)

_QUIET_S = 60.0


@dataclass(eq=False, slots=True)
class _Place:
    """A request that is being served. ``sending_s``: since when its answer has been sent."""

    timeout: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    sending_s: float | None = None


class Places:
    """At most ``most`` requests are served at once, each until its client has the last byte.

    Where all places are taken, a peer that holds several of them gives its oldest one to a peer
    with fewer. An answer that has been sent for ``limits.slow_s`` gives way to anybody.
    """

    def __init__(self, most: int, limits: Limits) -> None:
        self._most = most
        self._limits = limits
        self._held: Shares[_Place] = Shares()
        self._quiet_until_s = 0.0

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve the request if there is a place for it.

        The health checks need none: a crowd of scrapers must not look like a dead exporter.
        """
        if request.path.startswith("/-/"):
            return await handler(request)
        asking = peer(request)
        if not self._has_room(asking):
            raise self._refusal()
        return await self._serve(request, handler, asking)

    def _has_room(self, asking: str) -> bool:
        """Whether there is a place, or one could be freed."""
        if len(self._held) < self._most:
            return True
        crowd, places = self._held.largest()
        oldest = places[0]
        if not (self._held.must_give_way(asking) or self._is_slow(oldest)):
            return False
        self._say(crowd)
        self._held.remove(crowd, oldest)
        if not oldest.timeout.expired():  # else it is being cut off already
            oldest.timeout.reschedule(asyncio.get_running_loop().time())
        return True

    def _say(self, crowd: str) -> None:
        """Log that an answer is dropped, but not each: clients make them as fast as they like."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._quiet_until_s:
            return
        self._quiet_until_s = now_s + _QUIET_S
        logger.warning(
            "an answer to %s is dropped: it has most of the %d requests that are served at once; "
            "see --web.max-requests. This is said once a minute",
            *(crowd, self._most),
        )

    def _is_slow(self, place: _Place) -> bool:
        now_s = asyncio.get_running_loop().time()
        return place.sending_s is not None and now_s - place.sending_s > self._limits.slow_s

    async def _serve(
        self, request: web.Request, handler: Handler, asking: str
    ) -> web.StreamResponse:
        place = _Place()
        response: web.StreamResponse | None = None
        try:
            async with place.timeout:
                self._held.add(asking, place)
                response = await handler(request)
                place.sending_s = asyncio.get_running_loop().time()
                place.timeout.reschedule(place.sending_s + self._limits.write_s)
                await _send(request, response)
        except TimeoutError:
            if response is None and place.timeout.expired():
                raise self._refusal() from None
            if response is None:
                raise
            _cut_off(request)
        finally:
            self._held.remove(asking, place)
        return response

    def _refusal(self) -> web.HTTPException:
        return web.HTTPServiceUnavailable(
            text=f"{self._most} requests are being served already; see --web.max-requests\n",
            headers={"Retry-After": "1"},
        )


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    """Write the response here and not in aiohttp, which waits for a slow reader for ever."""
    connection = request.protocol
    if isinstance(connection, Connection):
        connection.renew(response)
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        _cut_off(request)
        return
    if isinstance(connection, Connection):
        connection.sent = response


def _cut_off(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
