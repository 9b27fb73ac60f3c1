"""The driver as a whole: absent, restarted, upgraded, hanging, released."""

import shutil
from pathlib import Path

import pytest

from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.agent.sources.gpus.nvml.library import PLACES, SONAME, candidates
from exporter.model import DeviceState
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import HASTY, START, Node, by_uuid, calls
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu, Work

INIT = "nvmlInitWithFlags"


@pytest.fixture
def one(node: Node) -> Node:
    """One GPU with one process that is always busy."""
    node.scenario.gpus = [Gpu(0)]
    node.scenario.works = [Work(gpu=0, pid=101, start=START - 60)]
    return node


def test_no_library_says_what_to_do_and_is_taken_up_when_it_appears(
    one: Node, tmp_path: Path
) -> None:
    path = tmp_path / SONAME
    one.start(path=path)
    reading = one.read()
    assert not reading.status.up
    assert str(path) in reading.status.detail
    assert "--nvml.library" in reading.status.detail
    shutil.copy(library(), path)
    reading = one.read(after=1)
    assert reading.status.up
    assert reading.status.detail == ""
    assert [device.device.uuid for device in reading.devices] == ["GPU-0"]


def test_library_is_found_where_a_driver_container_puts_it(one: Node, tmp_path: Path) -> None:
    place = tmp_path / PLACES[0]
    place.mkdir(parents=True)
    shutil.copy(library(), place / SONAME)
    one.start(library_path=None, roots=(tmp_path,))
    assert one.read().status.up


def test_library_is_looked_for_in_order(tmp_path: Path) -> None:
    for place in (PLACES[3], PLACES[0]):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / SONAME).touch()
    assert list(candidates(None, [tmp_path])) == [
        SONAME,
        str(tmp_path / PLACES[0] / SONAME),
        str(tmp_path / PLACES[3] / SONAME),
    ]
    assert list(candidates("/given", [tmp_path])) == ["/given"]


def test_absent_driver_is_looked_for_less_and_less_often(one: Node) -> None:
    one.fail(Fault("error", INIT, code=9))
    one.start()
    status = one.read().status
    assert (status.up, "not loaded" in status.detail) == (False, True)
    tries = [calls(one.read(after=1), "nvmlInit") for _ in range(180)]
    assert tries[6] == 4  # at once, after 1, 2 and 4 more seconds
    assert 8 <= tries[-1] <= 9  # 4, 8, 16, 32, then once a minute
    one.fail()
    assert one.read(after=60).status.up


@pytest.mark.parametrize("code", [1, 9, 12])
def test_restarted_driver_is_opened_anew_and_windows_go_on(one: Node, code: int) -> None:
    one.start()
    one.read()
    before = known(one.device("GPU-0", after=1).window)
    one.fail(Fault("error", "nvmlDevice*", code=code))
    reading = one.read(after=1)
    assert not reading.status.up
    assert reading.devices[0].state is DeviceState.FAILED
    one.fail()
    one.scenario.loaded = one.now
    reading = one.read(after=1)
    assert reading.status.up
    assert calls(reading, "nvmlInit") == 2
    assert calls(reading, "nvmlShutdown") == 1
    after = reading.devices[0].windows[0]
    assert after.start_unix_ns == before.end_unix_ns


def test_library_of_another_version_needs_a_restart(one: Node) -> None:
    one.start()
    one.read()
    one.fail(Fault("error", "nvmlDevice*", code=1))
    one.read(after=1)
    one.fail(Fault("error", INIT, code=18))
    with pytest.raises(RestartRequiredError, match="upgraded"):
        one.read(after=1)


def read_for(node: Node, seconds: int) -> None:
    for _ in range(seconds):
        node.read(after=1)


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetProcess*",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetMemoryInfo*",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetCount*",
    ],
)
def test_a_running_call_that_finds_another_version_needs_a_restart(one: Node, call: str) -> None:
    one.start()
    one.read()
    one.read(after=1)
    one.fail(Fault("error", call, code=18))
    with pytest.raises(RestartRequiredError, match="upgraded"):
        read_for(one, 40)


def test_devices_that_fail_together_are_one_line_of_the_log(node: Node) -> None:
    node.scenario.gpus = [Gpu(index) for index in range(4)]
    node.start()
    node.read()
    node.fail(
        *(Fault("error", "nvmlDeviceGetUUID", gpu=gpu, code=999) for gpu in (0, 1)),
        *(Fault("error", "nvmlDeviceGetSamples", gpu=gpu, code=999) for gpu in (0, 1)),
        Fault("error", "nvmlDeviceGetSamples", gpu=2, code=15),
    )
    node.read(after=1)
    node.fail()
    node.read(after=2)
    log = node.ask("logged")
    failed = [line for line in log if "not read (read_failed)" in line]
    again = [line for line in log if "read again" in line]
    assert len(failed) == 1
    assert "GPU-0" in failed[0]
    assert "GPU-1" in failed[0]
    assert sum("not read (gpu_lost)" in line for line in log) == 1
    assert sum("GPU-0" in line for line in again) == 1
    assert len(again) == 2


