"""The one HTTP client: for exporters and Prometheus servers elsewhere, and for Unix sockets.

Nothing that a server does takes more than the time and the size that were set. Credentials go to
the given address only, and into no message.
"""

import asyncio
import base64
import contextlib
import errno
import json
import math
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from exporter.inputs.files import opened
from exporter.shown.printable import clean

if TYPE_CHECKING:
    import aiohttp

TIMEOUT_S = 10.0
LARGEST = 128 << 20
LARGEST_JSON = 16 << 20
MAX_VALUES = 2_000_000  # in JSON; each takes about 100 bytes when it is read
LONGEST_MESSAGE = 200

_REFUSALS: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "has no such page: is the address right, and its version new enough?",
    HTTPStatus.TOO_MANY_REQUESTS: "is asked too often",
}
_DENIED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_NOBODY = {errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED}
_LOCAL = "http://localhost"  # of a socket of this host


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


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for a server, and its trusted authorities; ``ca_file`` "": the machine's own."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def shown(self) -> str:
        """What a server is shown of them, for messages; "" if nothing."""
        if self.token:
            return "the token"
        if self.user:
            return f"the password of {clean(self.user)}"
        names = ", ".join(name for name, _ in self.headers)
        return "the certificate" if self.cert_file else f"the header {names}" if names else ""


NO_CREDENTIALS = Credentials()


