"""A queue in which peers take turns, so that one with many requests does not hold up the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exporter.web.peers import Shares

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
