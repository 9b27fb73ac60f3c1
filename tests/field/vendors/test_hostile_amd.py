"""One tenant fills a bound of AMD's boards, or a list fails: his neighbours are as without it."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.doctor.vendors import OTHERS
from exporter.agent.sources import door
from exporter.agent.sources.door import Failed
from exporter.agent.sources.gpus.amd import amdturns, kfdprocesses
from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from tests.agent.sources.gpus.amd.trees import MI300X, STRIX_HALO, TICKS, Board, remove, v1_6
from tests.agent.sources.gpus.drm.machine import i915
from tests.e2e.programs import Page
from tests.field.vendors.boards import CORE, GIB, JOULES, MEMORY, UNATTRIBUTED, VendorNode

COPIED = "mgpu_container_copy_seconds_total"
UNMEASURED = "mgpu_container_unmeasured"
VICTIM, TENANT = 10_001, 90_001  # of a list that is sorted as text the second is cut first
SECONDS, SECOND = 20, 10**9
WHICH = ("victim", "tenant")


class Shared:
    """A board that is 80 % busy: 50 of its compute units for the victim, 250 for the tenant."""

    def __init__(self, node: VendorNode, victim: int = VICTIM, tenant: int = TENANT) -> None:
        self.node, self.board = node, node.tree.add(MI300X)
        self.board.set(gpu_busy_percent=80, mem_info_vram_used=6 * GIB)
        self.homes = {name: node.home(name) for name in WHICH}
        self.use(victim, "victim", cus=50, vram=2 * GIB)
        self.use(tenant, "tenant", cus=250, vram=4 * GIB)

    @property
    def gpu(self) -> int:
        return self.board.gpu_ids[0]

    def use(self, pid: int, name: str, cus: int = 0, vram: int = 0) -> None:
        if not (self.node.proc.root / str(pid)).is_dir():
            self.node.process(self.homes[name], pid=pid)
        self.node.tree.use(pid, self.gpu, vram=vram, cus=cus)

    def flood(self, number: int, first: int = 10_002) -> None:
        """Let the tenant open /dev/kfd so many times more, and do nothing with it."""
        for pid in range(first, first + number):
            self.use(pid, "tenant")


def cores(page: Page) -> dict[str, float | None]:
    return {name: page.value(CORE, pod=name) for name in WHICH}


@pytest.fixture
def control(tmp_path: Path) -> dict[str, float | None]:
    """What both have in as much time without any other process."""
    shared = Shared(VendorNode(tmp_path / "control"))
    page = shared.node.run(SECONDS)
    shared.node.close()
    return cores(page)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that some dozens of processes fill."""
    for name, most in (("MOST_AT_WORK", 16), ("MOST_IDLE", 8), ("MOST_SIZES", 8)):
        monkeypatch.setattr(amdturns, name, most)


@pytest.mark.slow
def test_who_opens_kfd_4200_times_changes_no_figure(node: VendorNode) -> None:
    shared = Shared(node)
    shared.flood(4200)
    # Here a second passes in some milliseconds; to look at so many takes some real ones.
    while (page := node.run(SECONDS)).value(CORE, pod="victim") is None:
        pass
    assert (page.value(CORE, pod="tenant") or 0) == pytest.approx(
        5 * (page.value(CORE, pod="victim") or 0)
    )
    assert page.value(MEMORY, pod="victim") == 2 * GIB


@pytest.mark.usefixtures("few")
def test_idle_processes_are_asked_in_turn_and_change_no_figure(
    node: VendorNode, control: dict[str, float | None]
) -> None:
    shared = Shared(node)
    shared.flood(100)
    assert cores(node.run(SECONDS)) == control


@pytest.mark.usefixtures("few")
def test_whose_processes_work_in_turn_unseen_is_unmeasured_and_nobody_pays_for_it(
    node: VendorNode,
) -> None:
    shared = Shared(node)
    shared.flood(200)
    node.run(2)
    had: list[float] = []
    for second in range(60):
        before = TENANT if not second else 10_001 + second * 3
        node.tree.use(before, shared.gpu, cus=0)
        node.tree.use(10_001 + (second + 1) * 3, shared.gpu, cus=250)
        node.cycle()
        had.append(node.page().value(CORE, pod="victim") or 0)
    page = node.page()
    assert page.value(CORE, pod="tenant") is None
    assert page.value(UNMEASURED, pod="tenant", quantity="core") == 1
    # Met or not, the victim has what it occupies and nothing of the rest.
    assert had[1:] == pytest.approx([had[0] + n * 50 / 304 for n in range(1, 60)], rel=0.01)


