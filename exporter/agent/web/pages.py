"""Metrics pages of the newest Snapshot."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from exporter.agent.web.renderedanswers import Answers
from exporter.agent.web.selection import Selection, selected
from exporter.metrics.compat import CompatPage
from exporter.metrics.families import LEVELS, Family
from exporter.metrics.text import Format, Renderer
from exporter.model import Clock, Snapshot

_CPU = re.compile(rb"^process_cpu_seconds_total .*\n", re.MULTILINE)
_STARTED = re.compile(rb"^process_start_time_seconds (.*)\n", re.MULTILINE)
_WRITERS: dict[Format, Callable[[CollectorRegistry], bytes]] = {
    Format.TEXT: write_text,
    Format.OPENMETRICS: write_openmetrics,
}


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


class Pages:
    """The metrics pages of the newest Snapshot, rendered once each. Thread-safe.

    Of a stale Snapshot, only the exporter's own metrics are served.
    """

    def __init__(
        self,
        newest: Callable[[], Snapshot],
        clock: Clock,
        renderer: Renderer | None = None,
        compat: CompatPage | None = None,
    ) -> None:
        self._answers = Answers(newest, clock)
        self._renderer = renderer or Renderer()
        self._compat = compat or CompatPage((), "")
        self._process = OwnProcess()

    @property
    def families(self) -> Sequence[Family]:
        """The families that are served."""
        return self._renderer.families

    def use(self, renderer: Renderer, compat: CompatPage) -> None:
        """Replaces the writers and drops all cached pages."""
        with self._answers.lock:
            renderer.follow(self._renderer)
            self._renderer, self._compat = renderer, compat
            self._answers.forget()

    def cached(
        self, form: Format, selection: Selection | None = None, *, zipped: bool
    ) -> bytes | None:
        """The page if it is rendered already. Never blocks."""
        answer = self._answers.cached((form, selection), zipped=zipped)
        return None if answer is None else answer.body

    def page(self, form: Format, selection: Selection | None = None, *, zipped: bool) -> bytes:
        """The page, rendered if needed. May block."""
        render = partial(self._render, form, selection)
        answer = self._answers.rendered((form, selection), render, zipped=zipped)
        return b"" if answer is None else answer.body

    def _render(
        self, form: Format, selection: Selection | None, snapshot: Snapshot, age_ns: int
    ) -> bytes:
        # A selection is cut out of the whole page, which is rendered once for all who select.
        if selection is not None:
            return selected(self.page(form, zipped=False), selection)
        # Nothing old is served as if it were new: of a collection that stands still only its own
        # metrics are shown, by which one sees that it does.
        is_stale = age_ns > snapshot.stale_after_ns
        levels = ("exporter",) if is_stale else tuple(LEVELS)
        page = self._renderer.render(snapshot, form, levels)
        others = b"" if is_stale else self._compat.render(snapshot, form)
        created = form is Format.OPENMETRICS and self._renderer.created
        return b"".join((page, others, self._process.page(form, created=created)))
