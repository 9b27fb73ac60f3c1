"""Basic authentication against bcrypt hashes, without a bcrypt calculation for each scrape.

Verified credentials are cached as keyed digests. No credential is stored or logged.
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

from exporter.agent.web.peers import UNIX, FairQueue

_MAX_VERIFIED = 100  # as many as exporter-toolkit
_MAX_BYTES = 72  # of a password; bcrypt reads no more
_NICE = 10


class BasicCredentials(NamedTuple):
    """The user and password of a request."""

    user: str
    password: bytes


def credentials(authorization: str) -> BasicCredentials | None:
    """The credentials in a header ``Authorization``; None if it is not basic authentication."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
        return BasicCredentials(user.decode(), password) if colon else None
    except ValueError:
        return None


class Passwords:
    """Checks credentials: one bcrypt calculation at a time, in a thread of low priority."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._queue = FairQueue()
        self._thread: ThreadPoolExecutor | None = None
        self.checks = 0

    async def verify(
        self, given: BasicCredentials, users: Mapping[str, bytes], peer: str = UNIX
    ) -> bool:
        """Whether the credentials are those of a user. ``peer`` is the client.

        Raises:
            Busy: too many checks of this peer wait. Cached credentials never wait.

        """
        # For a user who is not known, a real user's hash is checked: always the same one for a
        # name. So the answer takes as long as for a known user, whatever the cost of the hashes,
        # and nobody finds out who is known.
        known = given.user in users
        if known:
            hashed = users[given.user]
        else:
            hashes = list(users.values())
            hashed = hashes[int.from_bytes(self._digest(given.user.encode())) % len(hashes)]
        # With the hash in it: once a password is changed in the file, the old one is not cached any
        # more.
        digest = self._digest(given.user.encode(), hashed, given.password)
        if known and digest in self._verified:
            self._verified.move_to_end(digest)
            return True
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "passwords", initializer=_give_way)
        async with self._queue.turn(peer):
            self.checks += 1
            loop = asyncio.get_running_loop()
            matches = await loop.run_in_executor(self._thread, _matches, given.password, hashed)
        if matches and known:
            self._verified[digest] = None
            while len(self._verified) > _MAX_VERIFIED:
                self._verified.popitem(last=False)
            return True
        return False

    def close(self) -> None:
        """Stops the thread without waiting for checks."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _digest(self, *parts: bytes) -> bytes:
        # Each part with its length: no two lists of parts make the same bytes.
        framed = b"".join(len(part).to_bytes(8) + part for part in parts)
        return hmac.digest(self._key, framed, hashlib.sha256)


def _give_way() -> None:
    """Lowers the thread's priority, so that guessed passwords do not slow the collection down.

    On Linux, nice is an attribute of a thread.
    """
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt  # noqa: PLC0415 - only with users

    # Longer passwords are cut off as in Go's bcrypt; the comparison is constant-time.
    return bcrypt.checkpw(password[:_MAX_BYTES], hashed)
