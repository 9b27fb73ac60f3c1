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


@pytest.mark.parametrize("page", [CODE, "|---|---|\n", "| | |\n", "<!-- -->\n", " - \n"])
def test_code_and_what_is_no_word_does_not_count(page: str) -> None:
    full = "word " * prose.MOST

    assert prose.length({"a.md": f"{full}\n\n{page}"}) == ""
    assert prose.length({"a.md": f"{full}\n\n{page}\nmore"})
