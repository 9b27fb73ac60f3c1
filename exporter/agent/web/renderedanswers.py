"""Answers that are rendered once for a Snapshot and served many times, with entity tags.

The first request after a new Snapshot renders. A stale answer is rendered again each second,
because its age and the figures of the exporter's own process go on.
"""

import asyncio
import gzip
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from exporter.agent.web.connection import peer
from exporter.agent.web.negotiation import accepts_gzip, header
from exporter.agent.web.peers import Busy, FairQueue
from exporter.agent.web.views import EVERYTHING, NamespaceView
from exporter.model import Clock, Snapshot

MOST = 32  # answers that are kept; a client may ask for any number
_GZIP_LEVEL = 1  # a third of level 6's time for a tenth more bytes
_PIECE = 1 << 14

Render = Callable[[Snapshot, int], bytes | None]
"""Renders an answer from a Snapshot and its age in nanoseconds; None if there is no such answer."""


class Stamp(NamedTuple):
    """Identifies the state that an answer was rendered from."""

    version: int
    unix_ns: int
    stale_s: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A rendered answer. ``tag`` is its strong entity tag: equal tags mean equal bytes."""

    body: bytes
    tag: str
    at_mono_ns: int


class Answers:
    """The answers of the newest Snapshot by name, those used last. Thread-safe."""

    def __init__(self, newest: Callable[[], Snapshot], clock: Clock) -> None:
        self.lock = threading.RLock()  # one thread renders at a time
        self._newest = newest
        self._clock = clock
        self._turns = FairQueue()
        self._cache: tuple[Stamp, dict[Hashable, Answer]] = (Stamp(-1, 0, 0), {})

    def forget(self) -> None:
        """Drops all answers."""
        with self.lock:
            self._cache = (Stamp(-1, 0, 0), {})

    def cached(self, name: Hashable, *, zipped: bool = False) -> Answer | None:
        """The answer of this name if it is rendered already. Never blocks."""
        stamp, answers = self._cache
        return answers.get((name, zipped)) if stamp == self._stamp(self._newest()) else None

    def rendered(self, name: Hashable, render: Render, *, zipped: bool = False) -> Answer | None:
        """The answer of this name, rendered if needed; None if there is none. May block.

        ``render`` may ask for another answer of the same Snapshot.
        """
        with self.lock:
            snapshot = self._newest()
            stamp = self._stamp(snapshot)
            if self._cache[0] != stamp:
                self._cache = (stamp, {})
            answers = self._cache[1]
            answer = answers.pop((name, False), None)
            if answer is None:
                now_ns = self._clock.monotonic_ns()
                body = render(snapshot, now_ns - snapshot.mono_ns)
                if body is None:
                    return None
                answer = Answer(body, "-".join(f"{part:x}" for part in stamp), now_ns)
            answers[name, False] = answer  # the one used last comes last
            if zipped:
                plain, answer = answer, answers.pop((name, True), None)
                if answer is None:
                    # Zipped bytes are others, so they have a tag of their own. Without a time in
                    # them they are the same each time.
                    body = gzip.compress(plain.body, _GZIP_LEVEL, mtime=0)
                    answer = Answer(body, f"{plain.tag}-gzip", plain.at_mono_ns)
                answers[name, True] = answer
            while len(answers) > MOST:
                del answers[next(iter(answers))]
            return answer

    def _stamp(self, snapshot: Snapshot) -> Stamp:
        # While it is stale, an answer has its age in it, so it is another one each second.
        age_ns = self._clock.monotonic_ns() - snapshot.mono_ns
        stale_s = age_ns // 1_000_000_000 if age_ns > snapshot.stale_after_ns else 0
        return Stamp(snapshot.version, snapshot.unix_ns, stale_s)

    async def respond(
        self,
        request: web.Request,
        name: Hashable,
        render: Render,
        content_type: str,
        view: NamespaceView = EVERYTHING,
    ) -> web.Response | None:
        """The response to a request; None if there is no such answer.

        It is rendered in a thread when it is the peer's turn: others that wait for the one that
        renders would be missing for the metrics. The names of answers for different views differ.
        """
        zipped = accepts_gzip(header(request, hdrs.ACCEPT_ENCODING))
        answer = self.cached(name, zipped=zipped)
        if answer is None:
            try:
                async with self._turns.turn(peer(request)):
                    answer = await asyncio.to_thread(self.rendered, name, render, zipped=zipped)
            except Busy:
                raise web.HTTPServiceUnavailable(
                    text="too many pages wait to be made\n", headers={"Retry-After": "1"}
                ) from None
        if answer is None:
            return None
        tag = answer.tag + view.tag
        age_ns = self._clock.monotonic_ns() - answer.at_mono_ns
        headers: dict[str, str] = {
            hdrs.AGE: str(max(0, age_ns // 1_000_000_000)),
            hdrs.CONTENT_TYPE: content_type,
            hdrs.ETAG: f'"{tag}"',
            hdrs.VARY: hdrs.ACCEPT_ENCODING,
        }
        return respond_with(request, answer.body, tag, headers, zipped=zipped)


def respond_with(
    request: web.Request, body: bytes, tag: str, headers: dict[str, str], *, zipped: bool
) -> web.Response:
    """The response, without the body if the client has it already (RFC 9110, If-None-Match).

    The header is searched and not parsed, because parsing a long one takes 5 ms. That is safe: a
    tag contains no quotes.
    """
    known = request.headers.get(hdrs.IF_NONE_MATCH, "")
    if known.strip() == "*" or f'"{tag}"' in known:
        return web.Response(status=304, headers=headers)
    if zipped:
        headers[hdrs.CONTENT_ENCODING] = "gzip"
    return web.Response(body=Body(body), headers=headers)


class Body(Payload):
    """A body that is written in pieces, so that only one piece is buffered for a slow reader."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._body = memoryview(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return str(self._body, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Writes the body and waits for the reader after each piece."""
        for start in range(0, len(self._body), _PIECE):
            await writer.write(self._body[start : start + _PIECE])
            await writer.drain()
