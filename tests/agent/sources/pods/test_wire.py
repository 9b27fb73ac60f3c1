import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.wire import (
    JsonError,
    Skipped,
    decode,
    lines,
    list_parts,
    watch_event,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=10)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """``data`` in chunks whose sizes repeat ``sizes``."""
    chunks = []
    at = n = 0
    while at < len(data):
        chunks.append(data[at : at + sizes[n % len(sizes)]])
        at += len(chunks[-1])
        n += 1
    return chunks


@given(
    st.dictionaries(st.text(), JSON, max_size=3),
    st.lists(JSON, max_size=5),
    SIZES,
    st.fixed_dictionaries({"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 2])}),
)
def test_a_list_in_any_chunks_gives_the_same_parts_as_decoding_it_whole(
    fields: dict[str, Any], items: list[Any], sizes: list[int], style: dict[str, Any]
) -> None:
    document = {**fields, "items": items, "metadata": {"resourceVersion": "7"}}
    data = json.dumps(document, **style)
    parts = list(list_parts(cut(data.encode("utf-8", "replace"), sizes)))
    expected = json.loads(data.encode("utf-8", "replace"))
    assert [value for key, value in parts if key == "items"] == expected.pop("items")
    assert {key: value for key, value in parts if key != "items"} == expected


def test_items_are_given_before_the_list_has_arrived_whole() -> None:
    def chunks() -> Any:
        yield b'{"items":[{"a":1},'
        yield b'{"a":2},'
        raise AssertionError("read further than the items asked for need")

    parts = list_parts(chunks())
    assert next(parts) == ("items", {"a": 1})


@pytest.mark.parametrize("number", ["0", "0.5", "-1", "1e3", "1.5E-3", "12345678901234567890"])
def test_a_number_cut_anywhere_is_read_whole(number: str) -> None:
    text = f'{{"items":[{number},{number}],"a":{number}}}'.encode()
    value = json.loads(number)
    assert list(list_parts(cut(text, [1]))) == [("items", value), ("items", value), ("a", value)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"items":[{"a":1}',
        '{"items":[{"a":1},]}',
        '{"items":[1 2]}',
        '{"items"}',
        "{1:2}",
        '{"a":1 "b":2}',
        '{"items":[' + "[" * 100_000,
        '{"items":[' + "9" * 5000 + "]}",
        "<html>no</html>",
    ],
)
def test_what_is_no_whole_list_is_one_documented_error(text: str) -> None:
    with pytest.raises(JsonError):
        list(list_parts(cut(text.encode(), [1000])))


SMALL = st.lists(JSON.filter(lambda value: len(json.dumps(value)) <= 200), max_size=3)


@given(SMALL, st.text(min_size=60), SMALL, SIZES)
def test_an_item_over_the_limit_is_skipped_in_any_chunks_and_the_others_are_whole(
    before: list[Any], text: str, after: list[Any], sizes: list[int]
) -> None:
    large = {"[": [text, '"]}\\', {"{": text}], "pad": "x" * 150}
    size = len(json.dumps(large))
    document = {"items": [*before, large, *after], "metadata": {}}
    parts = list(list_parts(cut(json.dumps(document).encode(), sizes), limit=200))
    got = [value for key, value in parts if key == "items"]
    assert [value for value in got if not isinstance(value, Skipped)] == before + after
    assert [value.size for value in got if isinstance(value, Skipped)] == [size]


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), SIZES)
def test_lines_do_not_depend_on_the_chunks(expected: list[bytes], sizes: list[int]) -> None:
    data = b"".join(line + b"\n" for line in expected)
    assert list(lines(cut(data + b"cut off", sizes))) == expected


@given(SIZES)
def test_a_line_over_the_limit_is_left_out_and_the_next_is_whole(sizes: list[int]) -> None:
    data = b"short\n" + b"x" * 51 + b"\n" + b"y" * 50 + b"\nshort\n"
    skipped = Skipped("x" * 51, 51)
    assert list(lines(cut(data, sizes), limit=50)) == [b"short", skipped, b"y" * 50, b"short"]


def test_an_endless_line_is_not_kept() -> None:
    endless = lines((b"x" * 1000 for _ in range(1000)), limit=5000)
    assert list(endless) == []


def test_an_event_is_its_type_and_its_object() -> None:
    assert watch_event(b'{"type":"ADDED","object":{"a":1}}') == ("ADDED", {"a": 1})


@given(st.binary())
def test_any_bytes_are_json_or_the_documented_error(data: bytes) -> None:
    with suppress(JsonError):
        decode(data)
