"""One tenant fills a bound of DRM's clients, or hides behind a file system: nobody else is hit."""

import os
from pathlib import Path

import pytest

from exporter.agent.doctor.evidence import CheckResult
from exporter.agent.doctor.vendors import OTHERS
from exporter.agent.sources import door
from exporter.agent.sources.gpus.drm import drmturns, holders
from tests.agent.sources.gpus.amd.trees import RADEON
from tests.agent.sources.gpus.drm.machine import i915
from tests.e2e.programs import Page
from tests.field.vendors.boards import CORE, GIB, MEMORY, VendorNode

MS = 10**6
PCI = "0000:03:00.0"
UNMEASURED = "mgpu_container_unmeasured"
OLD_AMDGPU = (
    "pdev:\t0000:c1:00.0\npasid:\t32771\nvram mem:\t2097152 kB\ngtt mem:\t64 kB\n"
    "cpu mem:\t0 kB\ngfx0:\t41.25%\n"
)


class Shared:
    """A card on which the victim works 40 % of the time and the tenant 20 %, both as clients."""

    def __init__(self, node: VendorNode, files: dict[str, str] | None = None) -> None:
        self.node = node
        node.machine.card(0, "i915", PCI, files=files)
        self.homes = {name: node.home(name) for name in ("victim", "tenant")}
        # The victim is the last in each list.
        self.tenant = node.process(self.homes["tenant"], pid=500)
        self.victim = node.process(self.homes["victim"], pid=90_001)
        self.second = 0

    def run(self, seconds: int) -> Page:
        for _ in range(seconds):
            self.second += 1
            self.node.machine.open(self.victim, 5, i915(1, render=self.second * 400 * MS))
            self.node.machine.open(self.tenant, 5, i915(2, render=self.second * 200 * MS))
            self.node.cycle()
        return self.node.page()


def cores(page: Page) -> dict[str, float]:
    return {name: page.value(CORE, pod=name) or 0 for name in ("victim", "tenant")}


@pytest.fixture
def control(tmp_path: Path) -> dict[str, float]:
    shared = Shared(VendorNode(tmp_path / "control"))
    page = shared.run(20)
    shared.node.close()
    return cores(page)


def test_a_client_that_many_processes_have_inherited_counts_once(
    node: VendorNode, control: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "MAX_HANDLES", 30)
    shared = Shared(node)
    for pid in range(1000, 1080):
        node.machine.open(node.process(shared.homes["tenant"], pid=pid), 5, i915(3))
    page = shared.run(20)
    assert cores(page) == control
    assert page.value(MEMORY, pod="victim") == 16 << 20


