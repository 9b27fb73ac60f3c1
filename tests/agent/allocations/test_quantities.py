from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.allocations.quantities import (
    MAX_QUANTITY,
    parse_naturals,
    parse_quantity,
    parse_share,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("30", 30),
        ("3k", 3000),  # how the API server writes back "3000"
        ("+5", 5),
        ("1500m", None),
        ("2000m", 2),
        ("1.5k", 1500),
        ("1.", 1),
        ("1e3", 1000),
        ("10E-1", 1),
        ("1Ki", 1024),
        ("2Gi", 2 << 30),
        ("9223372036854775807", None),  # 19 digits
        ("9E", 9 * 10**18),  # close below 2^63
        ("10E", None),
        ("-1", None),
        ("", None),
        ("k", None),
        ("1 k", None),
        ("1kk", None),
        ("0x10", None),
        ("1_000", None),
        ("٣", None),  # a digit, but not an ASCII one
        ("NaN", None),
        ("1e99", None),
        ("9" * 10_000_000, None),
        (f"{2**80}", None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_quantity_is_read_as_kubernetes_means_it(text: str, value: int | None) -> None:
    assert parse_quantity(text) == value


@given(st.integers(0, 10**15), st.sampled_from(["", "k", "M", "Ki", "Mi", "Gi"]))
def test_suffix_multiplies_the_number(number: int, suffix: str) -> None:
    factor = {"": 1, "k": 10**3, "M": 10**6, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[suffix]
    expected = Fraction(number) * factor
    assert parse_quantity(f"{number}{suffix}") == (expected if expected <= MAX_QUANTITY else None)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3", (3,)),
        ("1,0", (1, 0)),
        (" 1 , 0 ", (1, 0)),
        ("1,,0", None),
        ("1,", None),
        ("", None),
        ("1,-1", None),
        ("1,²", None),
        ("1;2", None),
        ("1" * 19, None),
    ],
)
def test_list_of_numbers_is_read_whole_or_not_at_all(
    text: str, numbers: tuple[int, ...] | None
) -> None:
    assert parse_naturals(text) == numbers


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.25", 0.25),
        (".5", 0.5),
        ("1", 1.0),
        ("1.0", 1.0),
        *(
            (text, None)
            for text in ("0", "0.0", "1.01", "-0.5", "nan", "", ".", "½", "1e", "1e-1m")
        ),
        ("1e-1", 0.1),
        ("+2.5E-1", 0.25),
        ("1e-999", None),
        ("0." + "1" * 99, None),
    ],
)
def test_share_is_above_nothing_and_at_most_all(text: str, share: float | None) -> None:
    assert parse_share(text) == share
