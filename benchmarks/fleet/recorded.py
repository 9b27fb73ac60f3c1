"""Counts the series that the shipped rules record for a node, those of rare rules too.

Some of them look at a week and are asked once an hour.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.boards.__main__ import record, written
from benchmarks.fleet.nodes import TURN
from tests.store import Store


class Recorded(NamedTuple):
    """Series of a node, and their samples in a second."""

    series: float
    samples_per_s: float


def of_a_node(folder: Path, nodes: int = TURN) -> Recorded:
    """The average of some nodes, by default as many as have all kinds in their shares."""
    with Store(folder) as store:
        for number in range(nodes):
            store.write(written(number))
        return each(record(store), nodes)


def each(counts: Mapping[int, int], nodes: int) -> Recorded:
    """Of so many nodes' series, by the seconds between two samples."""
    samples_per_s = sum(count / every_s for every_s, count in counts.items())
    return Recorded(sum(counts.values()) / nodes, samples_per_s / nodes)
