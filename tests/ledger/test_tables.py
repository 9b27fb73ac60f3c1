"""A table has the rows that it was made of."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.model import Row, Table, Value

NAMES = st.sampled_from(["a", "b", "c"])
VALUES: st.SearchStrategy[Value] = st.integers() | st.just({}) | st.just({("x",): 1})
FURTHER = st.dictionaries(NAMES, st.just({"label_x": "y"}))
ROWS = st.lists(
    st.builds(Row, st.tuples(st.text()), st.dictionaries(NAMES, VALUES), FURTHER), max_size=4
).map(tuple)


@given(ROWS)
def test_a_table_has_the_rows_that_it_is_made_of(rows: tuple[Row, ...]) -> None:
    assert Table.of(rows).rows() == rows


@given(ROWS, ROWS)
def test_joined_tables_have_the_rows_of_both(
    rows: tuple[Row, ...], others: tuple[Row, ...]
) -> None:
    assert Table.of(rows).joined(Table.of(others)).rows() == (*rows, *others)
