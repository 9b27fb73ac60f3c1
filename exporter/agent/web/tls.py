"""TLS contexts from the web configuration's keys and the contents of its files."""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any, NamedTuple

from exporter.agent.web.webfile import (
    CIPHERS,
    CURVES,
    DEFAULT_CIPHERS,
    IF_GIVEN,
    REQUIRE,
    TLS_VERSIONS,
    TlsKeys,
)

_VERIFY = {IF_GIVEN: ssl.CERT_OPTIONAL, REQUIRE: ssl.CERT_REQUIRED}


class TlsError(Exception):
    """Certificates or keys that cannot be used. The message names the key and never a content."""


class Material(NamedTuple):
    """Certificates and key in PEM, from files or from the configuration itself."""

    cert: bytes
    key: bytes
    client_ca: bytes = b""


def server_context(tls: TlsKeys, material: Material) -> ssl.SSLContext:
    """The context for new connections.

    Raises:
        TlsError: OpenSSL refuses the material or the cipher suites.

    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    # The contents are loaded and not the files: they were read together, and may have no file.
    try:
        with _as_file(material.cert) as cert, _as_file(material.key) as key:
            # Without a password OpenSSL would ask for that of an encrypted key on the terminal, and
            # wait.
            context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "not a PEM certificate and its key"
        raise TlsError(f"cert_file and key_file: {reason}") from error
    context.minimum_version = TLS_VERSIONS[tls.min_version]
    context.maximum_version = TLS_VERSIONS[tls.max_version]
    chosen = tls.cipher_suites or DEFAULT_CIPHERS
    suites = [CIPHERS[name] for name in chosen if CIPHERS[name]]
    if suites:
        context.set_ciphers(":".join(suites))
    elif tls.max_version == "TLS12":
        raise TlsError("cipher_suites: none of them is of TLS 1.2")
    else:  # only TLS 1.3's are left, as in Go
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES[curve])
    context.verify_mode = _VERIFY.get(tls.client_auth_type, ssl.CERT_NONE)
    if tls.client_ca_file or tls.client_ca:
        # As in Go, any certificate of client_ca_file is trusted, an intermediate one as well.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=material.client_ca.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise TlsError("client_ca_file: no certificate can be read from it") from error
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A file in memory, because ssl loads certificates from files only."""
    with os.fdopen(os.memfd_create("pem"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def has_allowed_name(peer: Mapping[str, Any], allowed: tuple[str, ...]) -> bool:
    """Whether one of a client certificate's alternative names (``getpeercert``) is allowed."""
    names: set[str] = set()
    for kind, name in peer.get("subjectAltName", ()):
        names.add(str(name))
        # An address as Go writes it too, so that exporter-toolkit's files work here.
        if kind == "IP Address":
            with suppress(ValueError):
                names.add(str(ip_address(name.strip())))
    return not names.isdisjoint(allowed)
