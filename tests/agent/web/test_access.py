"""Who may ask for what, by real requests."""

import logging
import os
import socket
from base64 import b64encode
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path

import bcrypt
import pytest
from aiohttp import web

from exporter.agent.web import Access, Gate, Route, WebConfig, WebFileError
from exporter.agent.web.access import TokenBucket
from exporter.agent.web.webfile import RateLimit
from exporter.inputs.values import Address
from exporter.model import Snapshot, SourceStatus
from tests.agent.simulation.clock import SECOND, ManualClock
from tests.agent.web.conftest import Pki
from tests.agent.web.serving import PATIENCE_S, Answer, answer, serving

EVERYWHERE = Address("0.0.0.0", 0)  # noqa: S104 - what is tested
HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


RIGHT, *WRONG = (
    basic(*each) for each in (("alice", "right"), ("alice", "wrong"), ("eve", "right"))
)
SOURCES = (SourceStatus("nvml", up=False, detail="no driver"),)


async def secret(_: web.Request) -> web.Response:
    return web.Response(text="secret")


def routes(gate: Gate) -> Sequence[Route]:
    """Routes as a later room would add them."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="live" if gate.trusts(request) else "plain")

    return (
        Route("/api/v1/pods/{namespace}/{pod}", secret),
        Route("/page", page, Access.OPEN),
        Route("/own-policy", _with_policy, Access.OPEN),
    )


async def _with_policy(_: web.Request) -> web.Response:
    return web.Response(text="", headers={"Content-Security-Policy": "default-src 'self'"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "web.yml"


@pytest.fixture
def users(file: Path) -> Path:
    file.write_text(f"basic_auth_users:\n  alice: {HASH}\n")
    return file


# Basic authentication


def test_users_are_asked_for_their_password_and_probes_are_not(users: Path) -> None:
    paths = dict.fromkeys(("/", "/metrics", "/page", "/api/v1/pods/a/b"), 200) | {"/none": 404}
    wrong = []
    with serving(config=users, routes=routes, address=EVERYWHERE) as site:
        for path, status in paths.items():
            assert site.ask(path, Authorization=RIGHT).status == status
            wrong += [site.ask(path, Authorization=each) for each in (*WRONG, "", "Basic x", "A x")]
        assert site.ask("/api/v1/pods/a/b", Authorization=RIGHT).body == b"secret"
        assert site.ask("/page", Authorization=RIGHT).body == b"live"
        assert [site.ask(path).status for path in ("/-/healthy", "/-/ready")] == [200] * 2

    assert {a.status for a in wrong} == {401}
    assert {a.headers["WWW-Authenticate"] for a in wrong} == {"Basic"}
    assert len({a.body for a in wrong}) == 1


def test_a_new_user_may_come_in_and_one_removed_may_not(users: Path) -> None:
    with serving(config=users) as site:
        assert site.ask("/metrics", Authorization=RIGHT).status == 200
        users.write_text(f"basic_auth_users: {{bob: {HASH}}}\n")
        site.reconfigure()
        assert site.ask("/metrics", Authorization=RIGHT).status == 401
        assert site.ask("/metrics", Authorization=basic("bob", "right")).status == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("basic_auth_user: {}\n", "line 1, basic_auth_user: no such key"),
        ("basic_auth_users:\n", "basic_auth_users: nothing is below it"),  # as if it were cut off
        ("tls_server_config:\n", "tls_server_config: nothing is below it"),
        *((each, "it says nothing; {} stands for") for each in ("", "# users follow", "---", "~")),
        ("gone", "cannot be read: No such file or directory"),
        ("pipe", "not a regular file"),  # and it is not waited for
    ],
)
def test_a_file_that_cannot_be_used_keeps_the_users_and_is_said_once(
    users: Path, text: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(config=users) as site:
        users.unlink()
        if text == "pipe":
            os.mkfifo(users)
        elif text != "gone":
            users.write_text(text)
        for _ in range(3):
            site.config.look()
        assert site.ask("/metrics").status == 401
        assert site.ask("/metrics", Authorization=RIGHT).status == 200
    if "nothing;" not in words:  # which is right at the start
        with pytest.raises(WebFileError, match=words):
            WebConfig(str(users))

    [said] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert words in said
    assert said.endswith("; what was in force before stays")


def test_an_empty_mapping_takes_the_users_away(users: Path) -> None:
    with serving(config=users) as site:
        users.write_text("{}\n")
        for _ in range(2):
            site.config.look()
        assert site.ask("/metrics").status == 200


def test_a_file_that_is_being_written_lets_nobody_in(
    users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs empty a file before they write it, and half of it may be valid."""
    whole = users.read_text()
    with serving(config=users) as site:
        for half in ("", "http_server_config: {}\n", ""):
            users.write_text(half)
            site.config.look()
            assert site.ask("/metrics").status == 401
        users.write_text(whole)
        site.config.look()
        assert site.ask("/metrics", Authorization=RIGHT).status == 200
    assert not caplog.records


