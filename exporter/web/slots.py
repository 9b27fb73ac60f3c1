"""A limit for requests that are served at once, shared fairly among peers."""

import asyncio
import logging
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler

from exporter.web.connection import ClientConnection, ClientLimits, peer
from exporter.web.peers import Shares

logger = logging.getLogger(__name__)

_QUIET_S = 60.0


@dataclass(eq=False, slots=True)
class _Slot:
    """A request that is being served. ``sending_s`` is when its answer began to be sent."""

    timeout: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    sending_s: float | None = None


class RequestSlots:
    """Serves at most ``most`` requests at once. A request holds its slot until its last byte.

    If all slots are taken, a peer that holds several of them loses its oldest one to a peer with
    fewer. An answer that has been sent for ``limits.slow_s`` gives way to every peer.
    """

    def __init__(self, most: int, limits: ClientLimits) -> None:
        self._most = most
        self._limits = limits
        self._held: Shares[_Slot] = Shares()
        self._quiet_until_s = 0.0

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serves the request if there is a slot for it.

        Health checks need none, because many scrapers must not make the exporter look dead.
        """
        if request.path.startswith("/-/"):
            return await handler(request)
        asking = peer(request)
        if not self._has_room(asking):
            raise self._refusal()
        return await self._serve(request, handler, asking)

    def _has_room(self, asking: str) -> bool:
        """Whether there is a slot; frees one if that is possible."""
        if len(self._held) < self._most:
            return True
        crowd, slots = self._held.largest()
        oldest = slots[0]
        if not (self._held.must_give_way(asking) or self._is_slow(oldest)):
            return False
        self._log(crowd)
        self._held.remove(crowd, oldest)
        if not oldest.timeout.expired():  # else it is being cut off already
            oldest.timeout.reschedule(asyncio.get_running_loop().time())
        return True

    def _log(self, crowd: str) -> None:
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

    def _is_slow(self, slot: _Slot) -> bool:
        now_s = asyncio.get_running_loop().time()
        return slot.sending_s is not None and now_s - slot.sending_s > self._limits.slow_s

    async def _serve(
        self, request: web.Request, handler: Handler, asking: str
    ) -> web.StreamResponse:
        slot = _Slot()
        response: web.StreamResponse | None = None
        try:
            async with slot.timeout:
                self._held.add(asking, slot)
                response = await handler(request)
                slot.sending_s = asyncio.get_running_loop().time()
                slot.timeout.reschedule(slot.sending_s + self._limits.write_s)
                await _send(request, response)
        except TimeoutError:
            if response is None and slot.timeout.expired():
                raise self._refusal() from None
            if response is None:
                raise
            _cut_off(request)
        finally:
            self._held.remove(asking, slot)
        return response

    def _refusal(self) -> web.HTTPException:
        return web.HTTPServiceUnavailable(
            text=f"{self._most} requests are being served already; see --web.max-requests\n",
            headers={"Retry-After": "1"},
        )


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    """Writes the response and waits until the client's kernel has it, for ever if need be.

    aiohttp counts an answer as sent that only waits to be sent.
    """
    connection = request.protocol
    if isinstance(connection, ClientConnection):
        connection.renew(response)
    try:
        await response.prepare(request)
        await response.write_eof()
        await request.writer.drain()
    except ConnectionError:
        _cut_off(request)
        return
    if isinstance(connection, ClientConnection):
        connection.sent = response


def _cut_off(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
