"""What tools/prose.py counts, and that the documents stay short enough to be read."""

import pytest

from tools import prose

CODE = "```console\n$ one two three\n```\n"


def test_the_documents_are_not_longer_than_they_may_be() -> None:
    pages = prose.documents()

    assert {"README.md", "docs/index.md", "docs/runbooks/reset.md"} <= set(pages)
    assert prose.length(pages) == ""


def test_too_many_words_are_counted_and_the_largest_pages_named() -> None:
    pages = {"a.md": "word " * prose.MOST, "b.md": "one more"}

    assert prose.length(pages).startswith(f"{prose.MOST + 2} words")
    assert prose.length(pages).endswith(f"a.md {prose.MOST}, b.md 2")


@pytest.mark.parametrize(
    "page",
    [
        "<!-- Written by docs/generate.py from tables: do not edit. -->\n" + "word " * 9,
        "<!-- presets: written by charts/generate.py -->\n| a | b |\n<!-- end of presets -->",
    ],
)
def test_what_a_recipe_adds_to_a_table_does_not_count(page: str) -> None:
    assert prose.length({"a.md": "word " * prose.MOST, "b.md": page}) == ""
    assert prose.length({"a.md": "word " * prose.MOST, "b.md": f"one\n\n{page}"})


def test_a_new_alerts_runbook_is_held_to_its_own_length() -> None:
    full, runbook = {"a.md": "word " * prose.MOST}, "docs/runbooks/MgpuNew.md"
    assert prose.length({**full, runbook: "word " * prose.RUNBOOK}) == ""
    assert prose.length({runbook: "word " * (prose.RUNBOOK + 1)}) == (
        f"{runbook}: {prose.RUNBOOK + 1} words, at most {prose.RUNBOOK} in a runbook"
    )


@pytest.mark.parametrize("page", [CODE, "|---|---|\n", "| | |\n", "<!-- -->\n", " - \n"])
def test_code_and_what_is_no_word_does_not_count(page: str) -> None:
    full = "word " * prose.MOST

    assert prose.length({"a.md": f"{full}\n\n{page}"}) == ""
    assert prose.length({"a.md": f"{full}\n\n{page}\nmore"})
