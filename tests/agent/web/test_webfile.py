import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.web.webfile import RateLimit, TlsKeys, WebFile, WebFileError, parse

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
TLS = "tls_server_config: {cert_file: a, key_file: b, %s}"
CA = "client_ca_file: c, "
OPTIONAL = "client_auth_type: VerifyClientCertIfGiven"

EXAMPLE = f"""
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: clients.crt
  client_allowed_sans: [prometheus.example, 192.0.2.7]
  min_version: TLS13
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers:
    Content-Security-Policy: default-src 'self'
    X-Frame-Options: sameorigin
    X-Content-Type-Options: nosniff
    X-XSS-Protection: ""
    Strict-Transport-Security: max-age=31536000
basic_auth_users:
  alice: {HASH}
rate_limit:
  interval: 100ms
  burst: 20
"""


def problems(text: str) -> list[str]:
    with pytest.raises(WebFileError) as caught:
        parse(text, "web.yml")
    return list(map(str, caught.value.problems))


def test_every_key_of_exporter_toolkit_is_read() -> None:
    file = parse(EXAMPLE, "web.yml")

    assert file == WebFile(
        tls=TlsKeys(
            cert_file="server.crt",
            key_file="server.key",
            client_auth_type="RequireAndVerifyClientCert",
            client_ca_file="clients.crt",
            client_allowed_sans=("prometheus.example", "192.0.2.7"),
            min_version="TLS13",
            max_version="TLS13",
            cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",),
            prefer_server_cipher_suites=False,
            curve_preferences=("X25519",),
        ),
        headers={
            "Content-Security-Policy": "default-src 'self'",
            "X-Frame-Options": "sameorigin",
            "X-Content-Type-Options": "nosniff",
            "Strict-Transport-Security": "max-age=31536000",
        },
        users={"alice": HASH.encode()},
        rate=RateLimit(100_000_000, 20),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "tls_server_config: {}\nbasic_auth_users: {}\nrate_limit: {}\nhttp_server_config: {}",
        "rate_limit: {interval: 0}",
        "rate_limit: {interval: 0s, burst: 5}",
    ],
)
def test_what_is_left_out_is_off(text: str) -> None:
    assert parse(text, "web.yml") == WebFile()


HEADERS = "http_server_config: {headers: {%s}}"
USERS = "basic_auth_users:\n  "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tls_config: {}", "line 1, tls_config: .*known: tls_server_config, http_server_config"),
        ("a\n", "line 1: keys are expected"),
        ("http_server_config: 1", "line 1, http_server_config: .*http2, headers"),
        ("rate_limit:\n  rate: 1", "line 2, rate_limit.rate: .*known: interval, burst"),
        ("rate_limit: {burst: 1, burst: 1}", "line 1, rate_limit.burst: given twice"),
        ("rate_limit: {interval: 1}", "line 1, rate_limit.interval: .*with its units"),
        ("rate_limit: {interval: 1s}", "rate_limit.burst: 0 lets no request through"),
        ("rate_limit: {interval: 1s, burst: -1}", "line 1, rate_limit.burst: .* 0 to 999999"),
        ("http_server_config: {http2: true}", "line 1, .*http2: .*only false can be honoured"),
        ("http_server_config: {http2: 0}", "http_server_config.http2: true or false"),
        (HEADERS % "Server: x", "headers.Server: .*known: Content-Security-Policy, X-Frame"),
        (HEADERS % "X-Frame-Options: allow", "headers.X-Frame-Options: one of deny, sameorigin"),
        (HEADERS % 'X-XSS-Protection: "1\\r\\nA: b"', "X-XSS-Protection: printable ASCII"),
        ("basic_auth_users: [a]", "line 1, basic_auth_users: names with bcrypt hashes"),
        (f"{USERS}a: b", "line 2, basic_auth_users.a: not a bcrypt hash"),
        (f"{USERS}a: [b]", "line 2, basic_auth_users.a: not a bcrypt hash"),
        (f"{USERS}'a:b': {HASH}", "basic_auth_users: .*no colon"),
        (f"{USERS}a: {HASH}\n  a: {HASH}", "line 3, basic_auth_users.a: given twice"),
        ("? [a]\n: b", "line 1: no such key"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(text: str, words: str) -> None:
    [problem] = problems(text)

    assert problem.startswith("web.yml, ")
    assert re.search(words, problem)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("client_auth_type: RequestClientCert", "take VerifyClientCertIfGiven"),
        ("client_auth_type: RequireAnyClientCert", "take RequireAndVerifyClientCert"),
        ("client_auth_type: RequireClientCert", "take RequireAndVerifyClientCert"),
        ("client_auth_type: Always", "one of NoClientCert"),
        ("client_auth_type: RequireAndVerifyClientCert", "needs client_ca_file"),
        ("client_ca_file: c", "client_ca_file: needs client_auth_type"),
        (f"{CA}{OPTIONAL}, client_allowed_sans: [a]", "client_allowed_sans: needs client_auth"),
        ("client_allowed_sans: [a]", "client_allowed_sans: needs"),
        ("min_version: TLS10", "TLS10 cannot be honoured"),
        ("min_version: TLS11", "TLS11 cannot be honoured"),
        ("min_version: SSL30", "one of TLS12, TLS13 is expected"),
        ("min_version: TLS13, max_version: TLS12", "min_version: above max_version"),
        ("cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]", "TLS_AES_128_GCM_SHA256"),
        ("cipher_suites: TLS_AES_128_GCM_SHA256", "a list is expected"),
        ("curve_preferences: [CurveP256, X25519]", "takes one curve; give one"),
        ("curve_preferences: [Curve448]", "one of CurveP256"),
        ("prefer_server_cipher_suites: 'true'", "true or false"),
        ("cert: x", "give one of cert_file and cert"),
        ("key: x", "give one of key_file and key"),
        (f"{CA}{OPTIONAL}, client_ca: x", "not both"),
        ("client_cas: x", "tls_server_config.client_cas: no such key"),
    ],
)
def test_tls_that_cannot_be_honoured_is_refused_by_name(keys: str, words: str) -> None:
    assert words in "\n".join(problems(TLS % keys))


