"""One client's connection: how long a request may take to arrive, and whether one is at work.

Stands on aiohttp's ``RequestHandler``, which ends a connection that idles between two requests but
takes one whose request never becomes whole for such an idle one.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from exporter.web.landing import CONTENT_SECURITY_POLICY

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "Server": "mgpu-exporter",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Connection(web.RequestHandler):
    """Cut off if a request, the first one above all, does not arrive whole within ``request_s``.

    ``lost`` is called once it is closed. ``options`` are aiohttp's.
    """

    __slots__ = ("_aborted", "_arrival", "_lost", "_request_s", "at_work")

    def __init__(
        self,
        server: web.Server,
        request_s: float,
        lost: Callable[["Connection"], None],
        **options: Any,  # noqa: ANN401 - handed on
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self.at_work = False
        self._request_s = request_s
        self._lost = lost
        self._arrival: asyncio.TimerHandle | None = None  # ends the wait for a request
        self._aborted = False

    def abort(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self._aborted = True
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_request()
        if self._aborted:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell of the end."""
        super().connection_lost(exc)
        self._arrived()
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; its first byte ends the time of idling."""
        super().data_received(data)
        if data and not self.at_work and self._arrival is None:
            self._await_request()

    def begin(self) -> None:
        """A request has arrived whole."""
        self._arrived()
        self.at_work = True

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write what is left of the response; then no request is at work."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.at_work = False

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request, with the headers of every other answer."""
        response = super().handle_error(request, status, exc, message)
        response.headers.update(HEADERS)
        return response

    def _await_request(self) -> None:
        loop = asyncio.get_running_loop()
        self._arrival = loop.call_later(self._request_s, self.abort)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None


@web.middleware
async def at_work(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Note in its connection that a request has arrived."""
    if isinstance(request.protocol, Connection):
        request.protocol.begin()
    return await handler(request)
