"""The listening sockets and the server on them."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.settings import Address
from exporter.web.app import Limits
from exporter.web.connection import Connection

logger = logging.getLogger(__name__)

_BACKLOG = 128
_GRACE_S = 0.2
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


class BindError(Exception):
    """An address cannot be listened on; the message says which and why."""


def listen(addresses: Iterable[Address]) -> list[socket.socket]:
    """Open a listening socket for each address, and for each that a host name stands for.

    Raises:
        BindError: one of them cannot be opened; then none is.

    """
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as undo:
        for address in addresses:
            try:
                opened = _everywhere(address.port) if not address.host else _at(address)
            except OSError as error:
                raise BindError(
                    f"cannot listen on {address.host}:{address.port}: {error.strerror or error}; "
                    "set another --web.listen-address"
                ) from error
            for sock in opened:
                undo.callback(sock.close)
            sockets += opened
        undo.pop_all()
    return sockets


def _everywhere(port: int) -> list[socket.socket]:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be built in and switched off
            return [
                socket.create_server(
                    ("::", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
                )
            ]
    return [socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)]  # noqa: S104 - asked for


def _at(address: Address) -> list[socket.socket]:
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, target in dict.fromkeys((item[0], item[4]) for item in found):
            sockets.append(socket.create_server(target[:2], family=family, backlog=_BACKLOG))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


class Server:
    """Serves an application on open sockets until stopped."""

    def __init__(self, app: web.Application, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._runner = web.AppRunner(app, shutdown_timeout=_GRACE_S)
        self._servers: list[asyncio.Server] = []
        self._open: dict[Connection, None] = {}  # the oldest first

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Begin to accept; the sockets are the server's from now on."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        for sock in sockets:
            self._servers.append(await loop.create_server(self._accept, sock=sock))
            logger.info("listening on %s", _written(sock))

    async def stop(self) -> None:
        """Accept no more, give requests a moment, close."""
        for server in self._servers:
            server.close()
        await self._runner.cleanup()

    def _accept(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None or not self._has_room():
            return _Refuse()
        connection = Connection(
            server,
            self._limits.request_s,
            lambda connection: self._open.pop(connection, None),
            access_log=None,
            logger=_http_logger,
            keepalive_timeout=self._limits.idle_s,
            lingering_time=0,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_FIELD,
            max_headers=_MAX_HEADERS,
        )
        self._open[connection] = None
        return connection

    def _has_room(self) -> bool:
        """Whether one more connection may come; at the bound the oldest idle one goes for it.

        Those who connect and say nothing must not keep a probe out.
        """
        if len(self._open) < self._limits.connections:
            return True
        idle = next((each for each in self._open if not each.at_work), None)
        if idle is None:
            return False
        del self._open[idle]
        idle.abort()
        return True


class _Refuse(asyncio.Protocol):
    """Closes a connection where all others are at work, before anything is read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        transport.close()


def _written(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
