import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sources.gpus.energy import LONGEST_GAP_NS, EnergyMeter, PowerIntegral

SECOND = 10**9


def test_steady_power_is_watts_times_seconds() -> None:
    power = PowerIntegral()
    assert power.add(200_000, 0) == 0
    assert power.add(200_000, SECOND) == 200_000_000
    assert power.add(200_000, 3 * SECOND) == 600_000_000


def test_power_between_two_readings_is_their_mean() -> None:
    power = PowerIntegral()
    power.add(100_000, 0)
    assert power.add(300_000, 2 * SECOND) == 400_000_000


def test_nothing_is_guessed_over_a_long_gap() -> None:
    power, meter = PowerIntegral(), EnergyMeter()

    def take(milliwatts: int, mono_ns: int) -> int | None:
        return meter.take(power.add(milliwatts, mono_ns), mono_ns, None)[0]

    late = SECOND + LONGEST_GAP_NS + 1
    used = [take(200_000, at) for at in (0, SECOND, late, late + SECOND)]
    assert used == [None, 200_000_000, None, 200_000_000]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**10)), min_size=2, max_size=9))
def test_counter_never_falls_and_lies_within_what_was_read(
    readings: list[tuple[int, int]],
) -> None:
    power, now, counter = PowerIntegral(), 0, 0
    first, *rest = readings
    power.add(first[0], now)
    before = first[0]
    for milliwatts, elapsed_ns in rest:
        now += elapsed_ns
        low, high = sorted((before, milliwatts))
        after = power.add(milliwatts, now)
        assert low * elapsed_ns // 10**6 - 1 <= after - counter <= high * elapsed_ns // 10**6 + 1
        before, counter = milliwatts, after


def test_a_clock_that_stands_still_adds_nothing() -> None:
    power = PowerIntegral()
    power.add(5, 7)
    assert power.add(5, 7) == pytest.approx(0)
