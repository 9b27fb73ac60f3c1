"""Finds the pods whose processes run in a container that no status names, for the next cycle."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from exporter.agent.attribution.ownership import NO_SANDBOXES, Sandboxes
from exporter.agent.collector.owners import ProcessOwners
from exporter.agent.ledger import Allocated

SANDBOX_NS = 60 * 10**9  # after so long an id that is in no status does not come into one


class SandboxWatch:
    """Finds pods in sandboxes, by how long their processes have been in an unnamed container."""

    def __init__(self) -> None:
        self.now = NO_SANDBOXES
        self._since_ns: Mapping[str, int] = {}  # by pod
        self._version = 0  # of the allocations

    def follow(
        self, found: ProcessOwners, allocated: Iterable[Allocated], version: int, mono_ns: int
    ) -> Sandboxes:
        """What this cycle found. It holds for the next one: allocations come after the owners."""
        self._since_ns = {uid: self._since_ns.get(uid, mono_ns) for uid in found.unnamed}
        of = self.now.allocated
        if version != self._version:
            of, self._version = _only_containers(allocated), version
        long = (uid for uid, since in self._since_ns.items() if mono_ns - since >= SANDBOX_NS)
        self.now = Sandboxes(of, frozenset(long))
        return self.now


def _only_containers(allocated: Iterable[Allocated]) -> Mapping[str, str]:
    """The only container with an allocation of each pod that has one such."""
    containers: dict[str, set[str]] = defaultdict(set)
    for key, allocation in allocated:
        containers[allocation.pod_uid].add(key.container)
    return {uid: next(iter(c)) for uid, c in containers.items() if len(c) == 1 and all(c)}
