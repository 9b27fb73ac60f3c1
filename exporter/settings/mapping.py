"""Reads YAML mappings by tables of their keys, and collects all problems, each with line and key.

Described sharing systems, the web configuration and scenarios are read by it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Union

import yaml

from exporter.settings.values import StructureProblem, ValueKind
from exporter.settings.yamldocument import NULL, items, line_of

MAX_PROBLEMS = 50  # of one file; each costs time and a line
MAX_KEY = 100  # characters of a key that are shown
MAX_VALUE = 100  # of a value

Reader = Callable[[yaml.Node], Any]
Section = Mapping[str, Union[Reader, "Section"]]


class InvalidValue(ValueError):  # noqa: N818 - what a reader says of a value; never leaves this room
    """A problem of a value; ``node`` and ``key`` name the part of it that is wrong."""

    def __init__(self, problem: str, node: yaml.Node | None = None, key: str = "") -> None:
        super().__init__(problem)
        self.node, self.key = node, key


def read_mapping(
    node: yaml.Node, section: Section, problems: list[StructureProblem], where: str = ""
) -> dict[str, Any]:
    """The values of a mapping by key, without those that are null. Adds what is wrong.

    ``section``: what reads each key's value, or the table of the mapping below it.
    """
    given: dict[str, Any] = {}
    if node.tag == NULL:
        return given
    known = ", ".join(section)
    if not isinstance(node, yaml.MappingNode):
        problems.append(StructureProblem(line_of(node), where, f"keys are expected: {known}"))
        return given
    for name, key, value, first_line in items(node):
        own = where if name is None else below(where, name)
        if len(problems) >= MAX_PROBLEMS:
            break
        if name is None or name not in section:
            text = f"no such key; known: {known}"
            problems.append(StructureProblem(line_of(key), own, text))
        elif first_line:
            text = f"given twice; see line {first_line}"
            problems.append(StructureProblem(line_of(key), own, text))
        elif value.tag != NULL:
            given[name] = _value(value, section[name], problems, own)
    return given


def below(where: str, name: str) -> str:
    """The place of a key in a mapping."""
    return ".".join(filter(None, (where, name[:MAX_KEY])))


def _value(
    node: yaml.Node, reader: Reader | Section, problems: list[StructureProblem], where: str
) -> Any:  # noqa: ANN401 - of the reader's kind
    if isinstance(reader, Mapping):
        return read_mapping(node, reader, problems, where)
    try:
        return reader(node)
    except InvalidValue as invalid:
        place = below(where, invalid.key)
        problems.append(StructureProblem(line_of(invalid.node or node), place, str(invalid)))
        return None


def of_kind(kind: ValueKind[object]) -> Reader:
    """A reader of a plain value of this kind, or of a list of them if several are allowed."""

    def read(node: yaml.Node) -> object:
        parts = node.value if kind.many and isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(part, yaml.ScalarNode) for part in parts):
            raise InvalidValue(f"this is not {kind.allowed}")
        try:
            return kind.read(",".join(part.value for part in parts))
        except (ValueError, KeyError):
            given = repr(node.value)[:MAX_VALUE] if parts == [node] else "this"
            raise InvalidValue(f"{given} is not {kind.allowed}") from None

    return read
