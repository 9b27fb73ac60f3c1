"""Kubernetes decides who may ask: real requests, with reviews by a real HTTP server."""

import json
from pathlib import Path

import pytest

from exporter.agent.web import WebConfig, WebFileError
from exporter.inputs.values import Address
from tests.agent.api.validation import validate
from tests.agent.web.conftest import Pki
from tests.agent.web.reviewing import EVERYWHERE, PAGES, SNAPSHOT, Guarded, ask, bearer, of
from tests.agent.web.serving import answer
from tests.agent.web.test_access import HASH, UnixConnection, basic

# Who may see what


@pytest.mark.parametrize(
    ("name", "metrics", "page", "schema"),
    [
        ("scraper", 200, 403, 200),
        ("viewer", 403, 200, 200),
        ("tenant", 403, 200, 200),
        ("everywhere", 403, 200, 200),
        ("elsewhere", 403, 403, 200),
        ("nobody", 403, 403, 200),
        ("stranger", 401, 401, 401),
    ],
)
def test_each_account_sees_what_its_rights_say(
    guarded: Guarded, name: str, metrics: int, page: int, schema: int
) -> None:
    with guarded.site() as site:
        assert ask(site, "/metrics", name).status == metrics
        assert [ask(site, path, name).status for path in PAGES] == [page] * len(PAGES)
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
    assert answers[0].headers["WWW-Authenticate"].startswith("Basic")  # the last of two
    assert guarded.asked("identify") == 0


def test_a_browser_may_give_the_token_as_a_password_and_head_needs_the_right_of_get(
    guarded: Guarded,
) -> None:
    given = (basic("anybody", "token-of-viewer"), basic("viewer", "wrong"))
    with guarded.site() as site:
        assert [site.ask("/", Authorization=each).status for each in given] == [200, 401]
        heads = [ask(site, "/metrics", name, "HEAD").status for name in ("scraper", "viewer")]
        assert b"get the non-resource URL /metrics" in ask(site, "/metrics", "viewer").body
        assert b"/mgpu-exporter/page, or to get pods" in ask(site, "/", "scraper").body
    assert heads == [200, 403]


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
        site.reconfigure()
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
