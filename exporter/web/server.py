"""The server on its listening sockets: accepts, limits and closes connections.

Malformed requests are refused before a route is looked up. The refusals repeat nothing of them.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10
from aiohttp.http_exceptions import HttpProcessingError

from exporter.web.connection import HEADERS, ClientConnection, ClientLimits
from exporter.web.listening import close, is_local, url_of
from exporter.web.peers import Shares, peer_of
from exporter.web.webconfig import WebConfig

logger = logging.getLogger(__name__)

_MAX_PATH = 2048  # bytes; the time to look up a route grows with the square of it
_GRACE_S = 0.2
_NO_ROOM_S = 0.1
_MAX_LINE = 4096
_MAX_FIELD = 8190
_MAX_HEADERS = 64

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def admitting(serve: Serve) -> Serve:
    """A handler that refuses malformed requests and passes the others to ``serve``."""

    async def admit(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, ClientConnection):
            connection.begin()
        refusal = _refusal(request)
        if refusal is None:
            return await serve(request)
        refusal.headers.update(HEADERS)
        refusal.force_close()
        return refusal

    return admit


def _refusal(request: web.BaseRequest) -> web.Response | None:
    if request.version < HttpVersion10:
        return _plain(505, "HTTP/1.0 or HTTP/1.1 is needed")
    if len(request.rel_url.raw_path) > _MAX_PATH:
        return _plain(414, f"a path may have {_MAX_PATH} bytes")
    if request.body_exists:
        return _plain(413, "no request may have a body")
    if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return _plain(417, "only 100-continue may be expected")
    return None


def _plain(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=f"{words}\n")


class _MalformedFilter(logging.Filter):
    """Drops records about malformed requests.

    aiohttp logs a traceback for each of them, and every client can send them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


_http_logger = logging.getLogger(f"{__name__}.http")
_http_logger.addFilter(_MalformedFilter())


class HttpServer:
    """Serves an application on open sockets until it is stopped.

    If ``config`` has a file, it is checked for changes each ``limits.refresh_s``.
    """

    def __init__(
        self,
        app: web.Application,
        limits: ClientLimits | None = None,
        config: WebConfig | None = None,
    ) -> None:
        self._limits = limits or ClientLimits()
        self._config = config or WebConfig()
        self._runner = web.AppRunner(app, shutdown_timeout=_GRACE_S)
        self._refreshing: asyncio.Task[None] | None = None
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}  # do not accept for a moment
        self._sockets: list[socket.socket] = []
        self._open: Shares[ClientConnection] = Shares()
        self._warned = False

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Begins to accept. The server owns the sockets from now on."""
        await self._runner.setup()
        if self._runner.server is not None:
            self._runner.server.request_handler = admitting(self._runner.server.request_handler)
        tls = self._config.active.tls is not None
        for sock in sockets:
            sock.setblocking(False)
            self._sockets.append(sock)
            self._accept_on(sock)
            logger.info("listening on %s", url_of(sock, tls=tls))
        if self._config.has_file:  # otherwise a thread would be woken for nothing
            self._refreshing = asyncio.create_task(self._refresh())

    async def stop(self) -> None:
        """Stops accepting, waits a moment for requests, and closes everything."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        for pause in self._paused.values():
            pause.cancel()
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)
            close(sock)
        for connection in list(self._open):
            connection.give_up_opening()
        await self._runner.cleanup()

    def _accept_on(self, sock: socket.socket) -> None:
        """Accepts one connection at a time, so that open ones are served in between."""
        accept = partial(self._accept, sock, local=is_local(sock))
        asyncio.get_running_loop().add_reader(sock, accept)

    def _accept(self, sock: socket.socket, *, local: bool) -> None:
        try:
            client, address = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # the client is gone
        except OSError as error:  # usually the limit of open files
            self._warn_once(error)
            self._close_one()
            loop = asyncio.get_running_loop()
            loop.remove_reader(sock)
            self._paused[sock] = loop.call_later(_NO_ROOM_S, self._accept_on, sock)
        else:
            client.setblocking(False)
            self._open_connection(client, peer_of(address), local=local)

    def _warn_once(self, error: OSError) -> None:
        if not self._warned:
            logger.warning("no connection can be accepted: %s; raise that limit", error)
        self._warned = True

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._limits.refresh_s)
            await asyncio.to_thread(self._config.look)

    def _open_connection(self, client: socket.socket, peer: str, *, local: bool) -> None:
        server = self._runner.server
        if server is None or not self._has_room(peer):
            client.close()
            return
        active = self._config.active
        connection = ClientConnection(
            server,
            self._limits,
            lambda connection: self._open.remove(peer, connection),
            lambda: self._config.active.tls is not active.tls,
            peer=peer,
            local=local,
            allowed_sans=active.file.tls.client_allowed_sans if active.file.tls else (),
            access_log=None,
            logger=_http_logger,
            keepalive_timeout=self._limits.idle_s,
            lingering_time=0,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_FIELD,
            max_headers=_MAX_HEADERS,
        )
        self._open.add(peer, connection)
        connection.open(client, active.tls)

    def _has_room(self, peer: str) -> bool:
        """Whether one more connection may be opened; at the limit, closes another one for it.

        Silent clients must not keep a probe out, nor must one peer with many requests.
        """
        tls = self._config.active.tls is not None
        if len(self._open) < (self._limits.tls_connections if tls else self._limits.connections):
            return True
        return self._close_one(even_at_work=self._open.must_give_way(peer))

    def _close_one(self, *, even_at_work: bool = False) -> bool:
        """Closes a connection if one may be closed.

        The order: the oldest idle one of the peer with most connections; if allowed, the oldest one
        of that peer; the oldest idle one of another peer.
        """
        if not self._open:
            return False
        _, crowd = self._open.largest()
        candidates = (
            *(each for each in crowd if not each.at_work),
            *(crowd if even_at_work else ()),
            *(each for each in self._open if not each.at_work),
        )
        if not candidates:
            return False
        self._open.remove(candidates[0].peer, candidates[0])
        candidates[0].abort()
        return True
