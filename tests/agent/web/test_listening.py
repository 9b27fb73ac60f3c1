import asyncio
import gc
import logging
import socket
from pathlib import Path

import pytest

from exporter.agent.web import BindError, HttpServer, Pages, WebConfig, listen, make_app
from exporter.agent.web.listening import is_local
from exporter.inputs.values import Address
from tests.agent.simulation.clock import ManualClock
from tests.agent.web.serving import LOOPBACK, FakeCollector, settings


def test_a_name_and_both_families_can_be_listened_on() -> None:
    sockets = listen([Address("127.0.0.1", 0), Address("", 0)])
    try:
        for sock in sockets:
            with socket.create_connection(("127.0.0.1", sock.getsockname()[1]), timeout=60):
                pass
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_an_ipv6_address_can_be_listened_on() -> None:
    [sock] = listen([Address("::1", 0)])
    with sock, socket.create_connection(("::1", sock.getsockname()[1]), timeout=60):
        pass


def test_an_address_in_use_is_named_and_the_others_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        port = taken.getsockname()[1]
        with pytest.raises(BindError) as caught:
            listen([Address("127.0.0.1", other), Address("127.0.0.1", port)])
        socket.create_server(("127.0.0.1", other)).close()
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; "
        "set another --web.listen-address"
    )


def test_a_unix_socket_that_nobody_serves_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "mgpu.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    [sock] = listen([Address("", 0, str(path))])
    with sock, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


@pytest.mark.parametrize("kind", ["served", "file"])
def test_a_unix_socket_that_is_served_and_a_file_stay(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mgpu.sock"
    if kind == "file":
        path.write_text("kept")
    with socket.socket(socket.AF_UNIX) as other:
        if kind == "served":
            other.bind(str(path))
            other.listen()
        with pytest.raises(BindError, match=f"cannot listen on {path}: Address already in use"):
            listen([Address("", 0, str(path))])
    assert path.exists()


@pytest.mark.parametrize(
    ("address", "local"),
    [(Address("127.0.0.1", 0), True), (Address("127.1.2.3", 0), True), (Address("", 0), False)],
)
def test_only_this_machine_reaches_loopback(
    address: Address,
    local: bool,  # noqa: FBT001 - a table
) -> None:
    [sock] = listen([address])
    with sock:
        assert is_local(sock) is local


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(BindError, match=r"cannot listen on host\.invalid:1"):
        listen([Address("host.invalid", 1)])


@pytest.mark.parametrize("steps", range(6))
def test_a_connection_that_comes_while_the_server_stops_is_closed(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    """``steps`` of the event loop after it came: it is accepted in one of them."""
    caplog.set_level(logging.ERROR, "asyncio")
    collector, clock = FakeCollector(), ManualClock()
    pages = Pages(lambda: collector.snapshot, clock, None)
    app = make_app(pages, collector, settings(), clock, None, config=WebConfig())
    [sock] = listen([LOOPBACK])

    async def run() -> None:
        server = HttpServer(app)
        await server.start([sock])
        for _ in range(4):  # until it waits for connections
            await asyncio.sleep(0)
        with socket.create_connection(sock.getsockname()):
            for _ in range(steps):
                await asyncio.sleep(0)
            await server.stop()

    asyncio.run(run())
    gc.collect()  # says what was left open, and pytest fails for it
    assert caplog.records == []
