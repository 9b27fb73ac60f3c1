"""Fair sharing of limited resources among peers: at the limit, the peer that holds most gives way.

A peer is an address, not a client. All clients behind one proxy or NAT are one peer, and so are all
clients of a Unix socket.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Protocol, TypeVar

UNIX = "unix"
MAX_WAITING = 64  # of all peers together
_IPV6_PREFIX = 64  # bits; all addresses below it usually belong to one machine


class OfPeer(Protocol):
    """What a peer holds."""

    @property
    def peer(self) -> str:
        """The peer, as ``peer_of`` names it."""
        ...


T = TypeVar("T", bound=OfPeer)


def peer_of(address: object) -> str:
    """The peer of a socket's remote address: an IPv4 address, an IPv6 network, or ``UNIX``."""
    if not isinstance(address, tuple):
        return UNIX
    ip = ip_address(address[0].partition("%")[0])
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((ip, _IPV6_PREFIX), strict=False))


def gives_way(held: Collection[T], newcomer: str | None, free: Callable[[T], bool]) -> T | None:
    """The item that gives way to one of ``newcomer``: one of the peer with most; None if none.

    It is the oldest one that is ``free``, or else the oldest one, if that peer still holds as many
    as ``newcomer`` without it. ``held`` is in the order of age. For nobody only a free one gives
    way.
    """
    # By more than one: two peers with nearly as many would otherwise take turns in closing each
    # other's connections.
    counts = Counter(each.peer for each in held)
    for crowd, most in counts.most_common(1):
        theirs = [each for each in held if each.peer == crowd]
        outdone = newcomer is not None and most > counts[newcomer] + 1
        return next(filter(free, theirs), theirs[0] if outdone else None)
    return None


class Busy(Exception):  # noqa: N818 - a state: the client should try again
    """Too many wait for a turn, and most of them are this peer's."""


class FairQueue:
    """A lock whose waiters are served peer by peer in turn, and oldest first within a peer."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the peer that is next first
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
        self._waiting.setdefault(peer, deque()).append(turn)
        # Who sends most gives way, not who came last: else one peer with many requests would keep
        # all others out.
        if sum(map(len, self._waiting.values())) > MAX_WAITING:
            crowd = max(self._waiting, key=lambda each: len(self._waiting[each]))
            newest = self._waiting[crowd][-1]
            self._leave(crowd, newest)
            newest.set_exception(Busy())
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(peer, turn)
            if not turn.cancelled() and turn.exception() is None:  # the turn had come
                self._pass_on()
            raise

    def _leave(self, peer: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(peer, deque())
        with suppress(ValueError):  # it may have come, or have been refused
            turns.remove(turn)
        if not turns:
            self._waiting.pop(peer, None)

    def _pass_on(self) -> None:
        while self._waiting:
            peer = next(iter(self._waiting))
            turns = self._waiting.pop(peer)
            turn = turns.popleft()
            if turns:
                self._waiting[peer] = turns
            if not turn.done():  # else cancelled a moment ago
                turn.set_result(None)
                return
        self._taken = False
