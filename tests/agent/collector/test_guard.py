import logging

import pytest

from exporter.agent.collector.polling import Guard
from exporter.model import Device, DeviceReading, DeviceState, SourceStatus
from tests.agent.collector.sources import SetGpus
from tests.agent.simulation.clock import ManualClock


def test_a_detail_of_which_only_the_numbers_change_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = Guard("pods", ManualClock())

    with caplog.at_level(logging.INFO):
        for seconds in (1, 2, 13):
            status = SourceStatus("pods", up=False, detail=f"refused; the list is {seconds} s old")
            assert guard.record_status(status).detail == status.detail

    assert [record.getMessage() for record in caplog.records] == [
        "source pods is down: refused; the list is 1 s old"
    ]


def test_a_failure_that_goes_on_is_told_once_and_the_source_is_down_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = Guard("pods", ManualClock())
    up = SourceStatus("pods", up=True)
    guard.record_status(up)

    def fail() -> int:
        raise OSError("boom")

    with caplog.at_level(logging.ERROR):
        answers = [guard.call("table", fail, 7) for _ in range(3)]
        guard.call("status", lambda: 1, 0)
        down = guard.record_status(up)
        guard.call("table", lambda: 1, 0)

    assert answers == [7, 7, 7]
    assert len(caplog.records) == 1
    assert not down.up
    assert "boom" in down.detail
    assert guard.record_status(up).up


def test_another_cause_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard("pods", ManualClock())

    with caplog.at_level(logging.INFO):
        for cause in ("refused", "forbidden"):
            guard.record_status(SourceStatus("pods", up=False, detail=cause))

    assert [record.args for record in caplog.records] == [
        ("pods", "refused"),
        ("pods", "forbidden"),
    ]


def test_the_devices_of_a_source_that_raises_could_not_be_read() -> None:
    guard, source = Guard("set", ManualClock()), SetGpus()
    source.devices = (DeviceReading(Device("GPU-0", 0, "nvidia")),)
    guard.read(source)
    source.error = OSError("boom")

    readings = [guard.read(source) for _ in range(2)]

    assert {r.status.up for r in readings} == {False}
    states = [(d.device.uuid, d.state) for r in readings for d in r.devices]
    assert states == [("GPU-0", DeviceState.FAILED)] * 2
