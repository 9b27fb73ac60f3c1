"""Who has DRM devices open: of real processes, of composed ones, and of those that hide."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from exporter.agent.sources.gpus.drm import holders
from exporter.agent.sources.gpus.drm.holders import (
    MAX_HANDLES,
    MAX_OF_ONE,
    Handle,
    Handles,
    HandleScan,
    HandleScanner,
)
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceState, Unmeasured
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.drm.machine import Machine, i915, only
from tests.agent.sources.gpus.known import known

PCI = "0000:03:00.0"
AS_NOBODY = """
import json, os, sys
from exporter.agent.sources.gpus.drm.drmsource import DrmSource
os.setgroups([])
os.setuid(65534)
source = DrmSource(sys.argv[1], "/proc")
for _ in range(1000):  # to look through a busy machine's processes may take several
    reading = source.read()
    [device] = reading.devices
    if device.window:
        break
status = reading.status
busy = device.window.busy.core
print(json.dumps([status.up, status.detail, device.unmeasured["core"], busy]))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def looked(machine: Machine) -> HandleScanner:
    holders = HandleScanner(str(machine.proc), machine.clock)
    holders.look(0)
    return holders


@pytest.mark.parametrize(
    ("node", "minor"),
    [
        ("renderD128", 128),
        ("card0", 0),
        ("renderD131 (deleted)", 131),
        ("by-path/pci-0000:03:00.0-card", None),
        ("renderD", None),
        ("../zero", None),
    ],
)
def test_descriptors_are_known_by_their_node(
    machine: Machine, node: str, minor: int | None
) -> None:
    machine.process(42, 77)
    machine.open(42, 5, "", node)

    sight = known(looked(machine).newest)

    assert sight.handles == ({} if minor is None else {minor: (Handle(77, 42, 5),)})


