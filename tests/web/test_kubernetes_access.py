"""Kubernetes decides who may ask: real requests, with reviews by a real HTTP server."""

import json
import logging
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from exporter.model import Snapshot
from exporter.settings import Address
from exporter.sources.pods.client import connect, from_kubeconfig
from exporter.sources.pods.reviews import ApiReviewer
from exporter.web import ReviewLimits, Verdicts, WebConfig, WebFileError
from tests.api.nodes import crowded, demo
from tests.api.validation import validate
from tests.pods.apiserver import ApiServer, write_kubeconfig
from tests.pods.apistate import Account
from tests.web.conftest import Pki
from tests.web.serving import PATIENCE_S, SECOND, Answer, FakeClock, Site, answer, serving
from tests.web.test_access import HASH, UnixConnection

EVERYWHERE = Address("0.0.0.0", 0)  # noqa: S104 - who is let in is the test
GET_PAGE = ("get", "/mgpu-exporter/page")
ACCOUNTS = {
    "scraper": {("get", "/metrics")},
    "viewer": {GET_PAGE},
    "tenant": {("get", "pods/inference")},
    "everywhere": {("get", "pods/")},
    "elsewhere": {("get", "pods/nothing-here")},
    "reloader": {("post", "/mgpu-exporter/reload")},
    "nobody": set(),
}
SNAPSHOT = "/api/v1/snapshot"
PAGES = ("/", "/api/v1/snapshot", "/api/v1/devices", "/api/v1/history")


def user(name: str) -> dict[str, object]:
    return {"username": name, "uid": name, "groups": ["system:authenticated"]}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        for name, rights in ACCOUNTS.items():
            running.add_account(f"token-of-{name}", Account(user(name), rights=set(rights)))
        yield running


