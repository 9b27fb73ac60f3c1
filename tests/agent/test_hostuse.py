"""What processes use of their host, from a ``/proc`` that is written here."""

import os
from pathlib import Path

import pytest

from exporter.agent import hostuse
from exporter.agent.hostuse import HostUse, HostUses
from tests.answers.top.test_commands import Steps

TICKS_S, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def write(procfs: Path, pid: int, cpu_s: float, *, name: str = "a) (b", started: int = 7) -> None:
    folder = procfs / str(pid)
    folder.mkdir(exist_ok=True)
    user = round(cpu_s * TICKS_S)
    fields = ["S", *["0"] * 10, str(user), "0", *["0"] * 6, str(started), "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (folder / "statm").write_text("900 30 0 0 0 0 0\n")


def test_cpus_are_those_since_the_reading_before(tmp_path: Path) -> None:
    clock = Steps()
    uses = HostUses(str(tmp_path), clock)
    write(tmp_path, 1, 100.0)
    assert uses.of({1: "a) (b"}) == {1: HostUse(None, 30 * PAGE)}
    clock.now_ns += 2 * 10**9
    write(tmp_path, 1, 103.0)
    assert uses.of({1: "a) (b"}) == {1: HostUse(1.5, 30 * PAGE)}
    clock.now_ns += 10**8  # another reader: too soon for ticks of a hundredth of a second
    write(tmp_path, 1, 103.1)
    assert uses.of({1: "a) (b"}) == {1: HostUse(1.5, 30 * PAGE)}


def test_another_process_with_its_pid_is_not_mistaken_for_it(tmp_path: Path) -> None:
    clock = Steps()
    uses = HostUses(str(tmp_path), clock)
    write(tmp_path, 1, 5.0)
    assert uses.of({1: "train", 2: "gone"}) == {}
    assert uses.of({1: "a) (b"})
    clock.now_ns += 10**9
    write(tmp_path, 1, 9.0, started=8)
    assert uses.of({1: "a) (b"}) == {1: HostUse(None, 30 * PAGE)}


def test_what_one_page_reads_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostuse, "MOST", 2)
    for pid in range(1, 5):
        write(tmp_path, pid, 1.0)
    found = HostUses(str(tmp_path), Steps()).of(dict.fromkeys(range(1, 5), "a) (b"))
    assert list(found) == [1, 2]
