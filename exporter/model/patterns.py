"""Patterns of cgroup paths by which directories become groups: their language. Pure.

A pattern is a path. In each of its names ``*`` is any text and ``{name}`` any text that is kept,
both of one character or more; all else is itself. A text ends where what follows it in the pattern
is found first. There are no choices and no repetitions, so a name is read once from its beginning
to its end, whatever a tenant called his directory.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

LONGEST_PATTERN = 256
MOST_NAMES = 8  # of a pattern's path
SYSTEMS, USERS = "/", "~/"
"""Where a pattern begins: at the top or in slices of the system's, or in slices of a user's own."""

_WILD = re.compile(r"\*|\{([a-z]{1,32})\}")


class PathName(NamedTuple):
    """One name of a pattern: ``texts`` are what is kept, or "", between the ``literals``."""

    literals: tuple[str, ...]
    texts: tuple[str, ...]

    def match(self, name: str) -> tuple[str, ...] | None:
        """The text in the place of each wildcard; None if the name does not match."""
        first, *others = self.literals
        if not others:
            return () if name == first else None
        if not name.startswith(first):
            return None
        found: list[str] = []
        at = len(first)
        for literal in others[:-1]:
            # From the next character on: a wildcard stands for one at least.
            end = name.find(literal, at + 1)
            if end < 0:
                return None
            found.append(name[at:end])
            at = end + len(literal)
        end = len(name) - len(others[-1])
        if end <= at or not name.endswith(others[-1]):
            return None
        return (*found, name[at:end])


@dataclass(frozen=True)
class GroupPattern:
    """The directories of a ``path`` are groups of this ``kind``; ``group`` is what each is called.

    ``group`` is a text with what the path keeps.
    """

    kind: str
    path: str
    group: str = "{group}"

    @cached_property
    def is_users(self) -> bool:
        """Whether it begins in slices of a user's own."""
        return self.path.startswith(USERS)

    @cached_property
    def names(self) -> tuple[PathName, ...]:
        """The names of its path."""
        inner = self.path.removeprefix(USERS if self.is_users else SYSTEMS)
        return tuple(map(_parsed, inner.split("/")))

    def called(self, texts: dict[str, str]) -> str:
        """What the group of a directory is called, by the texts of its path."""
        return _WILD.sub(lambda found: texts.get(found[1] or "", ""), self.group)

    def complaints(self) -> list[str]:
        """What is wrong with it."""
        if not self.path.startswith((SYSTEMS, USERS)) or len(self.path) > LONGEST_PATTERN:
            return [f"a path begins with / or ~/, and has at most {LONGEST_PATTERN} characters"]
        wrong: list[str] = []
        if len(self.names) > MOST_NAMES:
            wrong.append(f"a path has at most {MOST_NAMES} names")
        kept = [text for name in self.names for text in name.texts if text]
        for name in self.names:
            literals = "".join(name.literals)
            if {"{", "}"} & set(literals):
                wrong.append("{ and } stand around a name of small letters, as in {job}")
            elif not name.texts and literals in {"", ".", ".."}:
                wrong.append("a path has no empty name")
            elif "" in name.literals[1:-1]:
                wrong.append("two wildcards side by side: where does the first end?")
        if len(set(kept)) < len(kept):
            wrong.append("a name in { } stands in a path once")
        wanted = _parsed(self.group)
        if unknown := sorted({text or "*" for text in wanted.texts} - set(kept)):
            wrong.append(f"the path has no {', '.join(unknown)} for group")
        return list(dict.fromkeys(wrong))


def _parsed(text: str) -> PathName:
    literals, texts, at = [], [], 0
    for found in _WILD.finditer(text):
        literals.append(text[at : found.start()])
        texts.append(found[1] or "")
        at = found.end()
    return PathName((*literals, text[at:]), tuple(texts))
