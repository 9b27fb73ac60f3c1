"""What a page shows of a node: its tree and history, and the facts around them. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field

from exporter import __version__
from exporter.agent.api import About, restricted_past
from exporter.model import DeviceFacts, DeviceState, History, Snapshot, SourceStatus
from exporter.shown.kinds import is_off_kubernetes
from exporter.shown.processtree import tree_of_snapshot
from exporter.shown.tree import DeviceEntry, Tree, visible_to


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """One node at the time of a Snapshot. A stale one has no tree.

    ``name`` is "" if it is not known. ``number`` is that of the cycle, 0 before the first.
    ``namespaces``: those that the reader may see; None if that is everything, and then ``sources``
    have details.
    """

    name: str = ""
    version: str = __version__
    simulated: bool = False
    number: int = 0
    unix_ns: int = 0
    window_ns: int = 0
    is_stale: bool = False
    sources: tuple[SourceStatus, ...] = ()
    namespaces: tuple[str, ...] | None = None
    tree: Tree = field(default_factory=Tree)
    history: History = field(default_factory=History)

    @property
    def is_off_kubernetes(self) -> bool:
        """Whether nothing looks for pods, or it has groups only."""
        devices = self.tree.devices
        return is_off_kubernetes(
            {source.name for source in self.sources},
            has_pods=bool(self.tree.nowhere) or any(device.pods for device in devices),
            has_groups=any(device.groups for device in devices),
        )

    @property
    def devices(self) -> list[tuple[DeviceFacts, DeviceEntry]]:
        """The devices of which anything is known."""
        return [(entry.facts, entry) for entry in self.tree.devices if entry.facts is not None]

    @property
    def unread(self) -> list[DeviceFacts]:
        """The devices that cannot be read."""
        return [facts for facts, _ in self.devices if not facts.is_up]

    @property
    def is_alarming(self) -> bool:
        """Whether the tab's title shows that something is wrong. A release on request is not."""
        states = {device.state for device in self.unread}
        return self.is_stale or bool(states - {DeviceState.RELEASED})


def node_of(
    snapshot: Snapshot, about: About, age_ns: int, namespaces: Collection[str] | None = None
) -> ShownNode:
    """The node of a Snapshot, for somebody who may see these namespaces; None: all of it."""
    is_stale = age_ns > snapshot.stale_after_ns
    tree = Tree() if is_stale else tree_of_snapshot(snapshot)
    past, sources = snapshot.history, snapshot.sources
    if namespaces is not None:
        tree, past = visible_to(tree, namespaces), restricted_past(past, namespaces)
        # details may name servers, paths and pods
        sources = tuple(source._replace(detail="", reason=None) for source in sources)
    return ShownNode(
        name=about.node,
        simulated=snapshot.simulated,
        number=snapshot.version,
        unix_ns=snapshot.unix_ns,
        window_ns=about.window_ns,
        is_stale=is_stale,
        sources=sources,
        namespaces=None if namespaces is None else tuple(sorted(namespaces)),
        tree=tree,
        history=past,
    )
