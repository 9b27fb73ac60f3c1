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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

_REMEMBERED = 100  # as many as exporter-toolkit
_WAITING = 16
_LONGEST = 72  # bytes that bcrypt reads
_NICE = 10


class Busy(Exception):  # noqa: N818 - an answer: come again
    """As many passwords as may wait are waiting to be checked."""


class Credentials(NamedTuple):
    """What a client says that it is."""

    user: str
    password: bytes


def credentials(authorization: str) -> Credentials | None:
    """Read the header ``Authorization``; None if it is not basic authentication."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
        return Credentials(user.decode(), password) if colon else None
    except ValueError:
        return None


class Passwords:
    """Checks credentials; one bcrypt at a time, in a thread that gives way to all others."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._waiting = 0
        self._thread: ThreadPoolExecutor | None = None
        self.checks = 0

    async def right(self, given: Credentials, users: Mapping[str, bytes]) -> bool:
        """Whether a user of this name has this password.

        Raises:
            Busy: too many wait; what has been verified before never does.

        """
        known = given.user in users
        hashed = users[given.user] if known else self._stand_in(given.user, users)
        digest = self._digest(given.user.encode(), hashed, given.password)
        if known and digest in self._verified:
            self._verified.move_to_end(digest)
            return True
        if await self._check(given.password, hashed) and known:
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

    async def _check(self, password: bytes, hashed: bytes) -> bool:
        if self._waiting >= _WAITING:
            raise Busy
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "passwords", initializer=_give_way)
        self._waiting += 1
        self.checks += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, _matches, password, hashed)
        finally:
            self._waiting -= 1


def _give_way() -> None:
    """Let guessers have what processor time the collection leaves. Nice is a thread's on Linux."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt  # noqa: PLC0415 - only with users

    # Longer passwords are cut off as in Go's bcrypt; the comparison is constant-time.
    return bcrypt.checkpw(password[:_LONGEST], hashed)
