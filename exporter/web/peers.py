"""Peers, and how they share what is scarce: at a bound, the peer that holds most gives way.

A peer is an address and not a client. Clients behind one proxy or one NAT are one peer, and so are
all clients of a Unix socket.
"""

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")

UNIX = "unix"
_IPV6_PREFIX = 64  # bits; one machine has all addresses below it


def peer_of(address: object) -> str:
    """The peer of a socket's remote address: an IPv4 address, an IPv6 network, or ``UNIX``."""
    if not isinstance(address, tuple):
        return UNIX
    ip = ip_address(address[0].partition("%")[0])
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((ip, _IPV6_PREFIX), strict=False))


class Shares(Generic[T]):
    """What each peer holds, the oldest first."""

    def __init__(self) -> None:
        self._held: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._held.values())

    def add(self, peer: str, item: T) -> None:
        """Give an item to a peer."""
        self._held.setdefault(peer, {})[item] = None

    def remove(self, peer: str, item: T) -> None:
        """Take it away, if the peer still has it."""
        items = self._held.get(peer, {})
        items.pop(item, None)
        if not items:
            self._held.pop(peer, None)

    def largest(self) -> tuple[str, list[T]]:
        """The peer that holds most, and what it holds; there must be one."""
        peer = max(self._held, key=lambda peer: len(self._held[peer]))
        return peer, list(self._held[peer])

    def must_give_way(self, newcomer: str) -> bool:
        """Whether the largest peer still holds as much as ``newcomer`` after giving it one."""
        return len(self.largest()[1]) > len(self._held.get(newcomer, ())) + 1

    def take_turn(self) -> T | None:
        """Remove the oldest item of the peer whose turn it is; all others come before it again."""
        for peer in self._held:
            items = self._held.pop(peer)
            item = next(iter(items))
            del items[item]
            if items:
                self._held[peer] = items
            return item
        return None
