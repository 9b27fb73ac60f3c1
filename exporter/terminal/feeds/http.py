"""The feed from an exporter on another machine, by its JSON (docs/api.md), and its HTTP client.

Credentials are never shown.
"""

import base64
import json
import ssl
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, RemoteDisconnected
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from exporter.model import Clock
from exporter.terminal.feeds.document import node_of_document
from exporter.terminal.feeds.feed import FeedError, FeedResult
from exporter.terminal.reading import Json, clean

TIMEOUT_S = 10.0
LARGEST = 128 << 20
LONGEST_MESSAGE = 200


_REFUSALS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "asks for a user and a password, or a token (see --help)",
    HTTPStatus.FORBIDDEN: "does not let you see this; its operator may "
    "(--web.config.file, --web.open-page, rights of Kubernetes; Prometheus: its proxy's rules)",
    HTTPStatus.NOT_FOUND: "has no such page: is the address right, and its version new enough?",
    HTTPStatus.TOO_MANY_REQUESTS: "is asked too often",
}


@dataclass(frozen=True, slots=True)
class RemoteCredentials:
    """Credentials for a server, and its trusted authorities; ``ca_file`` "": the machine's own."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirection, so that credentials go to the given address only."""

    def redirect_request(self, *_: object) -> None:
        """Returns None; urllib then raises HTTPError."""


class Http:
    """A client for one base address. ``address`` has no credentials and can be shown."""

    def __init__(self, url: str, credentials: RemoteCredentials) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise FeedError(f"{clean(url)!r} is no address such as http://node:10045")
        if parts.username or parts.password:
            raise FeedError(
                "an address with a password in it is seen by everybody on this machine: give "
                "--user and --password-file, or the variables that --help names"
            )
        self.address = clean(url.rstrip("/"))
        self._base = url.rstrip("/")
        self._headers = _headers(credentials)
        handlers: list[Any] = [_NoRedirect()]
        if parts.scheme == "https":
            handlers.append(HTTPSHandler(context=_context(credentials)))
        self._opener = build_opener(*handlers)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer 200.

        Raises:
            FeedError: there is no such answer.

        """
        url = self._base + path + (f"?{urlencode(query)}" if query else "")
        try:
            request = Request(url, headers=self._headers)  # noqa: S310 - the scheme was looked at
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                body: bytes = answer.read(LARGEST + 1)
                packed = answer.headers.get("Content-Encoding", "") == "gzip"
        except HTTPError as error:
            with error:
                raise FeedError(self._refusal(error)) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise FeedError(f"{self.address} does not answer: {_why(error)}") from None
        if len(body) > LARGEST:
            raise FeedError(f"{self.address} answers with more than {LARGEST} bytes")
        return _unpacked(body, self.address) if packed else body

    def json(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object of an answer 200; raises as ``get`` does."""
        body = self.get(path, query)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise FeedError(f"{self.address}{path} answers with something else than a JSON object")
        return document

    def _refusal(self, error: HTTPError) -> str:
        status = error.code
        said = _REFUSALS.get(status)
        if said is None and 300 <= status < 400:  # noqa: PLR2004 - redirections
            said = "redirects; give the address that it redirects to"
        message = clean(error.read(2048).decode("utf-8", "replace").strip())[:LONGEST_MESSAGE]
        return f"{self.address} answers {status}: {said or message or 'no reason given'}"


def _headers(credentials: RemoteCredentials) -> dict[str, str]:
    headers = {"Accept-Encoding": "gzip", "User-Agent": "mgpu-exporter"}
    if credentials.token:
        headers["Authorization"] = f"Bearer {credentials.token}"
    elif credentials.user:
        pair = f"{credentials.user}:{credentials.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return headers


def _context(credentials: RemoteCredentials) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=credentials.ca_file or None)
        if credentials.cert_file:
            context.load_cert_chain(credentials.cert_file, credentials.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise FeedError(f"the certificates cannot be used: {_why(error)}") from None
    return context


def _why(error: Exception) -> str:
    """The cause in plain words, not the library's."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); see --ca-file"
    if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
        return "what is there does not speak TLS; see whether it is http://"
    if isinstance(cause, RemoteDisconnected):
        return "it closed the connection without an answer; see whether it is https://"
    if isinstance(cause, TimeoutError):
        return f"not within {TIMEOUT_S:g} s"
    if isinstance(cause, OSError) and cause.strerror:
        return clean(cause.strerror)
    return clean(str(cause))[:LONGEST_MESSAGE] or type(cause).__name__


def _unpacked(body: bytes, address: str) -> bytes:
    """The unpacked body, limited because a few packed bytes can become any number."""
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(body, LARGEST + 1)
    except zlib.error:
        raise FeedError(f"{address} answers with something that is not gzip") from None
    if len(unpacked) > LARGEST:
        raise FeedError(f"{address} answers with more than {LARGEST} bytes")
    return unpacked


SNAPSHOT, HISTORY = "/api/v1/snapshot", "/api/v1/history"
HISTORY_NS = 10 * 10**9  # as often as it has a new point
VERSION = "v1"


class RemoteFeed:
    """Implements ``Feed``."""

    def __init__(self, http: Http, clock: Clock = time) -> None:
        self._http = http
        self._clock = clock
        self._history: Json = {}
        self._history_due_ns = clock.monotonic_ns()

    @property
    def name(self) -> str:
        """The exporter's address."""
        return self._http.address

    def read(self) -> FeedResult:
        """The newest document of the exporter."""
        document = self.document
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._history_due_ns:
            self._history_due_ns = now_ns + HISTORY_NS
            self._history = self._http.json(HISTORY)
        return FeedResult((node_of_document(document, self._history),))

    @property
    def document(self) -> Json:
        """What the exporter answers to ``/api/v1/snapshot``."""
        document = self._http.json(SNAPSHOT)
        version = document.get("api_version")
        if version != VERSION:
            raise FeedError(
                f"{self.name} speaks {clean(str(version))[:20]}; this version {VERSION}"
            )
        return document

    def metrics(self, path: str) -> bytes:
        """The exporter's metrics page."""
        return self._http.get(path)

    def close(self) -> None:
        """Does nothing: no connection is kept."""
