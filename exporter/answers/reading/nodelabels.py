"""The labels of nodes that prices are by, and when: as kube-state-metrics has them."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from exporter.answers.reading.bearers import Bearers
from exporter.answers.reading.queryapi import OF_SCRAPES, Labels, Prometheus, Series, quoted
from exporter.answers.reading.ranges import Span

_FAMILY = "kube_node_labels"
_PREFIX = "label_"
_NODES = 50  # of which one question asks closely
_NUMBERED = re.compile(r"_conflict\d+$")

Items = frozenset[tuple[str, str]]


class NodeLabels:
    """Knows the labels of nodes. ``wanted``: the labels that prices are by, as people write them.

    ``samples``: by the node's name and the labels that name its cluster, when each was seen.
    """

    def __init__(
        self,
        wanted: Collection[str] = (),
        samples: Mapping[tuple[str, Items], Iterable[tuple[float, Items]]] | None = None,
    ) -> None:
        self._wanted = {*wanted, *map(sanitized, wanted)}
        self._by_node: dict[str, list[tuple[Items, Bearers[Items]]]] = defaultdict(list)
        for (node, place), seen in (samples or {}).items():
            self._by_node[node].append((place, Bearers(seen)))

    def of(self, node: str, target: Labels) -> Bearers[Items]:
        """The labels of a target's node; of several of one name, of that in the same cluster.

        A store may call its clusters anything: they are the same if no label of both differs.
        """
        ours = {item for item in target.items() if item[0] not in OF_SCRAPES}
        names = {name for name, _ in ours}
        same = [
            (len(ours & place), bearers)
            for place, bearers in self._by_node.get(node, ())
            if all(item in ours or item[0] not in names for item in place)
        ]
        return max(same, key=lambda each: each[0], default=(0, Bearers[Items](())))[1]

    def wanted_of(self, labels: Labels) -> dict[str, str]:
        """Those of some labels that prices may be by."""
        return {
            name: value
            for name, value in labels.items()
            if _NUMBERED.sub("", name) in self._wanted or name in self._wanted
        }


def read_node_labels(
    prometheus: Prometheus, span: Span, wanted: Collection[str]
) -> tuple[NodeLabels, Mapping[str, set[int]]]:
    """The labels of all nodes, and by name in which steps those of a node changed."""
    reader = _LabelReader(NodeLabels(wanted), span)
    if not wanted:
        return reader.labels, {}
    selector = prometheus.selector_of_others([_FAMILY])
    last = f"last_over_time({selector}[{span.step_s}s])"
    for one in prometheus.over(last, span.grid):
        for at_s, _ in one.samples:
            reader.take(one.labels, span.step_of(at_s), min(at_s, span.until_s))
    changed = reader.changed()
    nodes_of: dict[int, list[str]] = defaultdict(list)
    for node, steps in changed.items():
        for step in steps:
            nodes_of[step].append(node)
    for step, nodes in sorted(nodes_of.items()):
        reader.let_go(nodes, step)
        for some in (nodes[at : at + _NODES] for at in range(0, len(nodes), _NODES)):
            for one in _closely(prometheus, some, span.begin(step), span.ends[step]):
                for at_s, _ in one.samples:
                    reader.take(one.labels, step, at_s)
    return NodeLabels(wanted, reader.samples()), changed


def _closely(
    prometheus: Prometheus, nodes: Collection[str], begin_s: int, end_s: int
) -> Iterator[Series]:
    """All samples of some nodes' labels between two times."""
    either = quoted("|".join(map(re.escape, nodes)))
    # A target of kube-state-metrics may have a label ``node`` of its own. Then Prometheus calls the
    # series' label ``exported_node``, unless it honours the page's labels.
    for name in ("node", "exported_node"):
        chosen = prometheus.selector_of_others([_FAMILY], f"{name}=~{either}")
        for one in prometheus.at(f"{chosen}[{end_s - begin_s}s]", end_s):
            if _node_of(one.labels)[0] in nodes:
                yield one


class _Word(NamedTuple):
    """What a source, such as one of two kube-state-metrics, says of a node at a time."""

    at_s: float
    labels: Items
    source: Items


