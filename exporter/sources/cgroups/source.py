"""The interface of process sources."""

from collections.abc import Collection, Mapping
from typing import Protocol

from exporter.model import CgroupIdentity, ProcessInfo, SourceStatus, Unattributed


class ProcessSource(Protocol):
    """Returns the container that a process belongs to."""

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        ...

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """Identity of each pid, or the reason why there is none (EXITED, UNKNOWN_CGROUP).

        Cheap for pids seen before. A process that ended keeps its identity for a while, because
        the driver's sample ring still reports it. Never raises.
        """
        ...

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Name and start of those among the resolved processes of which they are known."""
        ...

    def group_kinds(self) -> frozenset[str]:
        """The kinds of groups (labels ``kind``) that this node can have. Never fewer than before.

        Cheap: asked in each cycle. A kind of which there is no sign yet may be missing.
        """
        ...

    def status(self) -> SourceStatus:
        """Whether identities can be found; the detail says what is missing (hostPID, mounts)."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Directories and lines that could not be used since the start, by reason."""
        ...

    def close(self) -> None:
        """Close the descriptors held."""
        ...
