"""A simulated node of three vendors, with pods and Slurm jobs, on its pages and in Prometheus."""

import math
import time
from collections import Counter
from pathlib import Path

import pytest

from exporter.agent.simulation.load_scenario import load
from exporter.agent.simulation.node import Node
from exporter.model import ContainerKey, GroupKey
from tests.agent.simulation.truth import truth_of
from tests.e2e.programs import Exporter, Page, Prometheus, eventually
from tests.e2e.scraper import Scraper, falls, imbalances, measured_at

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

SECOND = 10**9
WATCHED_S = 24
VENDORS = {"nvidia": 2, "amd": 18, "intel": 1}
CORE = "mgpu_group_core_seconds_total"


def sound(pages: Scraper) -> None:
    """Fail unless every page came, no counter fell, and the books of every device balance."""
    assert pages.failures == []
    assert list(falls(pages.pages)) == []
    seen = {id(page): page for page in pages.pages}
    assert [wrong for page in seen.values() for wrong in imbalances(page)] == []


def vendors(page: Page) -> Counter[str]:
    """How many devices of each vendor have been read."""
    up = {labels["uuid"] for labels, value in page.all("mgpu_device_up") if value}
    infos = (labels for labels, _ in page.all("mgpu_device_info"))
    return Counter(info["vendor"] for info in infos if info["uuid"] in up)


@pytest.mark.program("prometheus")
def test_a_simulated_node_of_three_vendors_on_its_pages_and_in_prometheus(tmp_path: Path) -> None:
    start = int(time.time()) - 60
    node = Node(load("mixed"), time, start * SECOND)
    flags = ("--simulate=mixed", f"--simulate.start={start}")
    with (
        Exporter(*flags) as exporter,
        Scraper(exporter.ready(), every_s=1) as pages,
        Prometheus(exporter.url, tmp_path, "1s") as prometheus,
    ):
        begin = pages.when(lambda p: p.all(CORE, kind="slurm"), "jobs are named")
        end = pages.after(begin, WATCHED_S)
        by_vendor = "count by (vendor) (mgpu_device_info)"
        told = prometheus.values(by_vendor, ("vendor",))
        assert told == {(vendor,): count for vendor, count in VENDORS.items()}
        eventually(lambda: prometheus.query(f"{CORE}{{kind='slurm'}}"), "Prometheus has the jobs")
        joined = (
            "sum by (vendor) (mgpu_device_utilization_ratio"
            " * on (gpu, uuid) group_left (vendor) mgpu_device_info)"
        )
        assert {vendor for (vendor,) in prometheus.values(joined, ("vendor",))} == set(VENDORS)
        unbalanced = (
            "abs(mgpu_device_busy_seconds_total - on (uuid) ("
            "sum by (uuid) (mgpu_device_unattributed_core_seconds_total)"
            " + on (uuid) sum by (uuid) ({__name__=~'mgpu_(container|group)_core_seconds_total'})"
            ")) > 0.000001"
        )
        assert prometheus.query(unbalanced) == []

    sound(pages)
    assert vendors(end) == VENDORS
    check_truth(node, begin, end)


def check_truth(node: Node, begin: Page, end: Page) -> None:
    """Fail unless the counters' rise is the truth's, to the noise of each vendor's sampling."""
    moments = [int(measured_at(page) * SECOND) for page in (begin, end)]
    truth = truth_of(node, *moments)
    length = truth.length_ns / SECOND
    devices = {device.uuid: device for device in node.devices()}
    kinds = Counter[tuple[str, str]]()
    for (owner, uuid), ns in truth.core_ns.items():
        if not isinstance(owner, ContainerKey | GroupKey):
            continue
        device = devices[uuid]
        name = "container" if isinstance(owner, ContainerKey) else "group"
        labels = dict(zip(_labels(owner), owner, strict=True)) | {"uuid": uuid}
        family = f"mgpu_{name}_core_seconds_total"
        rise = (end.value(family, **labels) or 0) - (begin.value(family, **labels) or 0)
        noise = NOISE[device.vendor](ns / SECOND / device.core_share, length) * device.core_share
        assert rise == pytest.approx(ns / SECOND, abs=noise), (owner, device)
        kinds[device.vendor, name] += 1
    assert kinds.keys() == {(vendor, name) for vendor in VENDORS for name in ("container", "group")}


def _labels(owner: ContainerKey | GroupKey) -> tuple[str, ...]:
    if isinstance(owner, ContainerKey):
        return ("namespace", "pod", "container")
    return ("kind", "group")


def _of_ring(used: float, length: float) -> float:
    """NVML's: six samples a second, each of one process; and those at both ends."""
    share = min(used / length, 1)
    return 3 * math.sqrt(share * (1 - share) * length / 6) + 0.02 * length + 0.4


def _of_occupancy(used: float, length: float) -> float:  # noqa: ARG001 - as the others
    """A sample a second speaks for the second before: wrong at most at ends of phases."""
    return 2.5


def _of_clients(used: float, length: float) -> float:  # noqa: ARG001 - as the others
    """Counted exactly, but for the time between the reading and the page's moment."""
    return 0.25


NOISE = {"nvidia": _of_ring, "amd": _of_occupancy, "intel": _of_clients}
