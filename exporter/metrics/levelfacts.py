"""Where a Snapshot has the facts of each level of the table, and the labels of each. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from exporter.metrics.families import OWN_LEVEL
from exporter.model import Facts, Holding, Snapshot

Labels = tuple[str, ...]

FIELDS: Mapping[str, str] = {
    "device": "devices",
    "container": "containers",
    "pod": "pods",
    "namespace": "namespaces",
    "group": "groups",
    "group_kind": "group_kinds",
}
"""The field of ``Facts`` with the facts of each level; those of the exporter stand beside it."""


def _index(holding: Holding) -> str:
    return "" if holding.index is None else str(holding.index)


_LABELS: Mapping[str, Callable[[Any], Labels]] = {
    "device": lambda d: (str(d.index), d.uuid),
    "container": lambda c: (*c.owner, _index(c), c.uuid),
    "pod": lambda p: (p.namespace, p.name),
    "namespace": lambda n: (n.namespace, n.uuid),
    "group": lambda g: (*g.owner, _index(g), g.uuid),
    "group_kind": lambda k: (k.kind, k.uuid),
    OWN_LEVEL: lambda _: (),
}


def labels_of(level: str, fact: Any) -> Labels:  # noqa: ANN401 - of the level's type
    """The values of a level's labels, in the order of ``LEVELS``."""
    return _LABELS[level](fact)


def labelled(facts: Facts, level: str) -> list[tuple[Labels, Any]]:
    """The facts of a level but the exporter's with their labels, in the order of the labels."""
    found = [(labels_of(level, fact), fact) for fact in getattr(facts, FIELDS[level])]
    return sorted(found, key=lambda one: one[0])


def labelled_facts(snapshot: Snapshot, level: str) -> list[tuple[Labels, Any]]:
    """The facts of a level with their labels, in the order of the labels."""
    if level == OWN_LEVEL:
        return [((), snapshot.exporter)] if snapshot.exporter else []
    return labelled(snapshot.facts, level)
