"""Authenticated requests to the API server, over the kubernetes package's configuration.

The only importer of that package, which has kubeconfigs, in-cluster credentials, TLS and proxies.
It is imported with the first connection: it takes most of a second and 19 MiB, which nodes without
Kubernetes need not spend. Its requests are not used: docs/decisions.md says why.
"""

import http
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from exporter.apiserver.kubeconfig import (
    Json,
    KubeconfigError,
    acting_as,
    documents,
    user_of,
    words,
)
from exporter.apiserver.serveranswers import ApiError, Stream, attempt, message_of
from exporter.inputs.yamldocument import read_bytes

if TYPE_CHECKING:
    from kubernetes.client import Configuration
    from urllib3 import BaseHTTPResponse

Headers = Sequence[tuple[str, str]]  # of one name there may be several

Load = Callable[["Configuration"], Headers]
"""Fills in the server and the credentials; returns further headers of each request."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_TIMEOUT_S = 5.0
MAX_ERROR_BODY = 64 * 1024
MAX_POST_ANSWER = 256 * 1024
SUCCESS = {"GET": (http.HTTPStatus.OK,), "POST": (http.HTTPStatus.OK, http.HTTPStatus.CREATED)}

# A peer that vanished without a word is noticed after 30 + 3 * 10 s, not after the read timeout.
KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # macOS, where users run `kubectl mgpu`, has no TCP_KEEPIDLE.
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", socket.TCP_KEEPINTVL), 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


class KubeClient:
    """One set of credentials and the connections made with it, used by one thread at a time."""

    def __init__(self, configuration: "Configuration", further: Headers = ()) -> None:
        from kubernetes.client import rest  # noqa: PLC0415 - see the module's docstring

        self.proxy = _proxy_of(configuration)
        self._further = further
        configuration.connection_pool_maxsize = 2  # a watch, and the node meanwhile
        configuration.socket_options = KEEPALIVE
        self.configuration = configuration
        self._pool = rest.RESTClientObject(configuration).pool_manager
        self._lock = threading.Lock()
        self._responses: list[BaseHTTPResponse] = []  # whose bodies may still be read
        self._interrupted = False

    def get(self, path: str, query: Mapping[str, str | int], read_timeout_s: float) -> Stream:
        """The answer to a GET request, with its body still to be read.

        ``read_timeout_s`` bounds each wait for the next bytes, not the whole answer.

        Raises:
            ApiError: no answer, or one whose status is not 200.

        """
        return self._send("GET", f"{path}?{urlencode(query)}", None, read_timeout_s)

    def post(self, path: str, document: object, timeout_s: float) -> bytes:
        """The whole answer to a POST request of a JSON document.

        ``timeout_s`` bounds the whole of it, except that the last wait may exceed it.

        Raises:
            ApiError: no answer in time, one that is too large, or a status that is not 200 or 201.

        """
        ends_s = time.monotonic() + timeout_s
        body = bytearray()
        with self._send("POST", path, json.dumps(document).encode(), timeout_s) as stream:
            for chunk in stream.chunks():
                body += chunk
                if len(body) > MAX_POST_ANSWER:
                    raise ApiError(None, f"the answer has more than {MAX_POST_ANSWER} bytes")
                if time.monotonic() > ends_s:
                    raise ApiError(None, f"the answer took more than {timeout_s:.1f} s")
        return bytes(body)

    def _send(self, method: str, path: str, body: bytes | None, read_timeout_s: float) -> Stream:
        import urllib3  # noqa: PLC0415 - comes with the kubernetes package, as late as it

        connect_s = min(CONNECT_TIMEOUT_S, read_timeout_s)
        response = attempt(
            f"connecting to {_without_password(self.configuration.host)}",
            lambda: self._pool.request(
                method,
                f"{self.configuration.host}{path}",
                body=body,
                headers=urllib3.HTTPHeaderDict(
                    [*self.headers(), *([("Content-Type", "application/json")] if body else [])]
                ),
                timeout=urllib3.Timeout(connect=connect_s, read=read_timeout_s),
                preload_content=False,
                # Who asks decides when to try again: at once is too soon for a busy server.
                retries=False,
            ),
        )
        # In one lock: an interrupt from now on finds this response, an earlier one is seen here.
        with self._lock:
            still_open = [each for each in self._responses if not each.closed]
            self._responses = [*still_open, response]
            interrupted = self._interrupted
        stream = Stream(response)
        if not interrupted and response.status in SUCCESS[method]:
            return stream
        with stream:
            if interrupted:
                raise ApiError(None, "interrupted")
            message = message_of(stream.read(MAX_ERROR_BODY))
        raise ApiError(response.status, message or str(response.reason))

    def interrupt(self) -> None:
        """End the current reads of another thread, and all later ones. Returns at once."""
        with self._lock:
            self._interrupted = True
            responses = self._responses
        for response in responses:
            # To close it from here would leave a read of the other thread waiting in the kernel.
            with suppress(ValueError, RuntimeError, OSError):  # it has ended by itself
                response.shutdown()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def headers(self) -> Headers:
        """Those of each request.

        The library reads a ServiceAccount's token again each minute, and runs a kubeconfig's
        credential plugin again once its token has run out.
        """
        headers = [("Accept", "application/json"), ("User-Agent", "mgpu-exporter")]
        bearer = self.configuration.auth_settings().get("BearerToken")
        if bearer is not None:
            # A token file may end in a line break. http.client would refuse a header with one,
            # with the token in the message.
            headers.append((bearer["key"], " ".join(str(bearer["value"]).split())))
        return [*headers, *self._further]


def in_cluster(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this process runs in a pod with a ServiceAccount token."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").is_file()


def from_service_account(
    environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> Load:
    """The credentials of the pod's ServiceAccount; its token is read again once a minute."""

    def load(configuration: "Configuration") -> Headers:
        from kubernetes.config import incluster_config  # noqa: PLC0415 - see the docstring

        loader = incluster_config.InClusterConfigLoader(  # type: ignore[no-untyped-call]
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=environ,
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        return ()

    return load


def from_kubeconfig(path: str, context: str = "") -> Load:
    """The credentials of a kubeconfig, or of several joined by ":"; "": the current context.

    They are read as kubectl reads them, where the library does otherwise: it fails of an empty
    file among several, takes a token although there is a file with a newer one, asks with the
    rights of whoever logged in where the user acts as another, and as nobody where the plug-in for
    credentials failed.
    """

    def load(configuration: "Configuration") -> Headers:
        from kubernetes.config import kube_config  # noqa: PLC0415 - see the module's docstring

        try:
            files = list(documents(path))
            filled = os.pathsep.join(str(file) for file, _ in files) or path
            with _said_by_library() as said:
                kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                    config_file=filled if os.pathsep in path else path,
                    context=context or None,
                    client_configuration=configuration,
                    # Else the library writes a new token of the plug-in into the user's file.
                    persist_config=False,
                )
            user, folder = user_of(files, context)
            _check_login(user, configuration, said)
            if user.get("token") and user.get("tokenFile"):
                _take_from(folder / str(user["tokenFile"]), configuration)
            return list(acting_as(user))
        except Exception as error:  # noqa: BLE001 - a broken file makes the library raise any type
            raise KubeconfigError(path, words(error, path)) from None

    return load


