"""Readers of the web configuration's YAML. Each turns a node into a value or a problem. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, Union

import yaml

from exporter.settings import MAX_PROBLEMS, Place, Problem
from exporter.settings import duration as duration_kind
from exporter.settings.yamldocument import NULL, items, line_of

T = TypeVar("T")

Reader = Callable[[yaml.Node], Any]
Section = Mapping[str, Union[Reader, "Section"]]

_BOOL = "tag:yaml.org,2002:bool"
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_DURATION = duration_kind("0s", "24h")


class _InvalidValue(Exception):  # noqa: N818 - never leaves this module
    """A problem of a value; ``node`` and ``key`` name the part of it that is wrong."""

    def __init__(self, problem: str, node: yaml.Node | None = None, key: str = "") -> None:
        super().__init__(problem)
        self.node, self.key = node, key


class _KeyPlace(NamedTuple):
    """A file and a key in it, for messages."""

    path: str
    name: str = ""

    def key(self, name: str) -> "_KeyPlace":
        return _KeyPlace(self.path, ".".join(filter(None, (self.name, name[:64]))))

    def says(self, node: yaml.Node, problem: object) -> Problem:
        return Problem(Place(self.path, self.name, line_of(node)), str(problem))


def read(node: yaml.Node, section: Section, path: str, problems: list[Problem]) -> dict[str, Any]:
    """The values of a mapping, read by the table of its keys. Errors are added to ``problems``."""
    return _section(node, section, _KeyPlace(path), problems)


def _section(
    node: yaml.Node, section: Section, place: _KeyPlace, problems: list[Problem]
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if node.tag == NULL:
        return given
    known = ", ".join(section)
    if not isinstance(node, yaml.MappingNode):
        problems.append(place.says(node, f"keys are expected: {known}"))
        return given
    for name, key, value, first_line in items(node):
        own = place if name is None else place.key(name)
        if len(problems) >= MAX_PROBLEMS:
            break
        if name is None or name not in section:
            problems.append(own.says(key, f"no such key; known: {known}"))
        elif first_line:
            problems.append(own.says(key, f"given twice; see line {first_line}"))
        elif value.tag != NULL:
            given[name] = _value(value, section[name], own, problems)
    return given


def _value(
    node: yaml.Node, reader: Reader | Section, place: _KeyPlace, problems: list[Problem]
) -> Any:  # noqa: ANN401 - of the reader's kind
    if isinstance(reader, Mapping):
        return _section(node, reader, place, problems)
    try:
        return reader(node)
    except _InvalidValue as invalid:
        problems.append(place.key(invalid.key).says(invalid.node or node, invalid))
        return None


def text(node: yaml.Node) -> str:
    """A text; numbers are accepted as well."""
    if not isinstance(node, yaml.ScalarNode):
        raise _InvalidValue("a text is expected", node)
    return str(node.value)


def switch(node: yaml.Node) -> bool:
    """True or false, in YAML's spellings."""
    if node.tag != _BOOL:
        raise _InvalidValue("true or false is expected")
    return bool(yaml.SafeLoader.bool_values[text(node).lower()])


def no_http2(node: yaml.Node) -> bool:
    """The value of ``http2``; only false can be honoured."""
    if switch(node):
        raise _InvalidValue("HTTP/2 is not served; only false can be honoured")
    return False


def choice(allowed: Iterable[str], **refused: str) -> Callable[[yaml.Node], str]:
    """A reader of one of these words. ``refused``: others of exporter-toolkit, with reasons."""

    def read_choice(node: yaml.Node) -> str:
        word = text(node)
        if word in refused:
            raise _InvalidValue(f"{word} cannot be honoured: {refused[word]}", node)
        if word not in allowed:
            raise _InvalidValue(f"one of {', '.join(allowed)} is expected", node)
        return word

    return read_choice


def listed(reader: Callable[[yaml.Node], T]) -> Callable[[yaml.Node], tuple[T, ...]]:
    """A reader of a list whose items ``reader`` reads."""

    def read_list(node: yaml.Node) -> tuple[T, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise _InvalidValue("a list is expected")
        return tuple(reader(item) for item in node.value)

    return read_list


def header(node: yaml.Node) -> str:
    """A header's value: printable ASCII, so that it cannot end the header."""
    value = text(node)
    if not (value.isascii() and value.isprintable()):
        raise _InvalidValue("printable ASCII is expected")
    return value


def duration(node: yaml.Node) -> int:
    """A duration in nanoseconds; 0 needs no unit."""
    try:
        return _DURATION.read("0s" if text(node) == "0" else text(node))
    except ValueError:
        raise _InvalidValue(f"{_DURATION.allowed} is expected") from None


def count(node: yaml.Node) -> int:
    """A number below a million."""
    if not re.fullmatch(r"[0-9]{1,6}", text(node)):
        raise _InvalidValue("a number from 0 to 999999 is expected")
    return int(text(node))


def users(node: yaml.Node) -> dict[str, bytes]:
    """Bcrypt hashes by user name. Messages contain the user's name, never the hash."""
    if not isinstance(node, yaml.MappingNode):
        raise _InvalidValue("names with bcrypt hashes are expected")
    found: dict[str, bytes] = {}
    for name, key, value, first_line in _users(node):
        if first_line:
            raise _InvalidValue(f"given twice; see line {first_line}", key, name)
        if not _BCRYPT.fullmatch(value):
            raise _InvalidValue("not a bcrypt hash; htpasswd -nB makes one", key, name)
        found[name] = value.encode()
    return found


def _users(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, str, int]]:
    for _, key, value, first_line in items(node):
        name = text(key)
        if ":" in name:  # a colon ends the name in a request
            raise _InvalidValue("a user's name has no colon", key)
        yield name, key, value.value if isinstance(value, yaml.ScalarNode) else "", first_line
