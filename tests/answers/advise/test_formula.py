"""A formula is worked out as PromQL works out what it is written as."""

from collections.abc import Iterator
from math import isnan

import pytest

from exporter.answers.advise.formula import Formula, figure, steps
from tests.store import Store, Target

A, B, ABSENT = figure("a"), figure("b"), figure("absent")
FIGURES = {"a": 0.29, "b": 0.5}
FORMULAS = [
    A + B * 2 - A / B,
    (A + B) * 2,
    A < B,
    A > B,
    A.is_(0.29),
    A.is_(0.3),
    (A > B) * 0 + 7,
    A.and_(B),
    A.and_(ABSENT),
    ABSENT.or_(B),
    A.or_(B),
    A.unless(B),
    A.unless(ABSENT),
    A + ABSENT,
    ABSENT < B,
    A / (B - B),
    (A - A) / (B - B),
    (A + B).at_most(0.7),
    steps(A * 1.15, B * 200) / (B * 200),
    steps(A - A, B * 200),
    A.unless(A > B).or_(B).and_(B >= 0.5) * 3,
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        page = "".join(f"{name} {value}\n" for name, value in FIGURES.items())
        store.scrape(Target({"job": "x"}), page, 1_780_012_800)
        yield store


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("formula", FORMULAS, ids=lambda one: one.promql(str))
def test_what_is_worked_out_is_what_prometheus_answers(store: Store, formula: Formula) -> None:
    found = [float(one["value"][1]) for one in store.query(formula.promql(str), 1_780_012_800)]
    value = formula.of(FIGURES)
    if value is None or isnan(value):
        assert [isnan(one) for one in found] == [True] * (value is not None)
    else:
        assert found == [pytest.approx(value)]
