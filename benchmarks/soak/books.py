"""Holds each page against the one before: no counter falls, and the books balance.

Between two whole pages, for each device:

- what its owners used and what is unattributed is its busy time, memory traffic and energy;
- by allocation: allocated - overcommitted + unallocated = the time that passed, or less, if the API
  server was away: pods that have ended meanwhile may be on any card;
- by use: busy + idle + unobserved = that time, where idle is the rest, so that it is not below 0.

For each container and each pod with a share, also where it came or ended in between: used + idle -
borrowed = allocated; or less, if its use may have been unknown in between, or a container's was
under its pod, whose status lacked the container's id.
"""

from collections.abc import Iterator, Mapping

from tests.e2e.programs import Page
from tests.e2e.scraper import measured_at

Labels = tuple[tuple[str, str], ...]
Series = tuple[str, Labels]

QUANTITIES = {  # of a device → of its parts
    "busy_seconds_total": "core_seconds_total",
    "memory_active_seconds_total": "memory_active_seconds_total",
    "energy_joules_total": "energy_joules_total",
}
PARTS = ("mgpu_container_", "mgpu_group_", "mgpu_device_unattributed_")
HELD = ("allocated_idle_core_seconds_total", "borrowed_core_seconds_total")
ALLOCATED = "allocated_core_seconds_total"
USED = {"mgpu_container_": "core_seconds_total", "mgpu_pod_": "limited_core_seconds_total"}
SHORTEST_FAILURE_S = 5.5  # of the node's sources, and a cycle's jitter
PODS_AWAY_S = 12.0  # for as long as the API server is away, at a time
CLOSE = 1e-5  # seconds or joules: pages are written in floating point
LATE_S = 6  # time is shown until the newest window's end, which is up to a read of the rings ago


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
        self._whole_at, self._had_pods = 0.0, False

    def check(self, page: Page) -> list[str]:
        """Take in the next page; gives what is wrong with it."""
        self.pages += 1
        counters = page.counters()
        wrong = [*self._falls(counters)]
        self._last.update(counters)
        at = measured_at(page)
        if is_whole(page):
            self.whole_pages += 1
            wrong += self._imbalances(page)
            if self._whole_at:
                wrong += self._lost_time(page, at - self._whole_at)
                wrong += self._lost_shares(page, counters, at - self._whole_at)
            self._whole.update(counters)
            self._whole_at, self._had_pods = at, has_pods(page)
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
                total = self._rose(page, f"mgpu_device_{whole}", uuid)
                parts = sum(self._rose(page, level + part, uuid) for level in PARTS)
                if abs(total - parts) > CLOSE:
                    yield f"{uuid}: {whole} rose by {total}, its parts by {parts}"

    def _lost_time(self, page: Page, seconds: float) -> Iterator[str]:
        """Devices whose time is not the sum of its parts, by allocation or by use."""
        for labels, _ in page.all("mgpu_device_up"):
            uuid = labels["uuid"]
            allocated = (
                self._rose(page, "mgpu_namespace_allocated_gpu_seconds_total", uuid)
                - self._rose(page, "mgpu_device_overcommitted_gpu_seconds_total", uuid)
                + self._rose(page, "mgpu_device_unallocated_gpu_seconds_total", uuid)
            )
            is_placed = self._had_pods and has_pods(page) and seconds < PODS_AWAY_S
            lost = seconds - allocated
            if lost < -LATE_S or (lost > LATE_S and is_placed):
                yield f"{uuid}: in {seconds} s, {allocated} were allocated or nobody's"
            known = self._rose(page, "mgpu_device_busy_seconds_total", uuid)
            known += self._rose(page, "mgpu_device_unobserved_seconds_total", uuid)
            if known > seconds + LATE_S:
                yield f"{uuid}: in {seconds} s, {known} were busy or unobserved"

    def _lost_shares(
        self, page: Page, counters: Mapping[Series, float], seconds: float
    ) -> Iterator[str]:
        """Containers and pods whose allocated time is not what they used and left idle of it.

        A container may have used something before its share was known; a pod's use leaves that out.
        """
        for level, use in USED.items():
            for labels, value in page.all(f"{level}{ALLOCATED}"):
                own = _labels(labels)
                is_new = "uuid" in labels and (f"{level}{ALLOCATED}", own) not in self._whole
                if is_new or (f"{level}{HELD[0]}", own) not in counters:
                    continue
                allocated = self._more(f"{level}{ALLOCATED}", labels, value)
                used, idle, borrowed = (
                    self._more(name, labels, counters.get((name, own), 0.0))
                    for name in (f"{level}{name}" for name in (use, *HELD))
                )
                lost = allocated - (used + idle - borrowed)
                known = seconds < SHORTEST_FAILURE_S and not self._is_pending(counters, labels)
                if lost < -CLOSE or (lost > CLOSE and known):
                    yield f"{own}: {used} + {idle} - {borrowed} is not the allocated {allocated}"

    def _is_pending(self, counters: Mapping[Series, float], labels: Mapping[str, str]) -> bool:
        """Whether its pod used more, without the container's name."""
        if not labels.get("container"):
            return False
        unnamed = {**labels, "container": ""}
        name = "mgpu_container_core_seconds_total"
        return self._more(name, unnamed, counters.get((name, _labels(unnamed)), 0.0)) > 0

    def _rose(self, page: Page, name: str, uuid: str) -> float:
        return sum(self._more(name, own, value) for own, value in page.all(name, uuid=uuid))

    def _more(self, name: str, labels: Mapping[str, str], value: float) -> float:
        return value - self._whole.get((name, _labels(labels)), 0.0)


def _labels(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def has_pods(page: Page) -> bool:
    """Whether the API server answers."""
    return page.value("mgpu_exporter_source_up", source="pods_simulated") == 1


def is_whole(page: Page) -> bool:
    """Whether every device is read, and every process known by name."""
    read = page.all("mgpu_device_up")
    known = page.value("mgpu_exporter_source_up", source="cgroups")
    return bool(read) and known == 1 and all(value for _, value in read)
