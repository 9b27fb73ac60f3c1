"""The Protocol of all feeds, and the overview of a feed's result."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from exporter.api.kinds import is_without_pods
from exporter.terminal.lines import lines_of
from exporter.terminal.reading import Json, flag, inner, items, number, text
from exporter.terminal.view import Line, Overview, Totals


class FeedError(Exception):
    """Nothing can be read now. The text has the cause and advice, and no credential."""


class FeedResult(NamedTuple):
    """A document for each node, each with its history if there is one."""

    documents: Sequence[tuple[Json, Json | None]]
    troubles: tuple[str, ...] = ()


class Feed(Protocol):
    """A source of documents. Not thread-safe, except ``close``."""

    @property
    def name(self) -> str:
        """The source's name for readers."""
        ...

    def read(self) -> FeedResult:
        """The newest documents. May take some seconds.

        Raises:
            FeedError: nothing can be read.

        """
        ...

    def close(self) -> None:
        """Releases everything. A read in progress ends soon."""
        ...


def view_of(sight: FeedResult, name: str) -> Overview:
    """All nodes in one view; their names are shown where there are several."""
    documents = sight.documents
    several = len(documents) > 1
    lines: list[Line] = []
    for document, history in documents:
        lines += lines_of(document, history, text(document, "node") if several else "")
    heads = [inner(document, "snapshot") for document, _ in documents]
    nodes = [text(document, "node") for document, _ in documents]
    return Overview(
        source=nodes[0] if len(nodes) == 1 and nodes[0] else name,
        unix_s=max((number(head, "timestamp_seconds") or 0.0 for head in heads), default=0.0),
        simulated=any(flag(document, "simulated") for document, _ in documents),
        troubles=(
            *sight.troubles,
            *(t for document, _ in documents for t in _troubles(document, several=several)),
        ),
        lines=tuple(lines),
        totals=totals(document for document, _ in documents),
        without_pods=bool(documents) and all(_without_pods(d) for d, _ in documents),
    )


def _without_pods(document: Json) -> bool:
    lists = {name: list(items(document, name)) for name in ("sources", "pods", "groups")}
    return is_without_pods(lists)


def totals(documents: Iterable[Json]) -> Totals:
    """The sums over the GPUs of all nodes. The partitions of a GPU count as one GPU."""
    made = Totals()
    for document in documents:
        devices = list(items(document, "devices"))
        measured = [one for one in devices if number(one, "utilization_ratio") is not None]
        whole = {text(inner(one, "info"), "parent_uuid") or text(one, "uuid") for one in measured}
        made = Totals(
            made.gpus + len(whole),
            made.lost + sum(not flag(one, "up") for one in devices),
            _plus(made.core, measured, "utilization_ratio"),
            _plus(made.memory, measured, "memory_used_bytes"),
            _plus(made.memory_total, measured, "memory_total_bytes"),
            _plus(made.watts, devices, "power_watts"),
            made.unattributed
            + sum(
                number(part, "core_utilization_ratio") or 0.0
                for one in measured
                for part in items(one, "unattributed")
            ),
        )
    return made


def _plus(before: float | None, devices: Iterable[Json], name: str) -> float | None:
    known = [value for one in devices if (value := number(one, name)) is not None]
    return (before or 0.0) + sum(known) if known else before


def _troubles(document: Json, *, several: bool) -> Sequence[str]:
    head, node = inner(document, "snapshot"), text(document, "node")
    found = []
    if flag(head, "stale"):
        age = number(head, "age_seconds") or 0.0
        found.append(f"nothing has been measured for {age:.0f} s: no stale figures are shown")
    for source in items(document, "sources"):
        if not flag(source, "up"):
            said = text(source, "detail") or text(source, "what_to_do") or "no reason is given"
            found.append(f"source {text(source, 'name')} is down: {said}")
    return [f"{node}: {trouble}" if several else trouble for trouble in found]