def test_no_credential_is_in_any_log(users: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(config=users) as site:
        for authorization in (RIGHT, *WRONG, "Basic x"):
            site.ask("/metrics", Authorization=authorization)
        with site.raw() as client:
            client.sendall(f"GET / HTTP/1.1\r\nAuthorization: {RIGHT}\r\nb\0d\r\n\r\n".encode())
            client.recv(65536)
        users.write_text(f"basic_auth_users:\n  alice: {HASH}\n bad: '{HASH}\n")
        site.reconfigure()
        users.write_text(f"basic_auth_users:\n  alice: {HASH}x\n")
        site.reconfigure()

    text = "\n".join(str(vars(record)) for record in caplog.records)
    assert "not a bcrypt hash" in text
    for word in ("right", "wrong", RIGHT.split()[1], WRONG[0].split()[1], HASH, HASH[7:]):
        assert word not in text


# What is private


@pytest.mark.parametrize(
    ("address", "open_page", "status"),
    [
        (EVERYWHERE, False, 403),
        (EVERYWHERE, True, 200),
        (Address("127.0.0.1", 0), False, 200),
    ],
)
def test_without_users_private_pages_are_for_this_machine_or_opened(
    address: Address,
    open_page: bool,  # noqa: FBT001 - a table
    status: int,
) -> None:
    with serving(address=address, web_open_page=open_page, routes=routes) as site:
        private = site.ask("/api/v1/pods/a/b")
        page = site.ask("/page")
        public = [site.ask(path).status for path in ("/", "/metrics", "/-/healthy", "/-/ready")]

    assert private.status == status
    assert (b"--web.open-page" in private.body) is (status == 403)
    assert page.body == (b"plain" if status == 403 else b"live")
    assert public == [200] * 4


@pytest.mark.parametrize(("shown", "status"), [(True, 200), (False, 403)])
def test_a_client_certificate_is_authentication(
    file: Path,
    pki: Pki,
    shown: bool,  # noqa: FBT001 - a table
    status: int,
) -> None:
    file.write_text(
        f"tls_server_config:\n  cert_file: {pki.server.certificate}\n"
        f"  key_file: {pki.server.key}\n  client_ca_file: {pki.authority.certificate}\n"
        "  client_auth_type: VerifyClientCertIfGiven\n"
    )
    tls = pki.authority.client(pki.client if shown else None)
    with serving(config=file, address=EVERYWHERE, routes=routes) as site:
        assert site.ask("/api/v1/pods/a/b", tls=tls).status == status
        assert site.ask("/metrics", tls=tls).status == 200


def test_a_route_is_private_unless_it_says_otherwise() -> None:
    assert Route("/x", secret).access is Access.PRIVATE


def test_why_a_source_fails_is_for_those_who_may_see_it() -> None:
    with serving(Snapshot(version=1, sources=SOURCES)) as site:
        assert b"no driver" in site.ask("/").body


class UnixConnection(HTTPConnection):
    """A client of a Unix socket."""

    def connect(self) -> None:
        """Connect to the socket whose path is the host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.host)


def test_a_unix_socket_is_this_machines(tmp_path: Path) -> None:
    path = tmp_path / "mgpu.sock"

    def ask(page: str) -> Answer:
        client = UnixConnection(str(path))
        try:
            client.request("GET", page, headers={"Host": "anything"})  # it has no name
            return answer(client.getresponse())
        finally:
            client.close()

    with serving(address=Address("", 0, str(path)), routes=routes):
        assert path.stat().st_mode & 0o777 == 0o660
        assert ask("/metrics").status == 200
        assert ask("/api/v1/pods/a/b").body == b"secret"
    assert not path.exists()


def test_with_metrics_only_there_is_no_page_and_no_json(users: Path) -> None:
    private = ("/", "/static/page.css", "/api/v1/snapshot", "/api/v1/schema")
    with serving(web_metrics_only=True) as site:
        assert {site.ask(path).status for path in private} == {404}
        assert [site.ask(path).status for path in ("/metrics", "/-/healthy")] == [200, 200]
    with serving(config=users, web_metrics_only=True) as site:
        assert {site.ask(path, Authorization=RIGHT).status for path in private} == {404}
        assert site.ask("/metrics").status == 401


# Rate limit and headers


def test_a_rate_is_held_whoever_asks_but_for_probes(users: Path) -> None:
    users.write_text(users.read_text() + "rate_limit: {interval: 2s, burst: 2}\n")
    with serving(config=users) as site:
        statuses = [site.ask("/metrics", Authorization=RIGHT).status for _ in range(2)]
        refused = site.ask("/metrics", Authorization=RIGHT)
        guess = site.ask("/metrics", Authorization=WRONG[0])
        probes = [site.ask("/-/ready").status for _ in range(5)]
        site.clock.now_ns += 2 * SECOND
        later = site.ask("/metrics", Authorization=RIGHT)

    assert (statuses, probes) == ([200] * 2, [200] * 5)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "2")
    assert (guess.status, later.status) == (429, 200)


def test_a_burst_passes_then_one_each_interval_and_a_refusal_costs_nothing() -> None:
    clock = ManualClock()
    bucket = TokenBucket(RateLimit(SECOND, 3), clock)
    taken = []
    for seconds, tries in ((0, 100), (1, 2), (100, 4)):
        clock.now_ns += seconds * SECOND
        taken.append(sum(bucket.take() for _ in range(tries)))

    assert taken == [3, 1, 3]


def test_configured_headers_are_on_every_answer(file: Path) -> None:
    file.write_text(
        "http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=60\n"
        "    X-Frame-Options: sameorigin\n"
    )
    with serving(config=file) as site:
        answers = [site.ask(path) for path in ("/", "/metrics", "/-/healthy", "/none")]
        file.write_text("{}")
        site.reconfigure()
        after = site.ask("/")

    assert {a.headers["Strict-Transport-Security"] for a in answers} == {"max-age=60"}
    assert {a.headers["X-Frame-Options"] for a in answers} == {"sameorigin"}
    assert "Strict-Transport-Security" not in after.headers
    assert after.headers["X-Frame-Options"] == "DENY"


def test_a_pages_own_policy_is_kept() -> None:
    with serving(routes=routes) as site:
        policy = site.ask("/own-policy").headers["Content-Security-Policy"]

    assert policy == "default-src 'self'"
