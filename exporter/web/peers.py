"""Fair sharing of limited resources among peers: at the limit, the peer that holds most gives way.

A peer is an address, not a client. All clients behind one proxy or NAT are one peer, and so are all
clients of a Unix socket.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")

UNIX = "unix"
_IPV6_PREFIX = 64  # bits; all addresses below it usually belong to one machine


def peer_of(address: object) -> str:
    """The peer of a socket's remote address: an IPv4 address, an IPv6 network, or ``UNIX``."""
    if not isinstance(address, tuple):
        return UNIX
    ip = ip_address(address[0].partition("%")[0])
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((ip, _IPV6_PREFIX), strict=False))


class Shares(Generic[T]):
    """The items that each peer holds, the oldest first."""

    def __init__(self) -> None:
        self._held: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._held.values())

    def add(self, peer: str, item: T) -> None:
        """Adds an item to a peer's."""
        self._held.setdefault(peer, {})[item] = None

    def remove(self, peer: str, item: T) -> None:
        """Removes an item, if the peer still has it."""
        items = self._held.get(peer, {})
        items.pop(item, None)
        if not items:
            self._held.pop(peer, None)

    def largest(self) -> tuple[str, list[T]]:
        """The peer that holds most, with its items. There must be one."""
        peer = max(self._held, key=lambda peer: len(self._held[peer]))
        return peer, list(self._held[peer])

    def must_give_way(self, newcomer: str) -> bool:
        """Whether the largest peer, after giving ``newcomer`` one item, still holds as many."""
        return len(self.largest()[1]) > len(self._held.get(newcomer, ())) + 1

    def take_turn(self) -> T | None:
        """Removes and returns the oldest item of the next peer, which then goes to the end."""
        for peer in self._held:
            items = self._held.pop(peer)
            item = next(iter(items))
            del items[item]
            if items:
                self._held[peer] = items
            return item
        return None


MOST_WAITING = 64  # of all peers together


class Busy(Exception):  # noqa: N818 - a state: the client should try again
    """Too many wait for a turn, and most of them are this peer's."""


class FairQueue:
    """A lock whose waiters are served peer by peer in turn, and oldest first within a peer."""

    def __init__(self) -> None:
        self._waiting: Shares[asyncio.Future[None]] = Shares()
        self._taken = False

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[None]:
        """Holds the lock.

        Raises:
            Busy: too many wait, and this is the newest of the peer that has most of them.

        """
        if self._taken:
            await self._wait(peer)
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, peer: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(peer, turn)
        if len(self._waiting) > MOST_WAITING:
            crowd, turns = self._waiting.largest()
            self._waiting.remove(crowd, turns[-1])
            turns[-1].set_exception(Busy())
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.remove(peer, turn)
            if not turn.cancelled():  # the turn had come
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        turn = self._waiting.take_turn()
        while turn is not None and turn.done():  # cancelled a moment ago
            turn = self._waiting.take_turn()
        if turn is None:
            self._taken = False
        else:
            turn.set_result(None)
