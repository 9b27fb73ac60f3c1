"""The guard notices what leaves the budget."""

import pytest

from benchmarks.guard.__main__ import BUDGET, best, beyond
from benchmarks.guard.measure import WARM, Figures, Tape, one_pass, recorded, scenario, slowed
from exporter.agent.settings import load


@pytest.mark.parametrize("name", Figures._fields)
@pytest.mark.parametrize(("factor", "found"), [(0.5, 0), (1.05, 0), (1.11, 1)])
def test_more_than_the_budget_of_anything_is_found(name: str, factor: float, found: int) -> None:
    words = beyond(BUDGET._replace(**{name: factor * getattr(BUDGET, name)}))

    assert len(words) == found
    assert all(name in one for one in words)


def test_of_two_measurements_the_lower_counts() -> None:
    assert best(Figures(5.0, 2.0, 40.0), Figures(4.0, 3.0, 41.0)) == Figures(4.0, 2.0, 40.0)


@pytest.mark.slow
def test_a_slower_cycle_takes_longer() -> None:
    settings = load({}, {})
    tape = recorded(settings, scenario())
    short = Tape(tape.head, tape.cycles[: WARM + 1])
    [(before, *_)] = one_pass(settings, short, 0.0)
    [(slower, *_)] = one_pass(settings, short, 9.0)

    assert slower > 2 * before


def test_work_is_not_slowed_down_unless_asked_for() -> None:
    work = list

    assert slowed(work, 0.0) is work
    assert slowed(work, 0.5) is not work
