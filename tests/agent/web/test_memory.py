"""What clients may cost in memory that send much, or nothing, and do not read."""

import ctypes
import random
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from exporter.agent.web import ClientLimits
from exporter.agent.web.connection import ClientConnection
from exporter.metrics.families import FAMILIES
from exporter.metrics.text import Renderer
from tests.agent.web.conftest import Pki
from tests.agent.web.serving import Site, serving
from tests.snapshots import with_every_family

MAY_GROW_BYTES = 32 << 20
FAMILY = next(family.full_name for family in FAMILIES if family.level == "device")
LIMITS = ClientLimits(write_s=1.0)
ATTACK_S = 1.0  # in which the server would answer them all


class Incompressible(Renderer):
    """A page of 80 kB, of which gzip leaves 40."""

    def render(self, *_: object) -> bytes:
        """The same page each time: one family."""
        noise = random.Random(1).randbytes(40_000).hex()  # noqa: S311 - no secret
        return f"# HELP {FAMILY} {noise}\n".encode()


def peak_bytes() -> int:
    """The most that this process has held since ``forget_peak``."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10


def forget_peak() -> None:
    ctypes.CDLL(None).malloc_trim(0)  # else an earlier peak hides a later one
    Path("/proc/self/clear_refs").write_text("5")


@pytest.fixture(params=["http", "tls"])
def site(request: pytest.FixtureRequest, pki: Pki, tmp_path: Path) -> Iterator[Site]:
    config = None
    if request.param == "tls":
        config = tmp_path / "web.yml"
        cert, key = pki.server.certificate, pki.server.key
        config.write_text(f"tls_server_config: {{cert_file: {cert}, key_file: {key}}}\n")
    with serving(
        with_every_family(), renderer=Incompressible(), limits=LIMITS, config=config
    ) as running:
        yield running


def trust(site: Site, pki: Pki) -> ssl.SSLContext | None:
    return pki.authority.client() if site.config.has_file else None


def connected(site: Site, tls: ssl.SSLContext | None) -> socket.socket:
    """A connection that holds little of what it is sent."""
    client = site.raw(buffer=4096)
    return client if tls is None else tls.wrap_socket(client, server_hostname="localhost")


def get(path: str, encoding: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {encoding}\r\n\r\n".encode()


SELECTED = get(f"/metrics?collect[]={FAMILY}", "gzip")
HEADS = b"GET / HTTP/1.1\r\n" + b"".join(b"A%d: " % n + b"a" * 8_000 + b"\r\n" for n in range(60))


@pytest.mark.parametrize(
    ("sent", "connections"),
    [
        (get("/metrics", "identity") * 2000, 1),
        pytest.param(get("/metrics", "gzip") * 2000, 1, marks=pytest.mark.slow),
        pytest.param(SELECTED * 2000, 1, marks=pytest.mark.slow),
        (get("/metrics", "identity") * 2000, 200),
        (HEADS, 200),
        (b"", 400),
    ],
    ids=["plain", "gzip", "selected", "many", "heads", "silent"],
)
def test_who_sends_much_and_does_not_read_costs_little_memory(
    site: Site, pki: Pki, sent: bytes, connections: int
) -> None:
    tls = trust(site, pki)
    for encoding in ("identity", "gzip"):  # rendered already
        site.ask("/metrics", tls=tls, Accept_Encoding=encoding)
    forget_peak()
    before = peak_bytes()
    clients, others = [], set()
    with ExitStack() as stack:
        for _ in range(connections):
            with suppress(OSError):  # it may refuse the connection, or close it
                clients.append(stack.enter_context(connected(site, tls if sent else None)))
                clients[-1].setblocking(False)
        end = time.monotonic() + ATTACK_S
        while time.monotonic() < end:
            for client in clients:
                with suppress(OSError):
                    client.sendall(sent)  # as much as the kernels take
            others.add(site.ask("/-/healthy", tls=tls).status)
        peak = peak_bytes()

    assert others == {200}
    assert peak - before < MAY_GROW_BYTES


def test_one_step_of_the_event_loop_takes_little_of_a_client(
    site: Site, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attributes of asyncio, which a release may rename, bound it: 8 KiB and a TLS record."""
    taken: list[int] = []
    received = ClientConnection.data_received

    def counted(connection: ClientConnection, data: bytes) -> None:
        taken.append(len(data))
        received(connection, data)

    monkeypatch.setattr(ClientConnection, "data_received", counted)
    with connected(site, trust(site, pki)) as client, suppress(OSError):  # it closes
        client.sendall(HEADS)
    site.ask("/-/healthy", tls=trust(site, pki))  # it has read what came before
    assert 0 < max(taken) <= (3 << 13 if site.config.has_file else 1 << 13)
