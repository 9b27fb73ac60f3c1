"""Web pages of other sites do not reach a listener on loopback through a browser."""

from pathlib import Path

import pytest

from exporter.agent.web.access import is_foreign, is_this_machine
from exporter.inputs.values import Address
from tests.agent.web.serving import LOOPBACK, Site, serving
from tests.agent.web.test_access import EVERYWHERE, HASH, RIGHT

EVIL = "evil.example"
NO_HOSTS = (
    *("[::1].evil.example", "[localhost]evil.example", "localhost:80@evil.example", "["),
    *("[::1", "[localhost]", "[127.0.0.1]", "localhost:", "localhost:80:80", "user@localhost"),
    *("localhost evil.example", "localhost/", ":80", "127.0.0.1.evil.example", "::1"),
    "localhost:123456",
)


def ask(site: Site, path: str, method: str = "GET", host: str = "", **headers: str) -> int:
    """The status of a request to ``host``, by default as which it is reached."""
    own = f"localhost:{site.port}"
    return site.ask(path, method, None, Host=host or own, **headers).status


def test_what_is_private_is_not_for_a_page_of_another_site() -> None:
    with serving() as site:
        own = f"http://localhost:{site.port}"
        asked: dict[str, dict[str, str]] = {
            "own": {},
            "address": {"host": f"127.0.0.1:{site.port}"},
            "own origin": {"Origin": own},
            "rebound": {"host": f"{EVIL}:{site.port}"},
            "foreign": {"Origin": f"http://{EVIL}"},
            "other port": {"Origin": "http://localhost:3000"},
            "sandboxed": {"Origin": "null"},
        }
        for path in ("/api/v1/snapshot", "/api/v1/history", "/static/page.js"):
            statuses = {name: ask(site, path, **headers) for name, headers in asked.items()}
            assert [n for n, status in statuses.items() if status == 200] == [*asked][:3]
            assert set(statuses.values()) == {200, 403}
        assert ask(site, "/metrics", Origin=f"http://{EVIL}") == 200  # it cannot read the answer
        assert b"static/page.js" in site.ask("/").body


@pytest.mark.parametrize("path", ["/metrics", "/", "/runbooks/", "/api/v1/schema", "/no-such"])
def test_nothing_on_loopback_is_read_under_a_name_that_was_rebound(path: str) -> None:
    with serving() as site:
        control = ask(site, path)
        for host in (EVIL, f"{EVIL}:{site.port}", *NO_HOSTS):
            assert ask(site, path, host=host) == 403, host
        for host in (f"127.0.0.1:{site.port}", f"[::1]:{site.port}", "192.0.2.7:10443"):
            # kube-rbac-proxy passes on the pod's address, which no site can be named by.
            allowed = control if host[0] != "1" or path != "/" else 200
            assert ask(site, path, host=host) == allowed, host
        assert ask(site, "/-/healthy", host=EVIL) == 200
        assert control == (404 if path == "/no-such" else 200)


def test_a_listener_that_is_not_on_loopback_is_asked_by_any_name() -> None:
    with serving(address=EVERYWHERE) as site:
        assert ask(site, "/metrics", host="gpus.example") == 200


@pytest.mark.parametrize("name", ["Host", "Origin"])
@pytest.mark.parametrize("path", ["/metrics", "/", "/api/v1/snapshot"])
def test_a_request_with_two_sites_is_refused(name: str, path: str) -> None:
    with serving() as site:
        own = {"Host": f"localhost:{site.port}", "Origin": f"http://localhost:{site.port}"}
        for values in ((own[name], EVIL), (EVIL, own[name]), (own[name], own[name])):
            lines = [f"GET {path} HTTP/1.1", f"Host: {own['Host']}", "Connection: close"]
            lines = [line for line in lines if not line.startswith(f"{name}:")]
            lines += [f"{name}: {value}" for value in values]
            with site.raw() as client:
                client.sendall("\r\n".join([*lines, "", ""]).encode())
                assert client.makefile("rb").readline().split()[1] == b"400", values


@pytest.mark.parametrize(
    ("address", "host", "origin", "status"),
    [
        (LOOPBACK, "", "", 200),
        (LOOPBACK, "localhost:1", "http://localhost:1", 200),
        (LOOPBACK, EVIL, "", 403),
        (LOOPBACK, EVIL, f"http://{EVIL}", 403),
        (LOOPBACK, "", f"http://{EVIL}", 403),
        (LOOPBACK, "", "null", 403),
        (EVERYWHERE, "", "", 200),
        (EVERYWHERE, "node-1:10045", "", 200),
        (EVERYWHERE, "node-1:10045", "https://node-1:10045", 200),
        (EVERYWHERE, "node-1:10045", f"http://{EVIL}", 403),
        (EVERYWHERE, "", "null", 403),
    ],
)
def test_a_page_of_another_site_cannot_ask_for_a_reload(
    address: Address, host: str, origin: str, status: int
) -> None:
    called: list[None] = []
    headers = {"Origin": origin} if origin else {}
    with serving(
        address=address, web_enable_lifecycle=True, reload=lambda: called.append(None)
    ) as site:
        assert ask(site, "/-/reload", "POST", host, **headers) == status

    assert len(called) == (status == 200)


def test_a_proxy_may_pass_on_its_own_name_where_loopback_alone_opens_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  alice: {HASH}\n")
    path, proxy = "/api/v1/snapshot", "gpus.example"
    with serving(config=file) as users, serving(web_open_page=True) as opened:
        assert ask(users, path, host=proxy, Authorization=RIGHT) == 200
        assert ask(opened, path, host=proxy) == 200
        assert ask(opened, path, host=EVIL, Origin=f"http://{EVIL}") == 403
        assert ask(opened, "/-/reload", "POST", host=EVIL, Origin=f"http://{EVIL}") == 403


@pytest.mark.parametrize(
    "host",
    [
        *("", "localhost", "LOCALHOST.:10045", "127.0.0.1:10045", "127.1.2.3", "[::1]:10045"),
        *("[::1]", "node-1:10045", "node-1.rack.example"),
    ],
)
def test_which_names_are_this_machines(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-1.rack.example")

    assert is_this_machine(host)
    for more in (".evil.example", ".evil.example:10045"):
        assert not is_this_machine(f"{host.partition(':')[0].strip('[].') or 'x'}{more}")


@pytest.mark.parametrize(
    "host", ["192.0.2.7:10045", "[2001:db8::1]:10045", "evil.example:10045", "\u212a", *NO_HOSTS]
)
def test_which_names_are_not(host: str) -> None:
    assert not is_this_machine(host)


@pytest.mark.parametrize(
    ("origin", "foreign"),
    [
        ("", False),
        ("http://localhost:1", False),
        ("https://LOCALHOST:1", False),
        ("http://localhost:2", True),
        ("http://localhost", True),
        ("null", True),
        ("localhost:1", True),
        ("http://localhost:1/", True),
    ],
)
def test_an_origin_is_of_this_site_if_it_has_its_name_and_port(
    origin: str,
    foreign: bool,  # noqa: FBT001 - a table
) -> None:
    assert is_foreign(origin, "localhost:1") is foreign
