import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from exporter.agent.simulation.description import Fault
from exporter.agent.simulation.load_scenario import describe, load
from exporter.agent.simulation.node import Node
from exporter.agent.sources.gpus.gpusource import GpuSource
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.model import (
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    Window,
    XidCount,
)
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.simulation.nodes import node, pod, process
from tests.agent.simulation.truth import truth_of
from tests.agent.sources.gpus.known import known


def _gpus(**scenario: Any) -> tuple[SimulatedGpus, Node, ManualClock]:
    clock = ManualClock()
    asked = node(clock, **scenario)
    return SimulatedGpus(asked, clock), asked, clock


def _one(gpus: SimulatedGpus) -> DeviceReading:
    return gpus.read().devices[0]


def test_it_is_a_gpu_source_and_says_that_it_is_simulated() -> None:
    gpus, asked, _ = _gpus(devices=2)
    source: GpuSource = gpus
    reading = source.read()
    assert reading.simulated
    assert reading.status.up
    assert reading.status.name == source.name == "simulated"
    assert tuple(d.device for d in reading.devices) == asked.devices()


def _demo(seconds: int, step: float) -> Iterator[tuple[Node, list[DeviceReading]]]:
    clock = ManualClock()
    asked = Node(load("demo"), clock)
    gpus = SimulatedGpus(asked, clock)
    for _ in range(int(seconds / step)):
        yield asked, list(gpus.read().devices)
        clock.move(step)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2.7])
def test_windows_are_contiguous_and_add_up_to_the_truth_of_each_device(step: float) -> None:
    windows: dict[str, list[Window]] = {}
    asked = None
    for asked, readings in _demo(300, step):  # noqa: B007 - the node is needed after the loop
        for reading in readings:
            windows.setdefault(reading.device.uuid, []).extend(reading.windows)
    assert asked
    for uuid, seen in windows.items():
        for before, after in pairwise(seen):
            assert before.end_unix_ns == after.start_unix_ns
        assert not any(window.unobserved_ns for window in seen)
        busy = sum(window.busy.core or 0 for window in seen)
        truth = truth_of(asked, seen[0].start_unix_ns, seen[-1].end_unix_ns).device_core_ns[uuid]
        assert busy == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("step", [1, 0.05])
def test_energy_of_the_windows_adds_up_to_the_counter(step: float) -> None:
    gpus, asked, clock = _gpus(processes=[process(duty=0.4, jitter=0.5, start="10s")])
    first = last = asked.energy_uj(0)
    used = idle = 0
    for _ in range(int(30 / step)):
        window = _one(gpus).window
        if window:
            used += window.energy_uj or 0
            idle += window.idle_energy_uj or 0
            last = asked.energy_uj(0)
        clock.move(step)
    assert used == last - first
    if step == 1:  # more often than the counter moves, its lowest rate says nothing
        learnt = 30 - 6  # the first seconds go into learning what an idle A10 draws here: 20 W
        assert idle == pytest.approx(learnt * 20e6, rel=0.05)


def test_a_new_process_is_listed_at_once() -> None:
    gpus, _, clock = _gpus(pods=[pod("p", process(start="2s", memory="1GiB"))])
    listed: list[int] = []
    for _ in range(5):
        reading = _one(gpus)
        assert reading.window or not listed
        active = {row.pid for row in reading.window.processes} if reading.window else set()
        pids = {p.pid for p in known(reading.memory).processes or ()}
        assert active <= pids
        listed.append(len(pids))
        clock.move(1)
    assert listed == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ("lost", DeviceState.LOST),
        ("stuck", DeviceState.STUCK),
        ("failing", DeviceState.FAILED),
    ],
)
def test_a_fault_costs_its_device_and_no_other(fault: str, state: DeviceState) -> None:
    faults = [{"device": 0, "state": fault, "from": "2s", "to": "4s"}]
    gpus, _, clock = _gpus(devices=2, faults=faults, processes=[process(device=[0, 1])])
    states = []
    for _ in range(6):
        broken, whole = gpus.read().devices
        states.append(broken.state)
        assert whole.state is DeviceState.UP
        assert (broken.memory is None) == (broken.state is not DeviceState.UP)
        assert bool(broken.detail) == (broken.state is not DeviceState.UP)
        clock.move(1)
    assert states == [DeviceState.UP] * 2 + [state] * 2 + [DeviceState.UP] * 2


