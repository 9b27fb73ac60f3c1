"""A kubelet's PodResources socket for tests: a real gRPC server, wrong where told to be."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc

PATIENCE_S = 60.0


class KubeletServer:
    """``with KubeletServer(path) as kubelet: kubelet.answer = …``.

    ``answer`` is what List gives, ``entries`` what Get gives by (namespace, name); None: Get is not
    served. A refusal is a gRPC code with words. What is asked is in ``asked``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer = b""
        self.entries: dict[tuple[str, str], bytes] | None = None
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.asked: list[str] = []
        self.requests: list[bytes] = []
        self.before_answer: Callable[[], None] = lambda: None
        self._changed = threading.Condition()
        self._held = False
        self._server: Any = None

    # --- life ---

    def start(self) -> None:
        """Listen on the socket, as a kubelet that has restarted does."""
        self._server = grpc.server(
            ThreadPoolExecutor(4), options=(("grpc.max_send_message_length", -1),)
        )
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(serve)
            for method, serve in (("List", self._list), ("Get", self._get))
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
        )
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def stop(self) -> None:
        """Go away, with the socket."""
        self.release()
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # --- faults ---

    def hold(self) -> None:
        """Let calls wait without an answer until ``release``."""
        with self._changed:
            self._held = True

    def release(self) -> None:
        """Answer the calls that wait."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def wait_for_calls(self, count: int) -> None:
        """Wait for the ``count``-th call."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= count, PATIENCE_S), self.asked

    # --- the calls ---

    def _list(self, request: bytes, context: Any) -> bytes:
        self._enter("List", request, context)
        return self.answer

    def _get(self, request: bytes, context: Any) -> bytes:
        name, namespace = _texts(request)
        self._enter(f"Get {namespace}/{name}", request, context)
        if self.entries is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method Get")
        elif (namespace, name) not in self.entries:
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {name} not found")
        return (self.entries or {})[namespace, name]

    def _enter(self, what: str, request: bytes, context: Any) -> None:
        with self._changed:
            self.asked.append(what)
            self.requests.append(request)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._held)
        self.before_answer()
        if self.refusal is not None:
            context.abort(*self.refusal)


def _texts(request: bytes) -> tuple[str, str]:
    """Both strings of a request whose fields are short."""
    first = request[1]
    return request[2 : 2 + first].decode(), request[4 + first :].decode()