class _LabelReader:
    """Collects when which labels were seen, by node and step."""

    def __init__(self, labels: NodeLabels, span: Span) -> None:
        self.labels = labels
        self._span = span
        self._found: dict[tuple[str, Items], dict[int, set[_Word]]]
        self._found = defaultdict(lambda: defaultdict(set))
        self._close: set[tuple[str, int]] = set()  # node and step of which all samples are read

    def take(self, labels: Labels, step: int, at_s: float) -> None:
        """Takes a sample of a step."""
        shown = self.labels.wanted_of(
            {
                name.removeprefix(_PREFIX): value
                for name, value in labels.items()
                if name.startswith(_PREFIX)
            }
        )
        source = frozenset(one for one in labels.items() if one[0] in OF_SCRAPES)
        self._found[_node_of(labels)][step].add(_Word(at_s, frozenset(shown.items()), source))

    def let_go(self, nodes: Collection[str], step: int) -> None:
        """Lets go of what a step has of some nodes, of which all samples come instead."""
        self._close |= {(node, step) for node in nodes}
        for (node, _), steps in self._found.items():
            if node in nodes:
                steps.pop(step, None)

    def changed(self) -> dict[str, set[int]]:
        """In which steps the labels of nodes are others than before, or than after."""
        changed: dict[str, set[int]] = defaultdict(set)
        for (node, _), steps in self._found.items():
            shown = {step: {word.labels for word in many} for step, many in steps.items()}
            if len(shown) == 1:  # nobody knows whether it changed in it
                changed[node] |= {step for step, some in shown.items() if len(some) > 1}
            for before, after in pairwise(sorted(steps)):
                if shown[before] != shown[after] or after - before > 1:
                    changed[node] |= {before, after}
            # Another machine may have borne the name while nobody described it.
            changed[node] |= ({min(steps)} - {0}) | ({max(steps)} - {len(self._span.ends) - 1})
        return {node: steps for node, steps in changed.items() if steps}

    def samples(self) -> dict[tuple[str, Items], list[tuple[float, Items]]]:
        """All of them, by node and place."""
        return {
            (node, place): [
                sample
                for step, many in steps.items()
                for sample in _agreed(_in_turn(many) if (node, step) in self._close else many)
            ]
            for (node, place), steps in self._found.items()
        }


def _in_turn(words: Iterable[_Word]) -> Iterator[_Word]:
    """At each time all that is said then: sources speak at times of their own.

    What a source said holds for one and a half times its usual pause, before its first word too:
    it may be silent then. So two that contradict each other do so at all times, and not in turn.
    """
    by_source: dict[Items, dict[float, list[_Word]]] = defaultdict(lambda: defaultdict(list))
    for word in words:
        by_source[word.source][word.at_s].append(word)
    every = sorted({at_s for spoken in by_source.values() for at_s in spoken})
    for spoken in by_source.values():
        times = sorted(spoken)
        pauses_s = sorted(after - before for before, after in pairwise(times))
        lasts_s = 1.5 * pauses_s[len(pauses_s) // 2] if pauses_s else 0.0
        for at_s in every:
            place = max(bisect_right(times, at_s) - 1, 0)
            if abs(at_s - times[place]) <= lasts_s:
                yield from (word._replace(at_s=at_s) for word in spoken[times[place]])


def _agreed(words: Iterable[_Word]) -> Iterator[tuple[float, Items]]:
    """One set of labels for each time.

    One of several kube-state-metrics may be stuck. Nobody knows which is right, and "a and b" has
    no price. Who says nothing contradicts nobody.
    """
    said: dict[float, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for word in words:
        of_time = said[word.at_s]
        for name, value in word.labels:
            of_time[name].add(value)
    for at_s, values in said.items():
        yield at_s, frozenset((name, " and ".join(sorted(some))) for name, some in values.items())


def _node_of(labels: Labels) -> tuple[str, Items]:
    """The node that a series is of, and the labels that name its cluster."""
    place = frozenset(
        (name, value)
        for name, value in labels.items()
        if not name.startswith(_PREFIX) and name not in OF_SCRAPES and name != "exported_node"
    )
    return labels.get("exported_node", labels.get("node", "")), place


def sanitized(label: str) -> str:
    """A label of a node as Prometheus writes it."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in label)
