"""XIDs that the driver reports, counted by a thread that waits for them."""

from typing import cast

import pytest

from exporter.agent.sources.gpus.fleet import WAITS
from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.events import XidWatch
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.xids import ACTED_ON, MAX_OTHERS, OTHER, XidCounts
from exporter.model import DeviceState, XidCount
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.gpus.nvml.node import HASTY, START, Node, by_uuid, calls
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu, Xid

REGISTER = "nvmlDeviceRegisterEvents"
WAIT = "nvmlEventSetWait_v2"


@pytest.fixture
def two(node: Node) -> Node:
    """Two GPUs."""
    node.scenario.gpus = [Gpu(0), Gpu(1)]
    return node


def watched(node: Node, uuid: str = "GPU-0") -> dict[str, XidCount]:
    """The XIDs of a device, once it is watched."""
    answer: dict[str, XidCount] = node.ask("xids", uuid, 79)
    return answer


def report(node: Node, *xids: Xid) -> None:
    """Let these happen now. An event set that is made anew would be told of older ones again."""
    node.scenario.xids = list(xids)
    node.write()


def test_what_an_operator_acts_on_is_shown_from_zero(two: Node) -> None:
    two.start()
    two.read()
    assert watched(two) == {str(xid): XidCount(0, None) for xid in ACTED_ON}
    assert len(ACTED_ON) <= 12
    assert two.device("GPU-0").xids == watched(two)


def test_an_event_is_counted_with_its_time_for_its_device_and_the_first_is_logged(
    two: Node,
) -> None:
    two.start()
    two.read()
    watched(two, "GPU-1")
    two.read(after=5)
    report(two, Xid(1, 48))
    two.ask("xids", "GPU-1", 48, 1)
    devices = by_uuid(two.read())
    assert devices["GPU-1"].xids["48"] == XidCount(1, (START + 5) * 10**9)
    assert devices["GPU-0"].xids["48"] == XidCount(0, None)
    two.advance(1)
    report(two, Xid(1, 48, at=two.now))
    assert two.ask("xids", "GPU-1", 48, 2)["48"].events == 2
    assert sum("GPU-1 reports XID 48" in line for line in two.ask("logged")) == 1


def fall_off_the_bus(node: Node) -> None:
    """Lose the first board, once it is watched, and await the driver's report of it."""
    watched(node)
    node.scenario.xids = [Xid(0, 79)]
    node.change_gpu(0, lost=True)
    node.ask("xids", "GPU-0", 79, 1)


def test_a_lost_device_shows_its_xids_and_the_others_are_still_watched(two: Node) -> None:
    two.start()
    two.read()
    fall_off_the_bus(two)
    report(two, Xid(1, 43))
    two.ask("xids", "GPU-1", 43, 1)
    reading = by_uuid(two.read(after=1))["GPU-0"]
    assert reading.state is DeviceState.LOST
    assert reading.xids["79"].events == 1


def test_the_only_device_shows_its_xids_once_it_is_lost(node: Node) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.start()
    node.read()
    fall_off_the_bus(node)
    for _ in range(3):
        assert node.device("GPU-0", after=30).xids["79"].events == 1


def test_a_device_that_is_back_is_watched_again(two: Node) -> None:
    two.start()
    two.read()
    watched(two)
    two.change_gpu(0, lost=True)
    report(two, Xid(1, 43))
    two.ask("xids", "GPU-1", 43, 1)
    two.read(after=1)
    two.change_gpu(0, lost=False)
    two.read(after=60)
    report(two, Xid(0, 31))
    assert two.ask("xids", "GPU-0", 31, 1)["31"].events == 1


def test_counts_go_on_after_the_driver_was_restarted(two: Node) -> None:
    two.start()
    two.read()
    watched(two)
    report(two, Xid(0, 31))
    two.ask("xids", "GPU-0", 31, 1)
    report(two)
    two.fail(Fault("error", "nvmlDevice*", code=errors.UNINITIALIZED))
    two.read(after=1)
    two.fail()
    assert two.read(after=1).status.up
    report(two, Xid(0, 43))
    after = two.ask("xids", "GPU-0", 43, 1)
    assert (after["31"].events, after["43"].events) == (1, 1)


def test_a_released_driver_is_closed_and_its_xids_are_unknown(two: Node) -> None:
    two.start()
    two.read()
    watched(two)
    two.ask("release", True)
    reading = two.read()
    assert calls(reading, "nvmlShutdown") == 1
    assert calls(reading, "nvmlEventSetFree") == calls(reading, "nvmlEventSetCreate") == 1
    assert calls(reading, "nvmlGpmSampleFree") == calls(reading, "nvmlGpmSampleAlloc") == 4
    assert [device.xids for device in reading.devices] == [{}, {}]
    two.ask("release", False)
    two.read(after=1)
    assert watched(two)["79"] == XidCount(0, None)


