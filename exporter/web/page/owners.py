"""What the page calls the owners of GPUs: pods, or jobs, containers, units and users."""

from collections.abc import Sequence
from typing import NamedTuple

from exporter.api.kinds import counted, is_without_pods, plural
from exporter.web.page.entries import Json, TreeEntry


class OwnerNames(NamedTuple):
    """The titles that depend on the kinds of owners.

    ``owner`` heads the tables of cards, ``head`` and ``title`` the tree; ``counts`` are sums.
    """

    owner: str
    head: str
    title: str
    counts: tuple[tuple[str, int], ...]


def names_of(document: Json, everyone: Sequence[TreeEntry]) -> OwnerNames:
    """The names for this node."""
    pods = sum(entry.kind == "pod" for entry in everyone)
    if not is_without_pods(document):
        return OwnerNames("Container", "Pod", "Pods and processes", (("Pods", pods),))
    counts = counted(entry.space for entry in everyone if entry.kind == "group")
    if not counts:
        return OwnerNames("Owner", "Owner", "Processes", ())
    head = next(iter(counts)).capitalize() if len(counts) == 1 else "Owner"
    sums = tuple((f"{noun.capitalize()}s", count) for noun, count in counts.items())
    return OwnerNames(head, head, f"{plural(counts).capitalize()}, with processes", sums)
