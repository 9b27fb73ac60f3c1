"""YAML text → nodes or values, at a cost that is bounded by the length of the text.

PyYAML shares the nodes that aliases stand for, and copies those that are merged (``<<``). A text of
some hundred bytes can thus stand for billions of values. Here every use of an alias counts as the
values that it stands for. Depth is bounded as well, because PyYAML recurses.

What YAML's parser says in five lines, in one sentence.
"""

from typing import Any, NamedTuple

import yaml

MAX_DEPTH = 64
MAX_VALUES = 20_000
"""Scalars, lists and mappings, with those that aliases stand for; PyYAML reads them in 1 s."""

MAX_NUMBER = 64
"""Characters of a number or date. Python converts long ones in quadratic time, or refuses."""

_NUMBERS = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp")}
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, ValueError)


class _Loader(yaml.SafeLoader):
    """Composes and constructs within the bounds, and names the line of what is beyond them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._read = 0
        self._sizes: dict[int, int] = {}  # by id of a node; the tree keeps all nodes alive

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 - as PyYAML has it
        """Compose the next node, with what is below it."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        is_alias = self.check_event(yaml.AliasEvent)
        self._read += 1
        if self._depth == MAX_DEPTH:
            raise _refusal(f"nested more than {MAX_DEPTH} deep", mark)
        if self._read > MAX_VALUES:
            raise _refusal(f"more than {MAX_VALUES} values", mark)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise _refusal("an alias stands inside itself", mark)
        if node is not None and not is_alias:
            self._sizes[id(node)] = self._size(node, mark)
        return node

    def _size(self, node: yaml.Node, mark: yaml.Mark) -> int:
        """Return how many values the node stands for; those below it have been composed."""
        if isinstance(node, yaml.ScalarNode):
            return 1
        pairs = isinstance(node, yaml.MappingNode)
        below = [part for pair in node.value for part in pair] if pairs else node.value
        size = 1 + sum(self._sizes[id(part)] for part in below)
        if size > MAX_VALUES:
            raise _refusal(f"with its aliases written out, more than {MAX_VALUES} values", mark)
        return size

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as PyYAML has it
        """Construct the value of a node."""
        if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER:
            raise _refusal(f"a number of more than {MAX_NUMBER} characters", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except _UNREADABLE:
            kind = node.tag.rpartition(":")[2]
            raise _refusal(f"a value that is no {kind}", node.start_mark) from None


def _refusal(words: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=mark)


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of the one document in the text; None if it is empty.

    Raises:
        yaml.YAMLError: it is not YAML, or beyond the bounds.

    """
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def load(text: str) -> object:
    """Return the value of the one document in the text, of YAML's safe types only.

    Raises:
        yaml.YAMLError: it is not YAML, or beyond the bounds.

    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


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
