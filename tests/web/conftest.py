from typing import NamedTuple

import pytest

from tests.web.certificates import Authority, Pair


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
