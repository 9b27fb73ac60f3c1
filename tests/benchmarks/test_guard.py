"""The guard notices what has become a fifth dearer."""

import json

import pytest

from benchmarks.guard.__main__ import BASELINE, best, dearer
from benchmarks.guard.measure import WARM, Figures, Tape, one_pass, recorded, slowed, steps
from exporter.settings import load

FIGURES = Figures(5.0, 2.0, 700_000.0, 300_000.0, 40.0)


@pytest.mark.parametrize("name", Figures._fields)
@pytest.mark.parametrize(("factor", "found"), [(0.5, 0), (1.19, 0), (1.21, 1)])
def test_a_fifth_more_of_anything_is_too_dear(name: str, factor: float, found: int) -> None:
    now = FIGURES._replace(**{name: factor * getattr(FIGURES, name)})
    words = dearer(now, FIGURES._asdict())

    assert len(words) == found
    assert all(name in one for one in words)


def test_of_two_measurements_the_lower_counts() -> None:
    other = Figures(4.0, 3.0, 700_000.0, 300_000.0, 41.0)

    assert best(FIGURES, other) == Figures(4.0, 2.0, 700_000.0, 300_000.0, 40.0)


def test_every_baseline_has_every_figure() -> None:
    baselines = json.loads(BASELINE.read_text(encoding="utf-8"))

    assert baselines
    assert {tuple(one) for one in baselines.values()} <= {tuple(sorted(Figures._fields))}


@pytest.mark.slow
def test_a_slower_cycle_is_too_dear_and_the_same_one_is_not() -> None:
    settings = load({}, {})
    tape = recorded(settings)
    short = Tape(tape.head, tape.cycles[: WARM + 1])
    [(before, *_)] = one_pass(settings, short, 0.0, steps)
    [(again, *_)] = one_pass(settings, short, 0.0, steps)
    [(slower, *_)] = one_pass(settings, short, 1.0, steps)
    baseline = FIGURES._replace(cycle_steps=before)._asdict()

    assert not dearer(FIGURES._replace(cycle_steps=again), baseline)
    assert dearer(FIGURES._replace(cycle_steps=slower), baseline)


def test_work_is_not_slowed_down_unless_asked_for() -> None:
    work = list

    assert slowed(work, 0.0) is work
    assert slowed(work, 0.5) is not work


def test_bytecode_is_counted_alike_each_time() -> None:
    def work(turns: int) -> int:
        return sum(number * number for number in range(turns))

    counts = [steps(lambda turns=turns: work(turns)) for turns in (100, 100, 200)]  # type: ignore[misc] # its default is typed

    assert counts[0] == counts[1]
    assert counts[2] > 1.8 * counts[0]
