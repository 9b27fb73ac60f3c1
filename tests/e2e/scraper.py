"""Scrapes an exporter all the time, keeps every page, and says what may be on none of them."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Self

import pytest

from tests.e2e.programs import PATIENCE_S, Exporter, Page

QUANTITIES = {  # of a device → of its parts
    "busy_seconds_total": "core_seconds_total",
    "memory_active_seconds_total": "memory_active_seconds_total",
    "encoder_seconds_total": "encoder_seconds_total",
    "decoder_seconds_total": "decoder_seconds_total",
    "energy_joules_total": "energy_joules_total",
    "copy_seconds_total": "copy_seconds_total",
    "evicted_seconds_total": "evicted_seconds_total",
}
PARTS = ("mgpu_container_", "mgpu_group_", "mgpu_device_unattributed_")


class Scraper:
    """A thread that scrapes five times a second. ``failures`` are the scrapes without a page."""

    def __init__(self, exporter: Exporter, every_s: float = 0.2) -> None:
        self.exporter = exporter
        self.pages: list[Page] = []
        self.failures: list[str] = []
        self._every_s = every_s
        self._came = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._scrape_on, daemon=True)

    def when(
        self, true: Callable[[Page], object], what: str, patience_s: float = PATIENCE_S
    ) -> Page:
        """The first page from now on of which this is true."""
        seen = len(self.pages)
        found: list[Page] = []

        def look() -> bool:
            nonlocal seen
            found.extend(page for page in self.pages[seen:] if true(page))
            seen = len(self.pages)
            return bool(found)

        with self._came:
            assert self._came.wait_for(look, patience_s), self._never(what, patience_s)
        return found[0]

    def after(self, page: Page, seconds: float) -> Page:
        """The first page measured so long after another."""
        due = measured_at(page) + seconds
        return self.when(lambda newer: measured_at(newer) >= due, f"a page {seconds:.0f} s later")

    def since(self, page: Page) -> list[Page]:
        """This page and all after it."""
        return self.until(page, self.pages[-1])

    def until(self, first: Page, last: Page) -> list[Page]:
        """These two pages and all between them."""
        pages = self.pages
        return pages[pages.index(first) : pages.index(last) + 1]

    def _never(self, what: str, patience_s: float) -> str:
        page = self.pages[-1].text if self.pages else "no page"
        log = "".join(self.exporter.log)
        return f"not within {patience_s:.0f} s: {what}\n{page}\n{log}\n{self.failures}"

    def _scrape_on(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                status, text = self.exporter.get("/metrics")
                assert status == 200, text
            except (OSError, AssertionError) as error:
                self.failures.append(repr(error))
                continue
            same = bool(self.pages) and self.pages[-1].text == text
            page = self.pages[-1] if same else Page(text)
            with self._came:
                self.pages.append(page)
                self._came.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def measured_at(page: Page) -> float:
    """When what stands on a page was measured, in unix seconds."""
    moment = page.value("mgpu_exporter_snapshot_timestamp_seconds")
    assert moment is not None
    return moment


def falls(pages: Iterable[Page]) -> Iterator[str]:
    """Counters that went back; one that was absent meanwhile goes on where it was, or higher."""
    last: dict[object, float] = {}
    for number, page in enumerate(pages):
        for series, value in page.counters().items():
            if value < last.get(series, 0.0):
                yield f"page {number}: {series} fell from {last[series]} to {value}"
            last[series] = value


def imbalances(page: Page) -> Iterator[str]:
    """Quantities of devices that are not the sum of containers, groups and what has no owner."""
    for labels, _ in page.all("mgpu_device_up"):
        uuid = labels["uuid"]
        for whole, part in QUANTITIES.items():
            total = page.value(f"mgpu_device_{whole}", uuid=uuid)
            values = [v for level in PARTS for _, v in page.all(level + part, uuid=uuid)]
            if (total or 0.0) != pytest.approx(sum(values), rel=1e-6, abs=1e-6):
                yield f"{uuid}: {whole} is {total}, its parts are {values}"


def grows(pages: Sequence[Page], name: str, **labels: str) -> bool:
    """Whether a counter was on all of these pages and rose from the first to the last."""
    values = [page.value(name, **labels) for page in pages]
    known = [value for value in values if value is not None]
    rises = all(a <= b for a, b in pairwise(known))
    return len(known) == len(values) > 1 and rises and known[-1] > known[0]