def test_a_device_that_falls_off_the_bus_is_reported_by_its_xid() -> None:
    faults = [{"device": 0, "state": "lost", "from": "2s", "to": "4s"}]
    gpus, asked, clock = _gpus(faults=faults)
    seen = []
    for _ in range(5):
        seen.append(_one(gpus).xids["79"])
        clock.move(1)
    fallen = XidCount(1, asked.start_unix_ns + 2 * 10**9)
    assert seen == [XidCount()] * 2 + [fallen] * 3


def test_a_released_source_reads_nothing_until_it_is_taken_up_again() -> None:
    gpus, _, clock = _gpus(processes=[process()])
    gpus.read()
    gpus.release(True)
    clock.move(1)
    released = gpus.read()
    assert not released.status.up
    assert released.devices[0].state is DeviceState.RELEASED
    assert released.devices[0].window is None
    gpus.release(False)
    clock.move(1)
    assert _one(gpus).window
    gpus.close()


def _divided(model: str) -> tuple[SimulatedGpus, Node, ManualClock]:
    devices = [
        {"model": model, "memory": "80GiB", "idle_power": 70, "max_power": 700},
        {"parent": 0, "profile": "2g.20gb", "memory": "20GiB"},
        {"parent": 0, "profile": "3g.40gb", "memory": "40GiB"},
    ]
    works = [process(device=1, duty=0.5, memory="3GiB")]
    clock = ManualClock()
    asked = Node(describe({"devices": devices, "processes": works}, "f"), clock)
    return SimulatedGpus(asked, clock), asked, clock


def test_an_instance_s_window_is_its_activity_times_its_share_of_the_card() -> None:
    gpus, asked, clock = _divided("NVIDIA H100 80GB HBM3")
    gpus.read()
    clock.move(10)
    _, two, three = gpus.read().devices
    truth = truth_of(asked, START, clock.now_ns).device_core_ns
    assert known(two.window).methods == Methods("gpm", "sole_owner")
    assert known(two.window).busy.core == pytest.approx(truth[two.device.uuid], abs=1)
    assert known(three.window).busy.core == 0
    assert known(two.memory).used_bytes == 3 << 30
    assert set(two.unmeasured) == {"memory_active", "encoder", "decoder", "energy"}


def test_a_card_that_is_divided_keeps_its_energy_and_nothing_else() -> None:
    gpus, asked, clock = _divided("NVIDIA H100 80GB HBM3")
    used_uj = 0
    for _ in range(10):
        board = gpus.read().devices[0]
        used_uj += board.window.energy_uj or 0 if board.window else 0
        clock.move(1)
    assert known(board.window).busy == Engines()
    assert known(board.window).idle_energy_uj is None  # never seen idle: its cores are not measured
    assert board.memory is None
    assert {"core", "memory"} < board.unmeasured.keys()
    truth = truth_of(asked, START, START + 9 * 10**9).device_energy_uj[board.device.uuid]
    assert used_uj == pytest.approx(truth, rel=0.05)


def test_an_instance_is_lost_with_its_card() -> None:
    _, asked, clock = _divided("NVIDIA H100 80GB HBM3")
    lost = Fault(0, DeviceState.LOST, 0, 10**12)
    broken = Node(replace(asked.scenario, faults=(lost,)), clock)
    states = [d.state for d in SimulatedGpus(broken, clock).read().devices]
    assert states == [DeviceState.LOST] * 3


def test_a_lost_card_is_logged_as_a_real_one_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    _, asked, clock = _divided("NVIDIA H100 80GB HBM3")
    lost = Fault(0, DeviceState.LOST, 2 * 10**9, 5 * 10**9)
    gpus = SimulatedGpus(Node(replace(asked.scenario, faults=(lost,)), clock), clock)
    for _ in range(10):
        states = [device.state for device in gpus.read().devices]
        clock.move(1)
    uuids = ", ".join(device.uuid for device in asked.devices())
    assert states == [DeviceState.UP] * 3
    lines = [record.getMessage() for record in caplog.records]
    opened, fallen, unread, back = lines
    assert opened == "simulated driver opened: 3 devices"
    assert fallen.startswith(f"device {asked.devices()[0].uuid} reports XID 79: it has fallen off")
    assert unread.startswith(f"devices are not read (gpu_lost): {uuids}: the scenario has taken")
    assert back == f"devices are read again (before: gpu_lost): {uuids}"
