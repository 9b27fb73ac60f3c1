"""What is wrong with what was given, and where. Data."""

from dataclasses import dataclass
from typing import NamedTuple


class Place(NamedTuple):
    """Where something was given: ``origin`` is a flag, a $VARIABLE or a file.

    ``key`` names the setting, or what in a file it is; ``line`` and ``column`` begin at 1, and are
    0 where there is none.
    """

    origin: str
    key: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Say it as people do: ``settings.yaml, line 3, log.level``."""
        line = f", line {self.line}" if self.line else ""
        column = f", column {self.column}" if self.column else ""
        key = f", {self.key}" if self.is_file and self.key else ""
        return self.origin + line + column + key

    @property
    def is_file(self) -> bool:
        """Whether it stands in a file."""
        return not self.origin.startswith(("-", "$"))


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason for which a configuration cannot be used; ``text`` says it whole.

    ``given`` and ``allowed`` are parts of it, for programs; None where it is not about a value.
    """

    place: Place
    text: str
    given: str | None = None
    allowed: str | None = None

    def __str__(self) -> str:
        """Say where and what."""
        return f"{self.place}: {self.text}"


class SettingsError(Exception):
    """Settings that cannot be used, with all that is wrong with them."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def not_allowed(place: Place, given: str, allowed: str) -> Problem:
    """A value that is not of its kind."""
    return Problem(place, f"{given[:MAX_SHOWN]!r} is not {allowed}", given[:MAX_SHOWN], allowed)


MAX_SHOWN = 200  # characters of what was given
MAX_PROBLEMS = 50  # of one file; each costs time and a line