def _check_login(user: Json, configuration: "Configuration", said: Sequence[str]) -> None:
    login = user.get("exec")
    if login and not (configuration.api_key or configuration.cert_file):
        raise ValueError(f"its plug-in {login.get('command')} failed: {' '.join(said)}")


@contextmanager
def _said_by_library() -> Iterator[list[str]]:
    """What the library would only log meanwhile: by the root logger, as nobody else here."""
    said: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        said.append(record.getMessage())
        return False

    logging.getLogger().addFilter(keep)
    try:
        yield said
    finally:
        logging.getLogger().removeFilter(keep)


def _take_from(file: Path, configuration: "Configuration") -> None:
    """Show the token of a file, and read it again for each request: whoever writes it renews it."""

    def read(now: "Configuration") -> None:
        now.api_key["BearerToken"] = f"Bearer {read_bytes(str(file)).decode()}"

    configuration.refresh_api_key_hook = read  # type: ignore[assignment]
    read(configuration)


def _proxy_of(configuration: "Configuration") -> str:
    """The proxy on the way to the server; "": none, or none for this server (NO_PROXY).

    Raises:
        ApiError: it cannot be spoken to.

    """
    from kubernetes.client import rest  # noqa: PLC0415 - see the module's docstring

    proxy = configuration.proxy or ""
    if not proxy or rest.should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return ""
    if proxy.startswith("socks"):
        shown = _without_password(proxy)
        raise ApiError(
            None,
            f"the proxy {shown} speaks SOCKS, which this program does not: give one that speaks "
            "HTTP, in HTTPS_PROXY or as proxy-url of the kubeconfig",
        )
    return str(proxy)


def _without_password(url: str) -> str:
    return re.sub("//[^/@]*@", "//", url)


def read_kubeconfig(path: str) -> None:
    """Check a kubeconfig by reading it as for a connection. Does not connect.

    Raises:
        KubeconfigError: it cannot be used.

    """
    from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's docstring

    from_kubeconfig(path)(Configuration())


def connect(load: Load) -> KubeClient:
    """A client of the API server that the credentials are for.

    Reads files only, or runs a kubeconfig's credential plugin; raises ApiError if it cannot.
    """

    def client() -> KubeClient:
        from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's docstring

        configuration = Configuration()
        return KubeClient(configuration, load(configuration))

    return attempt("loading credentials", client)


def connect_kubelet(
    url: str, load: Load | None, ca_file: str = "", *, insecure: bool = False
) -> KubeClient:
    """A client of the kubelet at ``url``, anonymous if ``load`` is None; raises as ``connect``.

    Over plain HTTP nothing secret is sent. ``ca_file`` "" is the authority of the credentials.
    """

    def at_kubelet(configuration: "Configuration") -> Headers:
        if load is not None and url.startswith("https:"):
            load(configuration)
        configuration.host = url
        configuration.proxy = None  # it is on this node
        if ca_file:
            configuration.ssl_ca_cert = ca_file
        if insecure:
            import urllib3  # noqa: PLC0415 - comes with the kubernetes package, as late as it

            configuration.verify_ssl = False
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return ()

    return connect(at_kubelet)
