"""Energy, sensors and sleep of a DRM device, by composed sysfs."""

from pathlib import Path

import pytest

from exporter.agent.sources.gpus.drm.drmsource import DrmSource
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceReading, Sensors, Window
from tests.agent.sources.gpus.drm.machine import Machine, i915, only, xe
from tests.agent.sources.gpus.known import known

PCI = "0000:03:00.0"
SECOND = 10**9
HWMON = "hwmon/hwmon3"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def step(machine: Machine, source: DrmSource, seconds: float = 1.0) -> DeviceReading:
    machine.clock.move(seconds)
    return only(source.read())


def energy(reading: DeviceReading) -> tuple[int | None, int | None]:
    return known(reading.window).energy_uj, known(reading.window).idle_energy_uj


def window(reading: DeviceReading) -> Window:
    return known(reading.window)


COUNTER, POWER = f"{HWMON}/energy1_input", f"{HWMON}/power1_average"
PACKAGE = f"{HWMON}/energy2_input"  # the only counter that xe has of an Arc A770 and a Max 1550


@pytest.mark.parametrize(
    ("name", "before", "after", "energy_uj", "method", "watts"),
    [
        ("i915", {COUNTER: "5000000"}, {COUNTER: "47000000"}, 42_000_000, "counter", 42),
        ("i915_gt0", {COUNTER: "5000000"}, {COUNTER: "47000000"}, None, "none", None),  # a part's
        ("i915", {POWER: "42000000"}, {}, 42_000_000, "power", 42),
        ("i915", {PACKAGE: "5000000"}, {PACKAGE: "47000000"}, 42_000_000, "counter", 42),
    ],
)
def test_energy_is_that_of_the_devices_hwmon_by_its_counter_or_else_its_power(
    machine: Machine,
    name: str,
    before: dict[str, str],
    after: dict[str, str],
    energy_uj: int | None,
    method: str,
    watts: float | None,
) -> None:
    device = machine.card(0, "i915", PCI, files={f"{HWMON}/name": name, **before})
    source = machine.source()
    source.read()
    machine.write(device, after)

    reading = step(machine, source)

    assert (window(reading).energy_uj, window(reading).methods.energy) == (energy_uj, method)
    assert reading.sensors.value("power_watts") == watts
    assert ("energy" in reading.unmeasured) is (energy_uj is None)


def test_a_driver_that_comes_back_has_its_counter_under_another_number(machine: Machine) -> None:
    device = machine.card(0, "i915", PCI, files={f"{HWMON}/name": "i915", COUNTER: "5000000"})
    source = machine.source()
    source.read()
    (device / "hwmon/hwmon3").rename(device / "hwmon/hwmon5")
    machine.write(device, {"hwmon/hwmon5/energy1_input": "47000000"})

    assert energy(step(machine, source))[0] == 42_000_000


def test_a_counter_that_is_away_for_a_moment_is_spent_once_and_told_apart(machine: Machine) -> None:
    files = {
        f"{HWMON}/name": "i915",
        f"{HWMON}/energy1_input": "5000000000000",
        f"{HWMON}/power1_average": "40000000",
    }
    device = machine.card(0, "i915", PCI, files={**files, PACKAGE: "4000000000000"})
    source = machine.source()
    source.read()
    machine.write(device, {f"{HWMON}/energy1_input": ""})
    away = [step(machine, source) for _ in range(3)]
    machine.write(device, {f"{HWMON}/energy1_input": "5000160000000"})
    back = step(machine, source)
    machine.write(device, {f"{HWMON}/energy1_input": "5000200000000"})

    assert [energy(reading)[0] for reading in away] == [None] * 3
    assert (window(back).energy_uj, window(back).late_energy_uj) == (160_000_000, 120_000_000)
    assert back.sensors.value("power_watts") == 40
    assert energy(step(machine, source))[0] == 40_000_000


@pytest.mark.parametrize(
    ("driver", "files", "sensors"),
    [
        (
            "i915",
            {"drm/card0/gt_act_freq_mhz": "1550", f"{HWMON}/power1_max": "190000000"},
            Sensors.of(power_limit_watts=190, clock_hertz={"graphics": 1_550_000_000}),
        ),
        (
            "xe",
            {
                "tile0/gt0/freq0/act_freq": "2850",
                f"{HWMON}/power1_max": "0",  # switched off: no limit
                f"{HWMON}/temp2_input": "48000",
                f"{HWMON}/temp2_label": "pkg",
                f"{HWMON}/temp3_input": "52500",
                f"{HWMON}/temp3_label": "vram",
            },
            Sensors.of(
                temperature_celsius={"gpu": 48, "memory": 52.5},
                clock_hertz={"graphics": 2_850_000_000},
            ),
        ),
        (
            "amdgpu",
            {
                f"{HWMON}/power1_average": "45000000",
                f"{HWMON}/power1_cap": "295000000",
                f"{HWMON}/temp1_input": "-3000",
                f"{HWMON}/temp1_label": "edge",
                f"{HWMON}/temp2_input": "61000",
                f"{HWMON}/temp2_label": "junction",
                f"{HWMON}/temp3_input": "70000",
                f"{HWMON}/temp3_label": "mem",
                f"{HWMON}/freq1_input": "2100000000",
                f"{HWMON}/freq1_label": "sclk",
                f"{HWMON}/freq2_input": "1249000000",
                f"{HWMON}/freq2_label": "mclk",
            },
            Sensors.of(
                power_watts=45,
                power_limit_watts=295,
                temperature_celsius={"gpu": -3, "hotspot": 61, "memory": 70},
                clock_hertz={"sm": 2_100_000_000, "memory": 1_249_000_000},
            ),
        ),
        (
            "xe",
            {f"{HWMON}/power1_max": "0", f"{HWMON}/power1_crit": "328000000"},
            Sensors.of(power_limit_watts=328),
        ),
        ("i915", {f"{HWMON}/temp1_input": "fourty", f"{HWMON}/power1_max": "-1"}, Sensors()),
    ],
)
def test_sensors_are_what_sysfs_says(
    machine: Machine, driver: str, files: dict[str, str], sensors: Sensors
) -> None:
    machine.card(0, driver, PCI, files={f"{HWMON}/name": driver, **files})

    assert only(machine.source().read()).sensors == sensors


