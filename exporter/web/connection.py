"""One client's connection: aiohttp's, with bounds of what it reads, holds and waits for."""

import asyncio
import logging
import ssl
from asyncio import sslproto
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

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
_MAX_HEAD = 1 << 14  # bytes that a client may send before they make a complete request
_MAX_LINE = 4096
_MAX_FIELD = 8190
_MAX_HEADERS = 64
_MALFORMED = "not an HTTP/1.1 request, or one of its lines is too long\n"
_HEAD_TOO_LARGE = "the headers of a request are too large\n"

sslproto.SSLProtocol.max_size = 2 * _READ  # asyncio would keep 256 KiB for each connection


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits for clients, in seconds and connections.

    ``request_s``: for a TLS handshake, and then for each request to arrive completely.
    ``write_s``: for a client to read an answer.
    ``slow_s``: after which an answer may be dropped if too many requests are served.
    ``refresh_s``: between two reads of the web configuration's files.
    """

    request_s: float = 5.0
    write_s: float = 30.0
    slow_s: float = 5.0
    connections: int = 256
    refresh_s: float = 2.0


class ClientConnection(web.RequestHandler, asyncio.BufferedProtocol):
    """A client's connection. aiohttp closes it if no request arrives within ``request_s``.

    ``peer`` is the client's address as ``peer_of`` has it. ``local``: only this machine can reach
    the listener. ``certified``: the client has shown a certificate. ``at_work``: a request is
    served; ``sending_s`` is when its answer began to be sent. ``lost`` is called at the end.

    It is a ``BufferedProtocol`` because that limits how much is read at once. asyncio would read
    256 KiB, and aiohttp needs 20 ms of the event loop to parse that much body in small chunks.
    """

    __slots__ = (
        *("_allowed_sans", "_buffer", "_limits", "_lost", "_tls_now", "_waiting_bytes"),
        *("at_work", "certified", "local", "peer", "sending_s"),
    )

    def __init__(
        self,
        server: web.Server,
        limits: ClientLimits,
        lost: Callable[["ClientConnection"], None],
        tls_now: Callable[[], ssl.SSLContext | None],
        *,
        peer: str,
        local: bool,
        allowed_sans: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            logger=http_logger,
            keepalive_timeout=limits.request_s,
            lingering_time=0,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_FIELD,
            max_headers=_MAX_HEADERS,
        )
        self.peer = peer
        self.local = local
        self.certified = False
        self.at_work = False
        self.sending_s: float | None = None
        self._allowed_sans = allowed_sans
        self._limits = limits
        self._lost = lost
        self._tls_now = tls_now
        self._buffer = memoryview(bytearray(_READ))
        self._waiting_bytes = 0  # of an incomplete request

    def abort(self) -> None:
        """Closes the connection at once and drops what is still to be sent."""
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
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Reports the end of the connection."""
        super().connection_lost(exc)
        self._lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """The buffer for the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Processes the bytes that were written to the buffer."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Processes a part of a request, and closes the connection if it has too many."""
        requests = self._request_count
        super().data_received(data)
        if self._request_count > requests:
            self._waiting_bytes = 0
        else:
            self._waiting_bytes += len(data)
        if self._waiting_bytes > _MAX_HEAD:
            self._refuse_head()

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

    async def send(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Writes the response and waits until the client's kernel has it, within ``write_s``.

        aiohttp would wait for ever, and counts an answer as sent that only waits to be sent. The
        connection ends with this response if new ones have another TLS context.
        """
        if not response.prepared and self._tls_now() is not self.ssl_context:
            response.force_close()
        self.sending_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._limits.write_s):
                await response.prepare(request)
                await response.write_eof()
                await request.writer.drain()
        except (TimeoutError, ConnectionError):
            self.abort()
        finally:
            self.sending_s = None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends what is not sent yet."""
        try:
            await self.send(request, resp)
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
        """The answer to a malformed request, with the headers of every other answer.

        aiohttp's own message is not used, because it repeats what the client has sent.
        """
        text = _MALFORMED if status == HTTPStatus.BAD_REQUEST else message
        response = super().handle_error(request, status, exc, text)
        response.headers.update(HEADERS)
        return response


def peer(request: web.BaseRequest) -> str:
    """The peer that sent the request."""
    connection = request.protocol
    return connection.peer if isinstance(connection, ClientConnection) else UNIX


class _MalformedFilter(logging.Filter):
    """Drops records about malformed requests.

    aiohttp logs a traceback for each of them, and every client can send them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


http_logger = logging.getLogger("exporter.web.server.http")
http_logger.addFilter(_MalformedFilter())
