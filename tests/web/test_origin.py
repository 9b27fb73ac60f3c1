"""Web pages of other sites do not reach a listener on loopback through a browser."""

from base64 import b64encode
from pathlib import Path

import bcrypt
import pytest

from exporter.settings import Address
from exporter.web.access import is_foreign, is_this_machine
from tests.web.serving import LOOPBACK, Site, answer, serving
from tests.web.test_access import EVERYWHERE, UnixConnection

EVIL = "evil.example"


def ask(site: Site, path: str, method: str = "GET", host: str = "", **headers: str) -> int:
    """The status of a request to ``host``, by default as which it is reached."""
    own = f"localhost:{site.port}"
    return site.ask(path, method, None, Host=host or own, **headers).status


@pytest.mark.parametrize("path", ["/api/v1/snapshot", "/api/v1/history", "/static/page.js"])
def test_what_is_private_is_not_for_a_page_of_another_site(path: str) -> None:
    with serving() as site:
        own = f"http://localhost:{site.port}"
        asked = {
            "own": ask(site, path),
            "address": ask(site, path, host=f"127.0.0.1:{site.port}"),
            "own origin": ask(site, path, Origin=own),
            "rebound": ask(site, path, host=f"{EVIL}:{site.port}"),
            "foreign": ask(site, path, Origin=f"http://{EVIL}"),
            "other port": ask(site, path, Origin="http://localhost:3000"),
            "sandboxed": ask(site, path, Origin="null"),
        }

    assert [name for name, status in asked.items() if status == 200] == [
        *("own", "address", "own origin")
    ]
    assert set(asked.values()) == {200, 403}


def test_a_rebound_name_gets_the_landing_page() -> None:
    with serving() as site:
        page = site.ask("/", Host=EVIL)
        own = site.ask("/")

    assert page.status == 200
    assert b"static/page.js" in own.body
    assert b"static/page.js" not in page.body


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy"])
def test_what_is_open_is_for_any_name(path: str) -> None:
    with serving() as site:
        assert ask(site, path, host=EVIL, Origin=f"http://{EVIL}") == 200


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
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
    file.write_text(f"basic_auth_users:\n  alice: {hashed}\n")
    right = "Basic " + b64encode(b"alice:right").decode()
    path, proxy = "/api/v1/snapshot", "gpus.example"
    with serving(config=file) as users, serving(web_open_page=True) as opened:
        assert ask(users, path, host=proxy, Authorization=right) == 200
        assert ask(opened, path, host=proxy) == 200
        assert ask(opened, path, host=EVIL, Origin=f"http://{EVIL}") == 403
        assert ask(opened, "/-/reload", "POST", host=EVIL, Origin=f"http://{EVIL}") == 403


def test_a_unix_socket_has_no_name(tmp_path: Path) -> None:
    path = tmp_path / "mgpu.sock"
    with serving(address=Address("", 0, str(path))):
        client = UnixConnection(str(path))
        client.request("GET", "/api/v1/snapshot", headers={"Host": "anything"})
        assert answer(client.getresponse()).status == 200
        client.close()


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("", True),
        ("localhost", True),
        ("LOCALHOST.:10045", True),
        ("127.0.0.1:10045", True),
        ("127.1.2.3", True),
        ("[::1]:10045", True),
        ("[::1]", True),
        ("node-1:10045", True),
        ("node-1.rack.example", True),
        ("node-1.evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("192.0.2.7:10045", False),
        ("[2001:db8::1]:10045", False),
        ("evil.example:10045", False),
        ("[", True),
    ],
)
def test_which_names_are_this_machines(
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    own: bool,  # noqa: FBT001 - a table
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-1.rack.example")

    assert is_this_machine(host) is own


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