class Guarded:
    """Serves with reviews by ``server``."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self._config = write_kubeconfig(folder / "kubeconfig", server.url, token="exporter")  # noqa: S106

    def verdicts(
        self, limits: ReviewLimits | None = None, clock: FakeClock | None = None
    ) -> Verdicts:
        """Verdicts by the server."""
        load = from_kubeconfig(str(self._config))
        reviewer = ApiReviewer(partial(connect, load), timeout_s=1.0)
        return Verdicts(reviewer, clock or FakeClock(), limits)

    @contextmanager
    def site(
        self,
        snapshot: Snapshot | None = None,
        limits: ReviewLimits | None = None,
        **options: object,
    ) -> Iterator[Site]:
        """A site whose verdicts follow its clock."""
        verdicts = self.verdicts(limits, clock := FakeClock())
        options = {"address": EVERYWHERE, **options}
        with serving(snapshot or demo(), verdicts=verdicts, **options) as site:  # type: ignore[arg-type]
            site.clock.__dict__ = clock.__dict__  # one time for both
            yield site
        verdicts.close()

    def asked(self, kind: str) -> int:
        """How many reviews of a kind were asked for."""
        return len(self.server.requests(kind))


@pytest.fixture
def guarded(server: ApiServer, tmp_path: Path) -> Guarded:
    return Guarded(server, tmp_path)


def bearer(name: str) -> str:
    return f"Bearer token-of-{name}"


def ask(site: Site, path: str, name: str, method: str = "GET") -> Answer:
    return site.ask(path, method, Authorization=bearer(name))


# Who may see what


@pytest.mark.parametrize(
    ("name", "metrics", "page", "cardinality", "schema"),
    [
        ("scraper", 200, 403, 403, 200),
        ("viewer", 403, 200, 200, 200),
        ("tenant", 403, 200, 403, 200),
        ("everywhere", 403, 200, 403, 200),
        ("elsewhere", 403, 403, 403, 200),
        ("nobody", 403, 403, 403, 200),
        ("stranger", 401, 401, 401, 401),
    ],
)
def test_each_account_sees_what_its_rights_say(
    guarded: Guarded, name: str, metrics: int, page: int, cardinality: int, schema: int
) -> None:
    with guarded.site() as site:
        assert ask(site, "/metrics", name).status == metrics
        assert [ask(site, path, name).status for path in PAGES] == [page] * len(PAGES)
        assert ask(site, "/api/v1/cardinality", name).status == cardinality
        assert ask(site, "/api/v1/schema", name).status == schema
        assert ask(site, "/static/page.css", name).status == page
        assert ask(site, "/none", name).status == (401 if name == "stranger" else 404)
        assert [ask(site, path, name).status for path in ("/-/healthy", "/-/ready")] == [200] * 2


@pytest.mark.parametrize("address", [EVERYWHERE, Address("127.0.0.1", 0)])
def test_without_a_token_only_the_health_checks_answer(guarded: Guarded, address: Address) -> None:
    with guarded.site(address=address) as site:
        answers = [site.ask(path) for path in ("/metrics", *PAGES, "/static/page.js", "/none")]
        assert [site.ask(path).status for path in ("/-/healthy", "/-/ready")] == [200] * 2
    assert {each.status for each in answers} == {401}
    assert {each.body for each in answers} == {
        b"A token of Kubernetes is needed: as a bearer token, or as the password of any user.\n"
    }
    assert guarded.asked("identify") == 0


def test_a_browser_may_give_the_token_as_a_password(guarded: Guarded) -> None:
    with guarded.site() as site:
        refused = site.ask("/")
        basic = "Basic " + b64encode(b"anybody:token-of-viewer").decode()
        wrong = "Basic " + b64encode(b"viewer:wrong").decode()
        assert site.ask("/", Authorization=basic).status == 200
        assert site.ask("/", Authorization=wrong).status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic")


def test_a_refusal_names_the_right_that_is_missing(guarded: Guarded) -> None:
    with guarded.site() as site:
        assert b"get the non-resource URL /metrics" in ask(site, "/metrics", "viewer").body
        assert b"/mgpu-exporter/page, or to get pods" in ask(site, "/", "scraper").body


def test_head_needs_the_right_of_get(guarded: Guarded) -> None:
    with guarded.site() as site:
        statuses = [ask(site, "/metrics", name, "HEAD").status for name in ("scraper", "viewer")]
    assert statuses == [200, 403]


def test_a_reload_needs_its_own_right(guarded: Guarded) -> None:
    done: list[str] = []

    def reload() -> None:
        done.append("reloaded")

    with guarded.site(reload=reload, web_enable_lifecycle=True) as site:
        names = ("viewer", "scraper", "tenant", "stranger", "reloader")
        statuses = [ask(site, "/-/reload", name, "POST").status for name in names]
        foreign = site.ask(
            *("/-/reload", "POST"), Authorization=bearer("reloader"), Origin="http://evil.example"
        ).status
    assert statuses == [403, 403, 403, 401, 200]
    assert (foreign, done) == (403, ["reloaded"])


def test_a_unix_socket_is_guarded_by_its_file(guarded: Guarded, tmp_path: Path) -> None:
    path = tmp_path / "mgpu.sock"
    with guarded.site(address=Address("", 0, str(path))):
        for page in ("/metrics", *PAGES):
            client = UnixConnection(str(path))
            client.request("GET", page)
            assert answer(client.getresponse()).status == 200
            client.close()
    assert guarded.asked("identify") == 0


# Caches


def test_a_verdict_is_asked_for_once_a_minute(guarded: Guarded) -> None:
    with guarded.site() as site:
        for _ in range(5):
            assert ask(site, "/metrics", "scraper").status == 200
        assert (guarded.asked("identify"), guarded.asked("permit")) == (1, 1)
        site.clock.now_ns += 61 * SECOND
        assert ask(site, "/metrics", "scraper").status == 200
    assert (guarded.asked("identify"), guarded.asked("permit")) == (2, 2)


def test_a_right_that_was_taken_ends_within_a_minute(guarded: Guarded) -> None:
    with guarded.site() as site:
        assert ask(site, "/metrics", "scraper").status == 200
        guarded.server.add_account("token-of-scraper", Account(user("scraper")))
        site.clock.now_ns += 61 * SECOND
        assert ask(site, "/metrics", "scraper").status == 403
        guarded.server.remove_account("token-of-scraper")
        site.clock.now_ns += 61 * SECOND
        assert ask(site, "/metrics", "scraper").status == 401


def test_a_right_that_was_given_begins_soon(guarded: Guarded) -> None:
    with guarded.site() as site:
        assert [ask(site, "/metrics", "late").status for _ in range(3)] == [401] * 3
        assert guarded.asked("identify") == 1
        guarded.server.add_account("token-of-late", Account(user("late")))
        site.clock.now_ns += 11 * SECOND
        assert ask(site, "/metrics", "late").status == 403
        rights = {("get", "/metrics")}
        guarded.server.add_account("token-of-late", Account(user("late"), rights=rights))
        assert ask(site, "/metrics", "late").status == 403
        site.clock.now_ns += 31 * SECOND
        assert ask(site, "/metrics", "late").status == 200


def test_wrong_tokens_do_not_push_out_right_ones(guarded: Guarded) -> None:
    with guarded.site(limits=ReviewLimits(cached=3)) as site:
        assert ask(site, "/metrics", "scraper").status == 200
        for number in range(10):
            assert ask(site, "/metrics", f"stranger-{number}").status == 401
        asked = guarded.asked("identify")
        assert ask(site, "/metrics", "scraper").status == 200
        assert guarded.asked("identify") == asked
        assert ask(site, "/metrics", "stranger-0").status == 401  # forgotten, so asked again
        assert guarded.asked("identify") == asked + 1


# The API server fails


def test_without_the_api_server_nobody_new_is_let_in(guarded: Guarded) -> None:
    with guarded.site() as site:
        assert ask(site, "/metrics", "scraper").status == 200
        guarded.server.stop()
        assert ask(site, "/metrics", "scraper").status == 200  # of the cache
        closed = ask(site, "/metrics", "viewer")
        assert site.ask("/-/healthy").status == 200
        site.clock.now_ns += 61 * SECOND
        late = ask(site, "/metrics", "scraper")
        assert site.ask("/metrics").status == 401
        guarded.server.start()
        assert ask(site, "/metrics", "scraper").status == 200
    assert {closed.status, late.status} == {503}
    assert closed.body == (
        b"the API server cannot be asked for your rights; the exporter's log says why\n"
    )
    assert closed.headers["Retry-After"] == "1"


@pytest.mark.parametrize("kind", ["identify", "permit"])
@pytest.mark.parametrize("body", [b"", b"{}", b'{"kind": "Status"}', b"\xff" * 1000])
def test_a_malformed_answer_lets_nobody_in(guarded: Guarded, kind: str, body: bytes) -> None:
    with guarded.site() as site:
        guarded.server.answer_reviews_with(kind, body)
        assert ask(site, "/metrics", "scraper").status == 503
        assert ask(site, "/", "viewer").status == 503
        guarded.server.answer_reviews_with(kind, None)
        assert ask(site, "/metrics", "scraper").status == 200


def test_the_log_says_once_why_nobody_is_let_in(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    guarded.server.fail("identify", 403, "no", times=3)
    with guarded.site() as site:
        statuses = [ask(site, "/metrics", "scraper").status for _ in range(4)]
    assert statuses == [503, 503, 503, 200]
    lines = [r.getMessage() for r in caplog.records if r.name == "exporter.web.verdicts"]
    assert len(lines) == 2
    assert "tokenreviews: create" in lines[0]
    assert lines[1] == "clients are let in again"


def test_no_token_is_in_any_log(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    guarded.server.fail("identify", 500, "cannot review token-of-scraper", times=1)
    with guarded.site() as site:
        for name in ("scraper", "viewer", "stranger"):
            ask(site, "/metrics", name)
        guarded.server.stop()
        ask(site, "/metrics", "other")
    assert "token-of" not in "\n".join(str(vars(record)) for record in caplog.records)


# Hostile clients


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer",
        "Bearer ",
        "Bearer a b",
        "Bearer " + "x" * 6145,
        "Bearer t\u00f6ken",
        'Bearer "quoted"',
        "Bearer ../../etc",
        "Token token-of-viewer",
        "Basic token-of-viewer",
        "Basic " + b64encode(b"token-of-viewer").decode(),
        "Basic " + b64encode(b"x:\xff\xfe").decode(),
    ],
)
def test_what_cannot_be_a_token_is_not_asked_about(guarded: Guarded, authorization: str) -> None:
    with guarded.site() as site:
        status = site.ask("/metrics", Authorization=authorization).status
    if authorization != "Bearer ../../etc":  # a token to any eye; only JSON carries it
        assert guarded.asked("identify") == 0
    assert status == 401


def test_two_tokens_are_none(guarded: Guarded) -> None:
    with guarded.site() as site, site.raw() as client:
        line = f"Authorization: {bearer('viewer')}\r\n"
        client.sendall(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{line}{line}\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 401")


class Peer(HTTPConnection):
    """A client with another loopback address, which is another peer."""

    def __init__(self, site: Site, address: str) -> None:
        super().__init__("127.0.0.1", site.port, timeout=PATIENCE_S)
        self._address = address

    def connect(self) -> None:
        """Connect from the address."""
        self.sock = socket.create_connection(
            ("127.0.0.1", self.port), PATIENCE_S, (self._address, 0)
        )


def statuses(site: Site, names: list[str], address: str = "127.0.0.2") -> list[int]:
    """Ask for the metrics with each token at the same time."""
    got: list[int] = []

    def one(name: str) -> None:
        client = Peer(site, address)
        client.request("GET", "/metrics", headers={"Authorization": bearer(name)})
        got.append(answer(client.getresponse()).status)
        client.close()

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_reviews_that_run_at_once_are_few_and_health_is_answered(guarded: Guarded) -> None:
    guarded.server.hold("identify")
    with guarded.site(limits=ReviewLimits(at_once=2, wait_s=0.2)) as site:
        made: list[int] = []
        strangers = [f"stranger-{number}" for number in range(20)]
        flood = threading.Thread(target=lambda: made.extend(statuses(site, strangers)))
        flood.start()
        guarded.server.wait_for_requests("identify", 2)
        assert site.ask("/-/healthy").status == 200
        flood.join(0.5)
        assert guarded.asked("identify") <= 4  # two at once, and one retry each at most
        guarded.server.release()
        flood.join()
    assert set(made) <= {401, 503}
    assert made.count(503) >= 16


def test_a_flood_of_tokens_reaches_the_api_server_slowly(guarded: Guarded) -> None:
    limits = ReviewLimits(burst=5, interval_s=60.0, wait_s=0.2)
    with guarded.site(limits=limits) as site:
        got = statuses(site, [f"stranger-{number}" for number in range(40)])
    assert guarded.asked("identify") == 5
    assert (got.count(401), got.count(503)) == (5, 35)


def test_a_flood_does_not_keep_out_who_was_let_in_before(guarded: Guarded) -> None:
    limits = ReviewLimits(burst=3, interval_s=60.0, wait_s=0.2)
    with guarded.site(limits=limits) as site:
        assert ask(site, "/metrics", "scraper").status == 200
        statuses(site, [f"stranger-{number}" for number in range(20)])
        site.clock.now_ns += 61 * SECOND
        assert ask(site, "/metrics", "viewer").status == 503  # new, behind the flood
        assert ask(site, "/metrics", "scraper").status == 200


def test_requests_at_once_share_a_review(guarded: Guarded) -> None:
    guarded.server.hold("identify")
    with guarded.site() as site:
        made: list[int] = []
        crowd = threading.Thread(target=lambda: made.extend(statuses(site, ["scraper"] * 20)))
        crowd.start()
        guarded.server.wait_for_requests("identify", 1)
        guarded.server.release()
        crowd.join()
    assert made == [200] * 20
    assert guarded.asked("identify") <= 2


def test_reviews_are_counted_by_outcome(guarded: Guarded) -> None:
    verdicts = guarded.verdicts()
    assert set(verdicts.reviews.values()) == {0}
    with serving(demo(), verdicts=verdicts, address=EVERYWHERE) as site:
        for name in ("scraper", "scraper", "viewer", "stranger"):
            ask(site, "/metrics", name)
        guarded.server.stop()
        ask(site, "/metrics", "tenant")
    verdicts.close()
    counted = {key: count for key, count in verdicts.reviews.items() if count}
    assert counted == {
        ("token", "allowed"): 2,
        ("token", "denied"): 1,
        ("token", "failed"): 1,
        ("right", "allowed"): 1,
        ("right", "denied"): 1,
    }


# Other means of the web configuration


def test_users_and_optional_certificates_contradict_tokens(tmp_path: Path, pki: Pki) -> None:
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  alice: {HASH}\n")
    with pytest.raises(WebFileError, match="basic_auth_users: contradicts"):
        WebConfig(str(file), tokens=True)
    tls = (
        f"tls_server_config:\n  cert_file: {pki.server.certificate}\n  key_file: {pki.server.key}\n"
        f"  client_ca_file: {pki.authority.certificate}\n  client_auth_type: "
    )
    file.write_text(f"{tls}VerifyClientCertIfGiven\n")
    with pytest.raises(WebFileError, match="client_auth_type: contradicts"):
        WebConfig(str(file), tokens=True)
    file.write_text(f"{tls}RequireAndVerifyClientCert\n")
    assert WebConfig(str(file), tokens=True).active.tls is not None


def test_users_that_come_later_are_refused_and_tokens_stay(
    guarded: Guarded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "web.yml"
    file.write_text("")
    with guarded.site(config=file) as site:
        file.write_text(f"basic_auth_users:\n  alice: {HASH}\n")
        site.config.refresh()
        assert site.ask("/metrics").status == 401
        assert ask(site, "/metrics", "scraper").status == 200
    assert "contradicts --web.kubernetes-access" in caplog.text


def test_a_required_certificate_does_not_stand_for_a_token(
    guarded: Guarded, tmp_path: Path, pki: Pki
) -> None:
    file = tmp_path / "web.yml"
    file.write_text(
        f"tls_server_config:\n  cert_file: {pki.server.certificate}\n"
        f"  key_file: {pki.server.key}\n  client_ca_file: {pki.authority.certificate}\n"
        "  client_auth_type: RequireAndVerifyClientCert\n"
    )
    tls = pki.authority.client(pki.client)
    with guarded.site(config=file) as site:
        assert site.ask("/metrics", tls=tls).status == 401
        assert site.ask("/metrics", tls=tls, Authorization=bearer("scraper")).status == 200
        assert site.ask("/api/v1/snapshot", tls=tls, Authorization=bearer("nobody")).status == 403


def test_a_rate_limit_comes_first(guarded: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text("rate_limit: {interval: 1h, burst: 1}\n")
    with guarded.site(config=file) as site:
        assert [ask(site, "/metrics", "scraper").status for _ in range(2)] == [200, 429]


# Some namespaces


def of(site: Site, path: str, name: str) -> Any:
    got = ask(site, path, name)
    assert got.status == 200
    return json.loads(got.body)


def test_another_view_has_another_entity_tag(guarded: Guarded) -> None:
    with guarded.site() as site:
        for path in PAGES:
            mine, whole = (ask(site, path, name) for name in ("tenant", "viewer"))
            assert mine.headers["Etag"] != whole.headers["Etag"]
            again = [
                site.ask(path, Authorization=bearer(n), If_None_Match=whole.headers["Etag"]).status
                for n in ("viewer", "tenant")
            ]
            assert again == [304, 200]


def test_a_node_with_many_namespaces_is_asked_about_within_the_limit(guarded: Guarded) -> None:
    with guarded.site(crowded()) as site:
        assert ask(site, "/", "tenant").status == 403
        spaces = len(of(site, "/api/v1/snapshot", "viewer")["namespaces"])
    assert guarded.asked("permit") <= min(spaces, 128) + 4


def test_a_tenant_sees_the_rows_of_one_namespace_only(guarded: Guarded) -> None:
    with guarded.site() as site:
        mine, whole = (of(site, "/api/v1/snapshot", name) for name in ("tenant", "viewer"))
        every = of(site, "/api/v1/snapshot", "everywhere")
        page = ask(site, "/?all=1", "tenant").body.decode()
        past = of(site, "/api/v1/history", "tenant")
    validate("snapshot", mine)
    assert mine["namespaces_shown"] == ["inference"]
    assert "namespaces_shown" not in whole
    assert {pod["namespace"] for pod in mine["pods"]} == {"inference"}
    assert {pod["namespace"] for pod in every["pods"]} > {"inference", "research"}
    assert (mine["groups"], every["groups"]) == ([], [])
    assert len(whole["groups"]) > 1
    assert "research" not in page
    assert "inference" in page
    assert {each["level"] for each in past["series"]} == {"device", "container"}


def test_a_pod_of_another_namespace_is_not_there(guarded: Guarded) -> None:
    with guarded.site() as site:
        pods = {pod["namespace"]: pod["pod"] for pod in of(site, SNAPSHOT, "viewer")["pods"]}
        mine = ask(site, f"/api/v1/pods/inference/{pods['inference']}", "tenant")
        theirs = ask(site, f"/api/v1/pods/research/{pods['research']}", "tenant")
        nobodys = ask(site, "/api/v1/pods/research/none", "tenant")
        whole = ask(site, f"/api/v1/pods/research/{pods['research']}", "viewer")
    assert (mine.status, theirs.status, whole.status) == (200, 404, 200)
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
    validate("pod", json.loads(mine.body))
