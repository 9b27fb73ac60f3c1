"""What a Prometheus answers: whole, absent, refused, failed or cut. None of the last is empty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Whole(Generic[T_co]):
    """All series that it has of the question."""

    series: Sequence[T_co]


@dataclass(frozen=True, slots=True)
class Absent:
    """It has no series of the question."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It does not want to answer: ``status`` is HTTP's."""

    why: str
    status: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing is known: nobody answers, or not as a Prometheus does."""

    why: str
    is_nobody: bool = False


@dataclass(frozen=True, slots=True)
class Cut(Generic[T_co]):
    """A part: more than is read, in which case ``series`` is None, or of some stores only."""

    why: str
    series: Sequence[T_co] | None = None


Answer = Whole[T_co] | Absent | Refused | Failed | Cut[T_co]
