"""What a recording holds: the head, and for each cycle what every source said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.ledger import Moment
from exporter.model import (
    CgroupIdentity,
    GroupFacts,
    GroupKey,
    NodeFacts,
    PodTable,
    Reading,
    SchemeDescription,
    SourceStatus,
    Unattributed,
)

FORMAT = 1


class Failure(NamedTuple):
    """A source raised this. ``restart``: it said that only a new process can help."""

    message: str
    restart: bool = False


Identities = Mapping[int, CgroupIdentity | Unattributed | None]


@dataclass(frozen=True, slots=True)
class Head:
    """The first line, with the names of the sources of each kind.

    ``nodes`` None: made before there were several sources of facts about the node.
    ``settings`` holds, by their names, the values that shape the result; none that names anything.
    ``schemes``, ``index_bases`` and ``hami`` are what the user said of sharing systems.
    """

    mgpu_recording: int
    version: str
    python: str
    gpus: tuple[str, ...]
    processes: str
    pods: str
    settings: Mapping[str, bool | int | str | tuple[str, ...]] = field(default_factory=dict)
    disguised: bool = False
    nodes: tuple[str, ...] | None = None
    schemes: tuple[SchemeDescription, ...] = ()
    index_bases: Mapping[str, str] = field(default_factory=dict)
    hami: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """What one source says that groups are called."""

    facts: Mapping[GroupKey, GroupFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupKinds:
    """The kinds of groups that the node can have."""

    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What a source says of itself at the end of a cycle; None: not asked."""

    status: SourceStatus | Failure | None = None
    rejected: Mapping[str, int] | Failure | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """One further line.

    ``moments`` has the time at the cycle's beginning and after each GPU source was read.
    ``identities`` has the pids whose answer is another than when they were last asked for (None:
    no answer). ``pod_table`` None: as before, and so with each of ``told``, what the sources of
    facts about the node contributed; with ``called``, what each source of groups' names said, too,
    and with ``group_kinds``, those that the node can have.
    ``others`` is how further sources fare. ``page`` is the digest
    of the page that was made of it, "" if none was. ``node`` stands in files that were made before
    there were several of them.
    """

    moments: tuple[Moment, ...]
    gpus: tuple[Reading | Failure, ...] = ()
    identities: Identities | Failure = field(default_factory=dict)
    pod_table: PodTable | Failure | None = None
    node: NodeFacts | Failure | None = None
    processes: Said = field(default_factory=Said)
    pods: Said = field(default_factory=Said)
    others: tuple[SourceStatus, ...] = ()
    page: str = ""
    told: tuple[NodeFacts | Failure | None, ...] = ()
    nodes: tuple[Said, ...] = ()
    called: tuple[Called | Failure | None, ...] = ()
    groups: tuple[Said, ...] = ()
    group_kinds: GroupKinds | Failure | None = None
