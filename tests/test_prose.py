"""The checks of the documents' prose fail on hard text, and only on that."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import prose, words

ROOT = Path(__file__).parent.parent
LONG = " ".join(["word"] * (prose.LONGEST + 1))


def messages(page: str) -> list[str]:
    return [message for _, message in prose.faults(page)]


@pytest.mark.parametrize(
    "page",
    [
        f"{LONG}.",
        f"Short.\n\n- {LONG}.",
        f"Short one.\n{LONG}.",
        f"| a | b |\n|---|---|\n| c | d |\n\n1. {LONG}.",
        f"`code` [a link](x.md) {LONG}.",
    ],
    ids=["alone", "item", "second", "numbered", "link"],
)
def test_a_sentence_that_is_too_long_is_found(page: str) -> None:
    [message] = messages(page)
    assert f"at most {prose.LONGEST}" in message


@pytest.mark.parametrize(
    "opening",
    [
        "For who runs pods there is more.",
        "Whose it is stands there.",
        "Who has a model reads this.",
        "Of those that fail, the last stands.",
        "Of which one is enough.",
        "Nor does it wait.",
        "Else it is nobody's.",
        "What nobody can be named for stands last.",
    ],
)
def test_an_opening_that_turns_the_sentence_round_is_found(opening: str) -> None:
    [message] = messages(f"A good sentence. {opening}")
    assert message.startswith("hard opening")


@pytest.mark.parametrize(
    "page",
    [
        "Who uses it?",
        "If a source fails, its last answer is used.",
        f"```\n{LONG}\n```",
        f"| {LONG} |\n|---|\n| {LONG} |",
        f"# {LONG}",
        f"<!-- {LONG} -->",
        f"[d1]: https://example.com/{LONG.replace(' ', '/')}",
        f"`{LONG}` is one word.",
        "It has " + ", ".join(["fan speed"] * 20) + ".",
    ],
    ids=["question", "plain", "code", "table", "heading", "comment", "reference", "span", "list"],
)
def test_what_is_no_hard_sentence_is_left_alone(page: str) -> None:
    assert messages(page) == []


def test_a_fault_has_the_line_on_which_its_paragraph_begins() -> None:
    page = f"# Title\n\n```console\n$ ls\n```\n\nShort.\n\n{LONG}.\n"
    assert [line for line, _ in prose.faults(page)] == [9]


def test_sentences_and_words_are_counted() -> None:
    page = "# Title\n\nOne two three. Four `five six`\nseven.\n\n- eight nine\n- ten\n"
    found = list(prose.sentences(page))

    assert [sentence.words for sentence in found] == [3, 3, 2, 1]
    assert [sentence.line for sentence in found] == [3, 3, 6, 7]


def test_the_documents_pass() -> None:
    command = [sys.executable, "tools/prose.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("no hard sentence\n", 0)


def test_make_lint_runs_the_checks() -> None:
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert "tools/prose.py" in lint
    assert "tools/words.py" in lint


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is heeded.", ["heeded"]),
        ("def told_apart", ["told"]),
        ("It came of late.", ["of late"]),
        ("Fields of later versions.", []),
        ("A cast in vain effort", ["in vain"]),
        ("in vainglory", []),
    ],
)
def test_words_that_the_glossary_replaces_are_found(text: str, found: list[str]) -> None:
    banned = words.banned((ROOT / words.GLOSSARY).read_text())
    assert [word for _, word in words.found(text, banned)] == found
