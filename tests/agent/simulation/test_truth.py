from typing import Any

import pytest
from hypothesis import given, settings

from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.model import ContainerKey, GroupKey, Unattributed
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.agent.simulation.nodes import SCENARIOS, node, pod, process
from tests.agent.simulation.truth import truth_of

DOCKER = "4f1c6f3f0e3b2b6dd7a3a7c0f5a2d4e1b8c9d0a1f2e3c4b5a69788796a5b4c3d"


@settings(max_examples=settings().max_examples // 4)
@given(SCENARIOS)
def test_owners_add_up_to_their_device_and_namespaces_to_their_pods(
    scenario: dict[str, Any],
) -> None:
    asked = node(devices=2, **scenario)
    truth = truth_of(asked, START, START + 12 * SECOND)
    for device in asked.devices():
        owners = {owner: ns for (owner, uuid), ns in truth.core_ns.items() if uuid == device.uuid}
        assert sum(owners.values()) == truth.device_core_ns[device.uuid] <= 12 * SECOND
        assert all(ns >= 0 for ns in owners.values())
        named = sum(ns for owner, ns in owners.items() if isinstance(owner, ContainerKey))
        assert truth.namespace_core_ns.get(("n", device.uuid), 0) == named


@settings(max_examples=settings().max_examples // 4)
@given(SCENARIOS)
def test_the_truth_of_two_parts_adds_up_to_the_whole(scenario: dict[str, Any]) -> None:
    asked = node(devices=2, **scenario)
    times = (START, START + 3_333_333_333, START + 7 * SECOND)
    left, right = truth_of(asked, *times[:2]), truth_of(asked, *times[1:])
    whole = truth_of(asked, times[0], times[2])
    for uuid, ns in whole.device_core_ns.items():
        assert left.device_core_ns[uuid] + right.device_core_ns[uuid] == ns
    for key, ns in whole.core_ns.items():  # a share that does not divide is cut elsewhere
        assert abs(left.core_ns.get(key, 0) + right.core_ns.get(key, 0) - ns) <= 2


def test_each_process_belongs_to_one_owner() -> None:
    processes = [
        process(),
        process(cgroup="/user.slice"),
        process(cgroup=f"/system.slice/docker-{DOCKER}.scope"),
    ]
    asked = node(pods=[pod("p", processes[0])], processes=processes[1:])
    (device,) = asked.devices()
    truth = truth_of(asked, START, START + 3 * SECOND)
    assert truth.core_ns == {
        (ContainerKey("n", "p", "c"), device.uuid): SECOND,
        (Unattributed.HOST_PROCESS, device.uuid): SECOND,
        (GroupKey("docker", DOCKER), device.uuid): SECOND,
    }


def test_a_process_on_two_devices_is_one_process_with_the_same_work_on_both() -> None:
    clock = ManualClock()
    asked = node(clock, devices=2, processes=[process(device=[0, 1], duty=0.5)])
    clock.move(5)
    assert len(asked.cgroup_paths()) == 1
    assert asked.memory(0).processes == asked.memory(1).processes
    truth = truth_of(asked, START, clock.now_ns)
    assert len(set(truth.device_core_ns.values())) == 1


def test_energy_is_idle_power_all_the_time_and_the_rest_while_busy() -> None:
    asked = node(processes=[process(duty=0.5, period="1s", phase=0)])  # an A10: 20 W to 150 W
    (device,) = asked.devices()
    truth = truth_of(asked, START, START + 10 * SECOND)
    assert truth.idle_energy_uj[device.uuid] == 10 * 20_000_000
    tool = GroupKey("systemd", "gpu-tool.service")
    assert truth.active_energy_uj[tool, device.uuid] == 5 * 130_000_000
    assert truth.device_energy_uj[device.uuid] == 10 * 20_000_000 + 5 * 130_000_000


def test_the_energy_counter_follows_the_truth_in_millijoules() -> None:
    clock = ManualClock()
    asked = node(clock, processes=[process(duty=0.37, period="430ms", jitter=0.5)])
    (device,) = asked.devices()
    before = 0
    for _ in range(40):
        clock.move(1.7)
        counter = asked.energy_uj(0)
        truth = truth_of(asked, START, clock.now_ns).device_energy_uj[device.uuid]
        assert counter % 1000 == 0
        assert counter > before
        assert 0 <= truth - counter <= 150_000_000 // 10 + 1000  # a tenth of a second at full power
        before = counter


@pytest.mark.parametrize(
    ("duty", "watts", "hertz"), [(1, 150, 1_500_000_000), (0, 20, 210_000_000)]
)
def test_sensors_show_how_busy_the_device_is(duty: int, watts: float, hertz: int) -> None:
    clock = ManualClock()
    asked = node(clock, processes=[process(duty=duty)])
    clock.move(15)
    sensors = asked.sensors(0)
    assert sensors.value("power_watts") == watts
    assert sensors.by_label("clock_hertz")["sm"] == hertz
    assert sensors.by_label("temperature_celsius")["gpu"] == (77 if duty else 32)


@pytest.mark.parametrize(
    ("duty", "capped", "active"), [(1, 2_000_000_000, 0.85), (0.5, 0, 0.425), (0, 0, 0)]
)
def test_a_board_that_is_always_busy_is_held_to_its_power_limit(
    duty: float, capped: int, active: float
) -> None:
    clock = ManualClock()
    busy = [process(duty=duty, period="100ms")]
    asked = node(clock, model="NVIDIA H100 80GB HBM3", processes=busy)
    clock.move(10)
    sensors = asked.sensors(0)
    assert sensors.by_label("throttle_seconds_total")["sw_power_cap"] == capped
    assert sensors.value("sm_active_ratio") == pytest.approx(active, abs=0.02)


def test_traffic_grows_with_the_work_and_never_falls() -> None:
    clock = ManualClock()
    model = "NVIDIA A100-SXM4-80GB"
    asked = node(clock, devices=2, model=model, processes=[process(duty=0.5, jitter=1)])
    before = asked.sensors(0)
    for _ in range(20):
        clock.move(1)
        now = asked.sensors(0)
        for family in ("pcie_bytes_total", "nvlink_bytes_total"):
            assert all(now.by_label(family)[k] >= v for k, v in before.by_label(family).items())
        before = now
    assert (
        before.by_label("pcie_bytes_total")["receive"]
        > before.by_label("pcie_bytes_total")["transmit"]
        > 0
    )
    assert before.by_label("nvlink_bytes_total")["receive"] > 0
    assert asked.sensors(1).by_label("pcie_bytes_total") == {"transmit": 0, "receive": 0}


def test_a_board_tells_only_of_what_its_kind_has() -> None:
    sensors = node(model="NVIDIA A10").sensors(0)
    assert sensors.value("sm_active_ratio") is None
    assert sensors.by_label("nvlink_bytes_total") == {}


def test_memory_is_what_its_processes_hold() -> None:
    clock = ManualClock()
    growing = process(memory=[["0s", "1GiB"], ["10s", "3GiB"]])
    ending = process(memory="2GiB", **{"for": "6s"}, kind="graphics")
    asked = node(clock, processes=[growing, ending])
    clock.move(5)
    memory = asked.memory(0)
    assert memory.total_bytes == 24 << 30
    assert memory.used_bytes == 4 << 30
    assert [(p.used_bytes, set(p.kinds)) for p in memory.processes or ()] == [
        (2 << 30, {"compute"}),
        (2 << 30, {"graphics"}),
    ]
    clock.move(5)
    assert asked.memory(0).used_bytes == 3 << 30


def test_an_instance_counts_for_its_share_and_its_board_has_the_energy() -> None:
    devices = [
        {"model": "NVIDIA H100", "memory": "80GiB", "idle_power": 70, "max_power": 700},
        {"parent": 0, "profile": "2g.20gb", "memory": "20GiB"},
        {"parent": 0, "profile": "3g.40gb", "memory": "40GiB"},
    ]
    processes = [process(device=1), process(device=2)]
    asked = Node(describe({"devices": devices, "processes": processes}, "f"), ManualClock())
    truth = truth_of(asked, START, START + 7 * SECOND)
    board, two, three = (device.uuid for device in asked.devices())
    assert truth.device_core_ns == {board: 0, two: 2 * SECOND, three: 3 * SECOND}
    assert truth.device_energy_uj == {board: 70 * 7 * 10**6 + 630 * 5 * 10**6}
    assert asked.active_ns(1, START, START + SECOND) == SECOND
