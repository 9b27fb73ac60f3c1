"""Authenticated requests to the API server, over the kubernetes package's configuration.

The only importer of that package, which has kubeconfigs, in-cluster credentials, TLS and proxies.
It is imported with the first connection: it takes most of a second and 19 MiB, which nodes without
Kubernetes need not spend. Its requests are not used: docs/decisions.md says why.
"""

import errno
import http
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from exporter.apiserver.answers import ApiError, Stream, attempt, message_of
from exporter.inputs import yamldocument
from exporter.inputs.yamldocument import YamlError, read_bytes

if TYPE_CHECKING:
    from kubernetes.client import Configuration
    from urllib3 import BaseHTTPResponse

Load = Callable[["Configuration"], None]
"""Fills in the server and the credentials."""

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

    def __init__(self, configuration: "Configuration") -> None:
        from kubernetes.client import rest  # noqa: PLC0415 - see the module's docstring

        configuration.connection_pool_maxsize = 2  # a watch, and the node meanwhile
        configuration.socket_options = KEEPALIVE
        self._configuration = configuration
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
            f"connecting to {re.sub('//[^/@]*@', '//', self._configuration.host)}",
            lambda: self._pool.request(
                method,
                f"{self._configuration.host}{path}",
                body=body,
                headers=self.headers() | ({"Content-Type": "application/json"} if body else {}),
                timeout=urllib3.Timeout(connect=connect_s, read=read_timeout_s),
                preload_content=False,
                retries=False,
            ),
        )
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
            with suppress(ValueError, RuntimeError, OSError):  # it has ended by itself
                response.shutdown()

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def headers(self) -> dict[str, str]:
        """Those of each request. The library reads a ServiceAccount's token again each minute."""
        headers = {"Accept": "application/json", "User-Agent": "mgpu-exporter"}
        bearer = self._configuration.auth_settings().get("BearerToken")
        if bearer is not None:
            # A token file may end in a line break. http.client would refuse a header with one,
            # with the token in the message.
            headers[bearer["key"]] = " ".join(str(bearer["value"]).split())
        return headers


def in_cluster(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this process runs in a pod with a ServiceAccount token."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").is_file()


def from_service_account(
    environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> Load:
    """The credentials of the pod's ServiceAccount; its token is read again once a minute."""

    def load(configuration: "Configuration") -> None:
        from kubernetes.config import incluster_config  # noqa: PLC0415 - see the docstring

        loader = incluster_config.InClusterConfigLoader(  # type: ignore[no-untyped-call]
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=environ,
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]

    return load


def from_kubeconfig(path: str, context: str = "") -> Load:
    """The credentials of a kubeconfig, or of several joined by ":"; "": the current context."""

    def load(configuration: "Configuration") -> None:
        from kubernetes.config import kube_config  # noqa: PLC0415 - see the module's docstring

        try:
            _check_bounds(path)
            kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=path,
                context=context or None,
                client_configuration=configuration,
                persist_config=False,
            )
        except Exception as error:  # noqa: BLE001 - a broken file makes the library raise any type
            raise KubeconfigError(path, _words(error, path)) from None

    return load


def namespace_of(path: str, context: str = "") -> str:
    """The namespace of a kubeconfig's context.

    Raises:
        KubeconfigError: it cannot be used, or has no such context.

    """
    from kubernetes.config import kube_config  # noqa: PLC0415 - see the module's docstring

    try:
        _check_bounds(path)
        contexts, current = kube_config.list_kube_config_contexts(config_file=path)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - a broken file makes the library raise any type
        raise KubeconfigError(path, _words(error, path)) from None
    chosen = [one for one in contexts if one["name"] == context] if context else [current]
    if not chosen:
        known = ", ".join(str(one["name"]) for one in contexts)
        raise KubeconfigError(path, f"no context {context}; known: {known}")
    return str(chosen[0]["context"].get("namespace") or "default")


class Door(NamedTuple):
    """What a client of another library needs to reach the API server. ``token`` "": none."""

    host: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str]
    token: str
    server_name: str
    proxy: str


def door_of(load: Load) -> Door:
    """The way to the API server of these credentials; raises as ``connect``."""

    def opened() -> Door:
        from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's docstring

        configuration = Configuration()
        load(configuration)
        headers = KubeClient(configuration).headers()
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return Door(
            configuration.host,
            _tls(configuration) if configuration.host.startswith("https:") else None,
            headers,
            token if scheme.lower() == "bearer" else "",
            configuration.tls_server_name or "",
            configuration.proxy or "",
        )

    return attempt("loading credentials", opened)


def _tls(configuration: "Configuration") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def _check_bounds(path: str) -> None:
    """Check that the files are within bounds, because the library has no bounds."""
    for part in filter(None, path.split(os.pathsep)):
        file = Path(part).expanduser()
        if file.is_fifo():  # the library reads it again
            raise OSError(errno.EINVAL, "a pipe, which cannot be read twice")
        if file.exists():
            yamldocument.load(read_bytes(str(file)).decode())


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used. ``words`` say why, without the file's name."""

    def __init__(self, path: str, words: str) -> None:
        super().__init__(f"kubeconfig {path}: {words}")
        self.words = words


def read_kubeconfig(path: str) -> None:
    """Check a kubeconfig by reading it as for a connection. Does not connect.

    Raises:
        KubeconfigError: it cannot be used.

    """
    from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's docstring

    from_kubeconfig(path)(Configuration())


def _words(error: Exception, path: str) -> str:
    """The problem of a kubeconfig in one sentence, without the file's name."""
    if not any(Path(part).exists() for part in path.split(os.pathsep) if part):
        return "no such file"
    if isinstance(error, YamlError):
        return str(error)
    if isinstance(error, TypeError | AttributeError | KeyError):
        return "not a kubeconfig"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = re.sub(r"^Invalid kube-config( file)?\. ", "", str(error))
    text = text.replace(f"{path}/", "its ").replace(f"{path} file", "it").replace(path, "it")
    return " ".join(text.split())


def connect(load: Load) -> KubeClient:
    """A client of the API server that the credentials are for.

    Reads files only, or runs a kubeconfig's credential plugin; raises ApiError if it cannot.
    """

    def client() -> KubeClient:
        from kubernetes.client import Configuration  # noqa: PLC0415 - see the module's docstring

        configuration = Configuration()
        load(configuration)
        return KubeClient(configuration)

    return attempt("loading credentials", client)


def connect_kubelet(
    url: str, load: Load | None, ca_file: str = "", *, insecure: bool = False
) -> KubeClient:
    """A client of the kubelet at ``url``, anonymous if ``load`` is None; raises as ``connect``.

    Over plain HTTP nothing secret is sent. ``ca_file`` "" is the authority of the credentials.
    """

    def at_kubelet(configuration: "Configuration") -> None:
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

    return connect(at_kubelet)