@pytest.mark.parametrize("code", [17, 999])
def test_blocked_init_needs_a_restart_only_when_it_persists(one: Node, code: int) -> None:
    one.start()
    one.read()
    one.fail(Fault("error", "nvmlDevice*", code=1))
    assert not one.read(after=1).status.up
    one.fail(Fault("error", INIT, code=code))
    assert not one.read(after=1).status.up
    assert not one.read(after=2).status.up
    with pytest.raises(RestartRequiredError, match="device files"):
        one.read(after=4)
    reading = one.read(after=1)  # where another vendor's cards are read, the exporter goes on
    assert reading.devices[0].state is DeviceState.FAILED
    assert "device files" in reading.status.detail
    assert calls(reading, "nvmlInit") == 4
    one.fail()
    assert one.read(after=8).status.up


@pytest.mark.parametrize(
    ("code", "remedy"), [(17, "nvidia-smi"), (999, "nvidia-smi"), (18, "kernel module")]
)
def test_a_driver_that_never_opened_has_not_been_lost(one: Node, code: int, remedy: str) -> None:
    """A restart would meet the same, and end what is read of other vendors' cards."""
    one.fail(Fault("error", INIT, code=code))
    one.start()
    for _ in range(180):
        status = one.read(after=1).status
    assert not status.up
    assert f"({code})" in status.detail
    assert remedy in status.detail
    assert calls(one.read(), "nvmlInit") <= 9  # less and less often
    one.fail()
    assert one.read(after=60).status.up


def test_hanging_init_is_waited_for_no_longer_than_the_deadline(one: Node) -> None:
    one.fail(Fault("hang", INIT))
    one.start(HASTY)
    assert not one.read().status.up
    reading = one.read(after=3)
    assert reading.status.detail.startswith("the driver has not answered for 3.0 s")
    one.fail()
    one.ask("settle")
    reading = one.read(after=1)
    assert reading.status.up
    assert calls(reading, "nvmlInit") == 1


def test_devices_of_the_driver_before_are_not_read_where_the_one_after_lists_none(
    one: Node,
) -> None:
    """Their handles are void."""
    one.start()
    one.read()
    one.fail(Fault("error", "nvmlDevice*", code=1))
    assert not one.read(after=1).status.up
    one.fail(Fault("error", "nvmlDeviceGetCount*", code=999, count=1))
    reading = one.read(after=1)
    assert not reading.status.up
    assert "(999)" in reading.status.detail
    assert reading.devices[0].state is DeviceState.FAILED
    assert one.read(after=3).status.up


def test_each_init_has_its_shutdown_though_the_driver_fails_in_between(one: Node) -> None:
    one.fail(Fault("error", "nvmlSystemGetDriverVersion", code=9, count=2))
    one.start()
    assert not one.read().status.up
    one.read(after=2)
    assert one.read(after=10).status.up
    one.ask("release", True)
    reading = one.read(after=1)
    assert calls(reading, "nvmlShutdown") == calls(reading, "nvmlInit") == 3


def test_a_driver_that_does_not_say_its_version_is_read(one: Node) -> None:
    one.fail(Fault("error", "nvmlSystemGetDriverVersion", code=999))
    one.start()
    (device,) = one.read().devices
    assert (device.state, device.device.driver_version) == (DeviceState.UP, "")


def test_release_closes_the_driver_and_taking_it_up_goes_on(one: Node) -> None:
    one.start()
    one.read()
    before = known(one.device("GPU-0", after=1).window)
    one.ask("release", True)
    reading = one.read(after=1)
    assert not reading.status.up
    assert "released" in reading.status.detail
    assert by_uuid(reading)["GPU-0"].state is DeviceState.RELEASED
    assert calls(reading, "nvmlShutdown") == 1
    quiet = one.read(after=60)
    assert quiet.calls == reading.calls
    one.ask("release", False)
    after = one.device("GPU-0", after=1)
    assert after.state is DeviceState.UP
    assert known(after.window).start_unix_ns == before.end_unix_ns
    assert known(after.window).unobserved_ns > 45_000_000_000


def test_release_waits_for_a_hung_device(one: Node) -> None:
    one.start(HASTY)
    one.read()
    one.fail(Fault("hang", "nvmlDeviceGetProcessUtilization"))
    one.read(after=1)
    one.ask("release", True)
    reading = one.read(after=1)
    assert by_uuid(reading)["GPU-0"].state is DeviceState.RELEASED
    assert calls(reading, "nvmlShutdown") == 0
    one.fail()
    one.ask("settle")
    assert calls(one.read(after=1), "nvmlShutdown") == 1


def test_release_while_the_driver_is_being_opened(one: Node) -> None:
    one.fail(Fault("hang", INIT))
    one.start(HASTY)
    one.read()
    one.ask("release", True)
    one.fail()
    one.ask("settle")
    reading = one.read(after=1)
    assert calls(reading, "nvmlShutdown") == 1
    one.ask("release", False)
    assert one.read(after=1).status.up


def test_close_does_not_wait_for_a_hung_device(one: Node) -> None:
    one.start(HASTY)
    one.read()
    one.fail(Fault("hang", "nvmlDeviceGetProcessUtilization"))
    one.read(after=1)
    one.ask("close")


def test_node_without_devices(node: Node) -> None:
    node.start()
    reading = node.read()
    assert reading.status.up
    assert reading.status.detail == "the driver reports no device"
