"""The body of an HTTP answer as it arrives, and its errors; uses urllib3."""

import json
import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from exporter.sources.pods.health import ApiError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

T = TypeVar("T")

CHUNK = 64 * 1024


class Stream:
    """The body of an answer, as it arrives. A context manager: leaving it frees the connection."""

    def __init__(self, response: "BaseHTTPResponse") -> None:
        self._response = response

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
        response = self._response
        # A server that sends in chunks sends each event of a watch as one: it is read whole.
        if response.chunked:
            parts = response.read_chunked(CHUNK, decode_content=True)
        else:
            parts = iter(self._part, b"")
        while chunk := attempt("reading", lambda: next(parts, b"")):
            yield chunk

    def _part(self) -> bytes:
        return self._response.read1(CHUNK)

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
