"""The file of ``--web.config.file``: exporter-toolkit's web configuration, as values. Pure.

Keys and their meaning are those of exporter-toolkit's docs/web-configuration.md. Keys that this
server cannot honour are refused. No message repeats a value, because every value may be a secret.

TLS versions, cipher suites and curves have the names of Go's crypto/tls, as in exporter-toolkit.
The suites are those that Go's ``tls.CipherSuites()`` lists as secure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import TLSVersion
from typing import NamedTuple

import yaml

from exporter.agent.web import webkeys as keys
from exporter.inputs import yamldocument
from exporter.inputs.mapping import Section, read_mapping
from exporter.inputs.problems import Problem, ValuePlace
from exporter.inputs.valuekinds import StructureProblem
from exporter.inputs.yamldocument import YamlError

TLS_VERSIONS = {"TLS12": TLSVersion.TLSv1_2, "TLS13": TLSVersion.TLSv1_3}

CIPHERS = {
    "TLS_AES_128_GCM_SHA256": "",  # those of TLS 1.3 are always on, in Go as here
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}

DEFAULT_CIPHERS = tuple(name for name in CIPHERS if not name.endswith("_CBC_SHA"))
"""The suites that are offered by default: those with authenticated encryption."""

CURVES = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


REQUIRE = "RequireAndVerifyClientCert"
IF_GIVEN = "VerifyClientCertIfGiven"

_CLIENT_AUTH = ("NoClientCert", IF_GIVEN, REQUIRE)
_UNVERIFIED = "Python's ssl asks for no certificate that it does not verify; take"
_OLD = "TLS before 1.2 is not served"
_QUOTED = re.compile(r"""(['"]).*\1""", re.DOTALL)


class WebFileError(Exception):
    """A web configuration that cannot be used; ``problems`` has a line for each problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsKeys:
    """The section tls_server_config, key by key; "" and () stand for keys that are not given."""

    cert: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    client_ca: str = field(default="", repr=False)
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: str = "NoClientCert"
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()


class RateLimit(NamedTuple):
    """The section rate_limit: one request each ``interval_ns``, at most ``burst`` at once."""

    interval_ns: int
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebFile:
    """The contents of the file. The defaults: no TLS, no users, no rate limit, no headers.

    ``users`` has bcrypt hashes by name.
    """

    tls: TlsKeys | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    rate: RateLimit | None = None


_TLS: Section = {
    "cert": keys.text,
    "key": keys.text,
    "client_ca": keys.text,
    "cert_file": keys.text,
    "key_file": keys.text,
    "client_ca_file": keys.text,
    "client_auth_type": keys.choice(
        _CLIENT_AUTH,
        RequestClientCert=f"{_UNVERIFIED} {IF_GIVEN}",
        RequireAnyClientCert=f"{_UNVERIFIED} {REQUIRE}",
        RequireClientCert=f"{_UNVERIFIED} {REQUIRE}",
    ),
    "client_allowed_sans": keys.list_of(keys.text),
    "min_version": keys.choice(TLS_VERSIONS, TLS10=_OLD, TLS11=_OLD),
    "max_version": keys.choice(TLS_VERSIONS, TLS10=_OLD, TLS11=_OLD),
    "cipher_suites": keys.list_of(keys.choice(CIPHERS)),
    "prefer_server_cipher_suites": keys.switch,
    "curve_preferences": keys.list_of(keys.choice(CURVES)),
}

_HEADERS: Section = {
    "Content-Security-Policy": keys.header,
    "X-Frame-Options": keys.choice(("deny", "sameorigin")),
    "X-Content-Type-Options": keys.choice(("nosniff",)),
    "X-XSS-Protection": keys.header,
    "Strict-Transport-Security": keys.header,
}

_FILE: Section = {
    "tls_server_config": _TLS,
    "http_server_config": {"http2": keys.no_http2, "headers": _HEADERS},
    "basic_auth_users": keys.users,
    "rate_limit": {"interval": keys.duration, "burst": keys.count},
}

_PROTECTING = ("tls_server_config", "basic_auth_users")


def parse(text: str, path: str) -> WebFile:
    """The contents of a file's text; ``path`` is for the messages.

    Raises:
        WebFileError: a key is unknown or cannot be honoured, or a value is wrong.

    """
    wrong: list[StructureProblem] = []
    try:
        root = yamldocument.parse(text)
        given = read_mapping(root, _FILE, wrong) if root is not None else {}
        # A section that would protect and has nothing below it may be the end of a file that was
        # cut off. Read as empty it would let everybody in.
        for item in yamldocument.items(root) if isinstance(root, yaml.MappingNode) else ():
            if item.name in _PROTECTING and item.value.tag == yamldocument.NULL:
                words = "nothing is below it; {} stands for none"
                line = yamldocument.line_of(item.key)
                wrong.append(StructureProblem(line, item.name, words))
    except YamlError as error:
        # PyYAML's words quote what stands there, and that may be a password or a private key.
        place, words = (
            ValuePlace(path, "", error.line, error.column),
            _QUOTED.sub("...", error.words),
        )
        raise WebFileError([Problem(place, f"not YAML: {words}")]) from None
    problems = [Problem(ValuePlace(path, where, line), text) for line, where, text in wrong]
    tls: TlsKeys | None = None
    if given.get("tls_server_config") and not problems:
        tls = TlsKeys(**given["tls_server_config"])
        place = ValuePlace(path, "tls_server_config")
        problems += [Problem(place, text) for text in _contradictions(tls)]
    rate: RateLimit | None = None
    limits = given.get("rate_limit") or {}
    if limits.get("interval") and not problems:  # exporter-toolkit: 0 switches it off
        rate = RateLimit(limits["interval"], limits.get("burst", 0))
        if not rate.burst:
            place = ValuePlace(path, "rate_limit.burst")
            problems.append(Problem(place, "0 lets no request through; give 1 or more"))
    if problems:
        raise WebFileError(problems)
    headers = given.get("http_server_config", {}).get("headers", {})
    return WebFile(
        tls=tls,
        headers={name: value for name, value in headers.items() if value},
        users=given.get("basic_auth_users", {}),
        rate=rate,
    )


def says_nothing(text: str) -> bool:
    """Whether a file's text has no key: it is empty, null, or has only comments."""
    try:
        root = yamldocument.parse(text)
    except YamlError:
        return False
    return root is None or root.tag == yamldocument.NULL


def _contradictions(tls: TlsKeys) -> list[str]:
    """Problems between keys: exporter-toolkit's checks, and keys without effect."""
    authorities = tls.client_ca_file or tls.client_ca
    asks = tls.client_auth_type != "NoClientCert"
    checks = {
        "give one of cert_file and cert": bool(tls.cert_file) == bool(tls.cert),
        "give one of key_file and key": bool(tls.key_file) == bool(tls.key),
        "give client_ca_file or client_ca, not both": bool(tls.client_ca_file and tls.client_ca),
        f"client_auth_type: {tls.client_auth_type} needs client_ca_file": asks and not authorities,
        f"client_ca_file: needs client_auth_type: {REQUIRE}": bool(authorities) and not asks,
        f"client_allowed_sans: needs client_auth_type: {REQUIRE}": bool(tls.client_allowed_sans)
        and tls.client_auth_type != REQUIRE,
        "min_version: above max_version": tls.min_version > tls.max_version,
        "curve_preferences: Python's ssl takes one curve; give one": len(tls.curve_preferences) > 1,
    }
    return [problem for problem, wrong in checks.items() if wrong]
