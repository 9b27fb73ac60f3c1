"""What was made of values that never change is kept: most of them stay from page to page."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any, TypeVar

T = TypeVar("T")
Columns = dict[str, Sequence[Any]]
"""By the family's name, what each row has of it; None where it has nothing."""


class Kept:
    """By name, the newest that was made, and what it was made of; for any number of threads."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Sequence[Any], Any]] = {}

    def of(self, name: Hashable, values: Sequence[object], make: Callable[..., T]) -> T:
        """What is made of these; of the same ones as the last time it is the same object."""
        before = self._made.get(name)
        if before is not None and same(values, before[0]):
            made: T = before[1]
            return made
        made = make(*values)
        self._made[name] = values, made
        return made

    def column(self, name: Hashable, make: Callable[..., T], *columns: Sequence[Any]) -> list[T]:
        """What is made of each row's values; the same list as the last time if all are the same."""
        before = self._made.get(name)
        if before is not None and all(map(same, columns, before[0])):
            column: list[T] = before[1]
            return column
        column = list(map(make, *columns))
        self._made[name] = columns, column
        return column

    def columns(
        self, name: Hashable, make: Callable[..., Mapping[str, Any]], *columns: Sequence[Any]
    ) -> Columns:
        """What is made of each row's values, by name; None where a row has nothing of that name."""
        return self.of((name, "by name"), self.column(name, make, *columns), by_name)


def by_name(*each: Mapping[str, Any]) -> Columns:
    """What each row has, by name; None where it has nothing."""
    names = dict.fromkeys(chain.from_iterable(each))
    return {name: [has.get(name) for has in each] for name in names}


def same(values: Sequence[object], before: Sequence[object]) -> bool:
    """Whether they are the same objects: numbers that are equal may be of different types."""
    return len(values) == len(before) and all(map(is_, values, before))
