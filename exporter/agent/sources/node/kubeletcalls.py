"""Calls of the kubelet's PodResources v1 over its unix socket; the only importer of grpc.

grpc is an optional extra, imported with the first call. Messages go through as bytes: what is in
them is read by ``resourceentries``.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

from exporter.agent.sources import door
from exporter.agent.sources.node import resourceentries

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
SERVICE = "/v1.PodResourcesLister"
TIMEOUT_S = 5.0
MAX_ANSWER = 16 << 20  # bytes, as the kubelet's own clients allow; most have some 100 KB
LONGEST_MESSAGE = 300

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER),
    ("grpc.max_metadata_size", 16 << 10),
    # The default is the socket's path in percent-encoding, which Go's server refuses.
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class KubeletError(Exception):
    """No answer; the text says why and what to do. ``code`` is gRPC's name for it, or ""."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code

    @property
    def too_long(self) -> bool:
        """Whether the answer is longer than ``MAX_ANSWER``, or the kubelet asks for a rest."""
        return self.code == "RESOURCE_EXHAUSTED"

    @property
    def refused(self) -> bool:
        """Whether the kubelet is there and did not want to answer this call."""
        return self.code not in {"", "DEADLINE_EXCEEDED", "UNAVAILABLE"}


class Kubelet:
    """The kubelet behind one socket. One thread calls; ``interrupt`` is for any."""

    def __init__(self, socket: str = SOCKET, timeout_s: float = TIMEOUT_S) -> None:
        self._socket = socket
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._channel: Any = None
        self._call: Any = None
        self._interrupted = False

    @contextmanager
    def connected(self) -> "Iterator[Self]":
        """Itself with a connection for some calls, as a restarted kubelet has another socket.

        Raises:
            KubeletError: there is no grpc, or no socket.

        """
        try:
            import grpc  # noqa: PLC0415 - see the module's docstring
        except ImportError as error:
            raise KubeletError(
                "the package grpcio is not installed: pip install grpcio protobuf, or set "
                "--kubelet.pod-resources-socket=none"
            ) from error
        if door.is_gone(self._socket):
            raise KubeletError(
                f"there is no socket {self._socket}: mount its folder, or set "
                "--kubelet.pod-resources-socket"
            )
        with grpc.insecure_channel(f"unix:{quote(self._socket)}", options=_OPTIONS) as channel:
            self._channel = channel
            yield self

    def list(self) -> bytes:
        """The ListPodResourcesResponse of all pods; raises KubeletError."""
        return self._answer("List", b"")

    def get(self, namespace: str, name: str) -> bytes:
        """The GetPodResourcesResponse of one pod.

        Raises:
            KubeletError: no answer; ``refused`` if there is no such pod, or no such call.

        """
        return self._answer("Get", resourceentries.request(namespace, name))

    def interrupt(self) -> None:
        """End the call that is under way, and all later ones."""
        with self._lock:
            self._interrupted = True
            if self._call is not None:
                self._call.cancel()

    def _answer(self, method: str, request: bytes) -> bytes:
        import grpc  # noqa: PLC0415 - see the module's docstring

        with self._lock:
            if self._interrupted:
                raise KubeletError("interrupted")
            # With the lock held: an interrupt between the check and this would find no call to end.
            self._call = self._channel.unary_unary(f"{SERVICE}/{method}").future(
                request, timeout=self._timeout_s
            )
        try:
            answer: bytes = self._call.result()
        except grpc.FutureCancelledError as error:
            raise KubeletError("interrupted") from error
        except grpc.RpcError as error:
            raise self._error(method, error) from error
        finally:
            self._call = None
        return answer

    def _error(self, method: str, error: Any) -> KubeletError:  # noqa: ANN401 - of grpc
        code = error.code().name
        details = " ".join(str(error.details()).split())[:LONGEST_MESSAGE]
        if code == "DEADLINE_EXCEEDED":
            return KubeletError(f"the kubelet did not answer within {self._timeout_s:g} s", code)
        if code == "UNAVAILABLE":
            return KubeletError(
                f"the kubelet does not answer on {self._socket}; is it running? ({details})",
                code,
            )
        if code == "UNIMPLEMENTED":
            return KubeletError(f"the kubelet does not serve {SERVICE}/{method}", code)
        if code == "RESOURCE_EXHAUSTED" and "larger than max" in details:
            return KubeletError(
                f"the kubelet's answer to {method} has more than {MAX_ANSWER >> 20} MiB: delete "
                "pods that have ended; let a device plugin hand out larger units, or a DRA driver "
                "name each device of a claim once",
                code,
            )
        return KubeletError(f"the kubelet answers {method} with {code}: {details}", code)
