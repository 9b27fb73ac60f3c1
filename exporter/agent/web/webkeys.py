"""Readers of values of the web configuration, which raise InvalidValue. Pure."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import yaml

from exporter.inputs import valuekinds, values
from exporter.inputs.mapping import InvalidValue
from exporter.inputs.valuekinds import ValueKind
from exporter.inputs.yamldocument import items

T = TypeVar("T")

_BOOL = "tag:yaml.org,2002:bool"
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")


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


def of_kind(kind: ValueKind[T]) -> Callable[[yaml.Node], T]:
    """A reader of values of this kind. No message repeats a value: each may be a secret."""

    def read(node: yaml.Node) -> T:
        given = text(node)
        try:
            return kind.read(given)
        except ValueError:
            raise InvalidValue(f"{kind.allowed} is expected", node) from None

    return read


def choice(allowed: Iterable[str], **refused: str) -> Callable[[yaml.Node], str]:
    """A reader of one of these words. ``refused``: others of exporter-toolkit, with reasons."""
    read = of_kind(values.choice(*allowed))

    def read_choice(node: yaml.Node) -> str:
        if (word := text(node)) in refused:
            raise InvalidValue(f"{word} cannot be honoured: {refused[word]}", node)
        return read(node)

    return read_choice


def list_of(reader: Callable[[yaml.Node], T]) -> Callable[[yaml.Node], tuple[T, ...]]:
    """A reader of a list whose items ``reader`` reads."""

    def read_list(node: yaml.Node) -> tuple[T, ...]:
        if not isinstance(node, yaml.SequenceNode):
            raise InvalidValue("a list is expected")
        return tuple(reader(item) for item in node.value)

    return read_list


header = of_kind(values.matching(r"[ -~]*", "printable ASCII"))  # so that it cannot end the header
count = of_kind(values.count(0, 999_999))


def duration(node: yaml.Node) -> int:
    """A duration in nanoseconds; 0 needs no unit."""
    return 0 if text(node) == "0" else _duration(node)


_duration = of_kind(valuekinds.duration("0s", "24h"))


def users(node: yaml.Node) -> dict[str, bytes]:
    """Bcrypt hashes by user name. Messages contain the user's name, never the hash."""
    if not isinstance(node, yaml.MappingNode):
        raise InvalidValue("names with bcrypt hashes are expected")
    found: dict[str, bytes] = {}
    for item in items(node):
        name = text(item.key)
        if ":" in name:  # a colon ends the name in a request
            raise InvalidValue("a user's name has no colon", item.key)
        if item.first_line:
            raise InvalidValue(f"given twice; see line {item.first_line}", item.key, name)
        hashed = item.value.value if isinstance(item.value, yaml.ScalarNode) else ""
        if not _BCRYPT.fullmatch(hashed):
            raise InvalidValue("not a bcrypt hash; htpasswd -nB makes one", item.key, name)
        found[name] = hashed.encode()
    return found
