"""The factor by which the cycle is slowed down, against exporters that cost this and that."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collector.budget import AIM, NARROW_BELOW, PERIOD_NS, Budget, CpuUse

SHARE = 0.01
WIDEST = 5.0
BARELY = 1.0001  # whole nanoseconds count


@dataclass
class Exporter:
    """Uses ``fixed`` of a CPU whatever the cycle does, ``cycle`` at the interval that was set."""

    fixed: float
    cycle: float
    cpu_ns: int = 0
    mono_ns: int = 0

    def go_on(self, budget: Budget, periods: int) -> list[float]:
        """The factors after each period."""
        factors = []
        for _ in range(periods):
            self.mono_ns += PERIOD_NS
            self.cpu_ns += int(PERIOD_NS * self.used(budget.factor))
            budget.note(CpuUse(self.cpu_ns, self.mono_ns))
            factors.append(budget.factor)
        return factors

    def used(self, factor: float) -> float:
        """Of a CPU."""
        return self.fixed + self.cycle / factor


def begun(share: float = SHARE, widest: float = WIDEST) -> Budget:
    budget = Budget(share, widest)
    budget.note(CpuUse(0, 0))
    return budget


shares = st.floats(0, 0.2)
exporters = st.builds(Exporter, shares, shares)


@given(exporters)
def test_the_factor_stays_within_bounds(exporter: Exporter) -> None:
    assert all(1 <= factor <= WIDEST for factor in exporter.go_on(begun(), 20))


@given(exporters)
def test_it_comes_to_rest(exporter: Exporter) -> None:
    factors = exporter.go_on(begun(), 200)

    assert len(set(factors[-20:])) == 1


@given(exporters)
def test_it_never_turns_back_under_a_steady_load(exporter: Exporter) -> None:
    factors = exporter.go_on(begun(), 100)

    assert factors == sorted(factors)


@given(exporters)
def test_the_budget_is_kept_where_it_can_be(exporter: Exporter) -> None:
    budget = begun()
    exporter.go_on(budget, 200)

    if exporter.used(WIDEST) <= SHARE:
        assert exporter.used(budget.factor) <= SHARE * BARELY
        assert not budget.exceeded
    elif exporter.used(WIDEST) > SHARE * BARELY:
        assert budget.factor == WIDEST


@given(exporters, exporters)
def test_after_a_change_of_load_it_is_as_if_that_had_always_been_so(
    before: Exporter, after: Exporter
) -> None:
    budget = begun()
    before.go_on(budget, 100)
    after.cpu_ns, after.mono_ns = before.cpu_ns, before.mono_ns
    factors = after.go_on(budget, 200)

    assert len(set(factors[-20:])) == 1
    if after.used(1) < NARROW_BELOW * SHARE:
        assert budget.factor == 1
    if after.used(WIDEST) > SHARE * 1.0001:
        assert budget.factor == WIDEST


@given(
    st.floats(SHARE * 1.01, SHARE * 4),
    st.lists(st.floats(0.92, 1.08), min_size=60, max_size=60),
)
def test_use_that_varies_a_little_does_not_make_it_swing(cycle: float, noise: list[float]) -> None:
    budget, exporter = begun(), Exporter(0, cycle)
    exporter.go_on(budget, 20)
    settled = budget.factor
    factors = []
    for part in noise:
        exporter.cycle = cycle * part
        factors += exporter.go_on(budget, 1)

    assert len(set(factors)) <= 2
    assert settled <= factors[-1]
    assert factors == sorted(factors)


@pytest.mark.parametrize(
    ("used", "factor"),
    [
        (0.5, 1.0),
        (1.0, 1.0),
        (1.01, 1.2),
        (1.8, 2.0),
        (3.0, 3.4),
        (9.0, 5.0),
    ],
)
def test_one_period_tells_how_much_slower(used: float, factor: float) -> None:
    budget = begun()
    Exporter(0, used * SHARE).go_on(budget, 1)

    assert budget.factor == pytest.approx(factor)


@pytest.mark.parametrize(
    ("used", "factor"), [(1.0, 2.0), (0.76, 2.0), (0.74, 1.7), (0.5, 1.2), (0.1, 1.0)]
)
def test_it_falls_only_as_far_as_would_do_if_the_cycle_were_all_the_cost(
    used: float, factor: float
) -> None:
    budget = begun()
    load = Exporter(0, 1.8 * SHARE)
    load.go_on(budget, 1)
    load.cycle = used * SHARE * budget.factor
    load.go_on(budget, 1)

    assert budget.factor == pytest.approx(factor)
    assert used * 2.0 / budget.factor <= max(AIM, used) + 1e-9


def test_without_a_budget_nothing_is_slowed_down_or_told() -> None:
    budget = begun(share=0.0)

    assert set(Exporter(0.5, 0.5).go_on(budget, 5)) == {1.0}
    assert (budget.used, budget.exceeded) == (None, False)


def test_what_was_used_before_the_first_look_is_not_counted() -> None:
    budget = Budget(SHARE, WIDEST)
    budget.note(CpuUse(10 * PERIOD_NS, 0))  # the start: imports, the first walk
    budget.note(CpuUse(10 * PERIOD_NS + PERIOD_NS // 1000, PERIOD_NS))

    assert budget.used == pytest.approx(0.001)


def test_half_a_period_tells_nothing() -> None:
    budget = begun()

    assert not budget.note(CpuUse(PERIOD_NS // 2, PERIOD_NS // 2))
    assert (budget.factor, budget.used) == (1.0, None)


def test_a_budget_that_is_taken_away_ends_it_at_once() -> None:
    budget = begun()
    Exporter(0, 0.03).go_on(budget, 1)
    budget.follow(0.0, WIDEST)

    assert (budget.factor, budget.used) == (1.0, None)


def test_a_factor_that_stands_is_kept_within_new_bounds() -> None:
    budget = begun()
    Exporter(0, 0.03).go_on(budget, 1)
    budget.follow(SHARE, 2.0)

    assert budget.factor == 2.0


def test_too_much_use_at_the_widest_is_told() -> None:
    budget = begun()
    exporter = Exporter(0.02, 0.001)
    exporter.go_on(budget, 1)
    told = [budget.exceeded]
    exporter.go_on(budget, 10)
    told.append(budget.exceeded)
    exporter.fixed = 0.0
    exporter.go_on(budget, 1)
    told.append(budget.exceeded)

    assert told == [False, True, False]