def release_while_the_watch_hangs(node: Node) -> None:
    node.fail(Fault("hang", WAIT))
    node.start(HASTY)
    node.read()
    node.ask("hung")  # being watched is not enough: a watch ends at once before its first wait
    node.ask("release", True)


def test_a_driver_in_which_the_watch_hangs_is_closed_when_it_comes_back(two: Node) -> None:
    release_while_the_watch_hangs(two)
    assert calls(two.read(), "nvmlShutdown") == 0
    two.fail()
    two.ask("settle")
    two.read(after=1)
    two.ask("settle")
    assert calls(two.read(after=1), "nvmlShutdown") == 1


def test_a_driver_that_is_taken_up_while_a_call_hangs_says_what_it_waits_for(two: Node) -> None:
    two.start(HASTY)
    two.read()
    two.fail(Fault("hang", "nvmlDeviceGetSamples", gpu=0))
    two.read(after=1)
    two.ask("release", True)
    two.ask("release", False)
    reading = two.read(after=1)
    assert (reading.status.up, reading.status.detail) == (False, WAITS)
    assert {device.detail for device in reading.devices} == {WAITS}
    two.fail()
    two.ask("settle")
    status = two.read(after=1).status
    assert (status.up, status.detail) == (True, "")


def test_a_driver_that_was_closed_late_is_taken_up_at_once(two: Node) -> None:
    release_while_the_watch_hangs(two)
    two.fail()
    two.ask("settle")
    assert calls(two.read(after=1), "nvmlShutdown") == 1
    two.ask("release", False)
    status = two.read(after=1).status
    assert (status.up, status.detail) == (True, "")


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errors.NOT_SUPPORTED, "not_supported"), (errors.NO_PERMISSION, "no_permission")],
)
def test_a_board_that_refuses_costs_only_itself(two: Node, code: int, reason: str) -> None:
    two.fail(Fault("error", REGISTER, gpu=0, code=code))
    two.start()
    two.read()
    assert two.ask("xid_refusal", "GPU-0") == reason
    watched(two, "GPU-1")
    devices = by_uuid(two.read())
    assert devices["GPU-0"].xids == {}
    assert devices["GPU-0"].unmeasured == {"xid": reason}
    assert devices["GPU-1"].xids


def test_a_board_that_spoils_the_event_set_costs_only_itself(two: Node) -> None:
    two.fail(Fault("error", REGISTER, gpu=0, code=errors.UNKNOWN))
    two.start()
    two.read()
    watched(two, "GPU-1")
    two.fail()
    two.read(after=30)
    watched(two, "GPU-0")


def test_a_board_that_refuses_after_it_has_told_shows_none_and_why(two: Node) -> None:
    two.start()
    two.read()
    watched(two)
    two.fail(Fault("error", WAIT, code=errors.NO_PERMISSION))
    report(two, Xid(0, 31))  # ends the wait under way
    assert two.ask("xid_refusal", "GPU-0") == "no_permission"
    device = two.device("GPU-0")
    assert (device.xids, device.unmeasured) == ({}, {"xid": "no_permission"})


@pytest.mark.parametrize("call", [REGISTER, WAIT])
def test_a_refusal_that_ends_is_noticed(two: Node, call: str) -> None:
    two.fail(Fault("error", call, gpu=0 if call == REGISTER else None, code=errors.NO_PERMISSION))
    two.start()
    two.read()
    two.ask("xid_refusal", "GPU-0")
    two.fail()
    two.read(after=60)
    assert by_uuid(two.read())["GPU-0"].xids == {}
    two.read(after=70)
    watched(two)
    assert "xid" not in two.device("GPU-0").unmeasured


def test_a_driver_without_events_is_not_asked_for_them_again_and_again(two: Node) -> None:
    two.start(path=library(omit={WAIT}))
    two.read()
    assert two.ask("xid_refusal", "GPU-1") == "driver_too_old"
    for _ in range(3):
        two.read(after=1)
    assert sum("XIDs of" in line for line in two.ask("logged")) == 1


class Mute:
    """A driver whose waits end at once, and nothing has come."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def call(self, name: str, *_: object) -> None:
        self.called.append(name)
        if name == WAIT:
            raise errors.error_of(errors.TIMEOUT, WAIT)


def test_a_driver_that_does_not_wait_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, watch = Mute(), XidWatch(ManualClock())

    def rest(_: float) -> None:
        driver.called.append("rest")
        watch._is_changed = driver.called.count("rest") == 3

    monkeypatch.setattr(watch, "_rest", rest)
    watch._listen(cast("Library", driver), {"GPU-0": 1})
    assert driver.called[2:-1] == [WAIT, "rest"] * 3


def test_numbers_that_nobody_expects_are_bounded() -> None:
    counts = XidCounts(ManualClock())
    first = [counts.add(xid) for xid in range(1000, 1100)]
    told = counts.snapshot()
    assert len(told) == len(ACTED_ON) + MAX_OTHERS + 1
    assert told[OTHER].events == 100 - MAX_OTHERS
    assert sum(first) == MAX_OTHERS + 1
