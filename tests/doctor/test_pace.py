"""How often devices are read: parts that are slow to answer."""

from collections.abc import Mapping, Sequence

from exporter.doctor import CheckResult, CheckVerdict
from exporter.doctor.gpus import pace
from exporter.model import Device, DeviceReading, PartCost, Reading, SourceStatus
from tests.doctor.looking import by_subject, evidence, settings

MS = 1_000_000
EVERY = {"samples": None, "processes": 5_000 * MS}


def told(*spent_ms: Mapping[str, float]) -> list[dict[str, PartCost]]:
    """What the readings of a device said, one after another, of the time spent until then."""
    return [
        {part: PartCost(int(ms * MS), EVERY[part]) for part, ms in reading.items()}
        for reading in spent_ms
    ]


def paces(*devices: Sequence[Mapping[str, PartCost]]) -> dict[str, CheckResult]:
    known = [Device(f"GPU-{i}", i, "nvidia", "A100") for i in range(len(devices))]
    reading = Reading(SourceStatus("nvml", up=True), tuple(map(DeviceReading, known)))
    costs = {device.uuid: each for device, each in zip(known, devices, strict=True)}
    return by_subject(pace(evidence(settings(), readings=(reading,), costs=costs)))


def test_what_one_read_costs_is_told_by_part_from_the_cheapest_device_to_the_dearest() -> None:
    found = paces(
        told({"samples": 9, "processes": 2}, {"samples": 9.4, "processes": 2}, {"samples": 9.8}),
        told({"samples": 7, "processes": 3}, {"samples": 7.5, "processes": 3}, {"samples": 8.1}),
    )

    assert {name: finding.verdict for name, finding in found.items()} == {
        "driver's pace": CheckVerdict.OK
    }
    assert found["driver's pace"].found == (
        "samples 0.4 to 0.5 ms each cycle; processes 2 to 3 ms (one read) every 5 s"
    )


def test_one_read_alone_which_may_be_a_cold_one_is_told_and_not_judged() -> None:
    found = paces(told({"processes": 300}, {"processes": 300}))

    assert found["driver's pace"].found == "processes 300 ms (one read) every 5 s"
    assert "slow to answer" not in found


def test_a_part_that_is_slow_is_named_with_how_often_it_is_read_then() -> None:
    quick, slow = told({"processes": 2}), told({"processes": 130}, {"processes": 250})

    finding = paces(quick, slow)["slow to answer"]

    assert finding.verdict is CheckVerdict.NOTE
    assert finding.found.startswith("processes: 120 ms of GPU 1, 1 of 2 devices")
    assert finding.found.endswith("read every 20 s, not every 5 s")
    assert finding.remedy


def test_one_slow_turn_before_a_quick_one_is_no_slow_part() -> None:
    assert "slow to answer" not in paces(told({"processes": 300}, {"processes": 301}))


def test_what_each_cycle_reads_is_never_read_more_seldom() -> None:
    assert "slow to answer" not in paces(told({"samples": 900}, {"samples": 1800}))


def test_nothing_is_said_where_no_source_tells() -> None:
    assert paces([{}, {}]) == {}
