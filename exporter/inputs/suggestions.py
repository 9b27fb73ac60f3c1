"""Suggestions for names that are not known. Imports little: each command line needs it."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most similar, "" if none is similar."""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


def meant(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to the error about an unknown name; "" if no known name is similar."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
