"""What was said so far in the cycle that is being recorded."""

from collections.abc import Collection, Mapping

from exporter.ledger import Moment
from exporter.model import (
    CgroupIdentity,
    NodeFacts,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
)
from exporter.recording.cycle import Called, Failure, GroupKinds, Identities, Said


class Draft:
    """What was said so far in one cycle, with so many sources of facts about node and groups."""

    def __init__(self, nodes: int, groups: int = 0) -> None:
        self.moments: list[Moment] = []
        self.gpus: list[Reading | Failure] = []
        self.identities: dict[int, CgroupIdentity | Unattributed | None] = {}
        self.changed: Identities | Failure = {}
        self.pod_table: PodTable | Failure | None = None
        self.told: list[NodeFacts | Failure | None] = [None] * nodes
        self.group_kinds: GroupKinds | Failure | None = None
        self.processes = Report()
        self.pods = Report()
        self.nodes = [Report() for _ in range(nodes)]
        self.called: list[Called | Failure | None] = [None] * groups
        self.groups = [Report() for _ in range(groups)]
        self.others: tuple[SourceStatus, ...] = ()

    def next(self) -> "Draft":
        """Make that of the cycle after: what was known stays known until something else is said."""
        after = Draft(len(self.told), len(self.called))
        after.identities = self.identities
        after.pod_table = self.pod_table
        after.group_kinds = self.group_kinds
        after.told = list(self.told)
        after.called = list(self.called)
        return after

    def identify(
        self,
        pids: Collection[int],
        found: Mapping[int, CgroupIdentity | Unattributed] | Failure,
    ) -> None:
        """Note who these are, and which of them were not known or somebody else before."""
        if isinstance(found, Failure):
            self.changed = found
            return
        before, self.identities = self.identities, {pid: found.get(pid) for pid in pids}
        self.changed = {
            pid: one
            for pid, one in self.identities.items()
            if pid not in before or before[pid] != one
        }


class Report:
    """What a source says of itself."""

    def __init__(self) -> None:
        self.status: SourceStatus | Failure | None = None
        self.rejected: Mapping[str, int] | Failure | None = None

    def said(self) -> Said:
        """As it is kept."""
        return Said(self.status, self.rejected)
