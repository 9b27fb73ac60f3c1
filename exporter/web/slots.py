"""A limit for requests that are served at once, shared fairly among peers."""

import asyncio
import logging

from aiohttp import web
from aiohttp.typedefs import Handler

from exporter.web.connection import ClientConnection, ClientLimits
from exporter.web.peers import Shares

logger = logging.getLogger(__name__)

_QUIET_S = 60.0


class RequestSlots:
    """Serves at most ``most`` requests at once. A request holds its slot until its last byte.

    If all slots are taken, a peer that holds several of them loses its oldest connection to a peer
    with fewer. An answer that has been sent for ``limits.slow_s`` gives way to every peer.
    """

    def __init__(self, most: int, limits: ClientLimits) -> None:
        self._most = most
        self._limits = limits
        self._held: Shares[ClientConnection] = Shares()
        self._quiet_until_s = 0.0

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serves the request if there is a slot for it.

        Health checks need none, because many scrapers must not make the exporter look dead.
        """
        connection = request.protocol
        if request.path.startswith("/-/") or not isinstance(connection, ClientConnection):
            return await handler(request)
        if len(self._held) >= self._most and not self._make_room(connection.peer):
            raise web.HTTPServiceUnavailable(
                text=f"{self._most} requests are being served already; see --web.max-requests\n",
                headers={"Retry-After": "1"},
            )
        self._held.add(connection.peer, connection)
        try:
            response = await handler(request)
            await connection.send(request, response)
        finally:
            self._held.remove(connection.peer, connection)
        return response

    def _make_room(self, asking: str) -> bool:
        """Closes a connection to free its slot, and returns True, if one must give way."""
        crowd, connections = self._held.largest()
        oldest = connections[0]
        now_s = asyncio.get_running_loop().time()
        is_slow = oldest.sending_s is not None and now_s - oldest.sending_s > self._limits.slow_s
        if not (is_slow or self._held.must_give_way(asking)):
            return False
        if now_s >= self._quiet_until_s:  # clients can cause it as often as they like
            self._quiet_until_s = now_s + _QUIET_S
            logger.warning(
                "an answer to %s is dropped: it has most of the %d requests that are served at "
                "once; see --web.max-requests. This is said once a minute",
                *(crowd, self._most),
            )
        self._held.remove(crowd, oldest)
        oldest.abort()
        return True
