"""How often devices are read, parts that are slow to answer, and what samples show."""

from collections.abc import Mapping, Sequence

import pytest

from exporter.agent.doctor import CheckResult, CheckVerdict
from exporter.agent.doctor.gpuchecks import pace, sampling
from exporter.model import (
    Device,
    DeviceReading,
    Naming,
    PartCost,
    Reading,
    Sampling,
    SourceStatus,
)
from tests.agent.doctor.looking import by_subject, evidence, settings

MS = 1_000_000
ALWAYS, PARTLY, NEVER, UNKNOWN = Naming
DEVICES = [DeviceReading(Device("GPU-0", 0, "nvidia", "A100"))]
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


def test_a_part_that_is_slow_is_named_with_how_often_it_is_read_then() -> None:
    quick, slow = told({"processes": 2}), told({"processes": 130}, {"processes": 250})

    finding = paces(quick, slow)["slow to answer"]

    assert finding.verdict is CheckVerdict.NOTE
    assert finding.found.startswith("processes: 120 ms of GPU 1, 1 of 2 devices")
    assert finding.found.endswith("read every 20 s, not every 5 s")
    assert finding.remedy


@pytest.mark.parametrize(
    "spent",
    [
        [{"processes": 300}, {"processes": 300}],  # one read, which may be a cold one
        [{"processes": 300}, {"processes": 301}],  # one slow read before a quick one
        [{"samples": 900}, {"samples": 1800}],  # what each cycle reads
    ],
)
def test_what_is_not_read_less_often_is_not_called_slow(spent: list[dict[str, float]]) -> None:
    assert set(paces(told(*spent))) == {"driver's pace"}


def test_nothing_is_said_where_no_source_tells() -> None:
    assert paces([{}, {}]) == {}
    assert not list(sampling(DEVICES, {}))


@pytest.mark.parametrize(
    ("seen", "verdict", "said"),
    [
        (
            Sampling(166_700, (ALWAYS, ALWAYS, UNKNOWN, UNKNOWN)),
            CheckVerdict.OK,
            (
                "one every 0.17 s; each busy sample names a process (core, memory_active); "
                "not known yet: encoder, decoder"
            ),
        ),
        (
            Sampling(500_000, (PARTLY, ALWAYS, ALWAYS, ALWAYS)),
            CheckVerdict.NOTE,
            (
                "one every 0.5 s; some busy samples name no process (core); "
                "each busy sample names a process (memory_active, encoder, decoder)"
            ),
        ),
        (
            Sampling(None, (NEVER, NEVER, NEVER, NEVER)),
            CheckVerdict.NOTE,
            "no busy sample names a process (core, memory_active, encoder, decoder)",
        ),
    ],
)
def test_the_check_says_how_a_board_samples(
    seen: Sampling, verdict: CheckVerdict, said: str
) -> None:
    (result,) = sampling(DEVICES, {"GPU-0": seen})

    assert (result.subject, result.verdict, result.found) == ("GPU 0 samples", verdict, said)
    assert bool(result.remedy) is (verdict is CheckVerdict.NOTE)
