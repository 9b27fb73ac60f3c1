"""Connections of clients: aiohttp's, with bounds of what one reads, holds and waits for, and all.

At a bound, the peer that holds most gives way (``peers``).
"""

import asyncio
import logging
import sys
from asyncio import sslproto
from dataclasses import dataclass
from http import HTTPStatus
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Any

from aiohttp import web, web_protocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from exporter.agent.web.landing import CONTENT_SECURITY_POLICY
from exporter.agent.web.peers import UNIX, gives_way
from exporter.agent.web.tls import has_allowed_name
from exporter.agent.web.webconfig import WebConfig

logger = logging.getLogger(__name__)

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
_TOO_LARGE = "the headers of a request are too large\n"
_HEAD_TOO_LARGE = "\r\n".join(
    (
        "HTTP/1.1 431 Request Header Fields Too Large",
        *(f"{name}: {value}" for name, value in HEADERS.items()),
        "Connection: close",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(_TOO_LARGE)}",
        "",
        _TOO_LARGE,
    )
).encode()
_QUIET_S = 60.0

sslproto.SSLProtocol.max_size = _READ  # asyncio would keep 256 KiB for each connection
web_protocol.MAX_MSG_QUEUE_SIZE = 2  # requests that wait behind another; aiohttp would keep 32


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits for clients, in seconds and connections.

    ``request_s``: for a TLS handshake, and then for each request to arrive completely.
    ``write_s``: for a client to read an answer. ``refresh_s``: between two reads of the web
    configuration's files.
    """

    request_s: float = 5.0
    write_s: float = 10.0
    connections: int = 256
    refresh_s: float = 2.0


class ClientConnection(web.RequestHandler):
    """A client's connection. aiohttp closes it if no request arrives within ``request_s``.

    ``peer`` is the client's address as ``peer_of`` has it. ``local``: only this machine can reach
    the listener. ``certified``: the client has shown a certificate. ``at_work``: a request is
    served.
    """

    __slots__ = ("_clients", "_head_bytes", "at_work", "certified", "local", "peer")

    def __init__(self, server: web.Server, clients: "Clients", *, peer: str, local: bool) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            logger=logger,
            keepalive_timeout=clients.limits.request_s,
            # aiohttp would take for 10 s what else the client sends after a refusal.
            lingering_time=0,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_FIELD,
            max_headers=_MAX_HEADERS,
        )
        self.peer = peer
        self.local = local
        self.certified = False
        self.at_work = False
        self._clients = clients
        self._head_bytes = 0  # of an incomplete request

    def abort(self) -> None:
        """Closes the connection at once and drops what is still to be sent."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bounds what is read at once. Aborts if the client's certificate has no allowed name."""
        super().connection_made(transport)
        # asyncio would read 256 KiB at once, and aiohttp needs 20 ms of the event loop to parse
        # that much body in small chunks. So it takes little at once, and counts as sent what the
        # kernel has. TLS would keep 256 KiB that are not read yet, and 64 KiB that are not sent.
        # Under TLS there are two transports: the one of the socket is below.
        below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        for each in (transport, below):
            if isinstance(each, asyncio.Transport):
                each.set_write_buffer_limits(high=1, low=0)
                setattr(each, "max_size", _READ)  # noqa: B010 - it is no part of asyncio's interface
        if below is not None:
            getattr(transport, "set_read_buffer_limits")(high=_READ)  # noqa: B009 - nor is this
        shown = transport.get_extra_info("peercert")
        self.certified = bool(shown)
        tls = self._clients.config.active.file.tls
        allowed = tls.client_allowed_sans if tls and self.ssl_context else ()
        if allowed and not has_allowed_name(shown or {}, allowed):
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Gives its place to another connection."""
        super().connection_lost(exc)
        self._clients.open.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Processes a part of a request, and closes the connection if it has too many."""
        # aiohttp has no bound of what a client may send before a request is complete. It counts the
        # requests that are: what came since the last of them is an incomplete one.
        requests = self._request_count
        super().data_received(data)
        self._head_bytes = 0 if self._request_count > requests else self._head_bytes + len(data)
        if self._head_bytes <= _MAX_HEAD or self.transport is None:
            return
        if self.at_work:
            # An answer is being sent on this connection: another one in it would be garbage.
            self.abort()
        else:
            self.transport.write(_HEAD_TOO_LARGE)
            self.force_close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends the response and waits until the client's kernel has it, within ``write_s``."""
        # Certificates were renewed since this connection began. It ends, so that the client's next
        # one has the new ones.
        if self._clients.config.active.tls is not self.ssl_context:
            resp.force_close()
        try:
            # aiohttp would wait for ever for a client that does not read, and counts an answer as
            # sent that only waits to be sent.
            async with asyncio.timeout(self._clients.limits.write_s):
                done = await super().finish_response(request, resp, start_time)
                await request.writer.drain()
        except (TimeoutError, ConnectionError):
            self.abort()
            return resp, True
        finally:
            self.at_work = False
            self._clients.served.pop(self, None)
        return done

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a malformed request, with the headers of every other answer."""
        # aiohttp's own message repeats what the client has sent.
        text = _MALFORMED if status == HTTPStatus.BAD_REQUEST else message
        response = super().handle_error(request, status, exc, text)
        response.headers.update(HEADERS)
        return response

    def log_exception(self, *args: object, **kw: Any) -> None:  # noqa: ANN401 - aiohttp's signature
        """Logs no traceback for malformed requests, because every client can send them."""
        if not isinstance(kw.get("exc_info"), HttpProcessingError):
            super().log_exception(*args, **kw)


def peer(request: web.BaseRequest) -> str:
    """The peer that sent the request."""
    connection = request.protocol
    return connection.peer if isinstance(connection, ClientConnection) else UNIX


class Clients:
    """The connections of all clients, and the requests that are served at once, oldest first.

    ``open``: all connections, with the tasks that open them. ``served``: those with one of the
    ``most_requests`` places, which each holds until the last byte of its answer.
    """

    def __init__(self, limits: ClientLimits, most_requests: int, config: WebConfig) -> None:
        self.limits = limits
        self.config = config
        self.open: dict[ClientConnection, asyncio.Task[Any]] = {}
        self.served: dict[ClientConnection, None] = {}
        self._most_requests = most_requests
        files = getrlimit(RLIMIT_NOFILE)[0]
        files = sys.maxsize if files == RLIM_INFINITY else files
        self._most = min(limits.connections, files // 2)  # the rest is to measure
        self._quiet_until_s = 0.0

    def has_room(self, newcomer: str) -> bool:
        """Whether a peer may open a connection; at the limit, another one is closed for it."""
        # Silent clients must not keep a probe out, nor must one peer with many requests.
        return len(self.open) < self._most or self.close_one(newcomer)

    def close_one(self, newcomer: str | None = None) -> bool:
        """Closes a connection for one of ``newcomer``, or else an idle one, if there is one."""
        chosen = gives_way(self.open, newcomer, lambda each: not each.at_work)
        if chosen is None:
            return False
        self.open.pop(chosen).cancel()  # if it is being opened
        chosen.abort()
        return True

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serves the request if there is a place for it."""
        # Health checks need none: many scrapers must not make the exporter look dead.
        connection = request.protocol
        if request.path.startswith("/-/") or not isinstance(connection, ClientConnection):
            return await handler(request)
        if len(self.served) >= self._most_requests and not self._drop_one(connection.peer):
            raise web.HTTPServiceUnavailable(
                text=f"{self._most_requests} requests are being served already; "
                "see --web.max-requests\n",
                headers={"Retry-After": "1"},
            )
        self.served[connection] = None
        return await handler(request)

    def _drop_one(self, newcomer: str) -> bool:
        """Closes a connection to free its place, and returns True, if one must give way."""
        chosen = gives_way(self.served, newcomer, lambda _: False)
        if chosen is None:
            return False
        now_s = asyncio.get_running_loop().time()
        # Clients can cause this as often as they like, and must not fill the log.
        if now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + _QUIET_S
            logger.warning(
                "an answer to %s is dropped: it has most of the %d requests that are served at "
                "once; see --web.max-requests. This is said once a minute",
                *(chosen.peer, self._most_requests),
            )
        del self.served[chosen]
        chosen.abort()
        return True


CLIENTS = web.AppKey("clients", Clients)
