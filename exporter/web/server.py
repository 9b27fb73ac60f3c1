"""The server on its listening sockets: accepts, limits and closes connections.

Malformed requests are refused before a route is looked up. The refusals repeat nothing of them.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10

from exporter.web.connection import HEADERS, ClientConnection, ClientLimits
from exporter.web.listening import close, is_local, url_of
from exporter.web.peers import Shares, peer_of
from exporter.web.webconfig import WebConfig

logger = logging.getLogger(__name__)

_MAX_PATH = 2048  # bytes; the time to look up a route grows with the square of it
_GRACE_S = 0.2
_NO_ROOM_S = 0.1

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def admitting(serve: Serve) -> Serve:
    """A handler that refuses malformed requests and passes the others to ``serve``."""

    async def admit(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, ClientConnection):
            connection.at_work = True
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


def _most_files() -> int:
    """How many files this process may open."""
    limit = getrlimit(RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == RLIM_INFINITY else limit


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
        self._tasks: set[asyncio.Task[Any]] = set()  # that accept, open or look at files
        self._sockets: list[socket.socket] = []
        self._open: Shares[ClientConnection] = Shares()
        self._opening: dict[ClientConnection, asyncio.Task[Any]] = {}
        self._most = min(self._limits.connections, _most_files() // 2)  # the rest is to measure
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
            self._run(self._accept_on(sock))
            logger.info("listening on %s", url_of(sock, tls=tls))
        if self._config.has_file:  # otherwise a thread would be woken for nothing
            self._run(self._refresh())

    async def stop(self) -> None:
        """Stops accepting, waits a moment for requests, and closes everything."""
        ending = [*self._tasks]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for sock in self._sockets:
            close(sock)
        transports = [each.transport for each in self._open if each.transport is not None]
        await self._runner.cleanup()
        for transport in transports:  # aiohttp closes them, which waits for slow readers
            transport.abort()
        await asyncio.sleep(0)  # until they are closed

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept_on(self, sock: socket.socket) -> None:
        loop, local = asyncio.get_running_loop(), is_local(sock)
        while True:
            try:
                client, address = await loop.sock_accept(sock)
            except ConnectionAbortedError:
                continue  # the client is gone
            except OSError as error:  # usually the limit of open files
                self._warn_once(error)
                await asyncio.sleep(0 if self._close_one() else _NO_ROOM_S)
            else:
                self._serve(client, peer_of(address), local=local)

    def _warn_once(self, error: OSError) -> None:
        if not self._warned:
            logger.warning("no connection can be accepted: %s; raise that limit", error)
        self._warned = True

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._limits.refresh_s)
            await asyncio.to_thread(self._config.look)

    def _serve(self, client: socket.socket, peer: str, *, local: bool) -> None:
        server = self._runner.server
        if server is None or not self._has_room(peer):
            client.close()
            return
        active = self._config.active
        connection = ClientConnection(
            server,
            self._limits,
            lambda connection: self._open.remove(peer, connection),
            lambda: self._config.active.tls,
            peer=peer,
            local=local,
            allowed_sans=active.file.tls.client_allowed_sans if active.file.tls else (),
        )
        self._open.add(peer, connection)
        limit_s = self._limits.request_s if active.tls else None
        opening = asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            client,
            ssl=active.tls,
            ssl_handshake_timeout=limit_s,
            ssl_shutdown_timeout=limit_s,
        )
        task = self._opening[connection] = self._run(opening)
        task.add_done_callback(lambda task: self._opened(task, connection, client))

    def _opened(
        self, opening: asyncio.Task[Any], connection: ClientConnection, client: socket.socket
    ) -> None:
        del self._opening[connection]
        if opening.cancelled() or opening.exception() is not None:
            client.close()
            self._open.remove(connection.peer, connection)

    def _has_room(self, peer: str) -> bool:
        """Whether one more connection may be opened; at the limit, closes another one for it.

        Silent clients must not keep a probe out, nor must one peer with many requests.
        """
        if len(self._open) < self._most:
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
        chosen = candidates[0]
        self._open.remove(chosen.peer, chosen)
        if (opening := self._opening.get(chosen)) is not None:
            opening.cancel()
        chosen.abort()
        return True
