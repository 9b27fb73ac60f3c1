import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from exporter.answers.reading.feeds import view_of
from exporter.answers.reading.untrusted import fitted, number, width
from exporter.answers.top.topreport import report
from exporter.shown.printable import clean, printable
from tests.agent.api.nodes import demo
from tests.answers.reading.views import document, history, is_harmless, of_document


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("server", "server"),
        ("Grüße", "Grüße"),
        ("训练", "训练"),
        ("\x1b[2J\x1b]0;owned\x07", r"\x1b[2J\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("e\u0301\u0301\u0301", r"e\u0301\u0301\u0301"),
        ("\u200b\ufeff", r"\u200b\ufeff"),
        ("\ud800", r"\ud800"),
        ("[bold red]x[/]", "[bold red]x[/]"),
    ],
)
def test_names_are_shown_and_never_acted_on(name: str, shown: str) -> None:
    assert clean(name) == shown


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=80))
def test_whatever_the_name_a_terminal_only_shows_it(name: str) -> None:
    assert is_harmless(clean(name))
    assert is_harmless(printable(name))


@given(st.text(max_size=60).map(clean), st.integers(1, 40))
def test_a_name_takes_the_cells_it_is_given(name: str, cells: int) -> None:
    assert width(fitted(name, cells)) == cells


# Of other characters the width depends on the version of Unicode, which Python and rich take from
# different tables.
LETTERS = st.one_of(
    st.characters(max_codepoint=0x10FF),  # alphabets
    st.characters(min_codepoint=0x3041, max_codepoint=0x30FF),  # kana
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),  # Chinese
    st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),  # Korean syllables
)


@given(st.text(LETTERS, max_size=20).map(clean))
def test_cells_are_counted_as_the_live_view_counts_them(name: str) -> None:
    assert width(name) == cell_len(name)


@pytest.mark.parametrize("value", [None, True, "1", [], {}, float("nan"), float("inf"), 10**400])
def test_what_is_no_number_is_not_known(value: object) -> None:
    assert number({"x": value}, "x") is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def with_one_part_replaced(whole: Any, data: st.DataObject) -> Any:
    """The document with something else in one place, however deep."""
    if not isinstance(whole, dict | list) or not whole or data.draw(st.integers(0, 4)) == 0:
        return data.draw(ANYTHING)
    keys = sorted(whole) if isinstance(whole, dict) else range(len(whole))
    key: Any = data.draw(st.sampled_from(list(keys)))
    copied = dict(whole) if isinstance(whole, dict) else list(whole)
    copied[key] = with_one_part_replaced(whole[key], data)
    return copied


@settings(deadline=None)  # the first example makes the node
@given(st.data())
def test_a_document_with_anything_in_it_is_shown(data: st.DataObject) -> None:
    made = with_one_part_replaced(document(demo()), data)
    past = with_one_part_replaced(history(demo()), data)
    if isinstance(made, dict):
        seen = view_of(of_document(made, past if isinstance(past, dict) else {}), "test")

        text = report(seen, 100, coloured=False)

        assert is_harmless(text)
        assert max(map(width, text.splitlines()[1:3])) <= 200


def test_an_empty_document_is_shown() -> None:
    text = report(view_of(of_document(json.loads("{}")), "there"), 80, coloured=False)

    assert text.startswith("there\nno GPU\n")
    assert "no GPU is known" in text
