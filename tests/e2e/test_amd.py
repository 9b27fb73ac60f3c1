"""A node of two vendors: NVIDIA's by the stand-in library, AMD's as a composed tree of sysfs.

The exporter runs unmodified. The tree is rewritten while it runs; what stands on the pages is the
arithmetic of what was written, and the books of every device balance on each of them.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread

import pytest

from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid
from tests.agent.sources.gpus.amd.trees import MI300X, RADEON, TICKS, Board, Tree, put, v1_6
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document, pod_document
from tests.e2e.programs import Exporter, Page
from tests.e2e.scraper import Scraper, falls, imbalances
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Fault, Gpu, Process, Scenario, Work

pytestmark = [pytest.mark.program("cc"), pytest.mark.slow]

FIRST, SECOND, ON_NVIDIA, DRAWS = 70_001, 70_002, 70_003, 70_004
BUSY = "mgpu_device_busy_seconds_total"
CORE = "mgpu_container_core_seconds_total"
JOULES = "mgpu_device_energy_joules_total"


class Counters(Thread):
    """The energy counters of boards, which always move: a board that is on draws some power."""

    def __init__(self, *boards: Board) -> None:
        super().__init__(daemon=True)
        self._lock, self._ended = Lock(), Event()
        self._ticks = {board.pci: 0 for board in boards}
        self._busy: dict[str, list[list[int]]] = {b.pci: [[0]] * len(b.gpu_ids) for b in boards}
        self._boards = boards

    def run(self) -> None:
        while not self._ended.wait(0.05):
            for board in self._boards:
                self.add(board)

    def add(self, board: Board, joules: int = 0, busy: list[list[int]] | None = None) -> None:
        """Let it use so much more, and be so busy from now on."""
        with self._lock:
            self._ticks[board.pci] += 1 + joules * TICKS
            self._busy[board.pci] = busy or self._busy[board.pci]
            if board.folder.is_dir():
                board.metrics(v1_6(self._ticks[board.pci], self._busy[board.pci]))

    def end(self) -> None:
        self._ended.set()
        self.join()


@dataclass
class Place:
    """The node, and who looks at it."""

    tree: Tree
    whole: Board
    parted: Board
    radeon: Board
    counters: Counters
    proc: Path
    exporter: Exporter
    pages: Scraper

    def works(self, pod: str, uuid: str) -> Page:
        """The first page with core time of this pod on this device."""
        return self.pages.when(lambda p: p.value(CORE, pod=pod, uuid=uuid), f"{pod} on {uuid}")

    def grown(self, since: Page, seconds: float, pod: str, uuid: str) -> Page:
        """The first page with so much more core time."""
        before = since.value(CORE, pod=pod, uuid=uuid) or 0.0
        return self.pages.when(
            lambda p: (p.value(CORE, pod=pod, uuid=uuid) or 0.0) >= before + seconds,
            f"{pod} works {seconds} s more",
        )


def put_pod(folder: Path, api: ApiServer, name: str, pid: int) -> None:
    uid, container_id = new_uid(), new_container_id()
    cgroup = container_path("systemd", uid, container_id)
    (folder / "cgroup" / cgroup).mkdir(parents=True)
    (folder / "cgroup" / cgroup / "cgroup.procs").write_text(f"{pid}\n")
    FakeProc(folder / "proc").put(pid, f"/{cgroup}")
    api.add_pod(pod_document(name, uid=uid, containers={"main": container_id}))


def open_client(proc: Path, board: Board, gfx_ns: int = 0) -> None:
    """Let the process that draws have a DRM client, which has kept the board busy for so long."""
    told = f"drm-engine-gfx:\t{gfx_ns} ns\n" if gfx_ns else ""
    head = f"pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t3\ndrm-pdev:\t{board.pci}\n"
    put(proc / str(DRAWS) / "fdinfo/5", f"{head}drm-memory-vram:\t2048 KiB\n{told}")
    link = proc / str(DRAWS) / "fd/5"
    if not link.is_symlink():
        link.parent.mkdir()
        link.symlink_to(f"/dev/dri/{board.render}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("mixed")
    start = time.time() - 60
    scenario = Scenario(gpus=[Gpu(0)], loaded=start)
    scenario.processes = [Process(0, ON_NVIDIA, memory=GIB)]
    scenario.works = [Work(0, ON_NVIDIA, start=start)]
    scenario.write(folder / "gpus.txt")
    tree = Tree(folder / "sys")
    tree.load()
    whole, parted, radeon = tree.add(MI300X), tree.add(MI300X, parts=8), tree.add(RADEON)
    for board in (whole, parted):  # so that what it uses is what the counter says, however little
        (board.folder / "hwmon/hwmon4/power1_average").unlink()
    counters = Counters(whole, parted)
    counters.start()
    for pid in (FIRST, SECOND):
        tree.run(pid)
    with ApiServer() as api:
        pods = {"first": FIRST, "second": SECOND, "nvidia": ON_NVIDIA, "draws": DRAWS}
        for name, pid in pods.items():
            put_pod(folder, api, name, pid)
        open_client(folder / "proc", radeon)
        (folder / "cgroup/cgroup.controllers").touch()
        api.set_node(node_document("node-1", {}, {}))
        flags = (
            "--collection.interval=250ms",
            "--collection.processes-interval=1s",
            "--node.name=node-1",
            f"--kubeconfig={write_kubeconfig(folder / 'kubeconfig', api.url)}",
            f"--nvml.library={library()}",
            f"--path.cgroup={folder / 'cgroup'}",
            f"--path.procfs={folder / 'proc'}",
            f"--path.sysfs={folder / 'sys'}",
        )
        environment = {"FAKENVML_SCENARIO": str(folder / "gpus.txt")}
        with (
            Exporter(*flags, environment=environment) as exporter,
            Scraper(exporter.ready()) as pages,
        ):
            yield Place(tree, whole, parted, radeon, counters, folder / "proc", exporter, pages)
            counters.end()
            assert pages.failures == []
            assert list(falls(pages.pages)) == []
            assert [wrong for page in pages.pages for wrong in imbalances(page)] == []


def test_a_driver_of_nvidia_that_never_opens_costs_amds_cards_nothing(tmp_path: Path) -> None:
    Scenario(faults=[Fault("error", "nvmlInit*", code=999)]).write(tmp_path / "gpus.txt")
    tree = Tree(tmp_path / "sys")
    tree.load()
    board = tree.add(MI300X)
    flags = (
        "--collection.interval=250ms",
        "--pods.source=none",
        f"--nvml.library={library()}",
        f"--path.cgroup={tmp_path / 'cgroup'}",
        f"--path.procfs={tmp_path / 'proc'}",
        f"--path.sysfs={tmp_path / 'sys'}",
    )
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup/cgroup.controllers").touch()
    # As if it were a node with cards of both: its driver is missed.
    put(tmp_path / "sys/module/nvidia/version", "580.65.06")
    environment = {"FAKENVML_SCENARIO": str(tmp_path / "gpus.txt")}
    tries = "mgpu_exporter_nvml_calls_total"
    with (
        Exporter(*flags, environment=environment) as exporter,
        Scraper(exporter.ready()) as pages,
    ):
        page = pages.when(lambda p: (p.value(tries, call="nvmlInit") or 0) >= 4, "four tries")
        assert page.value("mgpu_exporter_source_up", source="nvml") == 0
        assert page.value("mgpu_device_up", uuid=board.uuid) == 1
        assert pages.failures == []


def test_both_vendors_are_on_the_page_under_numbers_and_uuids_of_their_own(place: Place) -> None:
    page = place.pages.when(lambda p: len(p.all("mgpu_device_up")) == 12, "all devices")

    infos = [labels for labels, _ in page.all("mgpu_device_info")]
    assert {(i["gpu"], i["vendor"]) for i in infos} == {
        *(("0", "nvidia"), ("100", "amd"), ("101", "amd"), ("102", "amd"))
    }
    assert len({i["uuid"] for i in infos}) == 12
    assert {source["source"] for source, up in page.all("mgpu_exporter_source_up") if up} >= {
        *("nvml", "amd")
    }
    place.works("nvidia", "GPU-0")


def test_a_busy_board_is_shared_out_by_the_compute_units_that_are_occupied(place: Place) -> None:
    board = place.whole
    [gpu_id] = board.gpu_ids
    place.tree.use(FIRST, gpu_id, vram=3 * GIB, cus=76)
    place.tree.use(SECOND, gpu_id, vram=GIB, cus=152)
    place.tree.count(FIRST, gpu_id, sdma_us=0)  # KFD has the file as long as the process
    board.set(gpu_busy_percent=80, mem_info_vram_used=5 * GIB)
    # The last file written says that all of them are.
    begin = place.grown(place.works("second", board.uuid), 0.3, "second", board.uuid)
    end = place.grown(begin, 1.0, "second", board.uuid)

    def rise(name: str, **labels: str) -> float:
        before, after = (page.value(name, uuid=board.uuid, **labels) for page in (begin, end))
        return (after or 0.0) - (before or 0.0)

    first, second = rise(CORE, pod="first"), rise(CORE, pod="second")
    assert second == pytest.approx(2 * first, abs=1e-6)
    assert first + second == pytest.approx(rise(BUSY), abs=1e-6)
    moments = (p.value("mgpu_exporter_snapshot_timestamp_seconds") or 0.0 for p in (end, begin))
    assert rise(BUSY) == pytest.approx(0.8 * (next(moments) - next(moments)), abs=0.05)

    held = place.pages.when(
        lambda p: p.value("mgpu_container_memory_used_bytes", pod="first", uuid=board.uuid),
        "the list of processes",
    )
    memory = "mgpu_container_memory_used_bytes"
    assert held.value(memory, pod="first", uuid=board.uuid) == 3 * GIB
    assert held.value(memory, pod="second", uuid=board.uuid) == GIB
    nobody = "mgpu_device_unattributed_memory_bytes"
    assert held.value(nobody, uuid=board.uuid, reason="no_pid") == GIB
    how = {"busy": "rates", "shares": "cu_occupancy", "energy": "counter"}
    assert held.value("mgpu_device_method_info", uuid=board.uuid, **how) == 1

    place.tree.count(FIRST, gpu_id, sdma_us=1_500_000, evicted_ms=250)
    copied = "mgpu_container_copy_seconds_total"
    place.pages.when(lambda p: p.value(copied, pod="first", uuid=board.uuid) == 1.5, "copies")
    evicted = "mgpu_container_evicted_seconds_total"
    page = place.pages.when(lambda p: p.value(evicted, uuid=board.uuid, pod="first"), "evictions")
    assert page.value(evicted, pod="first", uuid=board.uuid) == 0.25

    place.counters.add(board, 600)
    told = place.pages.when(lambda p: p.value(JOULES, uuid=board.uuid) >= 600, "the energy")  # type: ignore[operator]
    joules = "mgpu_container_energy_joules_total"
    assert told.value(joules, pod="first", uuid=board.uuid) == pytest.approx(200, abs=0.1)
    assert told.value(joules, pod="second", uuid=board.uuid) == pytest.approx(400, abs=0.1)


def test_a_partition_has_its_activity_and_the_board_keeps_the_energy(place: Place) -> None:
    board, part = place.parted, f"{place.parted.uuid}-3"
    place.tree.use(FIRST, board.gpu_ids[3], vram=2 * GIB, cus=38)
    place.counters.add(board, 500, [*[[0]] * 3, [100], *[[0]] * 4])

    begin = place.works("first", part)
    end = place.grown(begin, 0.2, "first", part)

    nobody = "mgpu_device_unattributed_energy_joules_total"
    told = end.value(nobody, uuid=board.uuid, reason="partitioned")
    assert [end.value(JOULES, uuid=board.uuid), told] == pytest.approx([500, 500], abs=0.1)
    assert end.value(JOULES, uuid=part) is None
    assert end.value(BUSY, uuid=part) == pytest.approx(end.value(CORE, pod="first", uuid=part))
    assert end.value(BUSY, uuid=f"{board.uuid}-4") == 0
    assert end.value("mgpu_device_memory_total_bytes", uuid=part) == 24 * GIB
    moments = (p.value("mgpu_exporter_snapshot_timestamp_seconds") or 0.0 for p in (end, begin))
    passed = next(moments) - next(moments)
    used = (end.value(CORE, pod="first", uuid=part) or 0) - (
        begin.value(CORE, pod="first", uuid=part) or 0
    )
    assert used == pytest.approx(passed / 8, abs=0.01)


def test_a_board_that_vanishes_costs_its_own_devices_only(place: Place) -> None:
    board, away = place.parted, place.proc.parent / "away"
    shutil.move(board.folder, away)
    gone = place.pages.when(
        lambda p: p.value(BUSY, uuid=f"{board.uuid}-3") is None, "its partitions are lost"
    )
    shutil.move(away, board.folder)
    back = place.pages.when(lambda p: p.value("mgpu_device_up", uuid=board.uuid) == 1, "it is back")

    for uuid in ("GPU-0", place.whole.uuid):
        assert back.value(BUSY, uuid=uuid) >= gone.value(BUSY, uuid=uuid)  # type: ignore[operator]
    place.works("nvidia", "GPU-0")


def test_a_radeon_shows_what_it_has_and_says_why_the_rest_is_not_there(place: Place) -> None:
    board = place.radeon
    place.tree.use(SECOND, board.gpu_ids[0], vram=GIB)
    board.set(gpu_busy_percent=50)

    page = place.pages.when(
        lambda p: (
            p.value("mgpu_container_memory_used_bytes", pod="second", uuid=board.uuid)
            and p.value(BUSY, uuid=board.uuid)
        ),
        "the memory",
    )

    assert page.value(CORE, pod="second", uuid=board.uuid) is None
    why = {"quantity": "core", "reason": "not_supported"}
    assert page.value("mgpu_container_unmeasured", pod="second", uuid=board.uuid, **why) == 1
    assert page.value("mgpu_device_power_watts", uuid=board.uuid) == 100
    assert page.all("mgpu_device_ecc_errors_total", uuid=board.uuid) == []


def test_beside_rocm_on_a_radeon_who_draws_has_the_time_of_its_engines(place: Place) -> None:
    board = place.radeon
    place.tree.use(SECOND, board.gpu_ids[0], vram=GIB)
    board.set(gpu_busy_percent=70)
    held = "mgpu_container_memory_used_bytes"
    place.pages.when(lambda p: p.value(held, pod="draws", uuid=board.uuid), "its memory")

    open_client(place.proc, board, gfx_ns=40_000_000)
    page = place.works("draws", board.uuid)

    assert page.value(CORE, pod="draws", uuid=board.uuid) == 0.04  # not scaled up to 70 %
    assert page.value(CORE, pod="second", uuid=board.uuid) is None  # ROCm's time is not counted
    assert page.value(held, pod="draws", uuid=board.uuid) == 2048 * 1024
    how = {"busy": "rates", "shares": "fdinfo", "energy": "power"}
    assert page.value("mgpu_device_method_info", uuid=board.uuid, **how) == 1
