"""Container engines for tests: real servers on real Unix sockets that answer as they are told."""

import contextlib
import http.server
import json
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Listed = list[dict[str, Any]]


class Engine:
    """Serves ``/containers/json`` of its ``containers`` on a socket; ``asked`` are the ids."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.containers: Listed = []
        self.status = 200
        self.body: bytes | None = None
        self.asked: list[list[str]] = []
        self.requests: list[str] = []
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = engine.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self) -> str:
                return "a client"

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        path.parent.mkdir(parents=True, exist_ok=True)
        self.server = Server(str(path), Handler)

    def answer(self, path: str) -> tuple[int, bytes]:
        """As the engines' own API: those of the ids in the filter, started or not."""
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        ids = json.loads(query["filters"][0])["id"]
        self.asked.append(ids)
        self.requests.append(path)
        if parts.path != "/containers/json" or query["all"] != ["true"]:
            return 404, b"{}"
        listed = [one for one in self.containers if one["Id"] in ids]
        return self.status, json.dumps(listed).encode() if self.body is None else self.body


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room for a socket's: 107 bytes are all that one may have."""
    folder = Path(tempfile.mkdtemp(prefix="mgpu", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def serving(path: Path) -> Iterator[Engine]:
    """An engine that listens."""
    engine = Engine(path)
    thread = threading.Thread(target=engine.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield engine
    finally:
        engine.server.shutdown()
        engine.server.server_close()
        thread.join()


@contextlib.contextmanager
def talking(path: Path, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server that does not keep to HTTP: ``talk`` has each connection."""
    listener = socket.socket(socket.AF_UNIX)
    path.parent.mkdir(parents=True, exist_ok=True)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    talk(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def until(found: Callable[[], bool]) -> None:
    """Wait for what another thread does; it tells nobody."""
    nobody = threading.Event()
    for _ in range(2000):
        if found():
            return
        nobody.wait(0.005)
    raise AssertionError("it did not come")
