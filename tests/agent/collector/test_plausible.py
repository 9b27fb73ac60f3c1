"""What a driver reports and cannot be true is left out, counted, and said once."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from exporter.agent.collector.plausible import SENSORS, Plausible, out_of_bounds
from exporter.metrics.families import BOARD
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    Engines,
    ProcessActivity,
    ProcessMemory,
    Reading,
    Sensors,
    Snapshot,
    SourceStatus,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench, row

COMPUTE = frozenset({"compute"})
TOTAL = 80 * 2**30
HUGE = 6_400_000_000_000_000_000
JOULE = 1_000_000  # microjoules


@pytest.fixture
def bench() -> Bench:
    """A pod whose only process, 7, holds memory and works."""
    bench = Bench()
    bench.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
    bench.name_pod(replace(POD, annotations=PLACED))
    return bench


def reading(
    used: int | None = 500,
    of_process: int | None = 400,
    *,
    energy: int | None = None,
    limit: float | None = None,
    power: float | None = None,
    total: int | None = TOTAL,
) -> DeviceReading:
    window = Window(
        *(0, SECOND, SECOND, 0),
        Engines(core=SECOND // 2),
        (ProcessActivity(7, Engines(core=SECOND // 2)),),
        energy_uj=energy,
    )
    return DeviceReading(
        DEVICE,
        window=window,
        memory=DeviceMemory(total, used, None, (ProcessMemory(7, of_process, COMPUTE),)),
        sensors=Sensors.of(power_limit_watts=limit, power_watts=power),
    )


def read(bench: Bench, *readings: DeviceReading) -> Snapshot:
    """The Snapshot after a cycle with each of these, a second apart."""
    for one in readings:
        bench.gpus.devices = (one,)
        bench.cycle()
    return bench.collector.snapshot


def container(snapshot: Snapshot) -> dict[str, Any]:
    return dict(row(snapshot, "container", "ml", "train", "main", "0", "GPU-0").values)


def device(snapshot: Snapshot) -> dict[str, Any]:
    return dict(row(snapshot, "device", "0", "GPU-0").values)


def rejected(snapshot: Snapshot, reason: str) -> int:
    counts = row(snapshot, "exporter").values["rejected_samples_total"]
    return counts.get((reason,), 0)  # type: ignore[union-attr, return-value]


def test_memory_of_a_process_above_its_cards_is_rejected(bench: Bench) -> None:
    good, bad = reading(), reading(of_process=HUGE)

    now = read(bench, good, bad, bad)

    assert "memory_used_bytes" not in container(now)
    assert "memory_limit_utilization_ratio" not in container(now)
    assert container(now)["processes"] == 1
    assert container(now)["unmeasured"] == {("memory", "rejected_samples"): 1}
    assert container(now)["memory_used_peak_bytes"] == 400
    assert container(now)["core_seconds_total"] == 3 * SECOND // 2
    assert device(now)["memory_used_bytes"] == 500
    assert min(device(now)["unattributed_memory_bytes"].values()) >= 0
    assert rejected(now, "process_memory") == 2
    assert container(read(bench, good))["memory_used_bytes"] == 400


def test_memory_of_a_whole_card_is_believed(bench: Bench) -> None:
    now = read(bench, reading(used=TOTAL, of_process=TOTAL))

    assert container(now)["memory_used_bytes"] == TOTAL
    assert device(now)["memory_used_bytes"] == TOTAL
    assert rejected(now, "process_memory") == rejected(now, "device_memory") == 0


def test_a_process_on_an_apu_may_hold_host_memory(bench: Bench) -> None:
    apu = replace(DEVICE, vendor="amd", memory_bytes=512 * 2**20)
    held = reading(used=2**28, of_process=8 * 2**30, total=512 * 2**20)._replace(device=apu)
    absurd = reading(used=2**28, of_process=HUGE, total=512 * 2**20)._replace(device=apu)

    assert container(read(bench, held))["memory_used_bytes"] == 8 * 2**30
    assert rejected(read(bench, absurd), "process_memory") == 1


def test_memory_in_use_above_the_cards_is_rejected(bench: Bench) -> None:
    now = read(bench, reading(), reading(used=500 * 2**30))

    assert "memory_used_bytes" not in device(now)
    assert (
        "unattributed_memory_bytes" not in device(now)
        or not device(now)["unattributed_memory_bytes"]
    )
    assert device(now)["unmeasured"][("device_memory", "rejected_samples")] == 1
    assert device(now)["memory_total_bytes"] == TOTAL
    assert container(now)["memory_used_bytes"] == 400
    assert ("memory", "rejected_samples") not in container(now)["unmeasured"]
    assert rejected(now, "device_memory") == 1


def test_memory_is_believed_where_the_card_tells_no_total(bench: Bench) -> None:
    unknown = replace(DEVICE, memory_bytes=None)

    now = read(bench, reading(total=None, of_process=HUGE)._replace(device=unknown))

    assert container(now)["memory_used_bytes"] == HUGE
    assert rejected(now, "process_memory") == 0


def test_energy_beyond_what_the_board_can_use_is_rejected(bench: Bench) -> None:
    """A counter that falls to nothing and comes back: all since the driver was loaded, at once."""
    steady = reading(energy=450 * JOULE, limit=500.0)
    leap = reading(energy=24_000 * JOULE, limit=500.0)

    before = read(bench, steady, steady)
    during = read(bench, leap)
    after = read(bench, steady)

    assert device(before)["energy_joules_total"] == 900 * JOULE
    assert "energy_joules_total" not in device(during)  # unknown, and not 0
    assert device(during)["unmeasured"][("energy", "rejected_samples")] == 1
    assert "energy_joules_total" not in container(during)
    assert device(after)["energy_joules_total"] == 1350 * JOULE
    assert container(after)["core_seconds_total"] == 2 * SECOND
    assert rejected(after, "energy") == 1


@pytest.mark.parametrize(
    ("joules", "limit", "power", "is_believed"),
    [
        (1000, 500.0, None, True),  # twice the limit for a second: a peak, and a late counter
        (2000, 500.0, None, True),
        (2001, 500.0, None, False),
        (2001, 100.0, 700.0, True),  # a board that takes more than it is said to
        (20_000, None, None, True),  # its limit is not known
        (40_001, None, None, False),
        (40_001, 1e9, None, False),  # no board's limit
        (300, 0.0, None, True),
        (700, None, 30.0, True),  # it was idle when its power was read
        (700, 0.0, 30.0, True),
    ],
)
def test_the_bound_is_twice_the_limit_for_the_time_and_a_second(
    bench: Bench, joules: int, limit: float | None, power: float | None, *, is_believed: bool
) -> None:
    now = read(
        bench,
        reading(energy=0, limit=limit, power=power and power - 0.1),
        reading(energy=joules * JOULE, limit=limit, power=power),
    )

    assert rejected(now, "energy") == (not is_believed)
    assert ("energy_joules_total" in device(now)) is is_believed


def test_power_far_beyond_the_limit_is_none_while_it_is_the_same(bench: Bench) -> None:
    stuck = read(
        bench,
        reading(energy=0, limit=35.0, power=588.0),
        reading(energy=588 * JOULE, limit=35.0, power=588.0),
    )
    assert "power_watts" not in device(stuck)
    assert device(stuck)["unmeasured"][("power", "rejected_samples")] == 1
    assert device(stuck)["unmeasured"][("energy", "rejected_samples")] == 1
    moving = read(bench, reading(energy=500 * JOULE, limit=35.0, power=587.9))
    assert device(moving)["power_watts"] == 587.9
    assert rejected(moving, "energy") == 1


def test_a_profile_of_0_is_none_once_the_core_was_busy_for_ten_seconds(bench: Bench) -> None:
    still = Sensors.of(sm_active_ratio=0.0, dram_active_ratio=0.0)
    now = read(bench, *[reading()._replace(sensors=still)] * 9)
    assert device(now)["sm_active_ratio"] == 0
    now = read(bench, reading()._replace(sensors=still))
    assert not {"sm_active_ratio", "dram_active_ratio"} & device(now).keys()
    assert device(now)["unmeasured"][("profiling", "rejected_samples")] == 1
    works = Sensors.of(sm_active_ratio=0.4, dram_active_ratio=0.0)
    now = read(bench, reading()._replace(sensors=works))
    assert device(now)["sm_active_ratio"] == 0.4


def test_energy_of_a_time_without_windows_is_held_against_all_of_that_time(bench: Bench) -> None:
    silent = reading(limit=500.0)._replace(window=None)

    now = read(
        bench,
        reading(energy=0, limit=500.0),
        *[silent] * 10,
        reading(energy=5000 * JOULE, limit=500.0),
    )

    assert rejected(now, "energy") == 0
    assert device(now)["energy_joules_total"] == 5000 * JOULE


def test_a_limit_that_was_lowered_does_not_reject_what_was_used_before(bench: Bench) -> None:
    now = read(
        bench,
        reading(energy=450 * JOULE, limit=500.0),
        reading(energy=450 * JOULE, limit=50.0),
    )

    assert rejected(now, "energy") == 0


def test_what_goes_on_being_rejected_is_said_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        read(bench, reading(of_process=HUGE), reading(of_process=HUGE - 1))

    (line,) = [r.getMessage() for r in caplog.records if "process_memory" in r.getMessage()]
    assert "GPU-0" in line
    assert str(HUGE) in line


def test_every_sensor_has_bounds_and_no_unknown_of_a_driver_is_within() -> None:
    of_sensors = {f.name for f in BOARD if f.group not in {"cost", "xid"}}
    assert SENSORS.keys() == of_sensors
    unknown = {name: 2.0**32 - 1 for name in of_sensors if SENSORS[name].most < 2**32}
    assert out_of_bounds(Sensors(unknown)).keys() == {(name, "") for name in unknown}
    longer = dict.fromkeys(of_sensors, 2.0**64 - 1)
    assert out_of_bounds(Sensors(longer)).keys() == {(name, "") for name in of_sensors}
    assert out_of_bounds(Sensors({"power_watts": float("nan")}))


def test_a_sensor_out_of_bounds_costs_only_itself(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    sensors = Sensors.of(
        power_watts=4_294_967.295,
        temperature_celsius={"gpu": 4294967295.0, "memory": 50.0},
        clock_hertz={"sm": 4294967295e6},
    )
    wrong = reading()._replace(sensors=sensors)
    with caplog.at_level(logging.WARNING):
        now = read(bench, wrong, wrong)

    values = dict(row(now, "device", "0", "GPU-0").values)
    assert values["temperature_celsius"] == {("memory",): 50.0}
    assert not {"power_watts", "clock_hertz"} & values.keys()
    assert values["unmeasured"] == {
        ("power", "rejected_samples"): 1,
        ("clock", "rejected_samples"): 1,
    }
    assert rejected(now, "sensor") == 3
    assert sum("sensor" in record.getMessage() for record in caplog.records) == 3


def test_samples_for_which_no_time_passed_are_counted_and_said_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    of_a_ring = reading()
    assert of_a_ring.window
    cut = of_a_ring._replace(window=of_a_ring.window._replace(excess_samples=256))
    with caplog.at_level(logging.WARNING):
        now = read(bench, cut, cut)

    assert rejected(now, "excess") == 512
    (line,) = [r.getMessage() for r in caplog.records if "excess" in r.getMessage()]
    assert "256 samples" in line


def test_unlimited_containers_are_checked_too(bench: Bench) -> None:
    """The check is about the card, not about allocations."""
    bench.name_pod(replace(POD, containers=(Container("main", container_ids=(CID,)),)))

    now = read(bench, reading(of_process=HUGE))

    assert "memory_used_peak_bytes" not in container(now)


def test_instances_that_come_and_go_without_a_window_are_forgotten() -> None:
    """As those of a board without GPM."""
    checked = Plausible()
    for number in range(5):
        instance = replace(DEVICE, uuid=f"MIG-{number}")
        device_reading = reading()._replace(device=instance, window=None)
        checked.of([Reading(SourceStatus("nvml", up=True), (device_reading,))], SECOND)
    assert set(checked._memories) == set(checked._out_of_bounds) == {"MIG-4"}
