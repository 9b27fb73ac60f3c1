"""XIDs that the driver reports, asked for and counted once a cycle."""

import pytest

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.events import MOST_EVENTS
from exporter.gpus.nvml.source import WAITS
from exporter.gpus.xids import ACTED_ON, MOST_OTHERS, OTHER, XidCounts
from exporter.model import DeviceState, XidCount
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu, Instance, Xid
from tests.gpus.nvml.node import HASTY, START, Node, by_uuid, calls
from tests.scenario.clock import ManualClock

CREATE = "nvmlEventSetCreate"
FREE = "nvmlEventSetFree"
REGISTER = "nvmlDeviceRegisterEvents"
WAIT = "nvmlEventSetWait_v2"


@pytest.fixture
def two(node: Node) -> Node:
    """Two GPUs."""
    node.scenario.gpus = [Gpu(0), Gpu(1)]
    return node


def report(node: Node, *xids: tuple[int, int]) -> None:
    """Let these, GPU and number, happen just before the next second."""
    node.scenario.xids = [Xid(gpu, xid, at=node.now + 0.9) for gpu, xid in xids]
    node.write()


def events(node: Node, uuid: str, xid: int, *, after: float = 1) -> int:
    """How many there were of a number, by the next cycle."""
    return node.device(uuid, after=after).xids[str(xid)].events


def test_what_an_operator_acts_on_is_shown_from_zero(two: Node) -> None:
    two.start()
    assert two.device("GPU-0").xids == {str(xid): XidCount(0, None) for xid in ACTED_ON}
    assert len(ACTED_ON) <= 12


def test_an_event_is_counted_with_its_time_for_its_device_in_the_cycle_after_it(two: Node) -> None:
    two.start()
    two.read()
    report(two, (1, 48))
    devices = by_uuid(two.read(after=5))
    assert devices["GPU-1"].xids["48"] == XidCount(1, (START + 5) * 10**9)
    assert devices["GPU-0"].xids["48"] == XidCount(0, None)
    assert any("GPU-1 reports XID 48" in line for line in two.ask("logged"))


def test_each_report_counts_and_the_first_is_logged(two: Node) -> None:
    two.start()
    two.read()
    report(two, (0, 31), (0, 13))
    assert events(two, "GPU-0", 13) == 1
    report(two, (0, 31))
    assert events(two, "GPU-0", 31) == 2
    assert sum("reports XID 31" in line for line in two.ask("logged")) == 1


def test_the_driver_is_asked_once_a_cycle_and_once_more_for_each_event(two: Node) -> None:
    two.start()
    two.read()
    assert calls(two.read(after=1), WAIT) == 1
    report(two, (0, 31), (1, 31))
    assert calls(two.read(after=1), WAIT) == 1 + 3


def test_of_too_many_events_for_a_cycle_the_rest_is_counted_in_the_next(two: Node) -> None:
    two.start()
    two.read()
    two.scenario.xids = [Xid(0, 31, at=two.now + n / 1000) for n in range(1, MOST_EVENTS + 51)]
    assert events(two, "GPU-0", 31) == MOST_EVENTS
    assert events(two, "GPU-0", 31) == MOST_EVENTS + 50


def test_a_lost_device_shows_its_xids_and_the_others_are_still_watched(two: Node) -> None:
    two.start()
    two.read()
    report(two, (0, 79))
    two.change_gpu(0, lost=True)
    reading = by_uuid(two.read(after=1))["GPU-0"]
    assert reading.state is DeviceState.LOST
    assert reading.xids["79"].events == 1
    report(two, (1, 43))
    assert events(two, "GPU-1", 43) == 1
    report(two, (1, 43))
    devices = by_uuid(two.read(after=60))
    assert devices["GPU-1"].xids["43"].events == 2
    assert devices["GPU-0"].xids["79"].events == 1


def test_the_only_device_shows_its_xids_once_it_is_lost(node: Node) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.start()
    node.read()
    report(node, (0, 79))
    node.change_gpu(0, lost=True)
    for _ in range(3):
        assert events(node, "GPU-0", 79, after=30) == 1


def test_a_device_whose_read_hangs_shows_its_xids(two: Node) -> None:
    two.start(HASTY)
    two.read()
    two.fail(Fault("hang", "nvmlDeviceGetSamples", gpu=0))
    report(two, (0, 79))
    reading = two.device("GPU-0", after=1)
    assert reading.state is DeviceState.STUCK
    assert reading.xids["79"].events == 1


