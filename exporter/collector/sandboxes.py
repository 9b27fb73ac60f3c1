"""Finds the pods whose processes run in a container that no status names, for the next cycle."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from exporter.attribution.ownership import NO_SANDBOXES, Sandboxes
from exporter.collector.owners import ProcessOwners
from exporter.ledger import Allocated

SANDBOX_NS = 60 * 10**9  # after so long an id that is in no status does not come into one


class SandboxWatch:
    """Finds pods in sandboxes, by how long their processes have been in an unnamed container."""

    def __init__(self) -> None:
        self.now = NO_SANDBOXES
        self._since_ns: Mapping[str, int] = {}  # by pod

    def follow(
        self, found: ProcessOwners, allocated: Iterable[Allocated], mono_ns: int
    ) -> Sandboxes:
        """What this cycle found. It holds for the next one: allocations come after the owners."""
        self._since_ns = {uid: self._since_ns.get(uid, mono_ns) for uid in found.unnamed}
        containers: dict[str, set[str]] = defaultdict(set)
        for key, allocation in allocated:
            containers[allocation.pod_uid].add(key.container)
        self.now = Sandboxes(
            {uid: next(iter(own)) for uid, own in containers.items() if len(own) == 1 and all(own)},
            frozenset(u for u, since in self._since_ns.items() if mono_ns - since >= SANDBOX_NS),
        )
        return self.now
