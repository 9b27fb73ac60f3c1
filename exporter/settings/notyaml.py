"""What YAML's parser says in five lines, in one sentence."""

from typing import NamedTuple

import yaml


class NotYaml(NamedTuple):
    """Line and column from 1 on, 0 where the parser names none."""

    line: int
    column: int
    words: str

    def __str__(self) -> str:
        """Say where, and what."""
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}not YAML: {self.words}"


def told(error: yaml.YAMLError) -> NotYaml:
    """Take apart a YAMLError."""
    mark = getattr(error, "problem_mark", None)
    said = filter(None, (getattr(error, "context", None), getattr(error, "problem", None)))
    words = ", ".join(said) or str(error).partition("\n")[0]
    place = (mark.line + 1, mark.column + 1) if isinstance(mark, yaml.Mark) else (0, 0)
    return NotYaml(*place, " ".join(words.split()))
