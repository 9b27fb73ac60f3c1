"""Markdown as the runbooks use it, as blocks for a template, which escapes their text. Pure.

Headings, paragraphs, lists, tables, fenced code; in them code, strong words and links. What is
anything else stays text, so that nothing is lost. A numbered line is a paragraph.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class TextSpan(NamedTuple):
    """A piece of a line. ``kind`` is "", code, strong or link; ``target`` is a link's."""

    text: str
    kind: str = ""
    target: str = ""


Spans = Sequence[TextSpan]


class Block(NamedTuple):
    """A block. ``kind`` is h1 to h3, p, ul, table or pre.

    ``lines`` are its items or cells by row; of a ``pre``, ``code`` is the text.
    """

    kind: str
    lines: Sequence[Sequence[Spans]] = ()
    code: str = ""


_FENCE = re.compile(r"```\w*")
_HEADING = re.compile(r"(#{1,3}) (.*)")
_ITEM = re.compile(r"- (.*)")
_RULE = re.compile(r"\|[-|: ]+\|")
_CELL = re.compile(r"(?<!\\)\|")
_SPAN = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^]]+)\]\(([^)\s]+)\)")


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text, in order."""
    lines = iter(text.splitlines())
    held: list[str] = []
    for line in lines:
        if _FENCE.fullmatch(line):
            yield from _block(held)
            held = []
            # A fence that nobody closes ends with the text.
            code = iter(lambda: next(lines, "```"), "```")
            yield Block("pre", code="\n".join(code))
        elif line.strip():
            held.append(line.strip())
        else:
            yield from _block(held)
            held = []
    yield from _block(held)


def _block(lines: Sequence[str]) -> Iterator[Block]:
    """The block of lines that follow one another; none of none."""
    if not lines:
        return
    if heading := _HEADING.fullmatch(lines[0]):
        yield Block(f"h{len(heading[1])}", [[_spans(heading[2])]])
        yield from _block(lines[1:])
    elif lines[0].startswith("|"):
        rows = (line.strip("|") for line in lines if not _RULE.fullmatch(line))
        yield Block("table", [[_spans(each.strip()) for each in _CELL.split(row)] for row in rows])
    elif _ITEM.fullmatch(lines[0]):
        items: list[str] = []
        for line in lines:
            if item := _ITEM.fullmatch(line):
                items.append(item[1])
            else:  # a line without a dash goes on with the one before
                items[-1] += f" {line}"
        yield Block("ul", [[_spans(each)] for each in items])
    else:
        yield Block("p", [[_spans(" ".join(lines))]])


def _spans(text: str) -> Spans:
    found, end = [], 0
    for match in _SPAN.finditer(text):
        code, strong, words, target = match.groups()
        found.append(TextSpan(text[end : match.start()]))
        if words:
            found.append(TextSpan(words, "link", target))
        else:
            found.append(TextSpan(code, "code") if code else TextSpan(strong, "strong"))
        end = match.end()
    return [span for span in (*found, TextSpan(text[end:])) if span.text]
