"""What is shown of the nodes that tests/agent/api makes, and of lines made by hand."""

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

from exporter.agent import api
from exporter.agent.api import About
from exporter.answers.reading.feeds import FeedResult, NodeSight, view_of
from exporter.answers.reading.feeds.nodedocument import node_of_document
from exporter.answers.reading.feeds.overview import Figure, Line, LineKind, Overview
from exporter.model import Snapshot

SECOND = 10**9


def document(
    snapshot: Snapshot, node: str = "node-1", shown: set[str] | None = None
) -> dict[str, Any]:
    """As a client reads it, who may see these namespaces only."""
    made: dict[str, Any] = json.loads(json.dumps(api.snapshot(snapshot, About(node), 0, shown)))
    return made


def history(snapshot: Snapshot) -> dict[str, Any]:
    """The last minutes, likewise."""
    made: dict[str, Any] = json.loads(json.dumps(api.history(snapshot, About(), 0)))
    return made


def node_of(made: dict[str, Any], past: dict[str, Any] | None = None) -> NodeSight:
    """The node of a document."""
    return node_of_document(made, past or {})


def sight(*snapshots: Snapshot) -> FeedResult:
    """Of one node or several."""
    names = (f"node-{number}" for number in range(1, len(snapshots) + 1))
    both = zip(snapshots, names, strict=True)
    return FeedResult([node_of(document(s, n), history(s)) for s, n in both])


def of_document(made: dict[str, Any], past: dict[str, Any] | None = None) -> FeedResult:
    """A document as a feed brings it."""
    return FeedResult([node_of(made, past)])


def lines_in(made: dict[str, Any], past: dict[str, Any] | None = None) -> tuple[Line, ...]:
    """The lines of a document."""
    return view_of(of_document(made, past), "test").lines


def view(*snapshots: Snapshot) -> Overview:
    """The same, as it is shown."""
    return view_of(sight(*snapshots), "test")


def everything(lines: tuple[Line, ...]) -> Iterator[Line]:
    """All lines, top to bottom."""
    for line in lines:
        yield line
        yield from everything(line.children)


def find(lines: tuple[Line, ...], name: str) -> Line:
    """The first line whose name holds this."""
    return next(line for line in everything(lines) if name in line.name)


def process(name: str, core: float | None, memory: float | None = None, pid: int = 1) -> Line:
    """A line without others below."""
    why = "" if core is not None else "mps"
    figure = Figure(core, None, why)
    return Line((name,), LineKind.PROCESS, name, figure, Figure(memory), pid=pid)


def is_harmless(text: str) -> bool:
    """Whether a terminal does nothing with it but show it."""
    return all(
        c == "\n" or (c.isprintable() and not unicodedata.category(c).startswith("M")) for c in text
    )
