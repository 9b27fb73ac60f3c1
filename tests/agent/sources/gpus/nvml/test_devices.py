"""Devices that fail, hang, come and go: each costs only itself."""

import pytest

from exporter.model import DeviceState, Methods
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import HASTY, START, Node, by_uuid, calls
from tests.fakenvml.scenario import Fault, Gpu, Instance, Process, Work

GIB = 1 << 30


@pytest.fixture
def two(node: Node) -> Node:
    """Two GPUs, each with a process that is always busy."""
    node.scenario.gpus = [Gpu(0), Gpu(1)]
    node.scenario.works = [Work(gpu=gpu, pid=100 + gpu, start=START - 60) for gpu in (0, 1)]
    return node


@pytest.fixture
def parted(node: Node) -> Node:
    """One GPU without MIG and one with two instances."""
    node.scenario.gpus = [Gpu(0), Gpu(1, mig=True)]
    node.scenario.instances = [
        Instance(1, 0, slices=1, memory=10 * GIB),
        Instance(1, 1, slices=3, memory=40 * GIB),
    ]
    node.scenario.processes = [Process(gpu=1, pid=201, memory=GIB, instance=1)]
    node.scenario.works = [Work(gpu=1, pid=201, start=START - 60, instance=1)]
    return node


def states(node: Node, *, after: float = 0) -> dict[str, DeviceState]:
    return {uuid: device.state for uuid, device in by_uuid(node.read(after=after)).items()}


def test_lost_device_is_named_and_comes_back_and_its_windows_go_on(two: Node) -> None:
    two.start()
    two.read()
    before = known(two.device("GPU-1", after=1).window)
    two.change_gpu(1, lost=True)
    devices = by_uuid(two.read(after=1))
    two.change_gpu(1, lost=False)
    back = two.device("GPU-1", after=2)
    assert devices["GPU-1"].state is DeviceState.LOST
    assert devices["GPU-1"].device.model == "NVIDIA H100 80GB HBM3"
    assert "gpu_is_lost" in devices["GPU-1"].detail
    assert devices["GPU-0"].state is DeviceState.UP
    assert devices["GPU-0"].window
    assert back.state is DeviceState.UP
    assert known(back.window).start_unix_ns == before.end_unix_ns


def test_lost_device_is_looked_for_less_and_less_often(two: Node) -> None:
    two.start()
    two.read()
    two.change_gpu(1, lost=True)
    lookups = [calls(two.read(after=1), "nvmlDeviceGetHandleByUUID") for _ in range(20)]
    assert 3 <= lookups[-1] <= 5  # after 1, 2, 4 and 8 seconds
    assert states(two)["GPU-1"] is DeviceState.LOST


def test_device_that_is_lost_from_the_start_is_found_later(two: Node) -> None:
    two.change_gpu(1, lost=True)
    two.start()
    assert states(two) == {"GPU-0": DeviceState.UP}
    assert any("gpu_is_lost" in line for line in two.ask("logged"))
    two.change_gpu(1, lost=False)
    two.read(after=31)
    assert states(two, after=1) == {"GPU-0": DeviceState.UP, "GPU-1": DeviceState.UP}


def test_device_lost_while_the_driver_is_restarted_is_still_named(two: Node) -> None:
    two.start()
    two.read()
    two.fail(Fault("error", "nvmlDevice*", code=1))
    two.read(after=1)
    two.fail()
    two.change_gpu(1, lost=True)
    assert states(two, after=1) == {"GPU-0": DeviceState.UP, "GPU-1": DeviceState.LOST}
    two.change_gpu(1, lost=False)
    assert states(two, after=1)["GPU-1"] is DeviceState.UP


def test_a_board_is_lost_by_its_uuid_though_the_driver_numbers_anew(node: Node) -> None:
    """The first of three boards is taken out, and the second cannot be opened."""
    node.scenario.gpus = [Gpu(0), Gpu(1), Gpu(2)]
    node.start()
    node.read()
    node.fail(Fault("error", "nvmlDevice*", code=1))
    node.read(after=1)
    node.fail()
    node.scenario.gpus = [Gpu(0, uuid="GPU-1", lost=True), Gpu(1, uuid="GPU-2")]
    found = states(node, after=1)
    assert found["GPU-1"] is DeviceState.LOST
    assert found["GPU-2"] is DeviceState.UP

    node.change_gpu(0, lost=False)
    node.read(after=31)
    assert states(node, after=1) == {"GPU-1": DeviceState.UP, "GPU-2": DeviceState.UP}


def test_a_uuid_that_two_boards_have_is_one_device(two: Node) -> None:
    """Otherwise each look at the devices would begin it anew."""
    two.change_gpu(1, uuid="GPU-0")
    two.start()
    two.read()
    before = known(two.device("GPU-0", after=1).window)
    after = known(two.device("GPU-0", after=31).window)
    reading = two.read(after=1)
    assert after.start_unix_ns == before.end_unix_ns
    assert [device.device.index for device in reading.devices] == [0]
    assert "GPU 1 cannot be opened: its UUID, 'GPU-0'," in reading.status.detail


