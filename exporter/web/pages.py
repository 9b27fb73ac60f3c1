"""Metrics pages: each is rendered once for a Snapshot and served many times.

The first request after a new Snapshot renders the page, in one thread.
"""

import gzip
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from exporter.metrics.compat import CompatPage
from exporter.metrics.families import LEVELS, Family
from exporter.metrics.text import Format, Renderer
from exporter.model import Clock, Snapshot
from exporter.web.selection import Selection, selected

_CPU = re.compile(rb"^process_cpu_seconds_total .*\n", re.MULTILINE)
_STARTED = re.compile(rb"^process_start_time_seconds (.*)\n", re.MULTILINE)
_MAX_SELECTIONS = 8  # cached of one snapshot; a client may ask for any number
_GZIP_LEVEL = 1  # a third of level 6's time for a tenth more bytes


class OwnProcess:
    """The end of a page: prometheus_client's ``process_*`` and ``python_info``.

    ``process_*`` is absent if ``proc`` cannot be read. OpenMetrics' ``# EOF`` is included.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(proc=str(proc), registry=self._registry)
        PlatformCollector(registry=self._registry)

    def page(self, form: Format, *, created: bool = False) -> bytes:
        """The current lines; with ``created``, the start of the counter too."""
        lines = _WRITERS[form](self._registry)
        started = _STARTED.search(lines) if created else None
        if started is None:
            return lines
        return _CPU.sub(rb"\g<0>process_cpu_seconds_created %s\n" % started[1], lines)


_WRITERS: dict[Format, Callable[[CollectorRegistry], bytes]] = {
    Format.TEXT: write_text,
    Format.OPENMETRICS: write_openmetrics,
}


class _Stamp(NamedTuple):
    """Identifies the state that a page was rendered from.

    A stale page is rendered again each second, because ``process_*`` still changes.
    """

    version: int
    stale_s: int


class _Writers(NamedTuple):
    renderer: Renderer
    compat: CompatPage


class _Key(NamedTuple):
    form: Format
    selection: Selection | None
    zipped: bool


class Pages:
    """The metrics pages of the newest Snapshot. Thread-safe.

    Of a stale Snapshot, only the exporter's own metrics are served.
    """

    def __init__(
        self,
        newest: Callable[[], Snapshot],
        clock: Clock,
        renderer: Renderer | None = None,
        compat: CompatPage | None = None,
    ) -> None:
        self._newest = newest
        self._clock = clock
        self._writers = _Writers(renderer or Renderer(), compat or CompatPage((), ""))
        self._process = OwnProcess()
        self._rendering = threading.Lock()
        self._cache: tuple[_Stamp, dict[_Key, bytes]] = (_Stamp(-1, 0), {})

    @property
    def families(self) -> Sequence[Family]:
        """The families that are served."""
        return self._writers.renderer.families

    def use(self, renderer: Renderer, compat: CompatPage) -> None:
        """Replaces the writers and drops all cached pages."""
        with self._rendering:
            renderer.follow(self._writers.renderer)
            self._writers = _Writers(renderer, compat)
            self._cache = (_Stamp(-1, 0), {})

    def cached(
        self, form: Format, selection: Selection | None = None, *, zipped: bool
    ) -> bytes | None:
        """The page if it is rendered already. Never blocks."""
        stamp, pages = self._cache
        key = _Key(form, selection, zipped)
        return pages.get(key) if stamp == self._stamp(self._newest()) else None

    def page(self, form: Format, selection: Selection | None = None, *, zipped: bool) -> bytes:
        """The page, rendered if needed. May block."""
        with self._rendering:
            snapshot = self._newest()
            stamp = self._stamp(snapshot)
            if self._cache[0] != stamp:
                self._cache = (stamp, {})
            pages = self._cache[1]
            whole = _Key(form, None, zipped=False)
            if whole not in pages:
                pages[whole] = self._render(snapshot, form, stale=stamp.stale_s > 0)
            key = _Key(form, selection, zipped)
            plain = key._replace(zipped=False)
            if plain not in pages and selection is not None:
                _make_room(pages)
                pages[plain] = selected(pages[whole], selection)
            if key not in pages:
                pages[key] = gzip.compress(pages[plain], _GZIP_LEVEL, mtime=0)
            return pages[key]

    def _stamp(self, snapshot: Snapshot) -> _Stamp:
        age_ns = self._clock.monotonic_ns() - snapshot.mono_ns
        stale = age_ns > snapshot.stale_after_ns
        return _Stamp(snapshot.version, age_ns // 1_000_000_000 if stale else 0)

    def _render(self, snapshot: Snapshot, form: Format, *, stale: bool) -> bytes:
        levels = ("exporter",) if stale else tuple(LEVELS)
        page = self._writers.renderer.render(snapshot, form, levels)
        others = b"" if stale else self._writers.compat.render(snapshot, form)
        created = form is Format.OPENMETRICS and self._writers.renderer.created
        return b"".join((page, others, self._process.page(form, created=created)))


def _make_room(pages: dict[_Key, bytes]) -> None:
    """Evicts the oldest selection if the limit is reached."""
    cached = dict.fromkeys(key.selection for key in pages if key.selection is not None)
    if len(cached) >= _MAX_SELECTIONS:
        oldest = next(iter(cached))
        for key in [key for key in pages if key.selection == oldest]:
            del pages[key]
