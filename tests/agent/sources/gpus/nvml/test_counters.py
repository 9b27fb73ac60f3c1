"""What a board counts by itself, and which of it is asked for when."""

from collections.abc import Mapping

import pytest

from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.boardcounters import TABLE, FieldId, Traffic, numbered
from exporter.metrics.families import OPTIONAL_GROUPS
from exporter.model import Sensors
from tests.agent.sources.gpus.nvml.node import START, Node, calls
from tests.fakenvml.scenario import Fault, Field, Gpu

FIELDS = "nvmlDeviceGetFieldValues"
ALL_LINKS = 0xFFFFFFFF
TX, RX = 197, 198
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def one(node: Node) -> Node:
    """A board without GPM, as before Hopper."""
    node.scenario.gpus = [Gpu(0, gpm=False)]
    return node


def sensors(node: Node, *, after: float = 0) -> Sensors:
    return node.device("GPU-0", after=after).sensors


def unmeasured(node: Node, *, after: float = 0) -> Mapping[str, str]:
    return node.device("GPU-0", after=after).unmeasured


def test_throttling_is_told_by_reason_in_nanoseconds(one: Node) -> None:
    one.scenario.driver = "580.95.05"
    one.scenario.fields = [
        Field(0, number, value=1000 * number) for number in (74, 76, 269, 270, 271)
    ]
    one.start()
    assert sensors(one).by_label("throttle_seconds_total") == {
        "sw_power_cap": 74_000,
        "sync_boost": 76_000,
        "sw_thermal": 269_000,
        "hw_thermal": 270_000,
        "hw_power_brake": 271_000,
    }


@pytest.mark.parametrize(
    ("driver", "number"),
    [
        ("570.86.15", 269),
        ("575.51.03", 251),
        ("580.65.06", 251),
        ("580.82.07", 269),
        ("590.48.01", 269),
        ("", 269),
    ],
)
def test_thermal_throttling_is_asked_for_by_the_drivers_own_number(
    driver: str, number: int
) -> None:
    assert numbered(FieldId(269), driver) == FieldId(number)
    assert numbered(FieldId(74), driver) == FieldId(74)


def test_memory_errors_remapped_rows_and_the_sum_of_nvlink(one: Node) -> None:
    one.scenario.fields = [
        Field(0, 3, value=12),
        Field(0, 4, value=1),
        Field(0, 142, value=3, type="uint"),
        Field(0, 143, value=2, type="uint"),
        Field(0, 144, value=1, type="uint"),
        Field(0, 138, value=500, scope=0),
        Field(0, 138, value=9000, scope=ALL_LINKS),
        Field(0, 139, value=7000, scope=ALL_LINKS),
    ]
    one.start()
    told = sensors(one)
    ways = {"transmit": 9000 * 1024, "receive": 7000 * 1024}
    assert told.by_label("nvlink_bytes_total") == ways
    assert told.by_label("ecc_errors_total") == {"corrected": 12, "uncorrected": 1}
    assert told.by_label("remapped_rows") == {"corrected": 3, "uncorrected": 2}
    assert told.by_label("row_remapping") == {"pending": 1, "failed": 0}


def test_pcie_traffic_goes_on_over_the_wrap(one: Node) -> None:
    one.scenario.loaded = START
    one.scenario.fields = [
        Field(0, TX, value=2**32 - 500 * MIB, rate=100 * MIB, type="uint"),
        Field(0, RX, value=7, rate=3 * GIB, type="uint"),
    ]
    one.start()
    told = [sensors(one).by_label("pcie_bytes_total")] + [
        sensors(one, after=1).by_label("pcie_bytes_total") for _ in range(10)
    ]
    assert [each["transmit"] for each in told] == [100 * MIB * second for second in range(11)]
    assert [each["receive"] for each in told] == [3 * GIB * second for second in range(11)]


def test_pcie_traffic_that_is_not_told_for_a_while_is_absent_and_does_not_fall(one: Node) -> None:
    one.scenario.fields = [Field(0, TX, rate=MIB, type="uint")]
    one.start()
    one.read()
    before = sensors(one, after=5).by_label("pcie_bytes_total")["transmit"]
    one.fail(Fault("error", FIELDS, code=errors.UNKNOWN))
    assert sensors(one, after=1).by_label("pcie_bytes_total") == {}
    one.fail()
    assert sensors(one, after=1).by_label("pcie_bytes_total")["transmit"] == before + 2 * MIB


def test_pcie_traffic_of_a_restarted_driver_is_added_to_what_was(one: Node) -> None:
    one.scenario.fields = [Field(0, TX, rate=MIB, type="uint")]
    one.start()
    one.read()
    before = sensors(one, after=5).by_label("pcie_bytes_total")["transmit"]
    one.fail(Fault("error", "nvmlDevice*", code=errors.UNINITIALIZED))
    one.read(after=1)
    one.fail()
    one.scenario.loaded = one.now
    one.read(after=1)
    assert sensors(one, after=3).by_label("pcie_bytes_total")["transmit"] == before + 3 * MIB


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([5, 7, 7, 10], 5),
        ([2**32 - 1, 4], 5),
        ([2**40, 2**40 + 3], 3),
        ([2**40, 9], 0),  # more than 32 bits do not wrap: it was reset
        ([2**40, 9, 10], 1),
    ],
)
def test_traffic_is_summed_up(values: list[int], total: int) -> None:
    traffic = Traffic()
    assert [traffic.count("receive", value) for value in values][-1] == total


