"""The contents of a recording: the head, and for each cycle the answers of every source.

While a cycle is recorded or replayed, its clock stands still between the moments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.agent.ledger import Moment
from exporter.model import (
    CgroupIdentity,
    GroupFacts,
    GroupKey,
    NodeFacts,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
)

FORMAT = 2


class Failure(NamedTuple):
    """An error that a source raised. ``restart``: only a new process can help."""

    message: str
    restart: bool = False


Identities = Mapping[int, CgroupIdentity | Unattributed | None]


@dataclass(frozen=True, slots=True)
class Head:
    """The first line, with the names of the sources of each kind.

    ``settings`` holds the texts of the settings that affect the result, by name.
    """

    mgpu_recording: int
    version: str
    python: str
    gpus: tuple[str, ...]
    processes: str
    pods: str
    settings: Mapping[str, str] = field(default_factory=dict)
    disguised: bool = False
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """One source's answer about groups: the facts of each."""

    facts: Mapping[GroupKey, GroupFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupKinds:
    """The kinds of groups that the node can have."""

    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source's status and rejections at the end of a cycle; None if it was not asked."""

    status: SourceStatus | Failure | None = None
    rejected: Mapping[str, int] | Failure | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """The answers of one cycle: one further line.

    ``moments`` has the time at the cycle's beginning and after each GPU source was read.
    ``identities`` has the pids whose answer changed since they were last asked for (None: no
    answer). ``pod_table``, ``group_kinds`` and each entry of ``node_facts`` and ``group_facts`` are
    None if they did not change. ``node_facts`` has one entry per source of facts about the node,
    ``group_facts`` one per source of group names. ``others`` has the status of further sources.
    ``page`` is the digest of the page that was rendered, "" if there was none.
    """

    moments: tuple[Moment, ...]
    gpus: tuple[Reading | Failure, ...] = ()
    identities: Identities | Failure = field(default_factory=dict)
    pod_table: PodTable | Failure | None = None
    processes: SourceReport = field(default_factory=SourceReport)
    pods: SourceReport = field(default_factory=SourceReport)
    others: tuple[SourceStatus, ...] = ()
    page: str = ""
    node_facts: tuple[NodeFacts | Failure | None, ...] = ()
    nodes: tuple[SourceReport, ...] = ()
    group_facts: tuple[GroupAnswer | Failure | None, ...] = ()
    groups: tuple[SourceReport, ...] = ()
    group_kinds: GroupKinds | Failure | None = None


class StandingClock:
    """A ``Clock`` that stands still at ``now``."""

    def __init__(self, now: Moment) -> None:
        self.now = now

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self.now.mono_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self.now.unix_ns
