"""The devices as they were some seconds ago, for marks that compare two moments."""

from dataclasses import replace

from exporter.facts.marks import Earlier
from exporter.terminal.feeds.feed import FeedResult, NodeSight

LONG_AGO_NS = 15 * 10**9  # longer than from one read of a board's sensors to the next


class Recollection:
    """Keeps devices that were read ``LONG_AGO_NS`` to twice as long before."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, dict[str, Earlier], dict[str, Earlier]]] = {}

    def add_to(self, result: FeedResult) -> FeedResult:
        """The same with ``earlier`` devices."""
        return result._replace(nodes=[self._with_earlier(node) for node in result.nodes])

    def _with_earlier(self, node: NodeSight) -> NodeSight:
        now = {d.uuid: Earlier(d.facts, node.unix_ns) for d in node.tree.devices if d.facts}
        kept_ns, before, kept = self._kept.get(node.name, (node.unix_ns, {}, now))
        if node.unix_ns - kept_ns >= LONG_AGO_NS:
            kept_ns, before, kept = node.unix_ns, kept, now
        self._kept[node.name] = kept_ns, before, kept
        return replace(node, earlier=before)