def test_a_name_that_is_no_text_costs_only_itself(two: Node) -> None:
    two.change_gpu(1, name="\udcff\udcfe", pci="\udcff")
    two.start()
    devices = by_uuid(two.read())
    assert devices["GPU-0"].device.model == "NVIDIA H100 80GB HBM3"
    assert (devices["GPU-1"].device.model, devices["GPU-1"].device.pci_bus_id) == ("", "")
    two.change_gpu(1, uuid="\udcff")
    two.read(after=31)
    # The driver knows no board by the name that it had.
    assert states(two, after=1) == {"GPU-0": DeviceState.UP, "GPU-1": DeviceState.LOST}


@pytest.mark.parametrize(
    ("code", "state"),
    [(4, DeviceState.FAILED), (999, DeviceState.FAILED), (6, DeviceState.LOST)],
)
def test_a_board_whose_name_is_not_told_is_no_lost_one(
    two: Node, code: int, state: DeviceState
) -> None:
    """It is looked for by its name: the handle may be another board's by then."""
    two.start()
    two.read()
    two.fail(Fault("error", "nvmlDeviceGetUUID", gpu=1, code=code))
    two.read(after=5)
    assert states(two, after=1) == {"GPU-0": DeviceState.UP, "GPU-1": state}
    assert any("looking for it again" in line for line in two.ask("logged"))
    two.fail()
    two.read(after=61)
    assert states(two, after=1) == {"GPU-0": DeviceState.UP, "GPU-1": DeviceState.UP}


def test_failing_call_costs_a_cycle_and_no_time(two: Node) -> None:
    two.start()
    two.read()
    before = known(two.device("GPU-0", after=1).window)
    two.fail(Fault("error", "nvmlDeviceGetSamples", gpu=0, code=999))
    failed = two.device("GPU-0", after=1)
    assert failed.state is DeviceState.FAILED
    assert "(999)" in failed.detail
    two.fail()
    after = known(two.device("GPU-0", after=1).window)
    assert after.start_unix_ns == before.end_unix_ns
    assert after.unobserved_ns == 0


def test_hung_device_gets_no_second_call_and_comes_back_by_itself(two: Node) -> None:
    two.start(HASTY)
    two.read()
    before = known(two.device("GPU-1", after=1).window)
    two.fail(Fault("hang", "nvmlDeviceGetProcessUtilization", gpu=1))
    hung = [two.read(after=1) for _ in range(3)]
    two.fail()
    two.ask("settle")
    late = two.device("GPU-1", after=1)
    after = two.device("GPU-1", after=1)
    for reading in hung:
        assert by_uuid(reading)["GPU-1"].state is DeviceState.STUCK
        assert by_uuid(reading)["GPU-0"].window
        assert reading.status.up
    detail = by_uuid(hung[1])["GPU-1"].detail
    assert detail.startswith("the driver has not answered for 1.0 s")
    rows = [calls(reading, "nvmlDeviceGetProcessUtilization") for reading in hung]
    assert rows[2] - rows[0] == 2  # the other device's; a hung call is counted when it is back
    assert late.state is after.state is DeviceState.UP
    assert known(late.window).start_unix_ns == before.end_unix_ns
    assert known(after.window).start_unix_ns == known(late.window).end_unix_ns
    assert known(after.window).unobserved_ns == 0


def test_what_comes_late_of_the_driver_before_does_not_end_the_one_after(two: Node) -> None:
    two.start(HASTY)
    two.read()
    hang = Fault("hang", "nvmlDeviceGetProcessUtilization", gpu=0)
    two.fail(hang, Fault("error", "nvmlDevice*", gpu=1, code=1))
    assert not two.read(after=1).status.up
    two.fail(Fault("error", "nvmlDevice*", gpu=0, code=1))
    two.ask("settle")
    two.fail()
    assert states(two, after=1) == {"GPU-0": DeviceState.UP, "GPU-1": DeviceState.UP}


def test_driver_that_hangs_is_down_whatever_devices_are_lost(two: Node) -> None:
    two.start(HASTY)
    two.read()
    two.change_gpu(1, lost=True)
    two.read(after=1)
    two.fail(Fault("hang", "nvmlDevice*", gpu=0))
    reading = two.read(after=1)
    assert {d.state for d in reading.devices} == {DeviceState.STUCK, DeviceState.LOST}
    assert not reading.status.up
    assert "hangs" in reading.status.detail


def test_hanging_enumeration_does_not_stop_the_devices(two: Node) -> None:
    two.start(HASTY)
    two.read()
    two.fail(Fault("hang", "nvmlDeviceGetCount*"))
    reading = two.read(after=31)
    assert {d.state for d in reading.devices} == {DeviceState.UP}
    assert reading.status.up
    assert "not answered" in reading.status.detail
    two.fail()
    two.ask("settle")
    assert two.read(after=1).status.detail == ""


