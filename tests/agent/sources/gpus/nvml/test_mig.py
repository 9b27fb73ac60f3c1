"""MIG instances are measured by hardware counters, as parts of a GPU; or they say why not."""

from itertools import pairwise

import pytest

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceReading, DeviceState, Methods
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import START, Node, by_uuid, calls
from tests.fakenvml.scenario import Fault, Gpu, Instance, Process, Work, truth

GIB = 1 << 30
SECOND = 10**9
LISTS = "nvmlDeviceGetComputeRunningProcesses_v3"
SUPPORT = "nvmlGpmQueryDeviceSupport"


@pytest.fixture
def parted(node: Node) -> Node:
    """A board with an instance of three slices at work and one of a single slice at rest."""
    node.scenario.gpus = [Gpu(0, mig=True)]
    node.scenario.instances = [
        Instance(0, 0, slices=3, memory=40 * GIB),
        Instance(0, 1, slices=1, memory=10 * GIB),
    ]
    node.scenario.processes = [Process(gpu=0, pid=201, memory=GIB, instance=0)]
    node.scenario.works = [
        Work(gpu=0, pid=201, start=START - 60, period=0.4, duty=0.5, instance=0),
    ]
    return node


def read(node: Node, uuid: str, times: int) -> list[DeviceReading]:
    return [node.device(uuid, after=1) for _ in range(times)]


def test_an_instance_has_the_share_number_and_place_that_its_board_gives_it(parted: Node) -> None:
    parted.scenario.instances[0] = Instance(0, 0, slices=3, memory=40 * GIB, start=4)
    parted.start()
    devices = [reading.device for reading in parted.read().devices]
    assert [device.uuid for device in devices] == ["GPU-0", "MIG-0-0", "MIG-0-1"]
    assert [device.core_share for device in devices] == pytest.approx([1, 3 / 7, 1 / 7])
    assert [device.gpu_instance for device in devices] == [None, 1, 2]
    assert [device.placement_start for device in devices] == [None, 4, 1]
    assert [device.parent_uuid for device in devices] == ["", "GPU-0", "GPU-0"]
    assert [device.profile for device in devices] == ["", "3g.40gb", "1g.10gb"]
    assert [device.memory_bytes for device in devices] == [80 * GIB, 40 * GIB, 10 * GIB]


@pytest.mark.parametrize(
    ("function", "facts"),
    [
        ("nvmlDeviceGetGpuInstanceId", (None, None)),
        ("nvmlDeviceGetGpuInstanceById", (1, None)),
        ("nvmlGpuInstanceGetInfo", (1, None)),
        ("nvmlDeviceGetGpuInstanceProfileInfo", (1, 0)),  # it has seven slices then
    ],
)
def test_an_instance_whose_facts_are_refused_is_a_device_all_the_same(
    parted: Node, function: str, facts: tuple[int | None, int | None]
) -> None:
    parted.fail(Fault("error", function, code=4))
    parted.start()
    device = by_uuid(parted.read())["MIG-0-0"].device
    assert (device.gpu_instance, device.placement_start) == facts
    assert device.core_share == pytest.approx(3 / 7)


@pytest.mark.parametrize("code", [3, 999])
def test_an_instance_whose_memory_is_refused_has_the_size_that_was_allocated(
    parted: Node, code: int
) -> None:
    parted.fail(Fault("error", "nvmlDeviceGetMemoryInfo*", code=code))
    parted.start()
    instance = by_uuid(parted.read())["MIG-0-0"]
    assert instance.device.memory_bytes == 40 * GIB
    assert [process.pid for process in known(instance.memory).processes or ()] == [201]


def test_a_board_whose_instances_cannot_be_counted_is_read(parted: Node) -> None:
    parted.fail(Fault("error", "nvmlDeviceGetMaxMigDeviceCount", code=999))
    parted.start()
    reading = parted.read()
    assert list(by_uuid(reading)) == ["GPU-0"]
    assert "MIG instance 0 of GPU-0 cannot be opened: " in reading.status.detail
    assert parted.device("GPU-0", after=1).window


def test_an_instance_that_is_made_meanwhile_is_looked_for_on_request(node: Node) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.start()
    node.read()
    node.scenario.instances = [Instance(0, 0, slices=1, memory=10 * GIB)]
    node.change_gpu(0, mig=True)
    assert "MIG-0-0" not in by_uuid(node.read(after=4))
    node.ask("look_soon")
    assert "MIG-0-0" in by_uuid(node.read(after=1))


