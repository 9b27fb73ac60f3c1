"""Metrics pages: each is rendered once for a Snapshot and served many times.

The first request after a new Snapshot renders the page, in one thread.
"""

import gzip
import os
import re
import resource
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.registry import CollectorRegistry
from prometheus_client.utils import floatToGoString

from exporter.metrics.compat import CompatPage
from exporter.metrics.families import LEVELS, Family
from exporter.metrics.text import Format, Renderer, head
from exporter.model import Clock, Snapshot
from exporter.web.selection import Selection, selected

_FAMILIES = (
    ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
    (
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
    ),
    ("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds."),
    ("process_open_fds", "gauge", "Number of open file descriptors."),
    ("process_max_fds", "gauge", "Maximum number of open file descriptors."),
)
# positions in proc(5)'s stat, counted after the name
_USER, _SYSTEM, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21
_STARTED = 2  # position in _FAMILIES of the process's start, which is that of its counter
_CPU = re.compile(r"^process_cpu_seconds_total .*\n", re.MULTILINE)
_CPU_CREATED = "process_cpu_seconds_created"
_MAX_SELECTIONS = 8  # cached of one snapshot; a client may ask for any number
_GZIP_LEVEL = 1  # a third of level 6's time for a tenth more bytes


class OwnProcess:
    """The end of a page: ``process_*`` and ``python_info``, as every client library has them.

    Names and HELP are those of prometheus_client. Its collector is not used: it lists the directory
    of open files, which has an entry for each process on a GPU, and would take a sixth of a page's
    time. ``process_*`` is absent if ``proc`` cannot be read. OpenMetrics' ``# EOF`` is included.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._machine, self._stat = proc / "stat", proc / "self" / "stat"
        self._files = proc / "self" / "fd"
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page_bytes = resource.getpagesize()
        self._lines = {
            form: "".join(f"{head(*family, form)}{family[0]} %s\n" for family in _FAMILIES)
            for form in Format
        }
        python = CollectorRegistry()
        PlatformCollector(registry=python)
        self._python: dict[Format, bytes] = {
            Format.TEXT: write_text(python),
            Format.OPENMETRICS: write_openmetrics(python),  # type: ignore[no-untyped-call]
        }

    def page(self, form: Format, *, created: bool = False) -> bytes:
        """The current lines; with ``created``, the start of the counter too."""
        try:
            numbers = self._numbers()
        except OSError:
            return self._python[form]
        lines = self._lines[form] % tuple(map(floatToGoString, numbers))
        if created:
            lines = _CPU.sub(rf"\g<0>{_CPU_CREATED} {numbers[_STARTED]!r}\n", lines)
        return lines.encode() + self._python[form]

    @cached_property
    def _booted_s(self) -> float:
        """The time of the machine's start, in Unix seconds; 0 if it is not known."""
        lines = self._machine.read_bytes().splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(b"btime ")), 0.0)

    def _numbers(self) -> tuple[float, ...]:
        """The values of ``_FAMILIES``, in their order."""
        fields = self._stat.read_bytes().rpartition(b")")[2].split()
        return (
            int(fields[_VIRTUAL]),
            int(fields[_RESIDENT]) * self._page_bytes,
            self._booted_s + int(fields[_START]) / self._ticks,
            int(fields[_USER]) / self._ticks + int(fields[_SYSTEM]) / self._ticks,
            # Linux counts them since 6.2. Before, listing them opens one more.
            self._files.stat().st_size or len(list(self._files.iterdir())) - 1,
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )


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
