"""TLS with real clients over real sockets."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from exporter.agent.web import ClientLimits, WebConfig, WebFileError
from exporter.inputs.values import Address
from tests.agent.web.certificates import Pair
from tests.agent.web.conftest import Pki
from tests.agent.web.serving import PATIENCE_S, Site, serving
from tests.snapshots import with_every_family

AES128, AES256 = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
GO_AES128, GO_AES256 = (
    f"TLS_ECDHE_ECDSA_WITH_AES_{n}_GCM_SHA{h}" for n, h in ((128, 256), (256, 384))
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "web.yml"


def write(file: Path, pair: Pair, **keys: str) -> Path:
    """A web configuration with TLS; ``keys`` go into tls_server_config."""
    lines = {"cert_file": pair.certificate, "key_file": pair.key, **keys}
    file.write_text("tls_server_config:\n" + "".join(f"  {k}: {v}\n" for k, v in lines.items()))
    return file


def certified(pki: Pki, kind: str = "RequireAndVerifyClientCert", **keys: str) -> dict[str, str]:
    """The keys by which clients' certificates are verified."""
    return {"client_auth_type": kind, "client_ca_file": str(pki.authority.certificate), **keys}


def answers(site: Site, tls: ssl.SSLContext) -> bool:
    """Whether a client is served; TLS 1.3's client learns of a refusal when it reads."""
    try:
        return site.ask("/metrics", tls=tls).status == 200
    except (ssl.SSLError, ConnectionError):
        return False


def certificate_of(site: Site) -> bytes | None:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with site.raw() as raw, context.wrap_socket(raw) as client:
        return client.getpeercert(binary_form=True)


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes.fromhex(
            # a ClientHello of TLS 1.1 with one suite
            "16030100330100002f0302" + "00" * 32 + "000002c0090100" + "0004" + "000b0000"
        ),
    ],
)
def test_who_does_not_speak_tls_1_2_is_not_served(file: Path, pki: Pki, sent: bytes) -> None:
    received = b""
    with serving(config=write(file, pki.server)) as site, site.raw() as client:
        client.sendall(sent)
        with suppress(ConnectionError):
            while data := client.recv(65536):
                received += data

    assert b"HTTP" not in received
    assert not received.startswith(b"\x16")  # no handshake, at most an alert


def shaped(context: ssl.SSLContext, client: str) -> ssl.SSLContext:
    """A client of one version, with one curve, or of TLS 1.2 with some suites."""
    if client in ssl.TLSVersion.__members__:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[client]
    elif client in {"secp384r1", "prime256v1"}:
        context.set_ecdh_curve(client)
    else:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(client)
    return context


@pytest.mark.parametrize(
    ("keys", "client", "served"),
    [
        ("", "TLSv1_2", True),
        ("", "TLSv1_3", True),
        ("min_version: TLS13", "TLSv1_2", False),
        ("min_version: TLS13", "TLSv1_3", True),
        ("max_version: TLS12", "TLSv1_3", False),
        ("max_version: TLS12", "TLSv1_2", True),
        (f"cipher_suites: [{GO_AES128}]", AES128, True),
        (f"cipher_suites: [{GO_AES128}]", AES256, False),
        ("cipher_suites: [TLS_AES_128_GCM_SHA256]", AES256, False),
        ("", AES256, True),
        ("", "ECDHE-ECDSA-CHACHA20-POLY1305", True),
        ("", "ECDHE-ECDSA-AES256-SHA384", False),  # CBC
        ("", "ECDHE-ECDSA-AES128-SHA256", False),
        ("", "ECDHE-ECDSA-AES128-SHA", False),
        ("curve_preferences: [CurveP384]", "secp384r1", True),
        ("curve_preferences: [CurveP384]", "prime256v1", False),
    ],
)
def test_versions_suites_and_curves_are_those_of_the_file(
    file: Path,
    pki: Pki,
    keys: str,
    client: str,
    served: bool,  # noqa: FBT001 - a table
) -> None:
    name, _, value = keys.partition(": ")
    context = shaped(pki.authority.client(), client)
    with serving(config=write(file, pki.server, **({name: value} if keys else {}))) as site:
        assert answers(site, context) is served


@pytest.mark.parametrize(("prefer", "chosen"), [("true", AES256), ("false", AES128)])
def test_the_order_of_suites_is_the_servers_or_the_clients(
    file: Path, pki: Pki, prefer: str, chosen: str
) -> None:
    suites = f"[{GO_AES256}, {GO_AES128}]"
    write(file, pki.server, cipher_suites=suites, prefer_server_cipher_suites=prefer)
    context = shaped(pki.authority.client(), f"{AES128}:{AES256}")
    with (
        serving(config=file) as site,
        site.raw() as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as client,
    ):
        cipher = client.cipher()

    assert cipher is not None
    assert cipher[0] == chosen