@pytest.mark.parametrize("case", ["made anew", "lost and made anew"])
def test_an_instance_made_anew_under_its_uuid_is_what_it_is_now_at_once(
    parted: Node, case: str
) -> None:
    """A UUID is a hash of the chip and the numbers of the instance, whatever its profile."""
    parted.start()
    parted.read()
    parted.read(after=1)
    if case != "made anew":
        parted.change_gpu(0, lost=True)
        parted.read(after=1)
        parted.change_gpu(0, lost=False)
    parted.scenario.instances[0] = Instance(0, 0, slices=1, memory=10 * GIB)
    before, now = parted.device("MIG-0-0", after=1), parted.device("MIG-0-0", after=1)
    assert (before.state, before.device) == (DeviceState.UP, now.device)
    device = before.device
    assert (device.profile, device.memory_bytes) == ("1g.10gb", 10 * GIB)
    assert device.core_share == pytest.approx(1 / 7)
    assert known(before.memory).total_bytes == 10 * GIB
    parted.read(after=1)
    window = known(parted.device("MIG-0-0", after=2).window)
    assert known(window.busy.core) / window.observed_ns == pytest.approx(1 / 14)


def test_boards_of_four_slices_are_divided_by_four(parted: Node) -> None:
    parted.scenario.instances = [Instance(0, 0, slices=2, memory=12 * GIB)]
    parted.change_gpu(0, slices=4)
    parted.start()
    assert by_uuid(parted.read())["MIG-0-0"].device.core_share == 0.5


def test_busy_time_of_an_instance_is_its_activity_times_its_share(parted: Node) -> None:
    parted.start()
    parted.read()
    windows = [reading.window for reading in read(parted, "MIG-0-0", 10)]
    assert all(windows)
    busy = sum(w.busy.core or 0 for w in windows if w) / SECOND
    active = sum(truth(parted.scenario, 0, START, parted.now, instance=0).values())
    assert busy == pytest.approx(active * 3 / 7, rel=0.001)
    assert all(a and b and a.end_unix_ns == b.start_unix_ns for a, b in pairwise(windows))
    assert all(w.observed_ns == SECOND and w.unobserved_ns == 0 for w in windows if w)
    assert windows[0]
    assert windows[0].methods == Methods(busy="gpm", shares="sole_owner")


def test_instance_tells_what_its_sms_did(parted: Node) -> None:
    parted.start()
    parted.read()
    sensors = parted.device("MIG-0-0", after=2).sensors
    assert sensors.value("sm_active_ratio") == pytest.approx(0.5)
    assert sensors.value("sm_occupancy_ratio") == pytest.approx(0.25)
    assert sensors.value("tensor_active_ratio") == pytest.approx(0.125)
    parted.fail(Fault("error", "nvmlGpmMetricsGet", code=999))
    assert parted.device("MIG-0-0", after=1).sensors.value("sm_active_ratio") is None


def test_samples_closer_than_the_driver_allows_are_not_taken(parted: Node) -> None:
    parted.start()
    parted.read()
    assert parted.device("MIG-0-0", after=0.1).window is None
    assert known(parted.device("MIG-0-0", after=0.9).window).observed_ns == SECOND


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_a_sample_that_fails_once_costs_no_more_than_its_time(parted: Node, call: str) -> None:
    parted.start()
    parted.read()
    parted.read(after=1)
    parted.fail(Fault("error", call, code=999))
    assert parted.device("MIG-0-0", after=1).window is None
    parted.fail()
    parted.read(after=1)
    window = known(parted.device("MIG-0-0", after=1).window)
    assert (window.observed_ns, window.unobserved_ns) == (SECOND, 2 * SECOND)


@pytest.mark.parametrize(
    ("code", "reason"), [(999, "read_failed"), (4, "no_permission"), (3, "mig")]
)
def test_activity_that_is_no_longer_known_does_not_stand_still(
    parted: Node, code: int, reason: str
) -> None:
    """One window says that its core is not known; it is again with the first that has it."""
    parted.start(disabled=("profiling",))
    parted.read()
    before = known(parted.device("MIG-0-0", after=1).window)
    parted.fail(Fault("error", "nvmlGpmSampleGet", code=code))
    failed = read(parted, "MIG-0-0", 5)
    (blind,) = [one.window for one in failed if one.window]
    assert (blind.start_unix_ns, blind.busy.core) == (before.end_unix_ns, None)
    assert blind.unobserved_ns == blind.length_ns > 0
    assert failed[-1].unmeasured["core"] == reason
    parted.fail()
    after = read(parted, "MIG-0-0", 140)  # a refused call is made again after two minutes
    window = next(one.window for one in after if one.window)
    assert (window.start_unix_ns, window.observed_ns) == (blind.end_unix_ns, SECOND)
    assert window.busy.core
    assert "core" not in after[-1].unmeasured


def test_a_driver_that_does_not_tell_of_support_is_asked_for_a_sample(parted: Node) -> None:
    parted.fail(Fault("error", SUPPORT, code=3))
    parted.start()
    parted.read()
    assert parted.device("MIG-0-0", after=1).window


def test_instance_is_measured_though_profiling_is_not_shown(parted: Node) -> None:
    parted.start(disabled=("profiling",))
    parted.read()
    reading = parted.device("MIG-0-0", after=2)
    assert reading.sensors.value("sm_active_ratio") is None
    assert known(reading.window).busy.core


def test_instance_of_a_board_without_gpm_is_unmeasured(parted: Node) -> None:
    parted.change_gpu(0, gpm=False)
    parted.start()
    parted.read()
    reading = parted.device("MIG-0-0", after=1)
    assert reading.state is DeviceState.UP
    assert reading.window is None
    assert reading.memory
    assert reading.unmeasured["core"] == "mig"
    devices = 3  # the board and its two instances
    assert calls(parted.read(after=1), SUPPORT) == devices


