"""The way to the API server for a client of another library than the kubernetes package."""

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from exporter.apiserver.client import Headers, KubeClient, Load, connect
from exporter.apiserver.kubeconfig import (
    ACTING,
    KubeconfigError,
    current,
    documents,
    entries,
    entry,
    words,
)
from exporter.apiserver.serveranswers import attempt


@dataclass(frozen=True, slots=True)
class Door:
    """What a client of another library needs to reach the API server. ``proxy`` "": none.

    ``headers`` are asked for at each request, since a token runs out. They may run a credential
    plugin, and any thread may ask.
    """

    host: str
    tls: ssl.SSLContext | None
    headers: Callable[[], Headers] = field(repr=False)
    server_name: str
    proxy: str

    @property
    def token(self) -> str:
        """What may be shown to others than the API server; "": nothing.

        Who acts as another has the token of himself, by which he would be taken for himself.
        """
        headers = dict(self.headers())
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and ACTING not in headers else ""


def door_of(load: Load) -> Door:
    """The way to the API server of these credentials; raises as ``connect``."""
    client = connect(load)
    alone = threading.Lock()  # else a plugin would run for each of several threads

    def headers() -> Headers:
        with alone:
            return client.headers()

    return Door(
        host=client.configuration.host,
        tls=attempt("loading credentials", lambda: _tls(client)),
        headers=headers,
        server_name=client.configuration.tls_server_name or "",
        proxy=client.proxy,
    )


def _tls(client: KubeClient) -> ssl.SSLContext | None:
    configuration = client.configuration
    if not configuration.host.startswith("https:"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        # In this order: Python refuses CERT_NONE as long as it is to check names.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def namespace_of(path: str, context: str = "") -> str:
    """The namespace of a kubeconfig's context.

    Raises:
        KubeconfigError: it cannot be used, or has no such context.

    """
    try:
        files = list(documents(path))
    except Exception as error:  # noqa: BLE001 - what is no kubeconfig may be any other document
        raise KubeconfigError(path, words(error, path)) from None
    if not files:
        raise KubeconfigError(path, words(ValueError("it is empty"), path))
    name = context or current(files)
    known = [str(each.get("name")) for _, one in files for each in entries(one, "context")]
    if name not in known:
        missing = f"no context {name}" if name else "no current context (--context)"
        raise KubeconfigError(path, f"{missing}; known: {', '.join(known)}")
    return str(entry(files, "context", name)[0].get("namespace") or "default")