@pytest.mark.parametrize("keys", ["min_version: TLS12", "cert_file: a", "key_file: b", "cert: x"])
def test_tls_without_a_certificate_and_key_is_refused(keys: str) -> None:
    found = problems(f"tls_server_config: {{{keys}}}")

    assert any("give one of cert_file and cert" in p or "key_file and key" in p for p in found)


def test_all_problems_are_shown_at_once() -> None:
    assert len(problems("a: 1\nrate_limit: {burst: x}\nbasic_auth_users: {b: c}")) == 3


@pytest.mark.parametrize(
    "text",
    [
        "basic_auth_users: {alice: SECRET}",
        "basic_auth_users: {alice: [SECRET]}",
        "basic_auth_users:\n  alice: *SECRET",
        "basic_auth_users:\n  alice: &a 1\n  bob: &SECRET 2\n  carol: &SECRET 3\n  dan: *SECRET9",
        "basic_auth_users:\n  alice: 'SECRET\n",
        "basic_auth_users: {alice: !SECRET!x y}",
        "basic_auth_users: {? {SECRET: a} : b}",
        "tls_server_config: {key: [SECRET]}",
        "tls_server_config: {key: SECRET, min_version: SECRET}",
        "http_server_config: {headers: {X-XSS-Protection: 'SECRET\u00e9'}}",
        "http_server_config: {headers: {X-Frame-Options: SECRET}}",
        "rate_limit: {interval: SECRET, burst: SECRET}",
        "SECRET",
        "- SECRET",
        "\tSECRET: [",
    ],
)
def test_no_message_repeats_a_value(text: str) -> None:
    assert "SECRET" not in "\n".join(problems(text))


def test_secrets_are_not_in_the_words_for_a_file() -> None:
    text = TLS.replace("key_file: b", "key: SECRET") % "min_version: TLS12"
    file = parse(f"{text}\nbasic_auth_users: {{a: {HASH}}}", "web.yml")

    assert "SECRET" not in repr(file)
    assert HASH not in repr(file)


@given(st.text(max_size=80) | st.from_regex(re.compile(r"[a-z_]+: [\[{&*!a-z'\"\n -]{0,20}")))
def test_no_text_is_an_error_of_another_kind(text: str) -> None:
    try:
        parse(text, str(Path("web.yml")))
    except WebFileError as error:
        assert error.problems  # noqa: PT017 - raised or not, both are right
