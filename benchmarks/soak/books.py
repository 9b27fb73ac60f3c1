"""Holds each page against the one before: no counter falls, and what is used has one owner."""

from collections.abc import Iterator, Mapping

from tests.e2e.programs import Page

Series = tuple[str, tuple[tuple[str, str], ...]]

QUANTITIES = {  # of a device → of its parts
    "busy_seconds_total": "core_seconds_total",
    "memory_active_seconds_total": "memory_active_seconds_total",
    "energy_joules_total": "energy_joules_total",
}
PARTS = ("mgpu_container_", "mgpu_group_", "mgpu_device_unattributed_")
CLOSE = 1e-5  # seconds or joules: pages are written in floating point


class Books:
    """The last value of every counter, whatever page it stood on.

    Where something is withheld, devices go on and what is on them is not shown: such a page cannot
    be added up. The next whole one is held against the last whole one before.
    """

    def __init__(self) -> None:
        self.pages = self.whole_pages = 0
        self.seen: set[Series] = set()
        self._last: dict[Series, float] = {}
        self._whole: dict[Series, float] = {}

    def check(self, page: Page) -> list[str]:
        """Take in the next page; gives what is wrong with it."""
        self.pages += 1
        counters = page.counters()
        wrong = [*self._falls(counters)]
        self._last.update(counters)
        if is_whole(page):
            self.whole_pages += 1
            wrong += self._imbalances(page)
            self._whole.update(counters)
        self.seen |= counters.keys()
        return wrong

    def _falls(self, counters: Mapping[Series, float]) -> Iterator[str]:
        for series, value in counters.items():
            if value < self._last.get(series, 0.0):
                yield f"{series} fell from {self._last[series]} to {value}"

    def _imbalances(self, page: Page) -> Iterator[str]:
        """Increases of a device that are not the sum of its parts' increases."""
        for labels, _ in page.all("mgpu_device_up"):
            uuid = labels["uuid"]
            for whole, part in QUANTITIES.items():
                name = f"mgpu_device_{whole}"
                total = sum(
                    self._more(name, own, value) for own, value in page.all(name, uuid=uuid)
                )
                parts = sum(
                    self._more(level + part, own, value)
                    for level in PARTS
                    for own, value in page.all(level + part, uuid=uuid)
                )
                if abs(total - parts) > CLOSE:
                    yield f"{uuid}: {whole} rose by {total}, its parts by {parts}"

    def _more(self, name: str, labels: Mapping[str, str], value: float) -> float:
        return value - self._whole.get((name, tuple(sorted(labels.items()))), 0.0)


def is_whole(page: Page) -> bool:
    """Whether every device is read, and every process known by name."""
    read = page.all("mgpu_device_up")
    known = page.value("mgpu_exporter_source_up", source="cgroups")
    return bool(read) and known == 1 and all(value for _, value in read)
