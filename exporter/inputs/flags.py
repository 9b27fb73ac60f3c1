"""Flags of commands, by the kinds of values that settings have too."""

from argparse import ArgumentTypeError
from collections.abc import Callable
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
