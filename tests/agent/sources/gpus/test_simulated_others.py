"""Simulated devices of AMD and Intel tell what their sources would, and no more."""

from collections import Counter
from typing import Any

import pytest

from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.model import DeviceReading, Methods, ProcessMemory, Unmeasured, Window
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.simulation.nodes import process
from tests.agent.simulation.truth import truth_of
from tests.agent.sources.gpus.known import known

GIB = 1 << 30
BOARD = {"model": "AMD Instinct MI300X OAM", "memory": "192GiB", "vendor": "amd"}
PARTED = {**BOARD, "partition": "cpx", "idle_power": 100, "max_power": 500}
XE = {"model": "8086:e20b", "vendor": "intel", "idle_power": 10, "max_power": 110}


class Looked:
    """The readings of a node that was looked at once a second, by device number."""

    def __init__(self, device: dict[str, Any], *processes: dict[str, Any], seconds: int) -> None:
        clock = ManualClock()
        self.node = Node(
            describe({"devices": [device], "processes": [*processes]}, "f"), clock, START
        )
        gpus = SimulatedGpus(self.node, clock)
        self.cycles: list[tuple[DeviceReading, ...]] = []
        for _ in range(seconds):
            self.cycles.append(gpus.read().devices)
            clock.move(1)
        self.last = self.cycles[-1]

    def windows(self, number: int) -> list[Window]:
        return [window for cycle in self.cycles if (window := cycle[number].window)]

    def busy(self, number: int) -> int:
        return sum(window.busy.core or 0 for window in self.windows(number))

    def named(self, number: int) -> Counter[int]:
        spent: Counter[int] = Counter()
        for window in self.windows(number):
            for row in window.processes:
                spent[row.pid] += row.busy.core or 0
        return spent

    def truth(self, number: int) -> int:
        """The device's core time in the same windows."""
        windows = self.windows(number)
        truth = truth_of(self.node, windows[0].start_unix_ns, windows[-1].end_unix_ns)
        return truth.device_core_ns[self.last[number].device.uuid]


def test_a_partition_is_measured_and_its_board_keeps_the_energy() -> None:
    looked = Looked(PARTED, process(device=4, memory="3GiB", copy=0.5), seconds=41)
    board, part, idle = looked.last[0], looked.last[4], looked.last[5]

    assert looked.busy(4) == pytest.approx(looked.truth(4), rel=0.03)
    assert looked.truth(4) == 40 * 10**9 // 8
    assert looked.named(4).total() == pytest.approx(looked.truth(4), rel=0.03)
    assert looked.busy(5) == 0
    assert idle.window
    assert known(part.window).methods == Methods("rates", "cu_occupancy")
    assert known(part.window).counted == {"copy": {2001: 10**9 // 2}, "evicted": {}}
    assert (known(part.memory).total_bytes, known(part.memory).used_bytes) == (24 * GIB, 3 * GIB)
    assert part.unmeasured["energy"] is Unmeasured.PARTITIONED
    assert part.sensors.value("power_watts") is None
    used = sum(window.energy_uj or 0 for window in looked.windows(0))
    assert used == pytest.approx(40 * (100 + 400 / 8) * 1e6, rel=0.01)
    assert board.sensors.value("power_watts") == 150
    assert set(board.sensors.by_label("temperature_celsius")) == {"hotspot", "memory"}
    assert (known(board.window).busy.core, board.memory) == (None, None)
    assert board.unmeasured["core"] is Unmeasured.PARTITIONED


def test_bursts_shorter_than_the_cycle_are_named_though_a_sample_may_miss_them() -> None:
    looked = Looked(BOARD, process(duty=0.5, period="170ms", jitter=0.3), seconds=201)
    assert looked.busy(0) == pytest.approx(looked.truth(0), rel=0.02)
    named = sum(min(w.busy.core or 0, 4 * looked_for(w)) for w in looked.windows(0))
    assert named / looked.busy(0) > 0.97


def looked_for(window: Window) -> int:
    """Core time of the processes that a window names."""
    return sum(row.busy.core or 0 for row in window.processes)


def test_the_kernel_s_counters_of_a_card_of_intel_s_are_exact() -> None:
    work = process(duty=0.3, period="70ms", jitter=0.4, memory="2GiB", encoder=0.5, decoder=0.25)
    looked = Looked(XE, work, seconds=31)
    card, windows = looked.last[0], looked.windows(0)

    assert looked.busy(0) == looked.named(0).total() == looked.truth(0)
    video = sum(window.busy.decoder or 0 for window in windows)
    assert video == pytest.approx(0.75 * looked.truth(0), abs=2000 * len(windows))
    assert {window.busy.encoder for window in windows} == {None}
    assert {window.busy.memory_active for window in windows} == {None}
    assert windows[-1].methods == Methods("fdinfo", "fdinfo", "counter")
    assert card.memory
    assert (card.memory.total_bytes, card.memory.used_bytes) == (None, None)
    assert card.memory.processes == (ProcessMemory(2001, 2 * GIB, frozenset()),)
    assert set(card.sensors.by_label("clock_hertz")) == {"graphics"}
    assert card.sensors.by_label("ecc_errors_total") == {}
    assert card.xids == {}
