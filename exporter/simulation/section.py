"""One mapping of a scenario file, read key by key. Errors say where, what, and what is allowed."""

from collections.abc import Iterator
from typing import TypeVar

from exporter.simulation import ScenarioError
from exporter.simulation.keys import TABLE, Key

T = TypeVar("T")

LONGEST_SHOWN = 60


class Section:
    """A mapping with its place in the file; ``kind`` is its section in the table of keys.

    Raises:
        ScenarioError: it is not a mapping, or has an unknown key.

    """

    def __init__(self, data: object, where: str, kind: str) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise ScenarioError(f"{where}: {_shown(data)} is not allowed; write a mapping of keys")
        self._data: dict[object, object] = data
        for key in data:
            if key not in TABLE[kind]:
                known = ", ".join(sorted(TABLE[kind]))
                raise ScenarioError(f"{where}: no such key {_shown(key)}; allowed are {known}")

    def get(self, key: Key[T]) -> T:
        """The value of a key, or what it means if it is missing.

        Raises:
            ScenarioError: it has the wrong form, or is missing and required.

        """
        if key.name not in self._data and key.usual is not None:
            return key.default  # type: ignore[return-value]  # with ``usual``, the default is a T
        try:
            return key.kind.read(self._data[key.name])
        except (KeyError, ValueError):
            raise self.wrong(key, key.kind.allowed) from None

    def has(self, key: Key[object]) -> bool:
        """Whether the file gives this key."""
        return key.name in self._data

    def wrong(self, key: Key[object], allowed: str) -> ScenarioError:
        """The error for a key's value."""
        given = key.name in self._data
        value = f"{_shown(self._data[key.name])} is not allowed" if given else "missing"
        return ScenarioError(f"{self.where}.{key.name}: {value}; write {allowed}")

    def sections(self, key: Key[list[object]], kind: str) -> Iterator["Section"]:
        """The mappings of a list, none if it is missing."""
        for number, item in enumerate(self.get(key)):
            yield Section(item, f"{self.where}.{key.name}[{number}]", kind)

    def section(self, key: Key[dict[str, object]], kind: str) -> "Section":
        """The mapping below a key, empty if it is missing."""
        return Section(self._data.get(key.name, {}), f"{self.where}.{key.name}", kind)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."