@pytest.mark.usefixtures("few")
def test_who_has_more_at_work_than_are_asked_is_unmeasured_alone(
    node: VendorNode,
) -> None:
    shared = Shared(node)
    for pid in range(20_000, 20_040):
        shared.use(pid, "tenant", cus=1, vram=GIB)
    page = node.run(SECONDS)
    assert page.value(CORE, pod="tenant") is None
    assert page.value(MEMORY, pod="tenant") is None
    assert page.value(MEMORY, pod="victim") == 2 * GIB
    assert page.value(CORE, pod="victim") == pytest.approx(19 * 50 / 304, rel=0.1)
    assert sum(v for _, v in page.all(UNATTRIBUTED)) > 0


def test_who_has_too_many_to_be_known_loses_one_for_each_new_one(
    node: VendorNode,
    control: dict[str, float | None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(kfdprocesses, "MAX_PROCESSES", 40)
    shared = Shared(node, victim=TENANT, tenant=VICTIM)
    shared.flood(60)
    page = node.run(SECONDS)
    assert page.value(CORE, pod="victim") == pytest.approx(control["victim"], rel=0.06)
    assert page.value(CORE, pod="tenant") is None
    assert caplog.text.count("too many others of their containers") == 1
    for pid in range(10_002, 10_062):
        node.tree.end(pid)
    assert node.run(30).value(CORE, pod="tenant") is not None


def test_a_process_that_is_missing_from_a_list_counts_nothing_anew(node: VendorNode) -> None:
    shared = Shared(node)
    kfd, board = node.tree.kfd / "proc", shared.board
    for away in (kfd, kfd / str(VICTIM)):
        for second in range(24):
            if second == 4:
                away.rename(away.with_name(f".{away.name}.away"))
            if second == 14:
                away.with_name(f".{away.name}.away").rename(away)
            if not 4 <= second < 14:
                node.tree.count(VICTIM, shared.gpu, sdma_us=7_200 * 10**6 + second * 100_000)
            node.cycle()
    assert (node.page().value(COPIED, pod="victim", uuid=board.uuid) or 0) < 10


def test_a_list_that_fails_is_no_empty_list(node: VendorNode) -> None:
    Shared(node)
    before = node.run(6)
    away = node.tree.kfd / "away"
    (node.tree.kfd / "proc").rename(away)
    during = node.run(6)
    away.rename(node.tree.kfd / "proc")
    after = node.run(6)
    assert before.value(CORE, pod="victim")
    assert during.value(MEMORY, pod="victim") is None
    reason = {"pod": "victim", "quantity": "core", "reason": "read_failed"}
    assert during.value(UNMEASURED, **reason) == 1
    assert after.value(UNMEASURED, **reason) is None
    assert (after.value(CORE, pod="victim") or 0) > (before.value(CORE, pod="victim") or 0)
    assert after.value(MEMORY, pod="victim") == 2 * GIB


def used_again(node: VendorNode) -> Board:
    """A board on which a process held 4 GiB, has ended, and its folder is still there."""
    board = node.tree.add(MI300X)
    board.set(mem_info_vram_used=4 * GIB)
    node.tree.use(700, board.gpu_ids[0], vram=4 * GIB, cus=10)
    return board


def test_nobody_owns_a_folder_that_was_another_ones(node: VendorNode) -> None:
    used_again(node)
    job = node.home("job")
    node.process(job, pid=700, start=1000)
    assert node.run(6).value(MEMORY, pod="job") == 4 * GIB
    node.end(700)
    node.process("system.slice/nginx.service", pid=700, start=90_000)
    page = node.run(12)
    assert not page.all("mgpu_group_memory_used_bytes")
    assert not page.value(MEMORY, pod="job")


def test_nobody_owns_a_folder_that_is_older_than_itself(node: VendorNode) -> None:
    used_again(node)
    now_s = node.clock.time_ns() / 10**9
    (node.proc.root / "uptime").write_text("10000.00 1.00\n")
    os.utime(node.tree.kfd / "proc/700", (now_s - 5000, now_s - 5000))
    node.process("system.slice/nginx.service", pid=700, start=900_000)
    node.process("system.slice/job.service", pid=701, start=400_000)
    node.tree.use(701, node.tree.boards[0].gpu_ids[0], vram=GIB)
    page = node.run(6)
    assert [labels["group"] for labels, _ in page.all("mgpu_group_memory_used_bytes")] == [
        "job.service"
    ]


@pytest.mark.parametrize("uptime", [None, 10_000])
def test_a_start_that_was_told_wrong_takes_no_process_its_folder(
    node: VendorNode, uptime: int | None
) -> None:
    """By the uptime it is known at once that the start is wrong, otherwise when it is right again.

    Its counter goes on from where it was.
    """
    used_again(node)
    if uptime:
        (node.proc.root / "uptime").write_text(f"{uptime}.00 1.00\n")
    job, gpu = node.home("job"), node.tree.boards[0].gpu_ids[0]
    node.process(job, pid=700, start=1000)
    node.tree.count(700, gpu, 1000)
    node.run(6)
    node.proc.put(700, f"/{job}", start=1900)
    told_wrong = node.run(12)
    assert (told_wrong.value(MEMORY, pod="job") == 4 * GIB) is (uptime is not None)
    node.proc.put(700, f"/{job}", start=1000)
    page = node.run(12)
    assert page.value(MEMORY, pod="job") == 4 * GIB
    assert not page.value(COPIED, pod="job")
    node.tree.count(700, gpu, 2_001_000)
    assert node.run(12).value(COPIED, pod="job") == pytest.approx(2)


def test_a_start_that_was_wrong_when_a_process_was_met_takes_it_no_folder(node: VendorNode) -> None:
    used_again(node)
    (node.proc.root / "uptime").write_text("10000.00 1.00\n")
    job = node.home("job")
    node.process(job, pid=700, start=500)
    node.run(6)
    node.proc.put(700, f"/{job}", start=1000)
    assert node.run(12).value(MEMORY, pod="job") == 4 * GIB


def test_an_energy_counter_that_steps_back_and_returns_is_not_counted_twice(
    node: VendorNode,
) -> None:
    """As reported of amdsmi (ROCm/amdsmi#115)."""
    board = node.tree.add(MI300X)
    for second in range(14):
        joules = 20_000 + 13 * second
        board.metrics(v1_6((joules if second != 7 else joules - 1290) * TICKS))
        node.cycle()
    counted = node.page().value("mgpu_device_energy_joules_total") or 0
    assert 12 * 11 <= counted <= 13 * 13


def test_an_apu_has_no_more_of_its_hosts_memory_than_there_is(node: VendorNode) -> None:
    """As of a gfx1151 with 8 GiB carved out, a limit of 124 for GTT and 119 left in the machine."""
    kind = replace(STRIX_HALO, vram=8 * GIB, gtt=124 * GIB, bank=124 * GIB)
    node.tree.add(kind)
    (node.proc.root / "meminfo").write_text(f"MemTotal:       {119 << 20} kB\n")
    assert node.run(3).value("mgpu_device_memory_total_bytes") == 127 * GIB


def test_on_wsl2_nobody_is_told_to_load_amdgpu(node: VendorNode) -> None:
    node.machine.write(
        node.machine.proc, {"sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2"}
    )
    (node.sys / "module/amdgpu").rmdir()
    remove(node.tree.kfd)
    source = AmdSource(node.sys, node.proc.root, clock=node.clock)
    [line] = OTHERS["amd"](source.read(), {})
    source.close()
    assert "WSL2" in line.found
    assert "load amdgpu" not in line.remedy


def test_what_a_process_used_before_it_moved_is_not_its_new_owners(node: VendorNode) -> None:
    """Whoever may move his processes into a neighbour's cgroup makes him no bill for before."""
    node.machine.card(0, "i915", "0000:03:00.0")
    tenant, near = "system.slice/tenant.service", node.home("near")
    pid = node.process(tenant)
    had: list[float] = []
    for second in range(16):
        node.machine.open(pid, 5, i915(1, render=second * SECOND))
        if second == 8:
            node.proc.put(pid, f"/{near}", uid=0)
        node.cycle()
        had.append(node.page().value(CORE, pod="near") or 0)
    page = node.page()
    assert had[8] == 0  # it had worked in the tenant's cgroup
    assert had[15] - had[9] == pytest.approx(6, rel=0.01)
    assert page.value("mgpu_group_core_seconds_total", kind="systemd") == pytest.approx(6, abs=1.1)
    assert page.value(UNATTRIBUTED, reason="unknown_cgroup") == pytest.approx(1, rel=0.5)


@pytest.mark.parametrize("vendor", ["amd", "intel"])
def test_where_no_descriptor_is_left_no_board_is_lost(
    node: VendorNode, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    if vendor == "amd":
        Shared(node)
    else:
        node.machine.card(0, "i915", "0000:03:00.0")
        pid = node.process(node.home("victim"))
        node.machine.open(pid, 5, i915(1, render=SECOND))
    node.run(6)
    if vendor == "intel":
        node.machine.open(pid, 5, i915(1, render=2 * SECOND))
    before = node.run(1)
    with monkeypatch.context() as patch:
        for name in ("read", "names", "folders"):
            patch.setattr(door, name, lambda *_: Failed(errno.EMFILE))
        during = node.run(12)
    after = node.run(20)
    assert before.value("mgpu_device_up") == after.value("mgpu_device_up") == 1
    assert during.value("mgpu_device_up") == 0
    reasons = {labels["reason"] for labels, _ in during.all("mgpu_device_unmeasured")}
    assert "read_failed" in reasons
    assert "gpu_lost" not in reasons
    assert not during.value(CORE, pod="victim")
    assert (after.value(CORE, pod="victim") or 0) >= (before.value(CORE, pod="victim") or 0) > 0


@pytest.mark.parametrize("vendor", ["amd", "intel"])
def test_a_driver_that_is_loaded_anew_counts_nothing_anew(node: VendorNode, vendor: str) -> None:
    """Its boards go for some seconds, and what it counts begins at 0."""
    if vendor == "amd":
        board = node.tree.add(MI300X)
    else:
        node.machine.card(0, "i915", "0000:03:00.0", files={"hwmon/hwmon7/name": "i915"})
    pid = node.process(node.home("victim"))
    drm, away = node.sys / "class/drm", node.sys / "drm.away"

    def work(seconds: int) -> None:
        if vendor == "amd":
            board.set(gpu_busy_percent=50, mem_info_vram_used=6 * GIB)
            board.metrics(v1_6((20_000 * (seconds > 9) + 300 * seconds) * TICKS))
            node.tree.use(pid, board.gpu_ids[0], vram=GIB, cus=150)
        else:
            counted = {"hwmon/hwmon7/energy1_input": str(seconds * 300 * 10**6)}
            node.machine.write(node.sys / "devices/pci0000:00/0000:03:00.0", counted)
            node.machine.open(pid, 5, i915(1, render=seconds * SECOND // 2))

    for second in range(10, 20):
        work(second)
        node.cycle()
    before = node.page()
    folders = {drm: away, node.sys / "module": node.sys / "module.away"}
    if vendor == "amd":
        folders |= {
            node.tree.kfd: node.sys / "kfd.away",
            board.folder / "drm": node.sys / "nodes.away",
        }
    for place, other in folders.items():
        place.rename(other)
    gone = node.run(12)
    for place, other in folders.items():
        other.rename(place)
    for second in range(1, 21):
        work(second)
        node.cycle()
    after = node.page()
    assert gone.value("mgpu_device_up") in {0, None}
    assert gone.value(CORE, pod="victim") is None
    had, has = (page.value(CORE, pod="victim") or 0 for page in (before, after))
    assert 0 < had <= 5
    assert had < has <= had + 10.5
    joules = [page.value(JOULES) or 0 for page in (before, after)]
    assert 0 < joules[0] < joules[1] <= joules[0] + 21 * 300
