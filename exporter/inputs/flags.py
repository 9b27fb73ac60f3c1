"""What all parsers of flags and names share: values by their kind, and suggestions for typos."""

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TypeVar

from exporter.inputs.values import ValueKind

T = TypeVar("T")


def argument(kind: ValueKind[T]) -> Callable[[str], T]:
    """A reader of a sub-command's own argument of this kind, for argparse."""

    def read(text: str) -> T:
        try:
            return kind.read(text)
        except (ValueError, KeyError):
            raise ArgumentTypeError(f"{text!r} is not {kind.allowed}") from None

    return read


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar, "" if none is similar."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


def meant(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to the error about an unknown name; "" if no known name is similar."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
