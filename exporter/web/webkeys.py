"""Readers of values of the web configuration, which raise InvalidValue. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import yaml

from exporter.settings import duration as duration_kind
from exporter.settings.mapping import InvalidValue
from exporter.settings.yamldocument import items

T = TypeVar("T")

_BOOL = "tag:yaml.org,2002:bool"
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_DURATION = duration_kind("0s", "24h")


def text(node: yaml.Node) -> str:
    """A text; numbers are accepted as well."""
    if not isinstance(node, yaml.ScalarNode):
        raise InvalidValue("a text is expected", node)
    return str(node.value)


def switch(node: yaml.Node) -> bool:
    """True or false, in YAML's spellings."""
    if node.tag != _BOOL:
        raise InvalidValue("true or false is expected")
    return bool(yaml.SafeLoader.bool_values[text(node).lower()])


def no_http2(node: yaml.Node) -> bool:
    """The value of ``http2``; only false can be honoured."""
    if switch(node):
        raise InvalidValue("HTTP/2 is not served; only false can be honoured")
    return False


def choice(allowed: Iterable[str], **refused: str) -> Callable[[yaml.Node], str]:
    """A reader of one of these words. ``refused``: others of exporter-toolkit, with reasons."""

    def read_choice(node: yaml.Node) -> str:
        word = text(node)
        if word in refused:
            raise InvalidValue(f"{word} cannot be honoured: {refused[word]}", node)
        if word not in allowed:
            raise InvalidValue(f"one of {', '.join(allowed)} is expected", node)
        return word

    return read_choice


def listed(reader: Callable[[yaml.Node], T]) -> Callable[[yaml.Node], tuple[T, ...]]:
    """A reader of a list whose items ``reader`` reads."""

    def read_list(node: yaml.Node) -> tuple[T, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise InvalidValue("a list is expected")
        return tuple(reader(item) for item in node.value)

    return read_list


def header(node: yaml.Node) -> str:
    """A header's value: printable ASCII, so that it cannot end the header."""
    value = text(node)
    if not (value.isascii() and value.isprintable()):
        raise InvalidValue("printable ASCII is expected")
    return value


def duration(node: yaml.Node) -> int:
    """A duration in nanoseconds; 0 needs no unit."""
    try:
        return _DURATION.read("0s" if text(node) == "0" else text(node))
    except ValueError:
        raise InvalidValue(f"{_DURATION.allowed} is expected") from None


def count(node: yaml.Node) -> int:
    """A number below a million."""
    if not re.fullmatch(r"[0-9]{1,6}", text(node)):
        raise InvalidValue("a number from 0 to 999999 is expected")
    return int(text(node))


def users(node: yaml.Node) -> dict[str, bytes]:
    """Bcrypt hashes by user name. Messages contain the user's name, never the hash."""
    if not isinstance(node, yaml.MappingNode):
        raise InvalidValue("names with bcrypt hashes are expected")
    found: dict[str, bytes] = {}
    for name, key, value, first_line in _users(node):
        if first_line:
            raise InvalidValue(f"given twice; see line {first_line}", key, name)
        if not _BCRYPT.fullmatch(value):
            raise InvalidValue("not a bcrypt hash; htpasswd -nB makes one", key, name)
        found[name] = value.encode()
    return found


def _users(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, str, int]]:
    for _, key, value, first_line in items(node):
        name = text(key)
        if ":" in name:  # a colon ends the name in a request
            raise InvalidValue("a user's name has no colon", key)
        yield name, key, value.value if isinstance(value, yaml.ScalarNode) else "", first_line
