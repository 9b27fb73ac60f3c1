"""The server on its listening sockets: accepts, bounds and closes connections.

What is refused before a route is looked for, in words that repeat nothing of the request.
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
from exporter.web.listening import close, is_local, written
from exporter.web.peers import Shares, peer_of
from exporter.web.webconfig import WebConfig

_MAX_PATH = 2048  # bytes; the time to look for a route grows with the square of it

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def admitting(serve: Serve) -> Serve:
    """Serve what is well-formed, and note in its connection that it has arrived."""

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
        return _said(505, "HTTP/1.0 or HTTP/1.1 is needed")
    if len(request.rel_url.raw_path) > _MAX_PATH:
        return _said(414, f"a path may have {_MAX_PATH} bytes")
    if request.body_exists:
        return _said(413, "no request may have a body")
    if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return _said(417, "only 100-continue may be expected")
    return None


def _said(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=f"{words}\n")


logger = logging.getLogger(__name__)

_GRACE_S = 0.2
_NO_ROOM_S = 0.1
_MAX_LINE = 4096
_MAX_FIELD = 8190
_MAX_HEADERS = 64


class _NotOurs(logging.Filter):
    """Drops what is no request: aiohttp logs a traceback for each, and anyone can send it."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


_http_logger = logging.getLogger(f"{__name__}.http")
_http_logger.addFilter(_NotOurs())


class HttpServer:
    """Serves an application on open sockets until stopped.

    ``config`` is looked at for changes each ``limits.refresh_s``, if it is a file's.
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
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}  # accept none for a moment
        self._sockets: list[socket.socket] = []
        self._open: Shares[ClientConnection] = Shares()
        self._said = False

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Begin to accept; the sockets are the server's from now on."""
        await self._runner.setup()
        if self._runner.server is not None:
            self._runner.server.request_handler = admitting(self._runner.server.request_handler)
        tls = self._config.in_force.tls is not None
        for sock in sockets:
            sock.setblocking(False)
            self._sockets.append(sock)
            self._accept_on(sock)
            logger.info("listening on %s", written(sock, tls=tls))
        if self._config.has_file:  # else a thread is woken each time, for nothing
            self._refreshing = asyncio.create_task(self._refresh())

    async def stop(self) -> None:
        """Accept no more, give requests a moment, close."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        for rest in self._resting.values():
            rest.cancel()
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)
            close(sock)
        for connection in list(self._open):
            connection.give_up_opening()
        await self._runner.cleanup()

    def _accept_on(self, sock: socket.socket) -> None:
        """Accept one at a time: a crowd at the door does not keep out those inside."""
        accept = partial(self._accept, sock, local=is_local(sock))
        asyncio.get_running_loop().add_reader(sock, accept)

    def _accept(self, sock: socket.socket, *, local: bool) -> None:
        try:
            client, address = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # it has gone again
        except OSError as error:  # no more files may be open, as a rule
            self._say_once(error)
            self._close_one()
            loop = asyncio.get_running_loop()
            loop.remove_reader(sock)
            self._resting[sock] = loop.call_later(_NO_ROOM_S, self._accept_on, sock)
        else:
            client.setblocking(False)
            self._welcome(client, peer_of(address), local=local)

    def _say_once(self, error: OSError) -> None:
        if not self._said:
            logger.warning("no connection can be accepted: %s; raise that limit", error)
        self._said = True

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._limits.refresh_s)
            await asyncio.to_thread(self._config.refresh)

    def _welcome(self, client: socket.socket, peer: str, *, local: bool) -> None:
        server = self._runner.server
        if server is None or not self._has_room(peer):
            client.close()
            return
        in_force = self._config.in_force
        connection = ClientConnection(
            server,
            self._limits,
            lambda connection: self._open.remove(peer, connection),
            lambda: self._config.in_force.tls is not in_force.tls,
            peer=peer,
            local=local,
            allowed_sans=in_force.file.tls.client_allowed_sans if in_force.file.tls else (),
            access_log=None,
            logger=_http_logger,
            keepalive_timeout=self._limits.idle_s,
            lingering_time=0,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_FIELD,
            max_headers=_MAX_HEADERS,
        )
        self._open.add(peer, connection)
        connection.open(client, in_force.tls)

    def _has_room(self, peer: str) -> bool:
        """Whether one more connection may come; at the bound another one goes for it.

        Those who connect and say nothing must not keep a probe out, nor must those of one peer
        that have all requests at work.
        """
        tls = self._config.in_force.tls is not None
        if len(self._open) < (self._limits.tls_connections if tls else self._limits.connections):
            return True
        return self._close_one(even_at_work=self._open.must_give_way(peer))

    def _close_one(self, *, even_at_work: bool = False) -> bool:
        """Close a connection if one may be closed.

        The oldest idle one of the peer with most goes first, then, if allowed, its oldest one, then
        the oldest idle one of another peer.
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
