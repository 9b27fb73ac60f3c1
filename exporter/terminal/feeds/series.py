"""What a Prometheus has kept of exporters → the Snapshots that they stand for. Pure.

The way back of ``exporter.exposition``. Figures are in base units: ``FAMILIES`` here divide by 1.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from exporter import families
from exporter.model import Row, Snapshot, SourceStatus, Value

FAMILIES = tuple(replace(family, divisor=1) for family in families.FAMILIES)

_BY_NAME = {family.full_name: family for family in FAMILIES}
_CONFLICTING = "exported_"  # what Prometheus puts before a label that its target has as well
_NODE_LABELS = ("node", "kubernetes_node", "nodename", "instance")

Sample = tuple[Mapping[str, str], float]


def samples(answer: Mapping[str, Any]) -> Iterator[Sample]:
    """The labels and value of each series of an instant query's answer; odd ones are left out."""
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    for one in result if isinstance(result, list) else ():
        try:
            labels = {str(k): str(v) for k, v in one["metric"].items()}
            yield labels, float(one["value"][1])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue


def node_of(labels: Mapping[str, str]) -> str:
    """The target's node, as far as its labels say."""
    return next((labels[name] for name in _NODE_LABELS if labels.get(name)), "")


def label(labels: Mapping[str, str], name: str) -> str:
    """The exporter's own label, whether or not Prometheus had to rename it."""
    return labels.get(_CONFLICTING + name, labels.get(name, ""))


def snapshots(found: Iterable[Sample], unix_ns: int) -> dict[str, Snapshot]:
    """A Snapshot for each node, of the moment that the samples are of."""
    rows: dict[str, dict[tuple[str, tuple[str, ...]], dict[str, Value]]] = defaultdict(dict)
    for labels, value in found:
        family = _BY_NAME.get(labels.get("__name__", ""))
        if family is None:
            continue
        of_level = families.LEVELS[family.level]
        key = (family.level, tuple(label(labels, name) for name in of_level))
        values = rows[node_of(labels)].setdefault(key, {})
        if not family.labels:
            values[family.name] = value
            continue
        own = tuple(label(labels, name) for name in family.labels)
        before = values.get(family.name, {})
        values[family.name] = {**(before if isinstance(before, Mapping) else {}), own: value}
    return {node: _snapshot(levels, unix_ns) for node, levels in rows.items()}


def _snapshot(
    found: Mapping[tuple[str, tuple[str, ...]], Mapping[str, Value]], unix_ns: int
) -> Snapshot:
    rows: dict[str, list[Row]] = defaultdict(list)
    for (level, labels), values in found.items():
        rows[level].append(Row(labels, values))
    own = [row.values for row in rows.get("exporter", ())]
    simulated = any(values.get("simulated") == 1 for values in own)
    sources = tuple(status for values in own for status in _sources(values))
    by_level = {level: tuple(of_level) for level, of_level in rows.items()}
    return Snapshot(1, unix_ns, 0, simulated, by_level, sources)


def _sources(values: Mapping[str, Value]) -> Iterator[SourceStatus]:
    up = values.get("source_up", {})
    for (name,), value in up.items() if isinstance(up, Mapping) else ():
        yield SourceStatus(name, up=value == 1)
