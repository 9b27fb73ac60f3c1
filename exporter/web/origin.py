"""Whether a web page of another site asks, through a browser on this machine.

A browser sends such a page's requests to a listener on loopback, which trusts everybody. They have
an ``Origin`` of another site, or the page's own name in ``Host`` where its owner has let that name
stand for 127.0.0.1 (DNS rebinding). Pure, but for the machine's name.
"""

import socket
from ipaddress import ip_address


def is_this_machine(host: str) -> bool:
    """Whether a ``Host`` header has localhost, a loopback address or this machine's name.

    One without the header is no browser's.
    """
    name = _without_port(host).lower().removesuffix(".")
    own = socket.gethostname().lower()
    if name in {"", "localhost", own, own.partition(".")[0]}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_foreign(origin: str, host: str) -> bool:
    """Whether an ``Origin`` header is of another site than the one asked; "" is of none."""
    return bool(origin) and origin.partition("://")[2].lower() != host.lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
