"""Answers that are rendered once for a Snapshot and served many times, with entity tags.

As in ``pages``, the first request after a new Snapshot renders, in one thread. The format and
encoding of an answer are negotiated here too, from the headers Accept and Accept-Encoding.
"""

import asyncio
import gzip
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder

from exporter.metrics.text import Format
from exporter.model import Clock, Snapshot
from exporter.web.connection import peer
from exporter.web.peers import Busy, FairQueue
from exporter.web.views import WHOLE, View

_MAX_CACHED = 16  # answers; a scraper asks the same each time
_MAX_HEADER = 1024  # characters that are read of a header; Prometheus sends a third of it
_OPENMETRICS = "application/openmetrics-text"


class ResponseFormat(NamedTuple):
    """A format and the Content-Type that it is answered with."""

    form: Format
    content_type: str


def choose_format(accept: str) -> ResponseFormat:
    """The format that a client prefers. Of a long header only the first items are read."""
    return _choose_format(_beginning(accept))


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is accepted: by name or as ``*``, and not with a weight of 0."""
    return _accepts_gzip(_beginning(accept_encoding))


def _beginning(header: str) -> str:
    """The items of a header that end within the bound."""
    return header if len(header) <= _MAX_HEADER else header[:_MAX_HEADER].rpartition(",")[0]


@lru_cache(_MAX_CACHED)
def _choose_format(accept: str) -> ResponseFormat:
    """Chooses as prometheus_client does, but applies q-values and never promises OpenMetrics 2.0.

    The library (0.26) takes the first item that it can serve, and repeats a version 2.0.0 in the
    header of a body that has another version.
    """
    wanted = ",".join(item for item, _ in _by_weight(accept))
    try:
        _, content_type = choose_encoder(wanted)
    except TypeError:  # a version that is not made of numbers
        content_type = CONTENT_TYPE_PLAIN_0_0_4
    if not content_type.startswith(_OPENMETRICS):
        return ResponseFormat(Format.TEXT, content_type)
    escaping = content_type.partition("; escaping=")[2]
    suffix = f"; escaping={escaping}" if escaping else ""
    return ResponseFormat(
        Format.OPENMETRICS, f"{_OPENMETRICS}; version=1.0.0; charset=utf-8{suffix}"
    )


@lru_cache(_MAX_CACHED)
def _accepts_gzip(accept_encoding: str) -> bool:
    weights = {}
    for item in accept_encoding.lower().split(","):
        name, _, parameters = item.partition(";")
        weights[name.strip()] = _weight(parameters)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _by_weight(header: str) -> list[tuple[str, float]]:
    """The items of a header by weight, the largest first, without those of weight 0."""
    items = [(item.strip(), _weight(item.partition(";")[2])) for item in header.split(",")]
    return sorted((i for i in items if i[1] > 0), key=lambda item: -item[1])


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


_GZIP_LEVEL = 1
_PIECE = 1 << 14

Render = Callable[[Snapshot, int], bytes | None]
"""Renders an answer from a Snapshot and its age in nanoseconds; None if there is no such answer."""


class Stamp(NamedTuple):
    """Identifies the state that an answer was rendered from.

    A stale answer is rendered again each second, because it contains its age.
    """

    version: int
    unix_ns: int
    stale_s: int


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer, plain and zipped. ``at_mono_ns`` is when it was rendered."""

    stamp: Stamp
    body: bytes
    zipped: bytes
    at_mono_ns: int

    def tag(self, *, zipped: bool) -> str:
        """The strong entity tag: equal tags mean equal bytes."""
        return "-".join([*(f"{part:x}" for part in self.stamp), *(["gzip"] if zipped else [])])


class Answers:
    """The cached answers of the newest Snapshot. Thread-safe."""

    def __init__(self, newest: Callable[[], Snapshot], clock: Clock) -> None:
        self._newest = newest
        self._clock = clock
        self._rendering = threading.Lock()
        self._turns = FairQueue()
        self._cache: tuple[Stamp, dict[Hashable, CachedAnswer]] = (Stamp(-1, 0, 0), {})

    def cached(self, name: Hashable) -> CachedAnswer | None:
        """The answer of this name if it is rendered already. Never blocks."""
        stamp, answers = self._cache
        return answers.get(name) if stamp == self._stamp(self._newest()) else None

    def rendered(self, name: Hashable, render: Render) -> CachedAnswer | None:
        """The answer of this name, rendered if needed; None if there is none. May block."""
        with self._rendering:
            snapshot = self._newest()
            stamp = self._stamp(snapshot)
            if self._cache[0] != stamp:
                self._cache = (stamp, {})
            answers = self._cache[1]
            if name not in answers:
                now = self._clock.monotonic_ns()
                body = render(snapshot, now - snapshot.mono_ns)
                if body is None:
                    return None
                while len(answers) >= _MAX_CACHED:
                    del answers[next(iter(answers))]
                zipped = gzip.compress(body, _GZIP_LEVEL, mtime=0)
                answers[name] = CachedAnswer(stamp, body, zipped, now)
            return answers[name]

    def _stamp(self, snapshot: Snapshot) -> Stamp:
        age_ns = self._clock.monotonic_ns() - snapshot.mono_ns
        stale_s = age_ns // 1_000_000_000 if age_ns > snapshot.stale_after_ns else 0
        return Stamp(snapshot.version, snapshot.unix_ns, stale_s)

    async def _in_turn(
        self, request: web.Request, name: Hashable, render: Render
    ) -> CachedAnswer | None:
        """The answer, rendered in a thread when it is the peer's turn.

        One thread renders at a time anyway. Others that wait for it would be missing for the
        metrics.
        """
        try:
            async with self._turns.turn(peer(request)):
                return await asyncio.to_thread(self.rendered, name, render)
        except Busy:
            raise web.HTTPServiceUnavailable(
                text="too many pages wait to be made\n", headers={"Retry-After": "1"}
            ) from None

    async def respond(
        self,
        request: web.Request,
        name: Hashable,
        render: Render,
        content_type: str,
        view: View = WHOLE,
    ) -> web.Response | None:
        """The response to a request; None if there is no such answer. Renders in a thread.

        The names of answers for different views differ.
        """
        answer = self.cached(name) or await self._in_turn(request, name, render)
        if answer is None:
            return None
        zipped = accepts_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, ())))
        tag = answer.tag(zipped=zipped) + view.tag
        age_ns = self._clock.monotonic_ns() - answer.at_mono_ns
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
        body = answer.zipped if zipped else answer.body
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


def is_known(request: web.Request, tag: str) -> bool:
    """Whether the client has this answer already (RFC 9110, If-None-Match).

    The header is searched and not parsed, because parsing a long one takes 5 ms. That is safe: a
    tag contains no quotes.
    """
    known = request.headers.get(hdrs.IF_NONE_MATCH, "")
    return known.strip() == "*" or f'"{tag}"' in known