def test_who_has_too_many_clients_is_cut_and_nobody_else(
    node: VendorNode,
    control: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(holders, "MAX_HANDLES", 30)
    shared = Shared(node)
    for pid in range(1000, 1080):  # no process has many
        node.machine.open(node.process(shared.homes["tenant"], pid=pid), 5, i915(pid))
    page = shared.run(20)
    assert page.value(CORE, pod="victim") == control["victim"]
    assert page.value(CORE, pod="tenant") is None
    assert page.value(UNMEASURED, pod="tenant", quantity="core", reason="read_failed") == 1
    assert caplog.text.count("more files of /dev/dri open than are looked at") == 1


def test_idle_clients_are_asked_in_turn_and_change_no_figure(
    node: VendorNode, control: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drmturns, "MOST_IDLE", 4)
    shared = Shared(node)
    for number in range(60):
        node.machine.open(shared.tenant, 10 + number, i915(100 + number))
    page = shared.run(20)
    assert page.value(CORE, pod="victim") == pytest.approx(control["victim"], rel=0.001)
    # His client that works is known as one from the first time on when it is asked.
    assert (page.value(CORE, pod="tenant") or 0) <= control["tenant"]


def test_what_was_done_while_nobody_asked_takes_nothing_from_a_neighbour(
    node: VendorNode, control: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drmturns, "MOST_IDLE", 4)
    shared = Shared(node)
    for number in range(60):
        node.machine.open(shared.tenant, 10 + number, i915(100 + number))
    shared.run(6)
    for number in range(60):  # all at once, and then they rest
        node.machine.open(shared.tenant, 10 + number, i915(100 + number, render=10_000 * MS))
    page = shared.run(14)
    assert page.value(CORE, pod="tenant") is None
    assert page.value(UNMEASURED, pod="tenant", quantity="core", reason="read_failed") == 1
    assert (page.value(CORE, pod="victim") or 0) <= control["victim"] * 1.01


def test_a_descriptor_of_a_tenants_own_file_system_is_never_asked_for_its_stat(
    node: VendorNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stat never returns; fdinfo is the kernel's."""
    shared = Shared(node)
    home = node.proc.root / str(shared.tenant)
    for number, place in enumerate(("/dev/mine/x", "/dev/dri/renderD128"), 20):
        (home / "fd" / str(number)).symlink_to(place)
        (home / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t02\nmnt_id:\t77\nino:\t2\n")
    (home / "mountinfo").write_text("77 1 0:99 / /dev/dri rw - fuse.evil evil rw\n")
    looked, about = [], door.about

    def watched(path: str, folder: int | None = None) -> door.Reply[os.stat_result]:
        looked.append(path)
        return about(path, folder)

    monkeypatch.setattr(door, "about", watched)
    page = shared.run(6)
    assert "5" in looked  # the clients of i915
    assert not {"20", "21"}.intersection(looked)
    assert page.value(CORE, pod="victim")
    assert page.value("mgpu_device_unmeasured", quantity="core") is None


def test_a_list_of_processes_that_fails_is_no_empty_list(
    node: VendorNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Shared(node)
    before = shared.run(10)
    scans = holders.HandleScanner._scan

    def away(scanner: holders.HandleScanner, begun_ns: int) -> holders.HandleScan:
        root, scanner._root = scanner._root, "/nowhere"
        try:
            return scans(scanner, begun_ns)
        finally:
            scanner._root = root

    with monkeypatch.context() as patch:
        patch.setattr(holders.HandleScanner, "_scan", away)
        during = shared.run(90)
    after = shared.run(20)
    assert during.value("mgpu_device_unmeasured", quantity="core", reason="read_failed") == 1
    assert during.value(CORE, pod="victim") is None
    grown = (after.value(CORE, pod="victim") or 0) - (before.value(CORE, pod="victim") or 0)
    assert 6 < grown <= 110 * 0.4


@pytest.mark.parametrize("kernel", ["5.15.0-91-generic", "6.8.0-31-generic", "6.14.0"])
def test_i915_of_a_kernel_without_engines_in_fdinfo_is_not_idle(
    node: VendorNode, kernel: str
) -> None:
    node.machine.write(node.machine.proc, {"sys/kernel/osrelease": kernel})
    node.machine.card(0, "i915", PCI)
    pid = node.tenant("train")
    for second in range(20):
        text = "" if kernel.startswith("5.15") else i915(2, render=second * 500 * MS)
        node.machine.open(pid, 5, text)
        node.cycle()
    page = node.page()
    is_old = kernel.startswith("5.15")
    reason = {"quantity": "core", "reason": "not_supported"}
    assert page.value("mgpu_device_unmeasured", **reason) == (1 if is_old else None)
    assert (page.value("mgpu_device_busy_seconds_total") is None) == is_old
    assert (page.value("mgpu_device_utilization_ratio") is None) == is_old
    [line] = [each for each in checks(node, "drm") if each.subject.endswith(" core")]
    assert ("not measured" in line.found) == is_old
    assert any("names no client" in each.found for each in checks(node, "drm")) == is_old


def test_amdgpus_fdinfo_of_before_5_19_is_said_to_name_nobody(node: VendorNode) -> None:
    board = node.tree.add(RADEON)
    board.set(gpu_busy_percent=80, mem_info_vram_used=3 * GIB)
    node.machine.open(node.tenant("desk"), 5, OLD_AMDGPU, board.render)
    page = node.run(10)
    assert page.value(CORE, pod="desk") is None
    assert page.value("mgpu_device_unmeasured", quantity="memory", reason="not_supported") == 1
    said = checks(node, "amd")
    assert any("before Linux 5.19" in each.found for each in said)
    assert not any("core" in each.subject and each.found.startswith("measured") for each in said)


def checks(node: VendorNode, source: str) -> list[CheckResult]:
    """What ``check`` says of a source's devices."""
    assert node.collector is not None
    gpus = node.collector._poller._sources.gpus
    [reading] = [each.read() for each in gpus if each.name == source]
    return list(OTHERS[source](reading, {}))
