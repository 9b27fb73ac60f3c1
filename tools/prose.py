"""Holds the documents to sentences that are read once and to a length, and counts their words.

Usage: ``python tools/prose.py [--counts] [PATH ...]``, where a path is the beginning of a file's
name. Prints ``file:line: what is wrong: the sentence's beginning`` and exits with 1 if anything is
found, if what is written by hand for users has more than MOST words together, or an alert's runbook
more than RUNBOOK; ``--counts`` prints words, sentences and their mean length by file instead. Words
that are not used are found by ``tools/words.py``.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST = 35  # words of a sentence
LONGEST_LIST = 60  # of one that lists things: a comma for each four words, or semicolons
MOST = 15_050  # words of README.md and docs/, without blocks of code and the bars of tables
RUNBOOK = 200  # of each runbook of an alert, which are not among those
# What is made from code is not counted: a contributor who adds a metric, a platform or a sharing
# system to its table need not look for words to take away, nor for those of a new alert's runbook.
GENERATED = re.compile(
    r"<!--[^>]*\bby (?:docs|charts|rules)/generate\.py.*?(?:<!-- end[^>]*-->|\Z)",
    re.DOTALL | re.IGNORECASE,
)
ALERT = "docs/runbooks/Mgpu"
NOT_COUNTED = {  # pages for who works on it; one that rules/generate.py writes as a whole
    *("docs/architecture.md", "docs/decisions.md", "docs/releasing.md", "docs/samples-life.md"),
    "docs/runbooks/xids.md",
}
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/runbooks/*.md")
# Openings that put the verb or the condition before the subject, and what to write instead.
OPENINGS = {
    r"(For|To|From|With|By) who\b": "name the reader: If you …, For owners of …",
    r"Whose\b": "begin with the thing that is owned",
    r"Who\b(?!.*\?$)": "Users who …, Anyone who …",
    r"Of (what|which|whom|it|them|those|these|one|all that|a|an)\b": "begin with the subject",
    r"Nor\b": "a sentence of its own with not",
    r"Else\b": "Otherwise, or if not",
    r"What nobody\b": "Unattributed …",
    r"Not (told|said|known) (is|are)\b": "begin with the subject",
    r"(Hence|Thus|Thereby|Therein|Hereby|Lest)\b": "So, or because",
}
OPENING = {re.compile(pattern): advice for pattern, advice in OPENINGS.items()}
FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$", re.DOTALL | re.MULTILINE)
UNREAD = re.compile(r"<!--.*?-->|<[^>\n]+>|^\[[^\]\n]+\]: \S+$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
CODE = re.compile(r"`+[^`]*`+")
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s+")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+")
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|etc|vs|No)\.\s")


class Sentence(NamedTuple):
    """A sentence and the line it begins on."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of its words; a piece of code is one."""
        return len([word for word in self.text.split() if re.search(r"\w", word)])


def _blank(found: re.Match[str]) -> str:
    """As many lines with nothing on them."""
    return "\n" * found[0].count("\n")


def _paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Pieces of prose and the line each begins on: paragraphs and list items, without tables."""
    start, lines = 1, list[str]()
    for number, line in enumerate([*UNREAD.sub(_blank, FENCED.sub(_blank, page)).splitlines(), ""]):
        prose = line.strip() and not line.lstrip().startswith(("#", "|", "[", "!["))
        if lines and (not prose or ITEM.match(line)):
            yield start, " ".join(lines)
            lines = []
        if prose or line.lstrip().startswith(("[", "![")):
            text = ITEM.sub("", line).strip()
            start = start if lines else number + 1
            lines.append(text)
    if lines:
        yield start, " ".join(lines)


def sentences(page: str) -> Iterator[Sentence]:
    """The sentences of a page in Markdown; tables, headings and code have none."""
    for line, paragraph in _paragraphs(page):
        plain = CODE.sub("code", LINK.sub(r"\1", paragraph))
        plain = ABBREVIATED.sub(lambda found: found[0].replace(".", ""), plain)
        for text in END.split(plain):
            if text.strip(" *"):
                yield Sentence(line, text.strip(" *"))


def faults(page: str) -> Iterator[tuple[int, str]]:
    """The line and a message for each sentence that is hard to read."""
    for sentence in sentences(page):
        text = sentence.text
        listed = text.count(",") * 4 > sentence.words or text.count(";") > 1
        longest = LONGEST_LIST if listed else LONGEST
        beginning = " ".join(sentence.text.split()[:8])
        if sentence.words > longest:
            yield sentence.line, f"{sentence.words} words, at most {longest}: {beginning} …"
        for pattern, advice in OPENING.items():
            if pattern.match(sentence.text):
                yield sentence.line, f"hard opening ({advice}): {beginning} …"


def files() -> list[Path]:
    """The pages that are read."""
    return [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]


def length(pages: Mapping[str, str]) -> str:
    """What is wrong if a runbook or the other pages together have too many words; "" if nothing."""
    words = {
        name: len(re.findall(r"\S*\w\S*", FENCED.sub(_blank, GENERATED.sub("", page))))
        for name, page in pages.items()
    }
    together = {name: count for name, count in words.items() if not name.startswith(ALERT)}
    found = [
        f"{name}: {count} words, at most {RUNBOOK} in a runbook"
        for name, count in words.items()
        if name not in together and count > RUNBOOK
    ]
    if (count := sum(together.values())) > MOST:
        largest = sorted(together, key=together.__getitem__, reverse=True)[:10]
        found.append(
            f"{count} words in the pages for users, at most {MOST}: say each thing once. "
            f"The largest: {', '.join(f'{name} {words[name]}' for name in largest)}"
        )
    return "\n".join(found)


def documents() -> dict[str, str]:
    """README.md and the pages of docs/ that count, by name."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {str(path.relative_to(ROOT)): path for path in paths}
    return {n: p.read_text(encoding="utf-8") for n, p in named.items() if n not in NOT_COUNTED}


def counts() -> None:
    """Print words, words of prose, sentences and their mean length, by file and in all."""
    print(f"{'file':45} {'words':>7} {'prose':>7} {'sentences':>9} {'mean':>5}")
    sums = [0, 0, 0]
    for path in files():
        text = path.read_text(encoding="utf-8")
        found = list(sentences(text))
        figures = [len(text.split()), sum(one.words for one in found), len(found)]
        sums = [total + figure for total, figure in zip(sums, figures, strict=True)]
        _print(str(path.relative_to(ROOT)), figures)
    _print("all", sums)


def _print(name: str, figures: list[int]) -> None:
    words, prose, number = figures
    print(f"{name:45} {words:7} {prose:7} {number:9} {prose / max(number, 1):5.1f}")


def main(arguments: list[str]) -> int:
    """Print what is found; the exit status."""
    if "--counts" in arguments:
        counts()
        return 0
    count = 0
    for path in files():
        name = str(path.relative_to(ROOT))
        if not name.startswith(tuple(arguments) or ""):
            continue
        found = list(faults(path.read_text(encoding="utf-8")))
        count += len(found)
        for line, message in found:
            print(f"{name}:{line}: {message}")
    print(f"{count} hard sentences" if count else "no hard sentence")
    too_long = length(documents())
    if too_long:
        print(too_long)
    return 1 if count or too_long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
