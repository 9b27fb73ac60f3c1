"""The one HTTP client: nothing that a server does takes more time or size than were set."""

import asyncio
import contextlib
import errno
import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from exporter.shown.printable import clean

TIMEOUT_S = 10.0
LARGEST = 128 << 20
LONGEST_MESSAGE = 200

_NOBODY = {errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED}
_OURS = {"Accept-Encoding": "gzip", "User-Agent": "mgpu-exporter"}


class NoAnswerError(Exception):
    """There is no answer. The text has the cause and advice, and no credential.

    ``status`` is that of a refusal, 0 where there is none. ``absent``: nobody listens there.
    """

    def __init__(self, message: str, status: int = 0, *, absent: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.absent = absent


class TooLongError(NoAnswerError):
    """The answer is longer than is read. A question of less may have one."""


class BoundedClient:
    """Asks one server; each thread a question at a time.

    ``address`` has no credentials and can be shown.
    ``base`` is the beginning of each question's URL, ``socket`` the path of a Unix socket to ask
    by. ``tls`` None: as usual. An answer that is not whole within ``timeout_s``, or is longer than
    ``largest`` bytes unpacked, is none.
    """

    _by_proxy = False  # of the environment

    def __init__(
        self,
        address: str,
        base: str = "http://localhost",
        *,
        socket: str = "",
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        largest: int = LARGEST,
    ) -> None:
        self.address = address
        self._base, self._socket, self._tls = base, socket, tls
        self._headers = {**(headers or {}), **_OURS}
        self._timeout_s, self._largest = timeout_s, largest
        self._asking: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = set()
        self._interrupted = False

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer 200. A redirection is not followed.

        Raises:
            NoAnswerError: there is no such answer.

        """
        return self._read(path, query, self._largest)

    def _read(self, path: str, query: Mapping[str, str] | None, largest: int) -> bytes:
        asked = urlencode(query, errors="surrogateescape") if query else ""
        url = self._base + path + (f"?{asked}" if query else "")
        found: list[bytes] = []

        async def ask() -> None:  # without a result: asyncio may write that of a task as text
            me = asyncio.get_running_loop(), asyncio.current_task()
            self._asking.add(me)
            try:
                if not self._interrupted:
                    found.append(await self._get(url, largest))
            finally:
                self._asking.discard(me)

        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(ask())
        if not found:
            raise NoAnswerError(f"{self.address}: interrupted")
        return found[0]

    def interrupt(self) -> None:
        """End the questions that other threads ask, and refuse all later ones."""
        self._interrupted = True
        for loop, task in self._asking.copy():
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(task.cancel if task else lambda: None)

    async def _get(self, url: str, largest: int) -> bytes:
        # Half a second that only commands which ask somebody shall take.
        import aiohttp  # noqa: PLC0415
        from yarl import URL  # noqa: PLC0415

        connector: aiohttp.BaseConnector
        if self._socket:
            connector = aiohttp.UnixConnector(self._socket)
        else:
            connector = aiohttp.TCPConnector(ssl=self._tls or True)
        session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            trust_env=self._by_proxy,
        )
        try:
            async with (
                session,
                # The query is encoded already. A redirection would take the headers, which may hold
                # a secret, to whoever it names.
                session.get(URL(url, encoded=True), allow_redirects=False) as answer,
            ):
                if answer.status != HTTPStatus.OK:
                    begin = (await answer.content.read(2048)).decode("utf-8", "replace").strip()
                    said = self._refusal(answer.status, begin) or "no reason given"
                    raise NoAnswerError(
                        f"{self.address} answers {answer.status}: {said}", answer.status
                    )
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > largest:
                        raise TooLongError(f"{self.address} answers with more than {largest} bytes")
                return bytes(body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            absent = getattr(error, "errno", None) in _NOBODY
            raise NoAnswerError(
                f"{self.address} does not answer: {self._why(error)}", absent=absent
            ) from None

    def _refusal(self, status: int, begin: str) -> str:  # noqa: ARG002 - a hook
        """Why there is no answer 200, by this status and the begin of what is said of it."""
        return clean(begin, longest=LONGEST_MESSAGE)

    def _why(self, error: Exception) -> str:
        """The cause in plain words, not the library's."""
        import aiohttp  # noqa: PLC0415 - it is imported already

        for kind, words in (
            (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
            (TimeoutError, f"no whole answer within {self._timeout_s:g} s"),
            (aiohttp.ClientPayloadError, "its answer is broken off, or not packed as it says"),
        ):
            if isinstance(error, kind):
                return words
        code = getattr(error, "errno", None) or 0
        said = os.strerror(code) if code > 0 else getattr(error, "strerror", str(error))
        return clean(said or type(error).__name__, longest=LONGEST_MESSAGE)
