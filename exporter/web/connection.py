"""One client's connection, with a time limit for the arrival of a request.

aiohttp's ``RequestHandler`` closes a connection that idles between two requests. It does not see
that a request never becomes complete; this module does.
"""

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from exporter.web.landing import CONTENT_SECURITY_POLICY
from exporter.web.peers import UNIX
from exporter.web.tls import has_allowed_name

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "Server": "mgpu-exporter",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_READ = 1 << 13  # bytes taken from a client in one step of the event loop
sslproto.SSLProtocol.max_size = 2 * _READ  # asyncio keeps so much for each connection: 256 KiB
_MAX_HEAD = 1 << 14  # bytes that a client may send before they make a complete request
_MALFORMED = "not an HTTP/1.1 request, or one of its lines is too long\n"
_HEAD_TOO_LARGE = "the headers of a request are too large\n"


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits for clients, in seconds and connections.

    ``request_s``: for a request to arrive completely, TLS handshake included.
    ``idle_s``: between two requests. Prometheus reconnects if its scrape interval is longer.
    ``write_s``: for a client to read an answer.
    ``slow_s``: after which an answer may be dropped if too many requests are served.
    ``refresh_s``: between two reads of the web configuration's files.
    """

    request_s: float = 5.0
    idle_s: float = 30.0
    write_s: float = 30.0
    slow_s: float = 5.0
    connections: int = 256
    tls_connections: int = 128  # each takes a third of a megabyte
    refresh_s: float = 2.0


class ClientConnection(web.RequestHandler, asyncio.BufferedProtocol):
    """A client's connection. It is closed if a request does not arrive within ``request_s``.

    ``peer`` is the client's address as ``peer_of`` has it. ``local``: only this machine can reach
    the listener. ``sent`` is a response that was written completely. ``lost`` is called when the
    connection is closed. ``outdated`` returns whether new connections would use another TLS
    context. ``options`` are aiohttp's.

    It is a ``BufferedProtocol`` because that limits how much is read at once. asyncio would read
    256 KiB, and aiohttp needs 20 ms of the event loop to parse that much body in small chunks.
    """

    __slots__ = (
        *("_aborted", "_allowed_sans", "_arrival", "_buffer", "_limits", "_lost", "_opening"),
        *("_outdated", "_waiting_bytes", "at_work", "certified", "local", "peer", "sent"),
    )

    def __init__(
        self,
        server: web.Server,
        limits: ClientLimits,
        lost: Callable[["ClientConnection"], None],
        outdated: Callable[[], bool],
        *,
        peer: str,
        local: bool,
        allowed_sans: tuple[str, ...] = (),
        **options: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self.at_work = False
        self.peer = peer
        self.local = local
        self.certified = False
        self.sent: web.StreamResponse | None = None
        self._allowed_sans = allowed_sans
        self._limits = limits
        self._lost = lost
        self._outdated = outdated
        self._opening: asyncio.Task[None] | None = None  # of the socket, with its handshake
        self._arrival: asyncio.TimerHandle | None = None  # ends the wait for a request
        self._aborted = False
        self._buffer = memoryview(bytearray(_READ))
        self._waiting_bytes = 0  # of an incomplete request

    def open(self, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Starts to serve an accepted socket, after the handshake if there is TLS."""
        self._await_request()
        self._opening = asyncio.create_task(self._connect(client, tls))
        self._opening.add_done_callback(lambda opening: self._opened(opening, client))

    async def _connect(self, client: socket.socket, tls: ssl.SSLContext | None) -> None:
        limit_s = self._limits.request_s if tls else None
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self,
            client,
            ssl=tls,
            ssl_handshake_timeout=limit_s,
            ssl_shutdown_timeout=limit_s,
        )

    def _opened(self, opening: asyncio.Task[None], client: socket.socket) -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            client.close()
            self._gone()

    def give_up_opening(self) -> None:
        """Closes the connection if its handshake is not done."""
        if self._opening is not None:
            self._opening.cancel()

    def abort(self) -> None:
        """Closes the connection at once and drops what is still to be sent."""
        self._aborted = True
        self.give_up_opening()
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Aborts if the client's certificate has no allowed name."""
        super().connection_made(transport)
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(high=1, low=0)  # drained: the client's kernel has it
        peer = transport.get_extra_info("peercert")
        self.certified = bool(peer)
        if self._allowed_sans and not has_allowed_name(peer or {}, self._allowed_sans):
            self._aborted = True
        if self._aborted:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Reports the end of the connection."""
        super().connection_lost(exc)
        self._gone()

    def _gone(self) -> None:
        self._arrived()
        self._lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """The buffer for the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Processes the bytes that were written to the buffer."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Processes a part of a request. Its first byte ends the idle time."""
        requests = self._request_count
        super().data_received(data)
        if self._request_count > requests:
            self._waiting_bytes = 0
        else:
            self._waiting_bytes += len(data)
        if self._waiting_bytes > _MAX_HEAD:
            self._refuse_head()
        elif data and not self.at_work and self._arrival is None:
            self._await_request()

    def _refuse_head(self) -> None:
        """Closes the connection; answers 431 if no other answer is being sent."""
        if self.at_work or self.transport is None:
            self.abort()
            return
        lines = [
            "HTTP/1.1 431 Request Header Fields Too Large",
            *(f"{name}: {value}" for name, value in HEADERS.items()),
            "Connection: close",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(_HEAD_TOO_LARGE)}",
            "",
            _HEAD_TOO_LARGE,
        ]
        self.transport.write("\r\n".join(lines).encode())
        self.force_close()

    def begin(self) -> None:
        """Notes that a request has arrived completely."""
        self._arrived()
        self.at_work = True

    def renew(self, response: web.StreamResponse) -> None:
        """Closes the connection after this response if the TLS context has changed."""
        if not response.prepared and self._outdated():
            response.force_close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Writes the rest of the response, within ``write_s``.

        aiohttp would wait for a slow reader forever.
        """
        try:
            if resp is self.sent:
                return await super().finish_response(request, resp, start_time)
            self.renew(resp)
            async with asyncio.timeout(self._limits.write_s):
                finished = await super().finish_response(request, resp, start_time)
                await request.writer.drain()
                return finished
        except TimeoutError:
            self.abort()
            return resp, True
        finally:
            self.at_work, self.sent = False, None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a malformed request, with the headers of every other answer.

        aiohttp's own message is not used, because it repeats what the client has sent.
        """
        text = _MALFORMED if status == HTTPStatus.BAD_REQUEST else message
        response = super().handle_error(request, status, exc, text)
        response.headers.update(HEADERS)
        return response

    def _await_request(self) -> None:
        loop = asyncio.get_running_loop()
        self._arrival = loop.call_later(self._limits.request_s, self.abort)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None


def peer(request: web.BaseRequest) -> str:
    """The peer that sent the request."""
    connection = request.protocol
    return connection.peer if isinstance(connection, ClientConnection) else UNIX
