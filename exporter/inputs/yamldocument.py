"""Bounded YAML with line numbers: text → nodes or values.

The settings file, the web configuration, scenarios, kubeconfigs and described schemes are all read
here. The cost is bounded by the length of the text. PyYAML shares the nodes that aliases refer to,
and copies those that are merged (``<<``), so a text of some hundred bytes can stand for billions of
values. Here every use of an alias counts as the values that it stands for. Depth is bounded as
well, because PyYAML recurses.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import yaml

from exporter.inputs.files import opened

MAX_BYTES = 1 << 20  # of a file
MAX_DEPTH = 64
MAX_VALUES = 20_000
"""Scalars, lists and mappings, with those that aliases stand for; PyYAML reads them in 1 s."""

MAX_NUMBER = 64
"""Characters of a number or date. Python converts long ones in quadratic time, or refuses."""

NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp")}
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, ValueError)

T = TypeVar("T")


class YamlError(Exception):
    """A text that is not YAML, or that exceeds the bounds; ``words`` say why in one line.

    ``line`` and ``column`` begin at 1; they are 0 if the parser names none.
    """

    def __init__(self, line: int, column: int, words: str) -> None:
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(f"{place}not YAML: {words}")
        self.line, self.column, self.words = line, column, words


def parse(text: str) -> yaml.Node | None:
    """The node of the one document in the text; None if the text is empty.

    Raises:
        YamlError: the text is not YAML, or exceeds the bounds.

    """
    return _read(text, _Loader.get_single_node)


def load(text: str) -> object:
    """The value of the one document in the text, of YAML's safe types only.

    Raises:
        YamlError: the text is not YAML, or exceeds the bounds.

    """
    return _read(text, _Loader.get_single_data)


def value_of(node: yaml.Node) -> object:
    """The value of a node, of YAML's safe types only.

    Raises:
        YamlError: the value exceeds the bounds.

    """
    return _read("", lambda loader: loader.construct_document(node))


def merge(node: yaml.Node) -> None:
    """Writes out what ``<<`` stands for in all mappings of a tree; a mapping's own keys win."""
    if isinstance(node, yaml.MappingNode):
        if any(key.tag == _MERGE for key, _ in node.value):
            own = [pair for pair in node.value if pair[0].tag != _MERGE]
            names = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
            yaml.SafeLoader("").flatten_mapping(node)
            # PyYAML puts what is merged before the mapping's own pairs, of several mappings the
            # first one last.
            others = node.value[: len(node.value) - len(own)]
            last = {pair[0].value: pair for pair in others if pair[0].value not in names}
            node.value = [*last.values(), *own]
        for _, value in node.value:
            merge(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            merge(value)


def node_of(value: object) -> yaml.Node:
    """The node of a value of YAML's safe types, with no place in a text."""
    # The representer goes by the exact type: it refuses a StrEnum.
    plain = str(value) if isinstance(value, str) else value
    if isinstance(value, dict):
        plain = {k: str(v) if isinstance(v, StrEnum) else v for k, v in value.items()}
    node: yaml.Node = yaml.representer.SafeRepresenter().represent_data(plain)
    return node


def read_bytes(path: str) -> bytes:
    """The contents of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is too large, or the path is not valid.

    """
    with opened(path) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    return raw


class MappingItem(NamedTuple):
    """One entry of a YAML mapping.

    ``name`` is the key's text, None if the key is a list or a mapping. ``first_line`` is the line
    of an earlier entry with this name and a value, 0 if there is none.
    """

    name: str | None
    key: yaml.Node
    value: yaml.Node
    first_line: int


def items(node: yaml.MappingNode) -> Iterator[MappingItem]:
    """The entries of a mapping in their order. PyYAML itself accepts a key that is given twice."""
    lines: dict[str, int] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        yield MappingItem(name, key, value, lines.get(name or "", 0))
        if name is not None and value.tag != NULL:
            lines.setdefault(name, line_of(key))


def line_of(node: yaml.Node) -> int:
    """The line on which a node begins, from 1; 0 if it is not from a text."""
    line: int = node.start_mark.line + 1 if node.start_mark else 0
    return line


def _read(text: str, get: Callable[["_Loader"], T]) -> T:
    try:
        loader = _Loader(text)
        try:
            return get(loader)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        parts = filter(None, (getattr(error, "context", None), getattr(error, "problem", None)))
        words = ", ".join(parts) or str(error).partition("\n")[0]
        line, column = (mark.line + 1, mark.column + 1) if isinstance(mark, yaml.Mark) else (0, 0)
        raise YamlError(line, column, " ".join(words.split())) from error


class _Loader(yaml.SafeLoader):
    """Composes and constructs within the bounds. An error names the line that exceeds them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._read = 0
        self._sizes: dict[int, int] = {}  # by id of a node; the tree keeps all nodes alive

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 - PyYAML's signature
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
        """The number of values that the node stands for. The nodes below it are composed."""
        if isinstance(node, yaml.ScalarNode):
            return 1
        pairs = isinstance(node, yaml.MappingNode)
        below = [part for pair in node.value for part in pair] if pairs else node.value
        size = 1 + sum(self._sizes[id(part)] for part in below)
        if size > MAX_VALUES:
            raise _refusal(f"with its aliases written out, more than {MAX_VALUES} values", mark)
        return size

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - PyYAML's signature
        """Construct the value of a node."""
        if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER:
            raise _refusal(f"a number of more than {MAX_NUMBER} characters", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except _UNREADABLE:
            kind = node.tag.rpartition(":")[2]
            raise _refusal(f"a value that is not a valid {kind}", node.start_mark) from None


def _refusal(words: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=mark)