class HttpClient:
    """Asks one server, a question at a time. ``address`` has no credentials and can be shown.

    ``socket`` is the path of a Unix socket, in place of an address. ``name`` is that of a server at
    the other end of a tunnel, whose address says nothing; the tunnel leads to this very server, so
    that any certificate is taken and no proxy is asked. An answer that is not whole
    within ``timeout_s``, or is longer than ``largest`` bytes unpacked, is none.

    Raises:
        NoAnswerError: the address is none, has a password in it, or a certificate cannot be read.

    """

    def __init__(
        self,
        url: str = "",
        credentials: Credentials = NO_CREDENTIALS,
        *,
        socket: str = "",
        name: str = "",
        timeout_s: float = TIMEOUT_S,
        largest: int = LARGEST,
    ) -> None:
        self.address = clean(name, longest=None) or (
            clean(socket, longest=None) if socket else _checked(url)
        )
        self._is_tunnel = bool(name)
        self._base = _LOCAL if socket else url.rstrip("/")
        self._socket = socket
        self._headers = _headers(credentials)
        self._shown = credentials.shown
        self._secrets = credentials.password, credentials.token, *dict(credentials.headers).values()
        self._trust = _context(credentials) if self._base.startswith("https:") else None
        if self._trust is not None and self._is_tunnel:
            self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE
        self._timeout_s, self._largest = timeout_s, largest
        self._asking: tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None] | None = None
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
            self._asking = asyncio.get_running_loop(), asyncio.current_task()
            if not self._interrupted:
                found.append(await self._get(url, largest))

        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(ask())
        self._asking = None
        if not found:
            raise NoAnswerError(f"{self.address}: interrupted")
        return found[0]

    def interrupt(self) -> None:
        """End the question that another thread asks, and refuse all later ones."""
        self._interrupted = True
        asking = self._asking
        if asking is not None:
            loop, task = asking
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(lambda: task.cancel() if task else None)

    def json(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object of an answer 200; raises as ``get`` does."""
        body = self._read(path, query, min(self._largest, LARGEST_JSON))
        # Each value follows one of these. What is counted here is not yet read, so that an answer
        # of nothing but empty lists does not take twenty times its length.
        if sum(map(body.count, (b"[", b"{", b":", b","))) > MAX_VALUES:
            raise TooLongError(f"{self.address} answers with more than {MAX_VALUES:,} values")
        try:
            document = json.loads(body, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise NoAnswerError(
                f"{self.address}{path} answers with something else than a JSON object"
            )
        return document

    async def _get(self, url: str, largest: int) -> bytes:
        # Half a second that only commands which ask somebody shall take.
        import aiohttp  # noqa: PLC0415
        from yarl import URL  # noqa: PLC0415

        connector: aiohttp.BaseConnector
        if self._socket:
            connector = aiohttp.UnixConnector(self._socket)
        else:
            connector = aiohttp.TCPConnector(ssl=self._trust or True)
        session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            trust_env=not (self._socket or self._is_tunnel),  # proxies
        )
        try:
            async with (
                session,
                session.get(URL(url, encoded=True), allow_redirects=False) as answer,
            ):
                if answer.status != HTTPStatus.OK:
                    raise await self._refusal(answer)
                return await self._body(answer, largest)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            absent = getattr(error, "errno", None) in _NOBODY
            raise NoAnswerError(
                f"{self.address} does not answer: {self._why(error)}", absent=absent
            ) from None

    async def _body(self, answer: "aiohttp.ClientResponse", largest: int) -> bytes:
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > largest:
                raise TooLongError(f"{self.address} answers with more than {largest} bytes")
        return bytes(body)

    async def _refusal(self, answer: "aiohttp.ClientResponse") -> NoAnswerError:
        begin = (await answer.content.read(2048)).decode("utf-8", "replace").strip()
        repeats_it = any(secret and secret in begin for secret in self._secrets)
        own = "" if repeats_it else clean(begin, longest=LONGEST_MESSAGE)
        if answer.status in _DENIED:
            said = _denied(answer.status, self._shown, own)
        elif 300 <= answer.status < 400:  # noqa: PLR2004 - redirections
            said = "redirects; give the address that it redirects to"
        else:
            said = _REFUSALS.get(answer.status) or own or "no reason given"
        return NoAnswerError(f"{self.address} answers {answer.status}: {said}", answer.status)

    def _why(self, error: Exception) -> str:
        """The cause in plain words, not the library's."""
        import aiohttp  # noqa: PLC0415 - it is imported already

        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            cause = error.certificate_error
            said = getattr(cause, "verify_message", cause)
            return f"its certificate is not trusted ({said}); see --ca-file"
        for kind, words in (
            (aiohttp.ClientSSLError, "what is there does not speak TLS; see whether it is http://"),
            (
                aiohttp.ServerDisconnectedError,
                "it closed the connection without an answer; see whether it is https://",
            ),
            (TimeoutError, f"no whole answer within {self._timeout_s:g} s"),
            (aiohttp.ClientPayloadError, "its answer is broken off, or not packed as it says"),
        ):
            if isinstance(error, kind):
                return words
        number = getattr(error, "errno", None) or 0
        said = os.strerror(number) if number > 0 else getattr(error, "strerror", str(error))
        advice = ""
        if number == errno.ECONNREFUSED and not self._socket:
            advice = "; nothing listens there: is the port right?"
        elif isinstance(error, aiohttp.ClientConnectorDNSError):
            advice = "; is the host's name right?"
        return clean(said or type(error).__name__, longest=LONGEST_MESSAGE) + advice


def _finite(text: str) -> float:
    """A number of JSON, which has neither NaN nor Infinity, though Python reads and writes both."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _checked(url: str) -> str:
    """The address as it can be shown."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        has_password = bool(parts.username or parts.password)
    except ValueError:
        is_address = has_password = False
    if not is_address:
        raise NoAnswerError(f"{clean(url, longest=None)!r} is no address such as http://node:10045")
    if has_password:
        raise NoAnswerError(
            "an address with a password in it is seen by everybody on this machine: give "
            "--user and --password-file, or the variables that --help names"
        )
    return clean(url.rstrip("/"), longest=None)


def _denied(status: int, shown: str, own: str) -> str:
    """What a server refuses, by what it was ``shown`` and what it says on its ``own``."""
    if "org id" in own.lower():  # Mimir and Cortex, which have several tenants
        return f"asks whose series it shall look at: --header 'X-Scope-OrgID: TENANT' ({own})"
    says = f"; it says: {own}" if own and own[0] not in "<{" else ""
    if status == HTTPStatus.FORBIDDEN:
        return (
            f"does not let you see this, by {shown or 'no password or token'}; its operator may "
            "(--web.config.file, --web.open-page, rights of Kubernetes; Prometheus: its proxy's "
            f"rules){says}"
        )
    if shown:
        return f"refuses {shown}{says}"
    return f"asks for a user and a password, or a token, and none was given (see --help){says}"


def _headers(credentials: Credentials) -> dict[str, str]:
    ours = {"Accept-Encoding": "gzip", "User-Agent": "mgpu-exporter"}
    headers = {**dict(credentials.headers), **ours}
    is_said = any(name.lower() == "authorization" for name in headers)
    if is_said and (credentials.token or credentials.user):
        raise NoAnswerError("Authorization is given twice: as a header, and by a token or a user")
    if credentials.token:
        headers["Authorization"] = f"Bearer {credentials.token}"
    elif credentials.user:
        pair = f"{credentials.user}:{credentials.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return headers


def _context(credentials: Credentials) -> ssl.SSLContext:
    try:
        for path in filter(
            None, (credentials.ca_file, credentials.cert_file, credentials.key_file)
        ):
            opened(path).close()  # the library would wait for a pipe's writer
        context = ssl.create_default_context(cafile=credentials.ca_file or None)
        if credentials.cert_file:
            context.load_cert_chain(credentials.cert_file, credentials.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise NoAnswerError(f"the certificates cannot be used: {error.strerror}") from None
    return context
