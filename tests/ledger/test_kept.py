"""What was made of the same objects is the same object; all else is made anew."""

from collections.abc import Sequence

import pytest

from exporter.rows.cache import Kept

A, B = [1], [1]  # equal, and not the same


def test_what_is_made_of_the_same_is_the_same() -> None:
    kept = Kept()

    first = kept.of("sum", (A, B), lambda *of: [*of])

    assert kept.of("sum", (A, B), lambda *of: [*of]) is first
    assert kept.of("another", (A, B), lambda *of: [*of]) is not first


@pytest.mark.parametrize("others", [(B, A), (A, A), (A,), (A, B, A), ()])
def test_what_is_equal_or_fewer_is_not_the_same(others: Sequence[object]) -> None:
    kept = Kept()
    first = kept.of("sum", (A, B), lambda *of: [*of])

    made = kept.of("sum", others, lambda *of: [*of])

    assert made is not first
    assert made == [*others]
    assert kept.of("sum", others, lambda *of: [*of]) is made


def test_a_column_is_made_anew_where_one_value_is_another() -> None:
    kept = Kept()
    first = kept.column("pair", lambda one, two: (one, two), [1, 2], [A, B])

    assert kept.column("pair", lambda one, two: (one, two), [1, 2], [A, B]) is first
    assert kept.column("pair", lambda one, two: (one, two), [1, 2], [A, A]) == [(1, A), (2, A)]


def test_numbers_that_are_equal_are_not_the_same() -> None:
    kept = Kept()
    kept.column("text", str, [1, 0.0])

    assert kept.column("text", str, [1.0, 0]) == ["1.0", "0"]


def test_columns_by_name_have_nothing_where_a_row_has_nothing() -> None:
    kept = Kept()
    columns = kept.columns("all", dict, [{"a": 1}, {"b": 2}])

    assert columns == {"a": [1, None], "b": [None, 2]}
