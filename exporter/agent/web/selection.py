"""The query parameters ``collect[]`` and ``exclude[]``, which select families of a page. Pure.

They follow node_exporter's. A name is a level (``container``), a group of ``--metrics.disable``
(``pcie``), a family (``mgpu_pod_core_usage_gpus``), or a program of ``--compat`` (``dcgm``).
"""

from types import MappingProxyType
from typing import NamedTuple, Protocol

from exporter.metrics.compat import PROGRAMS
from exporter.metrics.families import FAMILIES, LEVELS, OPTIONAL_GROUPS

_HELP = b"\n# HELP "
_EOF = b"# EOF\n"
_OWN = "exporter"  # the level that the client library's process_* belong to


class SelectionError(ValueError):
    """A name that cannot be selected. The message lists the names that can."""


class Query(Protocol):
    """The parameters of a request."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """All values of a parameter."""
        ...


class Selection(NamedTuple):
    """Families by their full names, or with ``excluded`` all other families."""

    names: frozenset[str]
    excluded: bool

    def takes(self, name: str) -> bool:
        """Whether a family is selected. ``name`` is its name in either format."""
        known = name in self.names or f"{name}_total" in self.names
        own = CLIENT in self.names and name.startswith(("process_", "python_"))
        return (known or own) is not self.excluded


CLIENT = "process_*"  # stands for process_* and python_info


def _choices() -> dict[str, frozenset[str]]:
    named = {family.full_name: frozenset({family.full_name}) for family in FAMILIES}
    levels = {
        level: frozenset(f.full_name for f in FAMILIES if f.level == level) for level in LEVELS
    }
    groups = {
        group: frozenset(f.full_name for f in FAMILIES if f.group == group)
        for group in OPTIONAL_GROUPS
    }
    programs = {p: frozenset(alias.name for alias in rows) for p, rows in PROGRAMS.items()}
    named |= {name: frozenset({name}) for names in programs.values() for name in names}
    return programs | levels | {_OWN: levels[_OWN] | {CLIENT}} | groups | named


CHOICES = MappingProxyType(_choices())
_FAMILIES = ", ".join(family.full_name for family in FAMILIES)


def select(query: Query) -> Selection | None:
    """The families that a request asks for; None stands for all.

    Raises:
        SelectionError: a name is not known, or both parameters are given.

    """
    collect, exclude = query.getall("collect[]", []), query.getall("exclude[]", [])
    if collect and exclude:
        raise SelectionError("collect[] and exclude[] cannot be combined; give one of them")
    if not collect and not exclude:
        return None
    for name in collect or exclude:
        if name not in CHOICES:
            raise SelectionError(
                f"no such level, group or family: {name[:64]!r}\n"
                f"levels: {', '.join(LEVELS)}\ngroups: {', '.join(OPTIONAL_GROUPS)}\n"
                f"other exporters' names: {', '.join(PROGRAMS)}\n"
                f"families: {_FAMILIES}"
            )
    names = frozenset[str]().union(*(CHOICES[name] for name in collect or exclude))
    return Selection(names, excluded=bool(exclude))


def selected(page: bytes, selection: Selection) -> bytes:
    """The selected families of a page in either format.

    A family begins with its HELP line. No other line looks like one, because label values have
    their line breaks escaped.
    """
    # The page is cut at HELP lines and not parsed: it may have megabytes, and each client that
    # selects would pay for that again.
    body, end = (page[: -len(_EOF)], _EOF) if page.endswith(_EOF) else (page, b"")
    blocks = (b"\n" + body).split(_HELP)[1:]
    taken = [_HELP + b for b in blocks if selection.takes(b.partition(b" ")[0].decode())]
    lines = b"".join(taken).removeprefix(b"\n")
    if taken and not lines.endswith(b"\n"):
        lines += b"\n"
    return lines + end