def test_an_inline_certificate_is_served(file: Path, pki: Pki) -> None:
    def block(path: Path) -> str:
        return "|\n" + "".join(f"    {line}\n" for line in path.read_text().splitlines())

    file.write_text(
        f"tls_server_config:\n  cert: {block(pki.server.certificate)}  key: {block(pki.server.key)}"
    )
    with serving(config=file) as site:
        assert certificate_of(site) == der(pki.server)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_ipv6_is_served_with_tls(file: Path, pki: Pki) -> None:
    with serving(config=write(file, pki.server), address=Address("::1", 0)) as site:
        assert answers(site, pki.authority.client())


@pytest.mark.parametrize(
    ("kind", "who", "names", "served"),
    [
        ("RequireAndVerifyClientCert", "client", "", True),
        ("RequireAndVerifyClientCert", "nobody", "", False),
        ("RequireAndVerifyClientCert", "stranger", "", False),
        ("VerifyClientCertIfGiven", "client", "", True),
        ("VerifyClientCertIfGiven", "nobody", "", True),
        ("VerifyClientCertIfGiven", "stranger", "", False),
        ("RequireAndVerifyClientCert", "client", "[prometheus.example]", True),
        ("RequireAndVerifyClientCert", "client", "[192.0.2.7]", True),
        ("RequireAndVerifyClientCert", "client", "['2001:db8::7']", True),
        ("RequireAndVerifyClientCert", "client", "[spiffe://a/b]", True),
        ("RequireAndVerifyClientCert", "client", "[a@b.example]", True),
        ("RequireAndVerifyClientCert", "client", "[other.example, prometheus.example]", True),
        ("RequireAndVerifyClientCert", "client", "[other.example]", False),
        ("RequireAndVerifyClientCert", "client", "[client]", False),  # the common name is none
    ],
)
def test_client_certificates_are_verified(
    file: Path,
    pki: Pki,
    kind: str,
    who: str,
    names: str,
    served: bool,  # noqa: FBT001 - a table
) -> None:
    shown = {"client": pki.client, "stranger": pki.stranger, "nobody": None}[who]
    keys = certified(pki, kind, **({"client_allowed_sans": names} if names else {}))
    with serving(config=write(file, pki.server, **keys)) as site:
        assert answers(site, pki.authority.client(shown)) is served


# Clients that do not come to the point


def read_to_the_end(client: socket.socket) -> None:
    """Wait until the server has closed a connection."""
    with suppress(ConnectionError):
        while client.recv(65536):
            pass


def test_a_handshake_that_does_not_end_is_not_waited_for(file: Path, pki: Pki) -> None:
    limits = ClientLimits(request_s=0.2)
    with serving(config=write(file, pki.server), limits=limits) as site, site.raw() as client:
        client.sendall(b"\x16\x03\x01")
        read_to_the_end(client)


def test_handshakes_that_wait_do_not_keep_a_client_out(file: Path, pki: Pki) -> None:
    limits = ClientLimits(connections=4, request_s=3600)
    with serving(config=write(file, pki.server), limits=limits) as site:
        waiting = [site.raw() for _ in range(8)]
        assert answers(site, pki.authority.client())
        for client in waiting[:4]:
            read_to_the_end(client)  # cut off for those who came later
        for client in waiting:
            client.close()


