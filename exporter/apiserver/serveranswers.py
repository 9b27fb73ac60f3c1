"""What a server answers: the body as it arrives, or why there is none and what to do."""

import http
import json
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

T = TypeVar("T")

CHUNK = 64 * 1024
SERVICE_ACCOUNT_USER = re.compile(r"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)", re.ASCII)
CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"  # of Python's ssl module


class ServerKind(StrEnum):
    """The server that was asked."""

    API = "the API server"
    KUBELET = "the kubelet"


LIST_PODS = "a ClusterRole with 'pods: list, watch'"
# KEP-2862 gave pods a resource of their own.
ASK_KUBELET = (
    "a ClusterRole with 'nodes/pods: get' (kubelets from 1.33 on). Older ones ask for "
    "'nodes/proxy: get', which also permits commands in every container of the node: better "
    "do without the kubelet"
)


class ApiError(Exception):
    """A request without an answer (``status`` is None), or with another status than 200."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


def explanation(
    failure: ApiError, server: ServerKind = ServerKind.API, permission: str = LIST_PODS
) -> str:
    """What is wrong and what to do, in one line."""
    if failure.status is None:
        hint = ""
        if server is ServerKind.KUBELET and CERTIFICATE in str(failure).upper():
            hint = (
                "; most kubelets sign their own certificate: give it with --kubelet.ca-file, let "
                "the cluster sign it (serverTLSBootstrap), or give --kubelet.insecure-tls"
            )
        return f"no connection to {server} ({failure}){hint}"
    if failure.status == http.HTTPStatus.UNAUTHORIZED:
        return f"{server} does not accept the credentials; they are read again ({failure})"
    if failure.status == http.HTTPStatus.FORBIDDEN:
        match = SERVICE_ACCOUNT_USER.search(str(failure))
        who = f"ServiceAccount {match[1]}/{match[2]}" if match else "this user"
        if server is ServerKind.KUBELET:
            permission = ASK_KUBELET
        return f"missing permission: give {who} {permission} ({failure})"
    return f"{server} answers {failure.status} ({failure})"


class Stream:
    """The body of an answer, as it arrives. A context manager: leaving it frees the connection."""

    def __init__(self, response: "BaseHTTPResponse") -> None:
        self._response = response

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        *error: object,
    ) -> None:
        self._response.close()

    @property
    def date(self) -> str:
        """The server's own time as its answer states it (RFC 9110, Date); "" if it does not."""
        return str(self._response.headers.get("Date", ""))

    def chunks(self) -> Iterator[bytes]:
        """Bytes as soon as there are some.

        Raises:
            ApiError: the connection broke, or was silent for longer than its read timeout.

        """
        # read1 gives what has come. read would wait for a whole chunk, and a watch's event is less.
        while chunk := attempt("reading", lambda: self._response.read1(CHUNK)):
            yield chunk

    def read(self, limit: int) -> bytes:
        """The whole body, or its first ``limit`` bytes; raises as ``chunks`` does."""
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])


def attempt(doing: str, action: Callable[[], T]) -> T:
    """Call ``action`` and turn every exception into an ApiError without objects' addresses."""
    try:
        return action()
    except Exception as error:  # broken files make the library raise any type
        cause = error.__cause__ or error
        text = re.sub(r"<[^>]*>:? ?|\[Errno -?\d+\] ", "", str(cause)) or type(cause).__name__
        raise ApiError(None, f"{doing}: {text}") from error


def message_of(body: bytes) -> str:
    """The ``message`` of a metav1.Status, or the text itself; one line."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, RecursionError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")
    return " ".join(text.split())[:500]
