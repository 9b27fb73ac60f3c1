"""Basic authentication against bcrypt hashes, without a bcrypt for each scrape.

What has been verified is remembered by a keyed digest; nothing of a credential is kept or logged.
"""

import asyncio
import hashlib
import hmac
import os
import secrets
import threading
from base64 import b64decode
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple

from exporter.web.peers import UNIX, Shares

_REMEMBERED = 100  # as many as exporter-toolkit
_WAITING = 64  # of all peers
_LONGEST = 72  # bytes that bcrypt reads
_NICE = 10


class Busy(Exception):  # noqa: N818 - an answer: come again
    """As many passwords as may wait are waiting, and most of them are this peer's."""


class BasicCredentials(NamedTuple):
    """What a client says that it is."""

    user: str
    password: bytes


def credentials(authorization: str) -> BasicCredentials | None:
    """Read the header ``Authorization``; None if it is not basic authentication."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
        return BasicCredentials(user.decode(), password) if colon else None
    except ValueError:
        return None


class _Turns:
    """One at a time; of those who wait, the peers come in turn, and each peer's oldest first."""

    def __init__(self) -> None:
        self._waiting: Shares[asyncio.Future[None]] = Shares()
        self._taken = False

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[None]:
        """Wait for a turn and have it.

        Raises:
            Busy: too many wait, and this is the last one of the peer that has most of them.

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
        if len(self._waiting) > _WAITING:
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


class Passwords:
    """Checks credentials; one bcrypt at a time, in a thread that gives way to all others."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._turns = _Turns()
        self._thread: ThreadPoolExecutor | None = None
        self.checks = 0

    async def right(
        self, given: BasicCredentials, users: Mapping[str, bytes], peer: str = UNIX
    ) -> bool:
        """Whether a user of this name has this password. ``peer`` is who asks.

        Raises:
            Busy: too many of this peer's wait; what has been verified before never does.

        """
        known = given.user in users
        hashed = users[given.user] if known else self._stand_in(given.user, users)
        digest = self._digest(given.user.encode(), hashed, given.password)
        if known and digest in self._verified:
            self._verified.move_to_end(digest)
            return True
        if await self._check(given.password, hashed, peer) and known:
            self._verified[digest] = None
            while len(self._verified) > _REMEMBERED:
                self._verified.popitem(last=False)
            return True
        return False

    def close(self) -> None:
        """Wait for no check."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _stand_in(self, user: str, users: Mapping[str, bytes]) -> bytes:
        """A real user's hash to check in vain for one unknown, always the same one.

        An answer takes as long as for a known user, whatever the costs of the hashes.
        """
        hashes = list(users.values())
        return hashes[int.from_bytes(self._digest(user.encode())) % len(hashes)]

    def _digest(self, *parts: bytes) -> bytes:
        mac = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(len(part).to_bytes(8) + part)
        return mac.digest()

    async def _check(self, password: bytes, hashed: bytes, peer: str) -> bool:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "passwords", initializer=_give_way)
        async with self._turns.turn(peer):
            self.checks += 1
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, _matches, password, hashed)


def _give_way() -> None:
    """Let guessers have what processor time the collection leaves. Nice is a thread's on Linux."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt  # noqa: PLC0415 - only with users

    # Longer passwords are cut off as in Go's bcrypt; the comparison is constant-time.
    return bcrypt.checkpw(password[:_LONGEST], hashed)
