"""The HTTP side of the test API server: one thread for each connection."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.agent.sources.pods import devices, reviews
from tests.agent.sources.pods.apistate import Request, State, encoded


class HttpServer(ThreadingHTTPServer):
    """Listens, and knows the open connections."""

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(
        self, port: int, state: State, changed: threading.Condition, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.state, self.changed, self.tls = state, changed, tls
        self.connections: set[socket.socket] = set()

    def drop(self) -> None:
        with self.changed:
            for connection in self.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are what this server is for."""


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server: HttpServer

    def setup(self) -> None:
        """Take the connection over, with TLS if the server has a certificate."""
        # TLS takes the socket over; a duplicate stays for ``drop``. The handshake is in this
        # thread, so that a slow one does not stop the others.
        self.plain = self.request.dup()
        with self.server.changed:
            self.server.connections.add(self.plain)
        if self.server.tls is not None:
            try:
                self.request = self.server.tls.wrap_socket(self.request, server_side=True)
            except OSError:
                self._forget()
                raise
        super().setup()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.request.close()
        self._forget()

    def _forget(self) -> None:
        with self.server.changed:
            self.server.connections.discard(self.plain)
            self.server.changed.notify_all()
        self.plain.close()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def do_GET(self) -> None:
        """Answer a request: a fault if one was asked for, else what the path names."""
        changed, state = self.server.changed, self.server.state
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        request = Request(split.path, query, self.headers.get("Authorization", ""))
        with changed:
            state.requests.append(request)
            changed.notify_all()
            changed.wait_for(lambda: request.kind not in state.held or not state.running)
            error = self._error(request)
        if error is not None:
            self._status(*error)
        elif request.kind == "version":
            self._json(200, b'{"major": "1", "minor": "33"}')
        elif request.kind == "watch":
            self._watch(query)
        elif request.kind == "list":
            self._json(200, self._list(query))
        elif request.kind in {"versions", "resources", "claim", "slices", "rules"}:
            with changed:
                found = devices.answer(request, state)
            if found is None:
                self._status(404, f"{request.kind} not found")
            else:
                self._json(200, found)
        else:
            with changed:
                node = state.nodes.get(split.path.rpartition("/")[2])
            if node is None:
                self._status(404, "nodes not found")
            else:
                self._json(200, json.dumps(node).encode())

    def do_POST(self) -> None:
        """Answer a review, or meet the fault that was asked for."""
        changed, state = self.server.changed, self.server.state
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        authorization = self.headers.get("Authorization", "")
        request = Request(urlsplit(self.path).path, {}, authorization, json.loads(body))
        with changed:
            state.requests.append(request)
            changed.notify_all()
            changed.wait_for(lambda: request.kind not in state.held or not state.running)
            error = self._error(request)
            answer = state.review_bodies.get(request.kind)
            if answer is None:
                answer = json.dumps(reviews.answer(request, state)).encode()
            drip_s = state.drip_s
        if error is not None:
            self._status(*error)
        elif drip_s:
            self._drip(answer, drip_s)
        else:
            self._json(201, answer)

    def _drip(self, body: bytes, pause_s: float) -> None:
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(pause_s)

    def _error(self, request: Request) -> tuple[int, str] | None:
        """With the condition held: the fault or refusal that this request meets."""
        state = self.server.state
        token = request.authorization.partition(" ")[2]
        if state.tokens is not None and token not in state.tokens:
            return 401, "Unauthorized"
        for fault in state.faults:
            if fault.kind == request.kind and fault.times > 0:
                fault.times -= 1
                return fault.status, fault.message
        return None

    def _list(self, query: Mapping[str, str]) -> bytes:
        state = self.server.state
        with self.server.changed:
            if state.list_body is not None:
                return state.list_body
            items = [
                pod
                for pod in state.pods.values()
                if _node(query) in {None, pod["spec"].get("nodeName")}
            ]
            metadata = {"resourceVersion": str(state.version)}
            document = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
            return encoded(document, state.escaped)

    def _watch(self, query: Mapping[str, str]) -> None:
        # Begun before the client hears of it, so that it misses nothing once it has.
        with self.server.changed:
            version, compacted = int(query["resourceVersion"]), self.server.state.compacted
            if version < compacted:  # the answer is 200, as of the real server's memory
                lines = iter([gone(f"too old resource version: {version} ({compacted})")])
            else:
                lines = self._lines(query, self._start_of(query), self.server.state.epoch)
        self._count(+1)
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in lines:
                self.wfile.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            self._count(-1)

    def _start_of(self, query: Mapping[str, str]) -> int:
        """With the condition held: where in the history the watch's position is."""
        history, position = self.server.state.history, int(query["resourceVersion"])
        later = (at for at, entry in enumerate(history) if entry.version > position)
        return next(later, len(history))

    def _lines(self, query: Mapping[str, str], at: int, epoch: int) -> Iterator[bytes]:
        """The events of the history from ``at``, as they come, until the watch's time is over."""
        changed, state = self.server.changed, self.server.state
        ends = time.monotonic() + float(query.get("timeoutSeconds", "3600"))
        while True:
            with changed:
                changed.wait_for(
                    lambda at=at: (  # type: ignore[misc]
                        len(state.history) > at or state.epoch != epoch or not state.running
                    ),
                    max(0.0, ends - time.monotonic()),
                )
                entries = state.history[at:]
                at = len(state.history)
                over = state.epoch != epoch or time.monotonic() >= ends
                if state.mute:
                    self._sleep_for_ever()
                if not state.running:
                    raise BrokenPipeError
            yield from (entry.line for entry in entries if entry.node in {"", _node(query)})
            if over:
                return

    def _sleep_for_ever(self) -> None:
        """With the condition held: neither speak nor close, until the server stops."""
        state = self.server.state
        self.server.changed.wait_for(lambda: not state.running)

    def _count(self, change: int) -> None:
        with self.server.changed:
            self.server.state.watching += change
            self.server.changed.notify_all()

    def _status(self, code: int, message: str) -> None:
        status = {"kind": "Status", "status": "Failure", "code": code, "message": message}
        self._json(code, json.dumps(status).encode())

    def _json(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def gone(message: str) -> bytes:
    """The event of a watch whose position is too old."""
    status = {"kind": "Status", "code": 410, "message": message, "status": "Failure"}
    return json.dumps({"type": "ERROR", "object": status}).encode()


def _node(query: Mapping[str, str]) -> str | None:
    return (
        query["fieldSelector"].removeprefix("spec.nodeName=") if "fieldSelector" in query else None
    )
