"""Listening sockets: TCP of both families, and Unix sockets."""

import contextlib
import os
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from exporter.inputs.values import Address

_BACKLOG = 128
_UNIX_MODE = 0o660


class BindError(Exception):
    """An address cannot be listened on; the message says which and why."""


def listen(addresses: Iterable[Address]) -> list[socket.socket]:
    """Listening sockets for all addresses. A host name may stand for several.

    Raises:
        BindError: one of them cannot be opened; then none stays open.

    """
    sockets: list[socket.socket] = []
    with contextlib.ExitStack() as undo:
        for address in addresses:
            try:
                if address.path:
                    opened = [_unix(Path(address.path))]
                else:
                    opened = _at(address) if address.host else _everywhere(address.port)
            except OSError as error:
                where = address.path or f"{address.host}:{address.port}"
                # create_server adds the address to the system's message, as a tuple. The message
                # by the error's number is without it.
                has_number = error.errno is not None and error.errno > 0
                why = os.strerror(error.errno or 0) if has_number else error.strerror or str(error)
                raise BindError(
                    f"cannot listen on {where}: {why}; set another --web.listen-address"
                ) from error
            for sock in opened:
                undo.callback(close, sock)
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


def _unix(path: Path) -> socket.socket:
    """A Unix socket for its owner and group. A file that no process serves is replaced."""
    # A process that was killed leaves its socket's file, and nobody could listen there again. One
    # that is served is another exporter's, and stays.
    if path.is_socket() and not _is_served(path):
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(_UNIX_MODE)  # before it listens, so that no client connects earlier
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        # Nothing proves that it is nobody's, so it stays.
        except OSError:
            return True
        return True


def is_local(sock: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    if sock.family == socket.AF_UNIX:
        return True
    return ip_address(sock.getsockname()[0].partition("%")[0]).is_loopback


def close(sock: socket.socket) -> None:
    """Closes the socket and removes the file of a Unix socket."""
    if sock.family == socket.AF_UNIX:
        with contextlib.suppress(OSError):
            Path(sock.getsockname()).unlink()
    sock.close()


def url_of(sock: socket.socket, *, tls: bool) -> str:
    """The socket's address as a URL."""
    scheme = "https" if tls else "http"
    if sock.family == socket.AF_UNIX:
        return f"{scheme}+unix://{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
