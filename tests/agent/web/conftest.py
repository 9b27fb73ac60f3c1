import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.model import Snapshot
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.apistate import Account
from tests.agent.web.browser import Tab, browser, tab_of
from tests.agent.web.certificates import Authority, Pair
from tests.agent.web.looking import Watched
from tests.agent.web.reviewing import ACCOUNTS, Guarded, user
from tests.agent.web.serving import Site, serving


class Pki(NamedTuple):
    """What the tests of TLS stand on; a client's certificate has one name of each kind."""

    authority: Authority
    server: Pair
    client: Pair
    stranger: Pair  # signed by nobody that the server trusts


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder = tmp_path_factory.mktemp("pki")
    authority = Authority(folder, "authority")
    names = ("DNS:prometheus.example", "IP:192.0.2.7", "IP:2001:db8::7", "URI:spiffe://a/b")
    return Pki(
        authority,
        authority.sign("server", "IP:127.0.0.1", "IP:::1", "DNS:localhost"),
        authority.sign("client", *names, "email:a@b.example"),
        Authority(folder, "other").sign("stranger", *names),
    )


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        for name, rights in ACCOUNTS.items():
            running.add_account(f"token-of-{name}", Account(user(name), rights=set(rights)))
        yield running


@pytest.fixture
def guarded(server: ApiServer, tmp_path: Path) -> Guarded:
    return Guarded(server, tmp_path)


@pytest.fixture(scope="module")
def started() -> Iterator[str]:
    """One browser for all tests; each has a tab of its own."""
    with browser() as url:
        yield url


@pytest.fixture
def watched(started: str) -> Watched:
    """Looks at the page of a snapshot; the browser may have nothing to complain of."""

    def watch(made: Snapshot, look: Callable[[Tab, Site], Awaitable[None]]) -> None:
        async def run(site: Site) -> None:
            async with tab_of(started) as tab:
                await look(tab, site)
                assert tab.complaints == []

        with serving(made) as site:
            asyncio.run(run(site))

    return watch