def test_a_device_that_is_back_is_watched_again(two: Node) -> None:
    two.start()
    two.read()
    two.change_gpu(0, lost=True)
    two.read(after=1)
    two.change_gpu(0, lost=False)
    two.read(after=60)
    two.read(after=1)
    report(two, (0, 31))
    assert events(two, "GPU-0", 31) == 1


def test_what_happened_before_the_boards_changed_is_counted(two: Node) -> None:
    two.start()
    two.read()
    two.scenario.gpus.append(Gpu(2))
    report(two, (0, 31))
    two.read(after=30)
    report(two, (0, 31))
    assert events(two, "GPU-0", 31) == 2
    report(two, (2, 31))
    reading = two.read(after=1)
    assert by_uuid(reading)["GPU-2"].xids["31"].events == 1
    assert (calls(reading, CREATE), calls(reading, FREE)) == (2, 1)


def test_counts_go_on_after_the_driver_was_restarted(two: Node) -> None:
    two.start()
    two.read()
    report(two, (0, 31))
    two.read(after=1)
    two.fail(Fault("error", "nvmlDevice*", code=errors.UNINITIALIZED))
    two.read(after=1)
    two.fail()
    assert two.read(after=1).status.up
    report(two, (0, 43))
    after = two.device("GPU-0", after=1).xids
    assert (after["31"].events, after["43"].events) == (1, 1)


def test_a_driver_that_is_gone_by_this_call_alone_is_watched_again_at_the_next_look(
    two: Node,
) -> None:
    two.fail(Fault("error", WAIT, code=errors.UNINITIALIZED, count=1))
    two.start()
    two.read()
    device = two.device("GPU-0", after=1)
    assert (device.state, device.xids) == (DeviceState.UP, {})
    two.read(after=30)
    assert events(two, "GPU-0", 31) == 0


def test_a_released_driver_is_closed_and_its_xids_are_unknown(two: Node) -> None:
    two.start()
    two.read()
    two.ask("release", True)
    reading = two.read()
    assert calls(reading, "nvmlShutdown") == 1
    assert calls(reading, FREE) == calls(reading, CREATE) == 1
    assert calls(reading, "nvmlGpmSampleFree") == calls(reading, "nvmlGpmSampleAlloc") == 4
    assert [device.xids for device in reading.devices] == [{}, {}]
    two.ask("release", False)
    assert two.device("GPU-0", after=1).xids["79"] == XidCount(0, None)


def test_a_question_that_hangs_costs_only_itself(two: Node) -> None:
    two.start(HASTY)
    two.read()
    two.fail(Fault("hang", WAIT))
    reading = two.read(after=1)
    assert reading.status.up
    assert {device.state for device in reading.devices} == {DeviceState.UP}
    report(two, (1, 48))
    assert events(two, "GPU-1", 48) == 0
    two.fail()
    two.ask("settle")
    assert events(two, "GPU-1", 48) == 1


def release_while_the_question_hangs(node: Node) -> None:
    node.fail(Fault("hang", WAIT))
    node.start(HASTY)
    node.read()
    node.read(after=1)
    node.ask("release", True)


def test_a_driver_in_which_the_question_hangs_is_closed_when_it_comes_back(two: Node) -> None:
    release_while_the_question_hangs(two)
    assert calls(two.read(), "nvmlShutdown") == 0
    two.fail()
    two.ask("settle")
    reading = two.read(after=1)
    assert calls(reading, FREE) == calls(reading, "nvmlShutdown") == 1


def test_a_driver_taken_up_while_the_question_hangs_says_what_it_waits_for(two: Node) -> None:
    release_while_the_question_hangs(two)
    two.ask("release", False)
    reading = two.read(after=1)
    assert (reading.status.up, reading.status.detail) == (False, WAITS)
    assert {device.detail for device in reading.devices} == {WAITS}
    two.fail()
    two.ask("settle")
    status = two.read(after=1).status
    assert (status.up, status.detail) == (True, "")


def test_a_driver_that_was_closed_late_is_taken_up_at_once(two: Node) -> None:
    release_while_the_question_hangs(two)
    two.fail()
    two.ask("settle")
    assert calls(two.read(after=1), "nvmlShutdown") == 1
    two.ask("release", False)
    status = two.read(after=1).status
    assert (status.up, status.detail) == (True, "")


