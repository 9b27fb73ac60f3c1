"""Energy of a counter or of power: every joule once, and an idle part, known or unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.energy import LONGEST_GAP_NS, EnergyMeter, EnergyUse, PowerIntegral

SECOND = 10**9
JOULE = 10**6


def test_the_first_reading_tells_nothing_and_one_that_fails_neither() -> None:
    meter = EnergyMeter()
    assert meter.take(5 * JOULE, SECOND, 0) == (None, None, 0)
    assert meter.take(None, 2 * SECOND, 0) == (None, None, 0)


def test_what_was_used_while_the_counter_was_not_told_is_told_apart_when_it_is_back() -> None:
    meter = EnergyMeter()
    meter.take(0, 0, None)
    meter.take(None, SECOND, SECOND)
    meter.take(None, 2 * SECOND, SECOND)

    assert meter.take(300 * JOULE, 3 * SECOND, SECOND) == (300 * JOULE, None, 200 * JOULE)


def test_what_came_late_is_none_of_the_idle_part() -> None:
    """The window's own 40 J are less than idling for it costs; those of the missed one stay out."""
    meter = EnergyMeter()
    meter.take(0, 0, None)
    counter, mono = idle(meter, 0, 0, 70, 5)
    meter.take(None, mono + SECOND, 0)

    back = meter.take(counter + 80 * JOULE, mono + 2 * SECOND, SECOND)

    assert back == (80 * JOULE, 40 * JOULE, 40 * JOULE)


def test_a_spell_of_idling_ends_with_a_reading_that_fails() -> None:
    meter = EnergyMeter()
    meter.take(0, 0, None)
    counter, mono = idle(meter, 0, 0, 70, 4)
    meter.take(None, mono + SECOND, 0)
    counter, mono = idle(meter, counter + 70 * JOULE, mono + SECOND, 70, 1)

    assert meter.take(counter + 300 * JOULE, mono + SECOND, SECOND) == (300 * JOULE, None, 0)


def test_a_counter_that_was_not_told_for_too_long_begins_anew() -> None:
    meter = EnergyMeter()
    meter.take(0, 0, None)
    meter.take(None, LONGEST_GAP_NS + 1, 0)

    assert meter.take(300 * JOULE, LONGEST_GAP_NS + SECOND, 0) == (None, None, 0)


@pytest.mark.parametrize(
    ("metered", "idle_uj"),
    [
        (EnergyUse(5 * JOULE, None, 2 * JOULE), 3 * JOULE),  # what is late is nobody's already
        (EnergyUse(5 * JOULE, 1 * JOULE), 1 * JOULE),
        (EnergyUse(), None),
    ],
)
def test_what_a_device_that_slept_is_not_known_to_have_used_idle_is_nobodys(
    metered: EnergyUse, idle_uj: int | None
) -> None:
    assert metered.as_idle() == metered._replace(idle_uj=idle_uj)


def idle(meter: EnergyMeter, counter: int, mono: int, watts: int, seconds: int) -> tuple[int, int]:
    """Let a device idle, read once a second; the counter and the time afterwards."""
    for _ in range(seconds):
        counter, mono = counter + watts * JOULE, mono + SECOND
        meter.take(counter, mono, 0)
    return counter, mono


def test_idle_part_is_unknown_until_the_device_was_idle_for_some_seconds() -> None:
    meter = EnergyMeter()
    meter.take(0, 0, None)
    assert meter.take(300 * JOULE, SECOND, SECOND) == (300 * JOULE, None, 0)
    counter, mono = idle(meter, 300 * JOULE, SECOND, 70, 4)
    assert meter.take(counter + 300 * JOULE, mono + SECOND, SECOND) == (300 * JOULE, None, 0)
    counter, mono = idle(meter, counter + 300 * JOULE, mono + SECOND, 70, 5)
    assert meter.take(counter + 300 * JOULE, mono + SECOND, SECOND) == (300 * JOULE, 70 * JOULE, 0)


@pytest.mark.parametrize(
    ("spells", "watts"),
    [
        ([0], 0),
        ([90, 70, 80], 80),
        ([70, 70, 0, 70], 70),  # the counter stood still for a while
        ([70, 70, 200, 70], 70),  # warm from work
        ([60, 60, 60, 60, 60, 90, 90, 90, 90, 90], 90),  # another power state, for good
    ],
)
def test_idle_power_is_the_median_of_the_last_spells(spells: list[int], watts: int) -> None:
    meter = EnergyMeter()
    counter = mono = 0
    meter.take(counter, mono, None)
    for spell in spells:
        counter, mono = idle(meter, counter, mono, spell, 5)
    taken = meter.take(counter + 300 * JOULE, mono + SECOND, SECOND)
    assert taken == (300 * JOULE, watts * JOULE, 0)


@pytest.mark.parametrize(("counter", "mono"), [(99 * JOULE, 2 * SECOND), (200 * JOULE, SECOND)])
def test_counter_that_fell_or_time_that_stood_still_tells_nothing(counter: int, mono: int) -> None:
    meter = EnergyMeter()
    meter.take(100 * JOULE, SECOND, SECOND)
    assert meter.take(counter, mono, SECOND) == (None, None, 0)
    assert meter.take(counter + 7 * JOULE, mono + SECOND, SECOND) == (7 * JOULE, None, 0)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1000 * JOULE),
            st.integers(1, 10 * SECOND),
            st.one_of(st.none(), st.just(0), st.integers(0, SECOND)),
            st.booleans(),
        ),
        max_size=9,
    )
)
def test_parts_add_up_to_the_counter_whichever_readings_fail(
    steps: list[tuple[int, int, int | None, bool]],
) -> None:
    meter = EnergyMeter()
    meter.take(0, 0, None)
    counter = mono = total = 0
    for used, elapsed, busy, fails in [*steps, (1, 1, None, False)]:
        counter, mono = counter + used, mono + elapsed
        taken, idle, late = meter.take(None if fails else counter, mono, busy)
        assert (taken is None) is fails
        total += taken or 0
        assert 0 <= late <= (taken or 0)
        assert idle is None or 0 <= idle <= (taken or 0) - late
    assert total == counter


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
