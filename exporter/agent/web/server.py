"""The server on its listening sockets: it accepts connections, and refuses malformed requests.

They are refused before a route is looked up. The refusals repeat nothing of them.
"""

import asyncio
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10

from exporter.agent.web.connection import CLIENTS, HEADERS, ClientConnection
from exporter.agent.web.listening import close, is_local, url_of
from exporter.agent.web.peers import peer_of

logger = logging.getLogger(__name__)

_MAX_PATH = 2048  # bytes; the time to look up a route grows with the square of it
_ONE = (hdrs.HOST, hdrs.ORIGIN)
_GRACE_S = 0.2
_NO_ROOM_S = 0.1
_AT_ONCE = 32  # connections that are accepted in one step of the event loop

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _admitting(serve: Serve) -> Serve:
    """A handler that refuses malformed requests and passes the others to ``serve``."""

    async def admit(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, ClientConnection):
            connection.at_work = True
        # Nothing here has a body or a long path. What has one is no client of ours, and is refused
        # before it costs more than its head.
        if any(len(request.headers.getall(name, ())) > 1 for name in _ONE):
            # Each reader would take another one of them for the site that is asked.
            refusal = web.Response(status=400, text="Host and Origin may be given once\n")
        elif request.version < HttpVersion10:
            refusal = web.Response(status=505, text="HTTP/1.0 or HTTP/1.1 is needed\n")
        elif len(request.rel_url.raw_path) > _MAX_PATH:
            refusal = web.Response(status=414, text=f"a path may have {_MAX_PATH} bytes\n")
        elif request.body_exists:
            refusal = web.Response(status=413, text="no request may have a body\n")
        elif request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
            refusal = web.Response(status=417, text="only 100-continue may be expected\n")
        else:
            return await serve(request)
        refusal.headers.update(HEADERS)
        refusal.force_close()
        return refusal

    return admit


class HttpServer:
    """Serves an application of ``make_app`` on open sockets until it is stopped.

    If its web configuration has a file, that is checked for changes each ``refresh_s``.
    """

    def __init__(self, app: web.Application) -> None:
        self._clients = app[CLIENTS]
        self._runner = web.AppRunner(app, shutdown_timeout=_GRACE_S)
        self._tasks: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self._warned = self._is_stopping = False

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Begins to accept. The server owns the sockets from now on."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None  # noqa: S101 - it is set up
        server.request_handler = _admitting(server.request_handler)
        config = self._clients.config
        for sock in sockets:
            sock.setblocking(False)
            self._sockets.append(sock)
            self._tasks.append(asyncio.create_task(self._accept_on(sock, server)))
            logger.info("listening on %s", url_of(sock, tls=config.active.tls is not None))
        if config.has_file:  # otherwise a thread would be woken for nothing
            self._tasks.append(asyncio.create_task(self._refresh()))

    async def stop(self) -> None:
        """Stops accepting, waits a moment for requests, and closes everything."""
        # An accept that is cancelled in the step in which it ends leaves its connection open. So
        # none ends from now on, and one that has just ended has its turn first.
        self._is_stopping = True
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)
        await asyncio.sleep(0)
        ending = [*self._tasks, *self._clients.open.values()]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for sock in self._sockets:
            close(sock)
        transports = [each.transport for each in self._clients.open if each.transport is not None]
        await self._runner.cleanup()
        for transport in transports:  # aiohttp closes them, which waits for slow readers
            transport.abort()
        await asyncio.sleep(0)  # until they are closed

    async def _accept_on(self, sock: socket.socket, server: web.Server) -> None:
        loop, local = asyncio.get_running_loop(), is_local(sock)
        for turn in itertools.count():
            if turn % _AT_ONCE == 0:
                await asyncio.sleep(0)  # else who opens many at once would hold up all others
            try:
                client, address = await loop.sock_accept(sock)
            except ConnectionAbortedError:
                continue  # the client is gone
            except OSError as error:
                # Usually the limit of open files. The connection waits in the queue meanwhile: one
                # that is idle gives way to it, or else it is tried again a moment later.
                if not self._warned:
                    logger.warning("no connection can be accepted: %s; raise that limit", error)
                self._warned = True
                await asyncio.sleep(0 if self._clients.close_one() else _NO_ROOM_S)
                continue
            if self._is_stopping:
                client.close()
                return
            peer = peer_of(address)
            if self._clients.has_room(peer):
                self._open(ClientConnection(server, self._clients, peer=peer, local=local), client)
            else:
                client.close()

    def _open(self, connection: ClientConnection, client: socket.socket) -> None:
        tls = self._clients.config.active.tls
        limit_s = self._clients.limits.request_s if tls else None
        opening = asyncio.get_running_loop().connect_accepted_socket(
            lambda: connection,
            client,
            ssl=tls,
            ssl_handshake_timeout=limit_s,
            ssl_shutdown_timeout=limit_s,
        )
        task = self._clients.open[connection] = asyncio.create_task(opening)

        def opened(opening: asyncio.Task[Any]) -> None:
            # There was no handshake, or not in time. asyncio then leaves the socket open.
            if opening.cancelled() or opening.exception() is not None:
                client.close()
                self._clients.open.pop(connection, None)

        task.add_done_callback(opened)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._clients.limits.refresh_s)
            await asyncio.to_thread(self._clients.config.look)