def test_a_driver_in_which_the_question_hangs_is_not_opened_anew(two: Node) -> None:
    two.fail(Fault("hang", WAIT))
    two.start(HASTY)
    two.read()
    two.fail(*two.scenario.faults, Fault("error", "nvmlDevice*", code=errors.UNINITIALIZED))
    two.read(after=1)
    two.fail(Fault("hang", WAIT))
    for _ in range(3):
        reading = two.read(after=10)
        assert (reading.status.up, calls(reading, "nvmlShutdown")) == (False, 0)
    two.fail()
    two.ask("settle")
    assert two.read(after=10).status.up


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errors.NOT_SUPPORTED, "not_supported"), (errors.NO_PERMISSION, "no_permission")],
)
def test_a_board_that_refuses_costs_only_itself_and_is_not_asked_again(
    two: Node, code: int, reason: str
) -> None:
    two.fail(Fault("error", REGISTER, gpu=0, code=code))
    two.start()
    devices = by_uuid(two.read())
    assert devices["GPU-0"].xids == {}
    assert devices["GPU-0"].unmeasured == {"xid": reason}
    report(two, (1, 31))
    assert events(two, "GPU-1", 31) == 1
    two.read(after=30)
    assert calls(two.read(after=1), REGISTER) == 2


def test_a_board_that_fails_for_now_is_tried_again_at_the_next_look(two: Node) -> None:
    two.fail(Fault("error", REGISTER, gpu=0, code=errors.OPERATING_SYSTEM, count=1))
    two.start()
    devices = by_uuid(two.read())
    assert (devices["GPU-0"].xids, devices["GPU-0"].unmeasured) == ({}, {})
    assert devices["GPU-1"].xids
    assert not two.device("GPU-0", after=29).xids
    two.read(after=1)
    assert two.device("GPU-0", after=1).xids


def test_a_board_that_spoils_the_event_set_costs_only_itself(two: Node) -> None:
    two.fail(Fault("error", REGISTER, gpu=0, code=errors.UNKNOWN))
    two.start()
    two.read()
    reading = two.read(after=1)
    devices = by_uuid(reading)
    assert devices["GPU-1"].xids
    assert not devices["GPU-0"].xids
    assert (calls(reading, CREATE), calls(reading, FREE)) == (2, 1)
    report(two, (1, 31))
    assert events(two, "GPU-1", 31) == 1
    two.fail()
    two.read(after=30)
    assert two.device("GPU-0", after=1).xids


def test_a_question_that_fails_is_asked_of_a_new_set_less_and_less_often(two: Node) -> None:
    two.fail(Fault("error", WAIT, code=errors.UNKNOWN, count=5))
    two.start()
    readings = [two.read(after=1) for _ in range(20)]
    created = [calls(reading, CREATE) for reading in readings]
    assert created == [1, 2, 3, 3, *[4] * 4, *[5] * 5, *[6] * 7]
    assert calls(readings[-1], FREE) == 5
    report(two, (0, 31))
    assert events(two, "GPU-0", 31) == 1


def test_boards_that_all_refuse_are_not_asked_until_the_driver_is_opened_anew(two: Node) -> None:
    two.fail(Fault("error", REGISTER, code=errors.NOT_SUPPORTED, count=2))
    two.start()
    two.read()
    reading = two.read(after=30)
    assert {device.unmeasured["xid"] for device in reading.devices} == {"not_supported"}
    assert calls(reading, WAIT) == 0
    assert calls(reading, FREE) == calls(reading, CREATE) == 1
    two.ask("release", True)
    two.ask("release", False)
    two.read(after=1)
    assert events(two, "GPU-0", 31) == 0


def test_a_driver_that_refuses_the_question_is_not_asked_again(two: Node) -> None:
    two.fail(Fault("error", WAIT, code=errors.NO_PERMISSION))
    two.start()
    two.read()
    two.read(after=1)
    reading = two.read(after=30)
    assert {device.unmeasured["xid"] for device in reading.devices} == {"no_permission"}
    assert [device.xids for device in reading.devices] == [{}, {}]
    assert [calls(reading, name) for name in (CREATE, WAIT, FREE)] == [1, 1, 1]


def test_a_driver_without_events(two: Node) -> None:
    two.start(path=library(omit={WAIT}))
    assert two.device("GPU-1").unmeasured == {"xid": "driver_too_old"}
    assert calls(two.read(after=30), CREATE) == 0


def test_instances_have_no_xids_of_their_own(two: Node) -> None:
    two.change_gpu(1, mig=True)
    two.scenario.instances = [Instance(1, 0)]
    two.start()
    devices = by_uuid(two.read())
    assert devices["MIG-1-0"].xids == {}
    assert devices["GPU-1"].xids


def test_numbers_that_nobody_expects_are_bounded() -> None:
    counts = XidCounts(ManualClock())
    first = [counts.add(xid) for xid in range(1000, 1100)]
    told = counts.snapshot()
    assert len(told) == len(ACTED_ON) + MOST_OTHERS + 1
    assert told[OTHER].events == 100 - MOST_OTHERS
    assert sum(first) == MOST_OTHERS + 1
