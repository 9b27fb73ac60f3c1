"""The settings file: YAML → entries by the names of settings, each with its place."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from exporter.settings import boundedyaml
from exporter.settings.boundedyaml import told
from exporter.settings.problem import MAX_PROBLEMS, Place, Problem
from exporter.settings.table import BY_NAME, known_alike

MAX_BYTES = 1 << 20
NULL = "tag:yaml.org,2002:null"


class Entry(NamedTuple):
    """The text of a setting; None is not set. ``node`` where its kind has several lines."""

    name: str
    text: str | None
    place: Place
    node: yaml.Node | None = None


def read_bytes(path: str) -> bytes:
    """The file's contents.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, or the path is none.

    """
    with Path(path).open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    return raw


def contents(path: str) -> bytes | str:
    """What the file holds, or why it cannot be read: to be compared, not to be understood."""
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:
        return str(error)


def read(path: str, named_by: Place, problems: list[Problem]) -> dict[str, Entry]:
    """Read the file that was named at a place. What is wrong with it is added to ``problems``."""
    try:
        root = boundedyaml.compose(read_bytes(path).decode())
        if root is not None and root.tag != NULL:
            return _File(path, problems).read(root)
    except yaml.YAMLError as error:
        line, column, words = told(error)
        problems.append(Problem(Place(path, "", line, column), f"not YAML: {words}"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        problems.append(Problem(named_by, f"{path} cannot be read: {reason}"))
    return {}


class _File:
    """One file. The scalars' own text is taken, not YAML's reading of it (``no`` is not False).

    A value then means the same in a file as in a flag. ``web: {max-requests: 1}`` is
    ``web.max-requests: 1``.
    """

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems
        self._given: dict[str, Entry] = {}

    def read(self, root: yaml.Node) -> dict[str, Entry]:
        for entry in self._flat("", root):
            self._take(entry)
            if len(self._problems) >= MAX_PROBLEMS:
                break
        return self._given

    def _take(self, entry: Entry) -> None:
        name = entry.name
        if name not in BY_NAME:
            self._refuse(entry.place, f"no such setting; {known_alike(name)}")
        elif name == "config.file":
            self._refuse(entry.place, "a settings file cannot name another one")
        elif name in self._given:
            before = self._given[name].place
            self._refuse(entry.place, f"given twice; see line {before.line}")
        elif entry.text is not None:
            self._given[name] = entry

    def _refuse(self, place: Place, text: str) -> None:
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(place, text))

    def _place(self, node: yaml.Node, key: str) -> Place:
        return Place(self._path, key[:80], node.start_mark.line + 1)

    def _flat(self, prefix: str, node: yaml.Node) -> Iterator[Entry]:
        place = self._place(node, prefix)
        setting = BY_NAME.get(prefix)
        if isinstance(node, yaml.MappingNode) and _is_section(prefix):
            yield from self._section(prefix, node)
        elif setting and setting.kind.read_node and not isinstance(node, yaml.ScalarNode):
            yield Entry(prefix, "", place, node)
        elif isinstance(node, yaml.ScalarNode) and prefix:
            yield Entry(prefix, None if node.tag == NULL else node.value, place)
        elif setting and setting.kind.many and isinstance(node, yaml.SequenceNode):
            if self._are_plain(node.value, place):
                yield Entry(prefix, ",".join(item.value for item in node.value), place)
        elif setting and setting.kind.pairs and isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
            if self._are_plain(parts, place) and self._are_different(parts[::2], prefix):
                pairs = (f"{key.value}={value.value}" for key, value in node.value)
                yield Entry(prefix, ",".join(pairs), place)
        elif setting:
            self._refuse(place, f"a plain value is expected: {setting.kind.allowed}")
        elif not prefix:
            self._refuse(place, "settings by name are expected, such as log.level: info")
        else:
            yield Entry(prefix, "", place)

    def _section(self, prefix: str, node: yaml.MappingNode) -> Iterator[Entry]:
        lines: dict[str, int] = {}
        for key, value in node.value:
            if len(self._problems) >= MAX_PROBLEMS:
                return
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(self._place(key, prefix), "a name is expected, not a list or mapping")
                continue
            name = f"{prefix}.{key.value}" if prefix else key.value
            if key.value in lines and name not in BY_NAME:  # a setting's own is said by name
                place = self._place(key, name)
                self._refuse(place, f"given twice; see line {lines[key.value]}")
                continue
            lines[key.value] = key.start_mark.line + 1
            yield from self._flat(name, value)

    def _are_different(self, keys: Iterable[yaml.Node], name: str) -> bool:
        lines: dict[str, int] = {}
        different = True
        for key in keys:
            if key.value in lines:
                place = self._place(key, f"{name}.{key.value}")
                self._refuse(place, f"given twice; see line {lines[key.value]}")
                different = False
            lines.setdefault(key.value, key.start_mark.line + 1)
        return different

    def _are_plain(self, nodes: Iterable[yaml.Node], place: Place) -> bool:
        plain = all(isinstance(node, yaml.ScalarNode) for node in nodes)
        if not plain:
            self._refuse(place, "a list of plain values is expected")
        return plain


def _is_section(prefix: str) -> bool:
    return not prefix or any(name.startswith(f"{prefix}.") for name in BY_NAME)