def test_an_instance_whose_profile_lacks_its_activity_is_unmeasured(parted: Node) -> None:
    parted.change_gpu(0, gpm_activity=False)
    parted.start()
    parted.read()
    reading = read(parted, "MIG-0-0", 4)[-1]
    assert reading.sensors.value("sm_occupancy_ratio")
    assert reading.window is None
    assert reading.unmeasured["core"] == "mig"
    parted.change_gpu(0, gpm_activity=True)
    parted.read(after=1)
    reading = parted.device("MIG-0-0", after=2)
    assert known(reading.window).busy.core
    assert "core" not in reading.unmeasured


def test_part_of_an_instance_is_unmeasured(parted: Node) -> None:
    parted.scenario.instances = [Instance(0, 0, slices=2, compute=1, memory=20 * GIB)]
    parted.start()
    parted.read()
    reading = parted.device("MIG-0-0", after=1)
    assert reading.device.profile == "1c.2g.20gb"
    assert reading.window is None
    assert reading.unmeasured["core"] == "mig"


def test_window_waits_until_the_processes_are_known(parted: Node) -> None:
    parted.start(Demand(deadline_s=60, processes_every_ns=SECOND // 2))
    parted.read()
    parted.fail(Fault("error", LISTS, code=999))
    without = parted.device("MIG-0-0", after=1)
    parted.fail()
    after = parted.device("MIG-0-0", after=1)
    assert known(without.memory).processes is None
    assert without.window is None
    assert after.memory
    assert known(after.window).observed_ns == 2 * SECOND
    assert known(after.window).busy.core == pytest.approx(3 / 7 * SECOND, rel=0.001)


def test_who_shares_an_instance_is_unmeasured_where_its_processes_are_not_told(
    parted: Node,
) -> None:
    parted.fail(Fault("error", "nvmlDeviceGetComputeRunningProcesses*", code=4))
    parted.start()
    parted.read()
    reading = parted.device("MIG-0-0", after=1)
    assert known(reading.window).busy.core
    assert reading.unmeasured["core"] == "no_permission"


def test_processes_are_read_at_once_when_an_instance_begins_to_work(parted: Node) -> None:
    parted.scenario.works.append(Work(gpu=0, pid=202, start=START + 2.5, instance=1))
    parted.scenario.processes.append(Process(gpu=0, pid=202, start=START + 2.5, instance=1))
    parted.start(Demand(deadline_s=60, processes_every_ns=60 * SECOND))
    parted.read()
    resting = parted.read(after=2)
    assert calls(parted.read(after=1), LISTS) == calls(resting, LISTS) + 1
    assert by_uuid(parted.read())["MIG-0-1"].memory.processes[0].pid == 202  # type: ignore[union-attr,index]
    assert calls(parted.read(after=1), LISTS) == calls(resting, LISTS) + 1


def test_processes_are_not_forgotten_where_it_is_too_soon_to_read_them(parted: Node) -> None:
    parted.scenario.works = [Work(gpu=0, pid=202, start=START + 2.5, instance=1)]
    parted.start(
        Demand(deadline_s=60, processes_every_ns=60 * SECOND, processes_soonest_ns=4 * SECOND)
    )
    parted.read()
    resting = parted.read(after=2)
    assert calls(parted.read(after=1), LISTS) == calls(resting, LISTS)
    assert calls(parted.read(after=1), LISTS) == calls(resting, LISTS) + 1


def test_time_in_which_an_instance_was_lost_is_unobserved(parted: Node) -> None:
    parted.start()
    parted.read()
    before = parted.device("MIG-0-0", after=1)
    parted.change_gpu(0, lost=True)
    assert parted.device("MIG-0-0", after=1).state is DeviceState.LOST
    parted.change_gpu(0, lost=False)
    parted.read(after=3)  # the first sample since
    after = parted.device("MIG-0-0", after=1)
    assert after.window
    assert after.window.start_unix_ns == known(before.window).end_unix_ns
    assert (after.window.observed_ns, after.window.unobserved_ns) == (SECOND, 4 * SECOND)


def test_a_board_without_instances_tells_who_holds_memory_on_it(parted: Node) -> None:
    """Its processes have no instance to be on, and their owners a reason."""
    instances, parted.scenario.instances = parted.scenario.instances, []
    parted.scenario.works = []
    parted.scenario.processes = [Process(gpu=0, pid=201, memory=GIB)]
    parted.start()
    parted.read()
    board = parted.device("GPU-0", after=1)
    assert [process.pid for process in known(board.memory).processes or ()] == [201]
    assert board.unmeasured["core"] == "mig"
    assert "memory" not in board.unmeasured

    parted.scenario.instances = instances
    parted.read(after=30)  # devices are looked for again
    board = parted.device("GPU-0", after=1)
    assert board.memory is None
    assert board.unmeasured["memory"] == "mig"
