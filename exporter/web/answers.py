"""Answers that are made of a Snapshot once and served many times, with entity tags.

As ``pages`` does for metrics: made at the first request after a new Snapshot, by one thread.
"""

import asyncio
import gzip
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from aiohttp import hdrs, web

from exporter.model import Clock, Snapshot
from exporter.web.negotiation import accepts_gzip

_KEPT = 16  # of one snapshot; there are as many as a client likes to ask for
_GZIP_LEVEL = 1

Render = Callable[[Snapshot, int], bytes | None]
"""Makes an answer of a Snapshot and its age in nanoseconds; None if there is none of that name."""


class Stamp(NamedTuple):
    """What an answer was made of. A stale one is made anew each second: it says how old it is."""

    version: int
    unix_ns: int
    stale_s: int


@dataclass(frozen=True, slots=True)
class Made:
    """An answer, plain and zipped. ``at_mono_ns``: when it was made."""

    stamp: Stamp
    body: bytes
    zipped: bytes
    at_mono_ns: int

    def tag(self, *, zipped: bool) -> str:
        """Strong: the same bytes for the same Snapshot."""
        return "-".join([*(f"{part:x}" for part in self.stamp), *(["gzip"] if zipped else [])])


class Answers:
    """The answers of the newest Snapshot; for any number of threads."""

    def __init__(self, newest: Callable[[], Snapshot], clock: Clock) -> None:
        self._newest = newest
        self._clock = clock
        self._making = threading.Lock()
        self._kept: tuple[Stamp, dict[Hashable, Made]] = (Stamp(-1, 0, 0), {})

    def made(self, name: Hashable) -> Made | None:
        """The answer of this name if it is there already; never blocks."""
        stamp, kept = self._kept
        return kept.get(name) if stamp == self._stamp(self._newest()) else None

    def make(self, name: Hashable, render: Render) -> Made | None:
        """The answer of this name; makes it if need be, or waits for whoever makes it."""
        with self._making:
            snapshot = self._newest()
            stamp = self._stamp(snapshot)
            if self._kept[0] != stamp:
                self._kept = (stamp, {})
            kept = self._kept[1]
            if name not in kept:
                now = self._clock.monotonic_ns()
                body = render(snapshot, now - snapshot.mono_ns)
                if body is None:
                    return None
                while len(kept) >= _KEPT:
                    del kept[next(iter(kept))]
                kept[name] = Made(stamp, body, gzip.compress(body, _GZIP_LEVEL, mtime=0), now)
            return kept[name]

    def _stamp(self, snapshot: Snapshot) -> Stamp:
        age_ns = self._clock.monotonic_ns() - snapshot.mono_ns
        stale_s = age_ns // 1_000_000_000 if age_ns > snapshot.stale_after_ns else 0
        return Stamp(snapshot.version, snapshot.unix_ns, stale_s)

    async def respond(
        self, request: web.Request, name: Hashable, render: Render, content_type: str
    ) -> web.Response | None:
        """Answer the request, in a thread where something must be made; None as ``make``."""
        made = self.made(name) or await asyncio.to_thread(self.make, name, render)
        if made is None:
            return None
        zipped = accepts_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, ())))
        tag = made.tag(zipped=zipped)
        age_ns = self._clock.monotonic_ns() - made.at_mono_ns
        headers = {
            hdrs.AGE: str(max(0, age_ns // 1_000_000_000)),
            hdrs.CONTENT_TYPE: content_type,
            hdrs.ETAG: f'"{tag}"',
            hdrs.VARY: hdrs.ACCEPT_ENCODING,
        }
        if is_known(request, tag):
            return web.Response(status=304, headers=headers)
        if zipped:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        return web.Response(body=made.zipped if zipped else made.body, headers=headers)


def is_known(request: web.Request, tag: str) -> bool:
    """Whether the client has this answer already (RFC 9110, If-None-Match).

    A tag has no quotes in it, so that it need not be parsed: a long header takes 5 ms.
    """
    known = request.headers.get(hdrs.IF_NONE_MATCH, "")
    return known.strip() == "*" or f'"{tag}"' in known
