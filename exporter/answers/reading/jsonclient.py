"""The client of exporters and Prometheus servers elsewhere: credentials, JSON, and what to do.

Credentials go to the given address only, and into no message.
"""

import base64
import errno
import json
import math
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from exporter.httpclient import LARGEST, TIMEOUT_S, BoundedClient, NoAnswerError, TooLongError
from exporter.inputs.files import opened
from exporter.shown.printable import clean

LARGEST_JSON = 16 << 20
MAX_VALUES = 2_000_000  # in JSON; each takes about 100 bytes when it is read

_REFUSALS: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "has no such page: is the address right, and its version new enough?",
    HTTPStatus.TOO_MANY_REQUESTS: "is asked too often",
}
_DENIED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_TENANT = "x-scope-orgid"  # a name such as 1, which stands in much of what a store says
_LOCAL = "http://localhost"  # of a socket of this host


# Where servers and gateways say in JSON why they refuse, the best first.
_WORDS = ("message", "error_description", "error", "detail", "details", "errors", "msg", "reason")
_DEEPEST = 4  # of an answer that only says why


def _words_of(begin: str) -> str:
    """What an answer says in words: in whatever JSON they come, else as it is."""
    try:
        return _found(json.loads(begin), _DEEPEST) or begin
    except (ValueError, RecursionError):
        return begin


def _found(said: object, depth: int) -> str:
    """The words of a value: its own, or what stands under the best of its names."""
    if isinstance(said, str):
        return said
    parts: Iterable[object] = said if isinstance(said, list) and depth else ()
    if isinstance(said, dict) and depth:
        named = {name.lower(): value for name, value in said.items()}
        parts = map(named.get, _WORDS)
    return next(filter(None, (_found(one, depth - 1) for one in parts)), "")


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


class HttpClient(BoundedClient):
    """A ``BoundedClient`` with credentials.

    ``socket`` is the path of a Unix socket, in place of an address. ``name`` is that of a server at
    the other end of a tunnel, whose address says nothing; the tunnel leads to this very server, so
    that any certificate is taken and no proxy is asked.

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
        base = _LOCAL if socket else url.rstrip("/")
        shown = name or socket
        self._shown = credentials.shown
        hidden = (said for name, said in credentials.headers if name.lower() != _TENANT)
        self._secrets = credentials.password, credentials.token, *hidden
        self._by_proxy = not shown
        headers = dict(credentials.headers)
        is_said = any(name.lower() == "authorization" for name in headers)
        if is_said and (credentials.token or credentials.user):
            raise NoAnswerError(
                "Authorization is given twice: as a header, and by a token or a user"
            )
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        elif credentials.user:
            pair = f"{credentials.user}:{credentials.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        super().__init__(
            clean(shown, longest=None) if shown else _checked(url),
            base,
            socket=socket,
            headers=headers,
            tls=_context(credentials, is_tunnel=bool(name)) if base.startswith("https:") else None,
            timeout_s=timeout_s,
            largest=largest,
        )

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

    def _refusal(self, status: int, begin: str) -> str:
        # A server may repeat what it was shown. No secret is written into a message.
        words = _words_of(begin)
        repeats_it = any(secret and secret in begin + words for secret in self._secrets)
        own = "" if repeats_it else super()._refusal(status, words)
        if status in _DENIED:
            if "org id" in own.lower():  # Mimir and Cortex, which have several tenants
                return (
                    f"asks whose series it shall look at: --header 'X-Scope-OrgID: TENANT' ({own})"
                )
            # A proxy may answer with a page of HTML, which says nothing in a terminal.
            says = f"; it says: {own}" if own and own[0] != "<" else ""
            if status == HTTPStatus.FORBIDDEN:
                return (
                    f"does not let you see this, by {self._shown or 'no password or token'}; its "
                    "operator may (--web.config.file, --web.open-page, rights of Kubernetes; "
                    f"Prometheus: its proxy's rules){says}"
                )
            if self._shown:
                return f"refuses {self._shown}{says}"
            wants = "asks for a user and a password, or a token, and none was given (see --help)"
            return wants + says
        if 300 <= status < 400:  # noqa: PLR2004 - redirections
            return "redirects; give the address that it redirects to"
        return _REFUSALS.get(status) or own

    def _why(self, error: Exception) -> str:
        import aiohttp  # noqa: PLC0415 - it is imported already

        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            cause = error.certificate_error
            said = getattr(cause, "verify_message", cause)
            return f"its certificate is not trusted ({said}); see --ca-file"
        if isinstance(error, aiohttp.ClientSSLError):
            return "what is there does not speak TLS; see whether it is http://"
        advice = ""
        if isinstance(error, aiohttp.ServerDisconnectedError):
            advice = "; see whether it is https://"
        elif getattr(error, "errno", None) == errno.ECONNREFUSED and not self._socket:
            advice = "; nothing listens there: is the port right?"
        elif isinstance(error, aiohttp.ClientConnectorDNSError):
            advice = "; is the host's name right?"
        return super()._why(error) + advice


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


def _context(credentials: Credentials, *, is_tunnel: bool) -> ssl.SSLContext:
    try:
        files = credentials.ca_file, credentials.cert_file, credentials.key_file
        for path in filter(None, files):
            opened(path).close()  # the library would wait for a pipe's writer
        context = ssl.create_default_context(cafile=credentials.ca_file or None)
        if credentials.cert_file:
            context.load_cert_chain(credentials.cert_file, credentials.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise NoAnswerError(f"the certificates cannot be used: {error.strerror}") from None
    if is_tunnel:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