def test_a_device_that_a_container_has_under_another_name_is_known_by_its_number(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    major = "exporter.agent.sources.gpus.drm.descriptors.DRM_MAJOR"
    monkeypatch.setattr(major, 1)  # of /dev/null, which is everywhere
    machine.process(42, 77)
    (machine.proc / "42/fd/5").symlink_to("/dev/null")

    assert known(looked(machine).newest).handles == {3: (Handle(77, 42, 5),)}


def test_what_is_no_process_is_passed_over(machine: Machine) -> None:
    (machine.proc / "1000000").write_text("no directory\n")
    (machine.proc / "self").symlink_to("42")
    machine.process(42)
    machine.open(42, 5, "")
    (machine.proc / "42/stat").unlink()

    sight = known(looked(machine).newest)

    assert sight.handles == {128: (Handle(0, 42, 5),)}
    assert (sight.refused, sight.left) == (0, 0)


class Ticking(ManualClock):
    """A clock on which each look at it takes a second."""

    def monotonic_ns(self) -> int:
        self.move(1)
        return self.now_ns


def test_the_longer_a_look_takes_the_more_seldom_it_is_done(machine: Machine) -> None:
    for pid in range(10, 20):
        machine.process(pid)
    clock = Ticking()
    holders = HandleScanner(str(machine.proc), clock)
    holders.look(0)
    begun = [holders.newest.begun_mono_ns] if holders.newest else []
    while len(begun) < 3:
        holders.look(0)
        if holders.newest and holders.newest.begun_mono_ns != begun[-1]:
            begun.append(holders.newest.begun_mono_ns)

    took_s = 11  # 10 processes, and the end
    assert begun[2] - begun[1] >= 100 * took_s * 10**9


def test_a_sight_tells_since_when_what_is_new_in_it_can_be_there(machine: Machine) -> None:
    holders = looked(machine)
    first = known(holders.newest)
    machine.clock.move(5)
    holders.look(0)
    second = known(holders.newest)

    assert (first.since_mono_ns, second.since_mono_ns) == (None, first.begun_mono_ns)


def test_of_many_without_a_device_some_are_looked_at_in_each_scan(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "IN_TURN", 4)
    monkeypatch.setattr(holders, "YOUNGEST", 2)
    for pid in (*range(10, 22), 100):
        machine.process(pid)
    machine.open(100, 3, i915(1))
    scanner = looked(machine)
    begun = known(scanner.newest).begun_mono_ns
    machine.open(16, 3, i915(2))  # of one that was there, when it was looked at already
    machine.open(21, 3, i915(4))  # of the youngest of them
    machine.process(200)
    machine.open(200, 3, i915(3))
    found = []
    for _ in range(3):
        machine.clock.move(5)
        with monkeypatch.context() as patch:
            asked = Mock(wraps=os.scandir)
            patch.setattr(os, "scandir", asked)
            scanner.look(0)
        found.append((asked.call_count, sorted(known(scanner.newest).clients.values())))
        assert known(scanner.newest).since_mono_ns == begun

    assert found == [(9, [1, 3, 4]), (10, [1, 2, 3, 4]), (11, [1, 2, 3, 4])]  # and the list itself


@pytest.mark.parametrize("before", [HandleScan(refused=1), HandleScan(left=1)])
def test_after_a_look_that_did_not_see_all_nothing_is_known_to_be_new(
    machine: Machine, before: HandleScan
) -> None:
    holders = HandleScanner(str(machine.proc), machine.clock)
    holders.newest = before
    holders.look(0)

    assert holders.newest is not before
    assert holders.newest.since_mono_ns is None


def test_real_processes_are_looked_through() -> None:
    """This machine's own: none has a DRM device unless it has one, and all can be looked into."""
    holders = HandleScanner("/proc", ManualClock())
    holders.look(0)

    assert known(holders.newest).left == 0
    assert Path("/dev/dri").exists() or not known(holders.newest).handles


@pytest.mark.root
def test_without_rights_it_is_unknown_how_busy_a_device_is() -> None:
    """As nobody: of root's processes nothing is seen, which is not that they do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        machine = Machine(Path(folder))
        machine.card(0, "i915", PCI)
        command = [sys.executable, "-c", AS_NOBODY, str(machine.sys)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    up, detail, reason, busy = json.loads(done.stdout)

    assert (up, reason, busy) == (True, "no_permission", None)
    assert "CAP_SYS_PTRACE" in detail


@pytest.mark.parametrize(
    ("nspid", "link", "sees"),
    [
        ("7", "pid:[4026531836]", True),  # the machine's own
        ("7", "pid:[4026532900]", False),  # a container's own /proc
        ("7\t1", "pid:[4026532900]", True),  # in a container, the host's /proc
        (None, None, True),  # a directory laid out the same way
    ],
)
def test_the_proc_of_a_container_shows_not_all(
    machine: Machine, nspid: str | None, link: str | None, *, sees: bool
) -> None:
    if nspid and link:
        machine.write(machine.proc, {"self/status": f"Name:\tx\nNSpid:\t{nspid}"})
        (machine.proc / "self/ns").mkdir()
        (machine.proc / "self/ns/pid").symlink_to(link)
    machine.card(0, "i915", PCI)
    source = machine.source()
    source.read()
    machine.clock.move(1)

    reading = only(source.read())

    assert known(reading.window).busy.core == (0 if sees else None)
    assert reading.unmeasured.get("core") == (None if sees else Unmeasured.NO_HOSTPID)


class HangingClock(ManualClock):
    """Threads of this name wait here, as in a call that hangs, until they are let go."""

    def __init__(self, hangs: str) -> None:
        super().__init__()
        self.hangs = hangs
        self.go_on = threading.Event()
        self.go_on.set()

    def monotonic_ns(self) -> int:
        """The time, once the call comes back."""
        if threading.current_thread().name.startswith(self.hangs):
            self.go_on.wait()
        return self.now_ns


def test_a_scan_that_hangs_is_not_waited_for_and_then_nobody_is_idle(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    clock = machine.clock = HangingClock("drm clients")
    machine.card(0, "i915", PCI)
    machine.process(42)
    machine.open(42, 5, i915(2))
    source = machine.source()
    source.read()
    clock.go_on.clear()
    source.follow(Demand(deadline_s=0.5, processes_every_ns=0))
    clock.move(1)
    late = source.read()
    clock.move(6)
    hung = source.read()
    clock.go_on.set()
    source.follow(Demand(deadline_s=30, processes_every_ns=0))
    readings = [hung]
    while only(readings[-1]).window is None:  # until its worker has come back, and once more
        clock.move(1)
        readings.append(source.read())

    assert "core" not in only(late).unmeasured
    assert only(hung).unmeasured["core"] is Unmeasured.READ_FAILED
    assert "has not come back" in hung.status.detail
    assert caplog.text.count("has not come back") == 1
    assert only(readings[-1]).state is DeviceState.UP


def test_a_first_scan_that_hangs_is_a_reason_too(machine: Machine) -> None:
    clock = machine.clock = HangingClock("drm clients")
    machine.card(0, "i915", PCI)
    machine.process(42)
    machine.open(42, 5, i915(2))
    source = machine.source()
    clock.go_on.clear()
    source.follow(Demand(deadline_s=0.5, processes_every_ns=0))
    early = source.read()
    clock.move(6)
    hung = source.read()
    clock.go_on.set()
    source.follow(Demand(deadline_s=30, processes_every_ns=0))
    readings = [hung]
    while only(readings[-1]).window is None:  # until its worker has come back, and once more
        clock.move(1)
        readings.append(source.read())

    assert only(early).unmeasured == {}
    why = only(hung).unmeasured
    assert why["core"] is why["memory"] is Unmeasured.READ_FAILED
    assert only(readings[-1]).window is not None


def taken(*numbers: int) -> Handles:
    """Handles after processes 1, 2, … have been looked at, which have so many each."""
    handles = Handles()
    for pid, number in enumerate(numbers, 1):
        for descriptor in range(number):
            if not handles.add(128, Handle(pid, pid, descriptor)):
                break
    return handles


def test_a_process_that_has_too_many_is_cut_and_no_other() -> None:
    handles = taken(3, MAX_OF_ONE + 1, 5)

    found = [handle.pid for handle in handles.by_minor()[128]]

    assert handles.cut == {2}
    assert [found.count(pid) for pid in (1, 2, 3)] == [3, MAX_OF_ONE, 5]


def test_who_has_the_most_is_cut_however_many_they_are() -> None:
    hostile = [MAX_OF_ONE] * (MAX_HANDLES // MAX_OF_ONE + 2)

    handles = taken(100, *hostile, 200)

    assert handles.cut == set(range(2, len(hostile) + 2))
    assert len(handles.by_minor()[128]) <= MAX_HANDLES


def test_where_nothing_helps_who_comes_later_is_cut() -> None:
    handles = taken(*[1] * (MAX_HANDLES + 2))

    assert handles.cut == {MAX_HANDLES + 1, MAX_HANDLES + 2}


def test_a_process_without_any_is_nobodys_client_however_many_files_it_has() -> None:
    handles = taken(1)
    handles.cut_off(1)
    handles.cut_off(2)

    assert handles.cut == {1}