def test_what_is_no_handshake_leaves_nothing_behind(
    file: Path, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ClientLimits(connections=2, request_s=3600)
    with (
        serving(config=write(file, pki.server), limits=limits) as site,
        closing(site.connect(pki.authority.client())) as kept,
    ):
        kept.request("GET", "/-/ready")
        kept.getresponse().read()
        sock = kept.sock
        for _ in range(20):
            with site.raw() as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                read_to_the_end(client)
        kept.request("GET", "/-/ready")
        assert kept.getresponse().read() == b"ready\n"
        assert kept.sock is sock  # the place of a failed handshake is free again

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# Changes


def test_a_new_certificate_is_shown_to_new_connections(
    file: Path, pki: Pki, tmp_path: Path
) -> None:
    new = pki.authority.sign("new", "IP:127.0.0.1")
    current = tmp_path / "current"
    current.symlink_to(tmp_path / "old")
    for name, pair in (("old", pki.server), ("new", new)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_bytes(pair.certificate.read_bytes())
        (tmp_path / name / "tls.key").write_bytes(pair.key.read_bytes())
    write(file, Pair(Path("current/tls.crt"), Path("current/tls.key")))
    with serving(config=file, limits=ClientLimits(refresh_s=0.02)) as site:
        assert certificate_of(site) == der(pki.server)
        (tmp_path / "next").symlink_to(tmp_path / "new")
        (tmp_path / "next").rename(current)  # as Kubernetes swaps a Secret's ..data
        while certificate_of(site) != der(new):  # it is found without being told
            pass


def test_a_bad_new_certificate_is_said_once_and_the_old_one_stays(
    file: Path, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(config=write(file, pki.server)) as site:
        write(file, Pair(pki.server.certificate, pki.client.key))
        for _ in range(3):
            site.reconfigure()
        assert certificate_of(site) == der(pki.server)
        write(file, pki.server)
        with caplog.at_level("INFO"):
            site.reconfigure()

    [warning] = [r for r in caplog.records if r.levelname == "WARNING"]
    assert "cert_file and key_file: KEY_VALUES_MISMATCH" in warning.getMessage()
    assert "is in force" in caplog.records[-1].getMessage()


def test_an_authority_that_is_taken_away_ends_the_connections_it_let_in(
    file: Path, pki: Pki
) -> None:
    keys = certified(pki)
    context = pki.authority.client(pki.client)
    with (
        serving(config=write(file, pki.server, **keys)) as site,
        closing(site.connect(context)) as kept,
    ):
        kept.request("GET", "/metrics")
        kept.getresponse().read()
        write(file, pki.server, **{**keys, "client_ca_file": str(pki.stranger.certificate)})
        site.reconfigure()
        kept.request("GET", "/metrics")
        last = kept.getresponse()
        last.read()
        assert (last.status, last.headers["Connection"]) == (200, "close")
        assert not answers(site, context)


def scraping(site: Site, tls: ssl.SSLContext, stop: threading.Event) -> Iterator[int]:
    """Scrape on kept connections as Prometheus does, opening a new one when asked to."""
    while not stop.is_set():
        with closing(site.connect(tls)) as client:
            again = True
            while again and not stop.is_set():
                client.request("GET", "/metrics")
                answer = client.getresponse()
                answer.read()
                again = answer.headers.get("Connection") != "close"
                yield answer.status


@pytest.mark.slow
def test_certificates_change_under_load_without_a_lost_scrape(file: Path, pki: Pki) -> None:
    context, stop = pki.authority.client(), threading.Event()
    statuses: list[list[int | str]] = [[] for _ in range(8)]

    def scrape(own: list[int | str]) -> None:
        try:
            own.extend(scraping(site, context, stop))
        except OSError as error:
            own.append(repr(error))

    pairs = [pki.authority.sign(f"turn-{n}", "IP:127.0.0.1") for n in range(2)]
    with serving(with_every_family(), config=write(file, pki.server)) as site:
        threads = [threading.Thread(target=scrape, args=(own,)) for own in statuses]
        for thread in threads:
            thread.start()
        for turn in range(20):
            write(file, pairs[turn % 2])
            site.reconfigure()
            assert certificate_of(site) == der(pairs[turn % 2])
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)

    assert {status for own in statuses for status in own} == {200}


# What cannot be used


def problem(file: Path) -> str:
    with pytest.raises(WebFileError) as caught:
        WebConfig(str(file))
    return str(caught.value)


def test_what_cannot_be_used_is_named(file: Path, pki: Pki, tmp_path: Path) -> None:
    none, bad, encrypted = (tmp_path / name for name in ("none.crt", "bad.pem", "encrypted.key"))
    missing = "cannot be read: No such file or directory"
    assert problem(tmp_path / "no.yml") == f"{tmp_path / 'no.yml'}: {missing}"
    write(file, Pair(Path("none.crt"), pki.server.key))
    assert problem(file) == f"{none}, cert_file: {missing}"
    for content in (b"", b"-----BEGIN CERTIFICATE-----\nx\n", b"\0\xff"):
        bad.write_bytes(content)
        write(file, Pair(bad, pki.server.key))
        assert "tls_server_config.cert_file and key_file: " in problem(file)
        write(file, pki.server, **{**certified(pki), "client_ca_file": str(bad)})
        assert "client_ca_file: no certificate can be read" in problem(file)
    command = ["openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", str(pki.server.key)]
    subprocess.run([*command, "-out", str(encrypted)], check=True)
    write(file, Pair(pki.server.certificate, encrypted))  # nobody is asked for its password
    assert "cert_file and key_file" in problem(file)
    write(file, pki.server, cipher_suites="[TLS_AES_128_GCM_SHA256]", max_version="TLS12")
    assert "cipher_suites: none of them is of TLS 1.2" in problem(file)