def test_gpm_tells_of_traffic_that_the_counters_cannot(one: Node) -> None:
    one.change_gpu(0, gpm=True)
    one.scenario.fields = [
        Field(0, TX, rate=GIB, type="uint"),
        Field(0, RX, rate=50 * GIB, type="uint"),
    ]
    one.start()
    assert sensors(one).by_label("pcie_bytes_total") == {}
    for seconds in range(1, 26):
        told = sensors(one, after=1).by_label("pcie_bytes_total")
        if seconds >= 10:
            whole = seconds // 10 * 10
            assert told == {"transmit": whole * GIB, "receive": 50 * whole * GIB}


def test_traffic_that_gpm_does_not_tell_is_had_from_the_counters_from_then_on(one: Node) -> None:
    one.change_gpu(0, gpm=True)
    one.scenario.fields = [Field(0, RX, rate=MIB, type="uint")]  # but no line for what it sends
    one.start()
    told = [
        sensors(one).by_label("pcie_bytes_total"),
        *(sensors(one, after=1).by_label("pcie_bytes_total") for _ in range(12)),
    ]
    one.scenario.fields = [Field(0, code, rate=MIB, type="uint") for code in (TX, RX)]  # GPM has it
    told += [sensors(one, after=1).by_label("pcie_bytes_total") for _ in range(12)]
    one.fail(Fault("error", "nvmlGpmSampleGet", code=errors.UNKNOWN))

    assert told[:10] == [{}] * 10
    assert [each["receive"] for each in told[10:]] == [MIB * second for second in range(15)]
    assert sensors(one, after=3).by_label("pcie_bytes_total")["receive"] == 17 * MIB


@pytest.mark.parametrize("gpm", [True, False])
def test_traffic_that_cannot_be_is_not_in_the_sum_for_ever(one: Node, *, gpm: bool) -> None:
    one.change_gpu(0, gpm=gpm)
    good = [Field(0, number, rate=MIB, type="uint") for number in (TX, RX)]
    one.scenario.fields = good
    one.start()
    for _ in range(11):
        one.read(after=1)
    one.scenario.fields = [
        Field(0, number, value=2**63 + 2**60, rate=1e25 * gpm) for number in (TX, RX)
    ]
    for _ in range(5):
        one.read(after=1)
    one.scenario.fields = good
    told = [sensors(one, after=1).by_label("pcie_bytes_total") for _ in range(6)][-1]
    assert 10 * MIB <= told["transmit"] < 2**40


def test_all_fields_of_a_part_are_one_call(one: Node) -> None:
    one.start()
    parts = {counted.phase for counted in TABLE}
    assert calls(one.read(), FIELDS) == len(parts)
    assert calls(one.read(after=10), FIELDS) == 2 * len(parts)


def test_dear_values_have_their_own_cadence(one: Node) -> None:
    one.scenario.loaded = START
    one.scenario.fields = [Field(0, number, rate=1) for number in (3, 74, 82)]
    one.start()
    one.read()
    told = [sensors(one, after=1) for _ in range(10)]
    assert [each.by_label("ecc_errors_total")["corrected"] for each in told] == [0] * 9 + [10]
    throttled = [each.by_label("throttle_seconds_total")["sw_power_cap"] for each in told]
    assert throttled == [0] * 9 + [10]
    warm = [each.by_label("temperature_celsius")["memory"] for each in told]
    assert warm == [0] * 4 + [5] * 5 + [10]


def test_a_call_that_answers_for_two_families_is_made_once_a_read(one: Node) -> None:
    one.start()
    one.read()
    reading = one.read(after=10)
    assert reading.devices[0].sensors.numbers.keys() >= {"bar1_used_bytes", "bar1_total_bytes"}
    assert calls(reading, "nvmlDeviceGetBAR1MemoryInfo") == 2


def test_a_field_that_fails_costs_only_itself_until_its_next_turn(one: Node) -> None:
    one.scenario.fields = [Field(0, 3, value=12, error=errors.UNKNOWN), Field(0, 4, value=1)]
    one.start()
    assert sensors(one).by_label("ecc_errors_total") == {"uncorrected": 1}
    one.scenario.fields = [Field(0, 3, value=12), Field(0, 4, value=1)]
    assert sensors(one, after=10).by_label("ecc_errors_total") == {
        "corrected": 12,
        "uncorrected": 1,
    }


def test_a_quantity_is_unmeasured_when_all_its_fields_are_refused(one: Node) -> None:
    one.scenario.fields = [
        Field(0, 3, error=errors.NOT_SUPPORTED),
        Field(0, 4, error=errors.NOT_SUPPORTED),
        Field(0, 76, error=errors.NOT_SUPPORTED),
        Field(0, 138, error=errors.INVALID_ARGUMENT, scope=ALL_LINKS),
        Field(0, 139, error=errors.INVALID_ARGUMENT, scope=ALL_LINKS),
    ]
    one.start()
    told = one.device("GPU-0")
    assert "sync_boost" not in told.sensors.by_label("throttle_seconds_total")
    assert "sw_power_cap" in told.sensors.by_label("throttle_seconds_total")
    assert told.unmeasured == {
        "ecc_errors": "not_supported",
        "nvlink": "driver_too_old",
        "profiling": "not_supported",
    }


def test_a_device_whose_fields_say_that_it_is_lost_is_lost(one: Node) -> None:
    one.scenario.fields = [Field(0, 3, error=errors.GPU_IS_LOST)]
    one.start()
    assert one.device("GPU-0").state == "gpu_lost"


def test_nothing_is_asked_by_number_when_all_of_it_is_switched_off(one: Node) -> None:
    one.start(disabled=set(OPTIONAL_GROUPS))
    one.read()
    reading = one.read(after=10)
    assert FIELDS not in reading.calls
    assert reading.devices[0].sensors == Sensors()
    assert reading.devices[0].window
