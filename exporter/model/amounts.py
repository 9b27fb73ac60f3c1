"""Sums of amounts of which some may not be known."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", int, float)


def whole(parts: Sequence[T | None]) -> T | None:
    """The sum if every part is known; None if one is not, or there is none."""
    present = [part for part in parts if part is not None]
    return sum(present) if present and len(present) == len(parts) else None


def sum_of_known(parts: Iterable[T | None]) -> T | None:
    """The sum of the known parts; None if none is known."""
    present = [part for part in parts if part is not None]
    return sum(present) if present else None