def test_device_that_was_away_goes_on_counting_what_it_costs(two: Node) -> None:
    two.start()
    two.ask("take", 1000)
    two.read()
    before = two.device("GPU-1", after=1).costs
    gpus, two.scenario.gpus = two.scenario.gpus, two.scenario.gpus[:1]
    works, two.scenario.works = two.scenario.works, two.scenario.works[:1]
    assert set(states(two, after=31)) == {"GPU-0"}
    two.scenario.gpus, two.scenario.works = gpus, works
    two.read(after=31)
    back = two.device("GPU-1", after=1)
    assert back.state is DeviceState.UP
    assert all(back.costs[part].duration_ns > cost.duration_ns for part, cost in before.items())


def test_mig_leaves_the_engines_unmeasured_and_the_energy_to_the_board(parted: Node) -> None:
    parted.start()
    parted.read()
    devices = by_uuid(parted.read(after=1))
    board, instance = devices["GPU-1"], devices["MIG-1-1"]
    assert board.device.sharing == "mig"
    assert board.window
    assert board.window.energy_uj
    assert board.window.busy.core is None
    assert board.memory is None
    assert board.sensors.value("power_watts")
    assert board.window.methods == Methods(energy="counter")
    assert board.unmeasured["core"] == board.unmeasured["memory"] == "mig"
    assert instance.unmeasured == dict.fromkeys(
        ("memory_active", "encoder", "decoder", "energy"), "mig"
    )
    assert devices["GPU-0"].unmeasured == {}


def test_mig_switched_on_and_off_again(parted: Node) -> None:
    instances = parted.scenario.instances
    parted.scenario.instances = []
    parted.change_gpu(1, mig=False)
    parted.start()
    parted.read()
    assert parted.device("GPU-1", after=1).unmeasured == {}
    parted.scenario.instances = instances
    parted.change_gpu(1, mig=True)
    parted.read(after=31)
    assert set(states(parted, after=1)) == {"GPU-0", "GPU-1", "MIG-1-0", "MIG-1-1"}
    parted.scenario.instances = []
    parted.change_gpu(1, mig=False)
    parted.read(after=31)
    reading = parted.device("GPU-1", after=1)
    assert reading.window is None  # begun anew: the time so far was given out with the energy
    # The counter of energy begins again as well, which is seen with the window before.
    assert reading.unmeasured == {"energy": "read_failed"}
    reading = parted.device("GPU-1", after=1)
    assert reading.unmeasured == {}
    window = known(reading.window)
    assert window.busy.core is not None
    assert window.unobserved_ns == 0
    assert set(states(parted)) == {"GPU-0", "GPU-1"}


@pytest.mark.parametrize(
    "fault",
    [
        Fault("error", "nvmlDeviceGetAttributes_v2", gpu=1, code=999),
        Fault("error", "nvmlDeviceGetMigDeviceHandleByIndex", gpu=1, code=15),
        Fault("error", "nvmlDeviceGetMigMode", gpu=1, code=15),
    ],
)
def test_instances_that_cannot_be_listed_are_read_on(parted: Node, fault: Fault) -> None:
    parted.start()
    parted.read()
    before = known(parted.device("MIG-1-1", after=1).window)
    parted.fail(fault)
    told = [parted.device("MIG-1-1", after=seconds) for seconds in (31, 1, 31, 1)]
    assert all(reading.state is DeviceState.UP for reading in told)
    windows = [known(reading.window) for reading in told]
    assert windows[0].start_unix_ns == before.end_unix_ns
    assert sum(window.unobserved_ns for window in windows) == 0
    assert not any("is lost" in line for line in parted.ask("logged"))
    parted.scenario.instances.pop()
    parted.scenario.works, parted.scenario.processes = [], []
    parted.fail()
    parted.read(after=31)
    assert "MIG-1-1" not in states(parted, after=1)


def test_instances_that_may_not_be_opened_are_named(parted: Node) -> None:
    parted.fail(Fault("error", "nvmlDeviceGetAttributes_v2", code=4))
    parted.start()
    reading = parted.read()
    assert [device.device.uuid for device in reading.devices] == ["GPU-0", "GPU-1"]
    assert by_uuid(reading)["GPU-1"].memory is None  # it is the instances'
    assert "MIG instance 1 of GPU-1 cannot be opened: " in reading.status.detail
    assert "no_permission" in reading.status.detail
    assert any("MIG instance 1 of GPU-1" in line for line in parted.ask("logged"))


def test_an_instance_that_is_destroyed_is_gone_though_another_board_is_lost(parted: Node) -> None:
    parted.change_gpu(0, lost=True)
    parted.start()
    parted.read()
    parted.scenario.instances = parted.scenario.instances[1:]
    parted.scenario.works = []
    parted.read(after=31)
    assert set(states(parted, after=1)) == {"GPU-1", "MIG-1-1"}


def test_reused_handle_of_an_instance_is_not_taken_for_the_old_one(parted: Node) -> None:
    parted.start()
    parted.read()
    parted.scenario.instances[1] = Instance(1, 1, uuid="MIG-new", slices=3, memory=40 * GIB)
    assert states(parted, after=5)["MIG-1-1"] is DeviceState.LOST
    parted.read(after=6)
    assert set(states(parted, after=1)) == {"GPU-0", "GPU-1", "MIG-1-0", "MIG-new"}
