"""Reads YAML mappings by tables of their keys, and collects all problems, each with line and key.

The settings file, described sharing systems, the web configuration and scenarios are read by it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, Union

import yaml

from exporter.inputs.valuekinds import StructureError, StructureProblem, ValueKind
from exporter.inputs.yamldocument import NULL, YamlError, items, line_of, parse

T = TypeVar("T")

MAX_PROBLEMS = 50  # of one file; each costs time and a line
MAX_KEY = 100  # characters of a key that are shown
MAX_VALUE = 100  # of a value

Reader = Callable[[yaml.Node], Any]


class InvalidValue(ValueError):  # noqa: N818 - raised by readers, and caught where they are called
    """A problem of a value. ``node`` is the part of it that is wrong, ``key`` its key inside it."""

    def __init__(self, problem: str, node: yaml.Node | None = None, key: str = "") -> None:
        super().__init__(problem)
        self.node, self.key = node, key


class ListOf(NamedTuple):
    """A reader of a list of mappings, each read by this table; ``allowed`` describes it."""

    section: "Section"
    allowed: str
    may_be_empty: bool = True


class Required(NamedTuple):
    """A key that must be given; ``missing`` is the problem if it is not."""

    reader: "Reader | ListOf"
    missing: str


Section = Mapping[str, Union[Reader, ListOf, Required, "Section"]]


class Given(dict[str, Any]):
    """The values of a mapping by key, the node of each, and where the mapping is in the file.

    ``where`` is its place, such as ``pods[0].containers``; "" is the whole file.
    """

    def __init__(self, where: str, line: int) -> None:
        super().__init__()
        self.where, self.line = where, line
        self.nodes: dict[str, yaml.Node] = {}


def read_mapping(
    node: yaml.Node, section: Section, problems: list[StructureProblem], where: str = ""
) -> Given:
    """The values of a mapping by key, without those that are null. ``where`` is its place.

    ``section``: what reads each key's value, or the table of the mapping below it. What is wrong
    is added to ``problems``.
    """
    given = Given(where, line_of(node))
    if node.tag == NULL:
        return given
    known = ", ".join(section)
    if not isinstance(node, yaml.MappingNode):
        problems.append(StructureProblem(given.line, where, f"keys are expected: {known}"))
        return given
    for item in items(node):
        name, value = item.name, item.value
        place = where if name is None else below(where, name)
        if len(problems) >= MAX_PROBLEMS:
            return given  # a key that was not read is not missing
        if name is None or name not in section:
            text = f"no such key; known: {known}"
            problems.append(StructureProblem(line_of(item.key), place, text))
        elif item.first_line:
            text = f"given twice; see line {item.first_line}"
            problems.append(StructureProblem(line_of(item.key), place, text))
        elif value.tag != NULL:
            given.nodes[name] = value
            given[name] = _value(value, section[name], problems, place)
    for name, reader in section.items():
        if isinstance(reader, Required) and name not in given:
            problems.append(StructureProblem(given.line, below(where, name), reader.missing))
    return given


def below(where: str, name: str) -> str:
    """The place of a key in a mapping."""
    return ".".join(filter(None, (where, name[:MAX_KEY])))


def _value(
    node: yaml.Node,
    reader: Reader | ListOf | Required | Section,
    problems: list[StructureProblem],
    where: str,
) -> Any:  # noqa: ANN401 - of the reader's kind
    if isinstance(reader, Required):
        reader = reader.reader
    if isinstance(reader, Mapping):
        return read_mapping(node, reader, problems, where)
    if isinstance(reader, ListOf):
        if isinstance(node, yaml.SequenceNode) and (node.value or reader.may_be_empty):
            return [
                read_mapping(item, reader.section, problems, f"{where}[{at}]")
                for at, item in enumerate(node.value)
            ]
        text = f"{_shown(node)} is not allowed; write {reader.allowed}"
        problems.append(StructureProblem(line_of(node), where, text))
        return []
    try:
        return reader(node)
    except InvalidValue as invalid:
        place = below(where, invalid.key)
        problems.append(StructureProblem(line_of(invalid.node or node), place, str(invalid)))
        return None


def _shown(node: yaml.Node) -> str:
    """A plain value as it is shown in a problem."""
    return repr(node.value)[:MAX_VALUE] if isinstance(node, yaml.ScalarNode) else "this"


def entries(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    """The keys and values of a mapping whose keys are the user's own.

    Raises:
        InvalidValue: a key is no plain value, or is given twice.

    """
    for item in items(node):
        if item.name is None:
            raise InvalidValue("a key is one value", item.key)
        if item.first_line:
            raise InvalidValue(f"given twice; see line {item.first_line}", item.key, item.name)
        yield item.name, item.value


def flag_text(kind: ValueKind[object], node: yaml.Node) -> str:
    """The text of a plain value, or of a list or mapping of them, as it stands in a flag.

    Raises:
        InvalidValue: the value has another form, or a mapping has a key twice.

    """
    parts = [("", node)]
    if kind.many and isinstance(node, yaml.SequenceNode):
        parts = [("", item) for item in node.value]
    elif kind.pairs and isinstance(node, yaml.MappingNode):
        parts = [(f"{name}=", value) for name, value in entries(node)]
    if not all(isinstance(part, yaml.ScalarNode) for _, part in parts):
        raise InvalidValue(f"this is not {kind.allowed}")
    return ",".join(f"{name}{part.value}" for name, part in parts)


def of_kind(kind: ValueKind[object]) -> Reader:
    """A reader of values of this kind."""

    def read(node: yaml.Node) -> object:
        text = "" if kind.read_node else flag_text(kind, node)
        try:
            return kind.read_node(node) if kind.read_node else kind.read(text)
        except (ValueError, KeyError):
            raise InvalidValue(f"{_shown(node)} is not {kind.allowed}") from None

    return read


def of_text(read: Callable[[yaml.Node], tuple[T, ...]]) -> Callable[[str], tuple[T, ...]]:
    """A reader of a YAML list as a text, as in a flag; it raises StructureError."""

    def read_text(text: str) -> tuple[T, ...]:
        try:
            root = parse(text)
        except YamlError as error:
            raise StructureError([StructureProblem(1, "", str(error))]) from error
        return () if root is None or root.tag == NULL else read(root)

    return read_text
