"""One node of three vendors: simulated, with pods and Slurm jobs; and by a driver and two trees.

The simulated node is scraped all the time, by the test and by a real Prometheus. The other one is
tests/fakenvml for NVIDIA, and composed trees for AMD (tests/gpus/amd/trees.py) and xe
(tests/gpus/drm/machine.py), under one exporter; what stands on its pages is their arithmetic.
"""

import math
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.model import ContainerKey, GroupKey
from exporter.simulation.load import load
from exporter.simulation.node import Node
from tests.e2e.programs import Exporter, Page, Prometheus, eventually
from tests.e2e.scraper import Scraper, falls, imbalances, measured_at
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Gpu, Process, Scenario, Work
from tests.gpus.amd.trees import MI300X, TICKS, Board, Tree, v1_6
from tests.gpus.drm.machine import Machine, xe
from tests.scenario.truth import truth_of

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

SECOND = 10**9
WATCHED_S = 24
VENDORS = {"nvidia": 2, "amd": 18, "intel": 1}
MIXED = 1 + 9 + 1  # devices of the node by trees
BUSY = "mgpu_device_busy_seconds_total"
CORE = "mgpu_group_core_seconds_total"
JOULES = "mgpu_device_energy_joules_total"
HELD = "mgpu_group_memory_used_bytes"
XE = "0000:03:00.0"


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


class Place:
    """A machine with a card of each vendor, and a Slurm job on each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = Machine(folder)
        self.tree = Tree(folder / "sys")
        self.tree.load()
        self.board: Board = self.tree.add(MI300X, parts=8)
        self.board.metrics(v1_6(0, [[0]] * 8))
        files = {"hwmon/hwmon9/name": "xe", "hwmon/hwmon9/energy1_input": "5000000"}
        self.xe = self.machine.card(6, "xe", XE, (0x8086, 0xE20B), files)
        Machine.write(folder / "sys/fs/cgroup", {"cgroup.controllers": "pids", "cgroup.procs": ""})
        for number, pid in enumerate((501, 502, 503)):
            self.machine.process(pid)
            path = f"system.slice/slurmstepd.scope/job_{900 + number}/step_0/user/task_0"
            Machine.write(folder / "proc" / str(pid), {"cgroup": f"0::/{path}"})
            Machine.write(folder / "sys/fs/cgroup" / path, {"cgroup.procs": str(pid)})
        self.tree.run(502)
        self.machine.open(503, 5, xe(1, 10**9), "renderD134")
        start = time.time() - 60
        scenario = Scenario(gpus=[Gpu(0)], loaded=start)
        scenario.processes = [Process(0, 501, memory=GIB)]
        scenario.works = [Work(0, 501, start=start)]
        scenario.write(folder / "gpus.txt")

    @contextmanager
    def watched(self) -> Iterator[Scraper]:
        """An exporter on it that is scraped all the time."""
        flags = (
            "--collection.interval=250ms",
            "--collection.processes-interval=1s",
            f"--nvml.library={library()}",
            f"--path.procfs={self.folder / 'proc'}",
            f"--path.sysfs={self.folder / 'sys'}",
            "--pods.source=none",
        )
        environment = {"FAKENVML_SCENARIO": str(self.folder / "gpus.txt")}
        with (
            Exporter(*flags, environment=environment) as exporter,
            Scraper(exporter.ready()) as pages,
        ):
            pages.when(lambda p: len(p.all("mgpu_device_up")) == MIXED, "all devices")
            yield pages
        sound(pages)


@pytest.mark.program("cc")
def test_a_driver_and_two_trees_are_read_side_by_side_and_each_by_its_own_arithmetic(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    board, part, card = place.board, f"{place.board.uuid}-3", f"DRM-{XE}"
    with place.watched() as pages:
        pages.when(lambda p: p.value(BUSY, uuid=card) == 0, "xe is measured")
        place.machine.open(503, 5, xe(1, 2 * 10**9, ccs=8 * 10**8, vram_kib=2048), "renderD134")
        place.machine.write(place.xe, {"hwmon/hwmon9/energy1_input": "26000000"})
        place.tree.use(502, board.gpu_ids[3], vram=2 * GIB, cus=38)
        board.metrics(v1_6(500 * TICKS, [*[[0]] * 3, [100], *[[0]] * 4]))
        page = pages.when(
            lambda p: (
                p.value(CORE, group="900")
                and (p.value(CORE, group="901", uuid=part) or 0) > 0.2
                and p.value(CORE, group="902")
                and p.value(HELD, group="901", uuid=part)
                and p.value(HELD, group="902") == 2048 * 1024
                and p.value(JOULES, uuid=card) == 21
            ),
            "each has what it wrote",
        )

    assert vendors(page) == {"nvidia": 1, "amd": 9, "intel": 1}
    sources = {s["source"] for s, up in page.all("mgpu_exporter_source_up") if up}
    assert sources >= {"nvml", "amd", "drm"}
    assert page.value(CORE, group="900") == pytest.approx(page.value(BUSY, uuid="GPU-0"))
    assert page.value(HELD, group="900") == GIB
    assert page.value(CORE, group="901", uuid=part) == pytest.approx(page.value(BUSY, uuid=part))
    assert page.value(HELD, group="901", uuid=part) == 2 * GIB
    assert page.value(JOULES, uuid=board.uuid) == 500
    assert page.value(BUSY, uuid=card) == page.value(CORE, group="902")
    assert page.value("mgpu_device_memory_used_bytes", uuid=card) is None


@pytest.mark.program("cc")
def test_a_vendor_that_fails_costs_its_own_devices_only(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.watched() as pages:
        shutil.move(place.board.folder, tmp_path / "away")
        lost = pages.when(lambda p: vendors(p) == {"nvidia": 1, "intel": 1}, "AMD's are lost")
        later = pages.after(lost, 2)
        assert vendors(later) == {"nvidia": 1, "intel": 1}
        assert (later.value(BUSY, uuid="GPU-0") or 0) > (lost.value(BUSY, uuid="GPU-0") or 0)
        assert later.value(BUSY, uuid=f"DRM-{XE}") is not None
        assert later.value(BUSY, uuid=f"{place.board.uuid}-3") is None
