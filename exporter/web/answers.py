"""Answers that are made of a Snapshot once and served many times, with entity tags.

As ``pages`` does for metrics: made at the first request after a new Snapshot, by one thread.

What a client wants: its Accept and Accept-Encoding headers → format and encoding. Pure.
"""

import asyncio
import gzip
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from aiohttp import hdrs, web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder

from exporter.metrics.text import Format
from exporter.model import Clock, Snapshot

_KEPT = 16  # answers; who scrapes asks the same each time
_READ = 1024  # characters of a header; Prometheus sends a third of it
_OPENMETRICS = "application/openmetrics-text"


class ResponseFormat(NamedTuple):
    """A format and the Content-Type that it is answered with."""

    form: Format
    content_type: str


def choose_format(accept: str) -> ResponseFormat:
    """The format that a client wants most; of a long header only the first items are read."""
    return _choose_format(_beginning(accept))


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether gzip is accepted: named or as ``*``, and not with a weight of 0."""
    return _accepts_gzip(_beginning(accept_encoding))


def _beginning(header: str) -> str:
    """The items of a header that end within the bound."""
    return header if len(header) <= _READ else header[:_READ].rpartition(",")[0]


@lru_cache(_KEPT)
def _choose_format(accept: str) -> ResponseFormat:
    """Choose as prometheus_client does, but heed q-values, and never promise OpenMetrics 2.0.

    The library (0.26) takes the first item that it can serve, and echoes a version 2.0.0 over a
    body that is not.
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


@lru_cache(_KEPT)
def _accepts_gzip(accept_encoding: str) -> bool:
    weights = {}
    for item in accept_encoding.lower().split(","):
        name, _, parameters = item.partition(";")
        weights[name.strip()] = _weight(parameters)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _by_weight(header: str) -> list[tuple[str, float]]:
    """The items of a header, the most wanted first, without those of weight 0."""
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
