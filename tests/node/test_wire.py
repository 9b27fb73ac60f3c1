import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sources.node.wire import (
    MAX_FIELDS,
    WireError,
    fields,
    one_text,
    parts,
    text,
    text_field,
)
from tests.node.messages import field, varint


def read(message: bytes) -> list[tuple[int, int | bytes]]:
    return [
        (number, value if isinstance(value, int) else bytes(value))
        for number, value in fields(memoryview(message))
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(1, (1 << 29) - 1),
            st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=300)),
        ),
        max_size=20,
    )
)
def test_what_was_written_is_read(message: list[tuple[int, int | bytes]]) -> None:
    assert read(b"".join(field(*one) for one in message)) == message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_none(message: bytes) -> None:
    try:
        found = read(message)
    except WireError:
        return
    assert sum(len(v) for _, v in found if isinstance(v, bytes)) <= len(message)


def test_numbers_of_fixed_size_are_bytes_and_can_be_skipped() -> None:
    message = varint(7 << 3 | 1) + bytes(8) + varint(8 << 3 | 5) + bytes(4) + field(1, "end")

    assert read(message) == [(7, bytes(8)), (8, bytes(4)), (1, b"end")]
    assert one_text(memoryview(message), 1, 10) == "end"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (b"\x0a", "cut off"),
        (b"\x0a\x05ab", "cut off"),
        (b"\x08" + b"\xff" * 10, "cut off or too long"),
        (b"\x08\xff", "cut off or too long"),
        (b"\x09" + bytes(7), "cut off"),
        (b"\x02\x00", "number 0"),
        (varint(1 << 32) + b"\x00", "has the number"),
        (b"\x0b\x0c", "wire type 3"),
        (b"\x0e", "wire type 6"),
        (b"\x08\x00" * (MAX_FIELDS + 1), f"field {MAX_FIELDS + 1}"),
        (b"\x0a" + varint(1 << 62), "cut off"),
    ],
)
def test_what_is_no_message_is_refused(message: bytes, wrong: str) -> None:
    with pytest.raises(WireError, match=wrong):
        read(message)


def test_a_number_in_place_of_a_text_is_refused() -> None:
    with pytest.raises(WireError, match="a number in place"):
        list(parts(memoryview(field(1, 5)), 1))


def test_a_text_is_utf8_and_not_too_long() -> None:
    assert text(memoryview("ü".encode()), 2) == "ü"
    with pytest.raises(WireError, match="3 bytes"):
        text(memoryview(b"abc"), 2)
    with pytest.raises(WireError, match="no UTF-8"):
        text(memoryview(b"\xff"), 2)


def test_of_a_field_that_stands_twice_the_last_counts() -> None:
    assert one_text(memoryview(field(1, "a") + field(2, "x") + field(1, "b")), 1, 9) == "b"


@given(st.text(max_size=300))
def test_a_text_that_is_sent_can_be_read(value: str) -> None:
    message = text_field(3, value)

    assert message == field(3, value)
    assert one_text(memoryview(message), 3, 2000) == value
