"""One mapping of a scenario file, read key by key, with errors that say where and what instead."""

from collections.abc import Iterator
from typing import TypeVar

from exporter.scenario.description import ScenarioError
from exporter.scenario.values import ITEMS, Kind

T = TypeVar("T")

LONGEST_SHOWN = 60


class Section:
    """A mapping with its place in the file. ``done`` refuses the keys that nobody asked for."""

    def __init__(self, data: object, where: str) -> None:
        self.where = where
        self._known: set[str] = set()
        if not isinstance(data, dict):
            raise ScenarioError(f"{where}: {_shown(data)} is not allowed; write a mapping of keys")
        self._data: dict[object, object] = data

    def get(self, key: str, kind: Kind[T], default: T) -> T:
        """The value of a key, or the default if it is missing.

        Raises:
            ScenarioError: the value is none of the kind.

        """
        return self.need(key, kind) if self.has(key) else default

    def need(self, key: str, kind: Kind[T]) -> T:
        """The value of a key that must be there.

        Raises:
            ScenarioError: it is missing, or none of the kind.

        """
        self._known.add(key)
        try:
            return kind.read(self._data[key])
        except (KeyError, ValueError):
            raise self.wrong(key, kind.allowed) from None

    def has(self, key: str) -> bool:
        """Whether the file gives this key."""
        self._known.add(key)
        return key in self._data

    def wrong(self, key: str, allowed: str) -> ScenarioError:
        """The error for a key's value."""
        value = f"{_shown(self._data[key])} is not allowed" if key in self._data else "missing"
        return ScenarioError(f"{self.where}.{key}: {value}; write {allowed}")

    def sections(self, key: str) -> Iterator["Section"]:
        """The mappings of a list, none if it is missing."""
        for number, item in enumerate(self.get(key, ITEMS, [])):
            yield Section(item, f"{self.where}.{key}[{number}]")

    def section(self, key: str) -> "Section":
        """The mapping below a key, empty if it is missing."""
        self._known.add(key)
        return Section(self._data.get(key, {}), f"{self.where}.{key}")

    def done(self) -> None:
        """Refuse keys that have no meaning here.

        Raises:
            ScenarioError: there is one.

        """
        for key in self._data:
            if key not in self._known:
                known = ", ".join(sorted(self._known))
                raise ScenarioError(f"{self.where}: no such key {_shown(key)}; allowed are {known}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."
