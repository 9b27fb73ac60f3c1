import socket

import pytest

from exporter.settings import Address
from exporter.web import BindError, listen


def test_a_name_and_both_families_can_be_listened_on() -> None:
    sockets = listen([Address("127.0.0.1", 0), Address("", 0)])
    try:
        for sock in sockets:
            with socket.create_connection(("127.0.0.1", sock.getsockname()[1]), timeout=20):
                pass
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_an_ipv6_address_can_be_listened_on() -> None:
    [sock] = listen([Address("::1", 0)])
    with sock, socket.create_connection(("::1", sock.getsockname()[1]), timeout=20):
        pass


def test_an_address_in_use_is_named_and_the_others_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=f"127.0.0.1:{port}: Address already in use"):
            listen([Address("127.0.0.1", other), Address("127.0.0.1", port)])
        socket.create_server(("127.0.0.1", other)).close()


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(BindError, match=r"cannot listen on host\.invalid:1"):
        listen([Address("host.invalid", 1)])
