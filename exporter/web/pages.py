"""Pages that are rendered once and served many times.

A page is made at the first request for it after a new Snapshot, by one thread, whoever else asks.
"""

import gzip
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter.compat import CompatPage
from exporter.exposition import Format, Renderer
from exporter.families import LEVELS, Family
from exporter.model import Clock, Snapshot
from exporter.web.process import OwnProcess
from exporter.web.selection import Selection, selected

_SELECTIONS = 8  # kept of one snapshot; there are as many as a client likes to ask for
_GZIP_LEVEL = 1  # a third of level 6's time for a tenth more bytes


class _Stamp(NamedTuple):
    """What a page was made from. A stale page is made anew each second, for process_*."""

    version: int
    stale_s: int


class _Write(NamedTuple):
    renderer: Renderer
    compat: CompatPage


class _Key(NamedTuple):
    form: Format
    selection: Selection | None
    zipped: bool


class Pages:
    """The metrics pages of the newest Snapshot; for any number of threads.

    A Snapshot that is stale is not served: only what the exporter says of itself is.
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
        self._write = _Write(renderer or Renderer(), compat or CompatPage((), ""))
        self._process = OwnProcess()
        self._making = threading.Lock()
        self._made: tuple[_Stamp, dict[_Key, bytes]] = (_Stamp(-1, 0), {})

    @property
    def families(self) -> Sequence[Family]:
        """Those that are served."""
        return self._write.renderer.families

    def use(self, renderer: Renderer, compat: CompatPage) -> None:
        """Write every page by these from now on; pages that were made are made anew."""
        with self._making:
            self._write = _Write(renderer, compat)
            self._made = (_Stamp(-1, 0), {})

    def made(
        self, form: Format, selection: Selection | None = None, *, zipped: bool
    ) -> bytes | None:
        """The page if it is there already; never blocks."""
        stamp, pages = self._made
        key = _Key(form, selection, zipped)
        return pages.get(key) if stamp == self._stamp(self._newest()) else None

    def page(self, form: Format, selection: Selection | None = None, *, zipped: bool) -> bytes:
        """The page; makes it if need be, or waits for whoever makes it."""
        with self._making:
            snapshot = self._newest()
            stamp = self._stamp(snapshot)
            if self._made[0] != stamp:
                self._made = (stamp, {})
            pages = self._made[1]
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
        page = self._write.renderer.render(snapshot, form, levels)
        others = b"" if stale else self._write.compat.render(snapshot, form)
        return b"".join((page, others, self._process.page(form)))


def _make_room(pages: dict[_Key, bytes]) -> None:
    """Forget the oldest selection once there are as many as are kept."""
    kept = dict.fromkeys(key.selection for key in pages if key.selection is not None)
    if len(kept) >= _SELECTIONS:
        oldest = next(iter(kept))
        for key in [key for key in pages if key.selection == oldest]:
            del pages[key]
