"""What is wrong in what somebody wrote, where, and what may have been meant.

Imports little, because each command line needs it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

MAX_SHOWN = 200  # characters of what was given


class ValuePlace(NamedTuple):
    """Where a value was given: ``origin`` is a flag, a $VARIABLE or a file.

    ``key`` is the name of the setting, or the key in the file. ``line`` and ``column`` begin at 1;
    they are 0 if there is none.
    """

    origin: str
    key: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """The place as text: ``settings.yaml, line 3, log.level``."""
        line = f", line {self.line}" if self.line else ""
        column = f", column {self.column}" if self.column else ""
        key = f", {self.key}" if self.is_file and self.key else ""
        return self.origin + line + column + key

    @property
    def is_file(self) -> bool:
        """Whether the place is in a file."""
        return not self.origin.startswith(("-", "$"))


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a configuration cannot be used; ``text`` is the whole message.

    ``given`` and ``allowed`` are parts of it, for programs; None if it is not about a value.
    """

    place: ValuePlace
    text: str
    given: str | None = None
    allowed: str | None = None

    def __str__(self) -> str:
        """The place and the message."""
        return f"{self.place}: {self.text}"


def not_allowed(place: ValuePlace, given: str, allowed: str) -> Problem:
    """The problem of a value that is not of its kind."""
    return Problem(place, f"{given[:MAX_SHOWN]!r} is not {allowed}", given[:MAX_SHOWN], allowed)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar, "" if none is similar."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


def meant(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to the error about an unknown name; "" if no known name is similar."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