def test_what_nobody_is_shown_is_neither_read_nor_said_to_be_missing(machine: Machine) -> None:
    files = {f"{HWMON}/name": "xe", f"{HWMON}/temp2_input": "48000"}
    machine.card(0, "xe", PCI, files=files)
    source = machine.source()
    source.follow(Demand(deadline_s=30, disabled=frozenset({"temperature", "ecc", "power"})))

    reading = only(source.read())

    assert reading.sensors.by_label("temperature_celsius") == {}
    assert not {"temperature", "ecc_errors", "power", "power_limit"} & reading.unmeasured.keys()
    assert {"clock", "throttle", "pcie"} <= reading.unmeasured.keys()


SLEEPY = {"power/control": "auto", "power/autosuspend_delay_ms": "1000"}


def sleepy_xe(machine: Machine) -> Path:
    """A card that may sleep, with a client; what reads it can be seen in its energy."""
    files = {
        **SLEEPY,
        "power/runtime_status": "active",
        f"{HWMON}/name": "xe",
        f"{HWMON}/energy1_input": "0",
    }
    device = machine.card(0, "xe", PCI, files=files)
    machine.process(42)
    machine.open(42, 5, xe(1, 0))
    return device


def tick(machine: Machine, device: Path, second: int, rcs: int, status: str = "active") -> None:
    machine.write(device, {"power/runtime_status": status})
    machine.write(device, {f"{HWMON}/energy1_input": str(second * 1_000_000)})
    machine.open(42, 5, xe(1, second * 1000, rcs=rcs))


def test_an_idle_device_is_left_alone_long_enough_to_fall_asleep(machine: Machine) -> None:
    device = sleepy_xe(machine)
    source = machine.source()
    read = []
    for second in range(9):
        tick(machine, device, second, 0)
        read.append(step(machine, source).window is not None)

    assert read == [False, False, True, False, True, False, True, False, True]


def test_nothing_is_read_of_a_device_that_sleeps(machine: Machine) -> None:
    device = sleepy_xe(machine)
    source = machine.source()
    source.read()
    tick(machine, device, 60, 55_000, "suspended")

    asleep = step(machine, source, 60)

    assert window(asleep).busy.core == 0
    assert window(asleep).observed_ns == 60 * SECOND
    assert energy(asleep) == (None, None)


def test_what_it_used_asleep_is_nobodys_when_it_wakes(machine: Machine) -> None:
    device = sleepy_xe(machine)
    source = machine.source()
    source.read()
    for second in range(1, 4):
        tick(machine, device, second, 0, "suspended")
        step(machine, source)
    tick(machine, device, 4, 500)

    awake = step(machine, source)

    assert energy(awake) == (4_000_000, 4_000_000)


def test_what_it_did_before_it_slept_is_told_when_it_wakes_by_a_clock_that_stood(
    machine: Machine,
) -> None:
    device = sleepy_xe(machine)
    source = machine.source()
    source.read()
    tick(machine, device, 3, 100)
    step(machine, source, 3)
    tick(machine, device, 4, 100, "suspended")
    step(machine, source, 3600)
    tick(machine, device, 4, 400)

    assert window(step(machine, source)).busy.core == 3 * SECOND // 10


def test_the_switch_is_taken_up_while_it_runs(machine: Machine) -> None:
    device = sleepy_xe(machine)
    source = machine.source()
    source.read()
    tick(machine, device, 1, 0, "suspended")
    asleep = step(machine, source)
    source.follow(Demand(deadline_s=30, processes_every_ns=0, wake=True))
    tick(machine, device, 2, 0, "suspended")

    assert (window(asleep).energy_uj, window(step(machine, source)).energy_uj) == (None, 2_000_000)


def test_i915_tells_of_its_clients_asleep_and_only_its_sensors_wait(machine: Machine) -> None:
    """Its fdinfo wakes nothing; its energy counter does."""
    files = {
        **SLEEPY,
        "power/runtime_status": "suspended",
        f"{HWMON}/name": "i915",
        f"{HWMON}/energy1_input": "0",
    }
    machine.card(0, "i915", PCI, files=files)
    machine.process(42)
    machine.open(42, 5, i915(1))
    source = machine.source()
    source.read()
    machine.open(42, 5, i915(1, render=7))

    reading = step(machine, source)

    assert window(reading).busy.core == 7
    assert energy(reading) == (None, None)


@pytest.mark.parametrize("control", ["on", ""])
def test_a_device_that_may_not_sleep_is_read_each_time(machine: Machine, control: str) -> None:
    files = {"power/control": control, "power/runtime_status": "active"} if control else {}
    machine.card(0, "xe", PCI, files=files)
    source = machine.source()
    source.read()

    assert all(step(machine, source).window for _ in range(5))
