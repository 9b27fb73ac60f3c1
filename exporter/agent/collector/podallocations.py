"""The allocations of this node's pods: as decoded, within bounds, and where they were seen."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from exporter.agent.allocations.devicenames import with_labelled_memory
from exporter.agent.allocations.kept import kept
from exporter.agent.allocations.registry import may_have_any, vendor_of
from exporter.agent.allocations.replicas import LastOffers, sharing_replicas
from exporter.agent.allocations.room import MAX_OF_NODE, MAX_OF_POD, has_too_many, left_out
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.terms import MPS, SHARED, DecodeProblem, Reason
from exporter.agent.allocations.ties import has_ended
from exporter.agent.attribution.join import place
from exporter.agent.attribution.ownership import Member
from exporter.agent.collector.decoding import Decoding, Decodings
from exporter.agent.ledger import Allocated
from exporter.model import (
    MIG,
    PARTITIONED,
    Allocation,
    Clock,
    ContainerKey,
    Device,
    NodeFacts,
    Pod,
    PodName,
    PodTable,
    Unmeasured,
)

logger = logging.getLogger(__name__)

SeenOn = Callable[[], Mapping[Member, Sequence[str]]]
"""The devices on which each container of a pod has a process now, by UUID."""

LONGEST_SEARCH_NS = 60 * 10**9
NOT_EXPORTED = "its limits are not exported"
MAX_LINES = 5  # in the log for one reason in one namespace: who makes many pods fills no disk

# What follows from an annotation that is not accepted, and what to do.
OUTCOMES = {
    Reason.NOT_REQUESTED: "the annotation is ignored; find out who wrote it, or state the resource "
    "names if they are configured (--allocations.hami)",
    Reason.LIMITS_DIFFER: "the limits' amounts are used; find out who changed the annotation, or "
    "state the unit of memory if it is configured (--allocations.hami)",
    Reason.GRANT_DIFFERS: "its use is counted where it is seen; its limit stays where the "
    "annotation has it",
    Reason.UNPROVEN: "the annotation is ignored; find out who wrote it, or whether its sharing "
    "system runs on this node and the exporter may read the node",
    Reason.TOO_MANY_ALLOCATIONS: f"of a pod at most {MAX_OF_POD} are exported, of a node "
    f"{MAX_OF_NODE}, in equal parts for its namespaces; find out who asks for so many",
}


def by_name(table: PodTable) -> Mapping[PodName, Pod]:
    """The pods of a table by namespace and name; of two with one name, the one that lives."""
    ended_first = sorted(table.pods.values(), key=lambda pod: not (pod.deleted or pod.terminal))
    return {(pod.namespace, pod.name): pod for pod in ended_first}


class Allocations:
    """The allocations of all pods, with the placements that were observed.

    If a container's sharing system does not name its device, it is placed where its processes were
    seen. That stays until the pod goes, so that a pause in its work does not displace it. A board
    that is divided is no such place, and neither is a device that is gone.

    ``awaited`` are the pods, by uid, with an allocation of a device that is not known (yet).
    ``undecoded`` are those whose allocations are not known at all, with the reason: a pod that
    takes long to decode, or has too many.

    ``rules`` may be replaced at any time: the next call decodes all pods by them. ``version`` rises
    with each change of what ``of`` returns.

    ``ended`` are the last allocations of pods that have ended. They count for nothing. They are
    shown beside what the last list of processes, some seconds old, still gives to such a pod. Once
    another pod has its name, its series are that pod's.
    """

    def __init__(self, rules: Rules, clock: Clock = time) -> None:
        self.rules = rules
        self.version = 0
        self.ended: Sequence[Allocated] = ()
        self.awaited: Collection[str] = ()
        self.undecoded: Mapping[PodName, Unmeasured] = {}
        self.problems: Counter[str] = Counter()
        self.replicas: Mapping[str, int] = {}  # of each device that is divided into some, by UUID
        self.pods_by_name: Mapping[PodName, Pod] = {}
        self._decoding, self._offers = Decoding(clock), LastOffers()
        self._asked_of: tuple[int, NodeFacts, Rules] | None = None  # the version of the pods
        self._taken = 0  # the version of what was decoded
        self._devices: dict[str, Device] = {}  # by UUID
        self._divided: Collection[str] = ()  # the boards of which only parts are allocated
        self._decoded: dict[str, tuple[Allocation, ...]] = {}
        self._ended: dict[str, tuple[Allocation, ...]] = {}  # of ended pods, as decoded last
        self._seen: dict[str, dict[str, list[str]]] = {}  # pod uid → container → device UUIDs
        self._suspected: dict[str, list[DecodeProblem]] = {}  # by uid, until seen to be right
        self._allocated: list[Allocated] | None = None  # None: to be placed again
        self._logged: set[tuple[str, str, str]] = set()
        self._lines: Counter[tuple[str, Reason]] = Counter()  # logged, by namespace
        self._logged_node_unknown = False
        self._sought_ns: dict[str, int] = {}  # since when a device is awaited, by pod

    def of(self, table: PodTable, node: NodeFacts, seen: SeenOn) -> list[Allocated]:
        """Every allocation on this node, under its container's labels.

        ``seen`` is called only while an allocation has no device.
        """
        of = table.version, node, self.rules
        if of != self._asked_of:
            self.pods_by_name = by_name(table)
            node = with_labelled_memory(replace(node, replicas=self._offers.replicas(node)))
            self.replicas = sharing_replicas(node)
            self._devices = {device.uuid: device for device in node.devices}
            in_parts = {d.uuid for d in node.devices if d.sharing in {MIG, PARTITIONED}}
            self._divided = in_parts | {d.parent_uuid for d in node.devices}
            self._take(self._decoding.ask(table, node, self.rules), table, node)
            self._asked_of = of
        elif self._decoding.newest.version != self._taken:
            # Some pods took longer to decode than a cycle waits, and are done now.
            self._take(self._decoding.newest, table, node)
        unplaced = {u for u, own in self._decoded.items() if any(map(_is_unplaced, own))}
        if unplaced or self._suspected:
            where = seen()
            self._observe(where, unplaced)
            self._settle(table, where)
        if self._allocated is None:
            self._allocated = self._placed(table)
            self.version += 1
        return self._allocated

    @property
    def is_current(self) -> bool:
        """Whether no pod has been decoded since the last call of ``of``."""
        return self._decoding.newest.version == self._taken

    def seeks(self, mono_ns: int) -> bool:
        """Whether to look for a device that is awaited: at once for a minute, then as for any."""
        self._sought_ns = {uid: self._sought_ns.get(uid, mono_ns) for uid in self.awaited}
        return any(mono_ns - since < LONGEST_SEARCH_NS for since in self._sought_ns.values())

    def _placed(self, table: PodTable) -> list[Allocated]:
        """All allocations, on the devices that they name or were seen on."""
        placed: list[Allocated] = []
        present = self._devices.keys() - self._divided
        for uid, allocations in self._decoded.items():
            seen = {
                container: [uuid for uuid in uuids if uuid in present]
                for container, uuids in self._seen.get(uid, {}).items()
            }
            placed += named(table.pods[uid], place(allocations, seen))
        # What a device promises to one of its allocations depends on how many it has. So all are
        # placed before any is sized.
        shared = Counter(allocation.device for _, allocation in placed)
        found = []
        for key, allocation in placed:
            sharers = shared[allocation.device]
            own = limited(allocation, self._devices.get(allocation.device or ""), sharers)
            own = own if own.device else self._among(own)
            gpus = kept(own, self._devices, self.replicas, sharers)
            # Drivers count time, and MPS limits threads: the two are not compared.
            core = None if own.policy == MPS else own.core
            found.append(Allocated(key, replace(own, gpus=gpus, core=core)))
        return found

    def _among(self, allocation: Allocation) -> Allocation:
        """The allocation of unknown place, with the devices that it may have: of its vendor's."""
        if allocation.among:
            return allocation
        vendor = vendor_of(allocation.scheme)
        own = [d for d in self._devices.values() if vendor in {None, d.vendor.lower()}]
        if allocation.among is None:
            among = tuple(d.uuid for d in own if d.uuid not in self._divided)
            return replace(allocation, among=among)
        # Its device is named and not known. So it is a part of a board in parts, or a card that is
        # gone. A whole card is no part of one.
        parted = [d.uuid for d in own if d.sharing in {MIG, PARTITIONED} and allocation.core != 1]
        return replace(allocation, among=tuple(parted))

    def beside(self) -> AbstractContextManager[None]:
        """While this is entered, no call of ``of`` waits for a pod that takes long to decode."""
        return self._decoding.beside()

    def _take(self, decodings: Decodings, table: PodTable, node: NodeFacts) -> None:
        """Takes over what is decoded. A pod that is decoded again has its last ones until then."""
        self._taken, self._suspected, self._allocated = decodings.version, {}, None
        living = {uid: pod for uid, pod in table.pods.items() if not has_ended(pod)}
        found = {uid: decodings.found[uid] for uid in living if uid in decodings.found}
        for uid, one in found.items():
            for problem in one.problems:
                # A problem that names devices is a suspicion: it counts once the container is seen
                # on them.
                if problem.devices:
                    self._suspected.setdefault(uid, []).append(problem)
                else:
                    self._log(living[uid], problem, is_read=bool(one.allocations))
        # A pod that is not decoded yet, or has too many allocations, is not one without any:
        # nothing is free because of it.
        pending = (u for u, pod in living.items() if u not in found and may_have_any(pod, node))
        unknown = dict.fromkeys(pending, Unmeasured.ALLOCATION_PENDING)
        for uid, one in found.items():
            if has_too_many(one):
                unknown[uid] = Unmeasured.ALLOCATION_OVER_LIMIT
        for uid, problem in left_out(found, living, self._decoded).items():
            self._log(living[uid], problem)
            unknown[uid] = Unmeasured.ALLOCATION_OVER_LIMIT
        self.undecoded = {(living[u].namespace, living[u].name): why for u, why in unknown.items()}
        last = {**self._ended, **self._decoded}
        self._decoded = {}
        in_mig_mode = {d.uuid for d in self._devices.values() if d.sharing == MIG}
        for uid, one in found.items():
            if uid not in unknown and one.allocations:
                # One of a board in MIG mode is of one of its instances; which is not known.
                self._decoded[uid] = tuple(
                    replace(a, device=None) if a.device in in_mig_mode else a
                    for a in one.allocations
                )
        # Once another pod has the name of one that has ended, its series are that pod's.
        newest = self.pods_by_name
        gone = {
            uid
            for uid, pod in table.pods.items()
            if has_ended(pod) and newest[pod.namespace, pod.name].uid == uid
        }
        self._ended = {uid: allocations for uid, allocations in last.items() if uid in gone}
        self.ended = [each for u, own in self._ended.items() for each in named(table.pods[u], own)]
        self.awaited = {u for u, own in self._decoded.items() if any(map(_is_awaited, own))}
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in self._decoded}
        self._logged = {problem for problem in self._logged if problem[0] in table.pods}

    def _log(self, pod: Pod, problem: DecodeProblem, *, is_read: bool = False) -> None:
        """Counts and logs a problem; ``is_read``: the pod has allocations all the same."""
        scheme, reason = problem.scheme, problem.reason
        if (pod.uid, scheme, reason) in self._logged:
            return
        self._logged.add((pod.uid, scheme, reason))
        self.problems[reason] += 1
        if reason is Reason.NODE_UNKNOWN:
            # This is the same for all pods, and one right fixes it: it is logged once.
            if not self._logged_node_unknown:
                self._logged_node_unknown = True
                logger.warning(
                    "limits of %s's allocations are not exported: nothing is known of the node, "
                    "whose devices may be shared; let the exporter 'get' its own 'nodes' object",
                    scheme,
                )
            return
        self._lines[pod.namespace, reason] += 1
        left = MAX_LINES - self._lines[pod.namespace, reason]
        if left >= 0:
            otherwise = "what else is read of it is exported" if is_read else NOT_EXPORTED
            outcome = OUTCOMES.get(reason, otherwise)
            logger.warning(
                "pod %s/%s: its %s allocation cannot be read (%s: %s); %s%s",
                *(pod.namespace, pod.name, scheme, reason, problem.detail, outcome),
                "" if left else "; more of this namespace are counted and not logged",
            )

    def _settle(self, table: PodTable, seen: Mapping[Member, Sequence[str]]) -> None:
        """Counts what is seen to be right."""
        left: dict[str, list[DecodeProblem]] = {}
        for uid, suspected in self._suspected.items():
            for doubt in suspected:
                where = set(seen.get(Member(uid, doubt.container), ()))
                if where and where <= set(doubt.devices):
                    self._log(table.pods[uid], doubt)
                else:
                    left.setdefault(uid, []).append(doubt)
        self._suspected = left

    def _observe(self, seen: Mapping[Member, Sequence[str]], unplaced: Collection[str]) -> None:
        """Records where containers were seen whose device is not named."""
        for (uid, container), uuids in seen.items():
            if uid in unplaced and any(
                _is_unplaced(a) and a.container in {container, ""} for a in self._decoded[uid]
            ):
                known = self._seen.setdefault(uid, {}).setdefault(container, [])
                if news := [uuid for uuid in uuids if uuid not in known]:
                    known += news
                    self._allocated = None


def _is_unplaced(allocation: Allocation) -> bool:
    """Whether its device is to be seen."""
    return allocation.device is None and not _is_awaited(allocation)


def _is_awaited(allocation: Allocation) -> bool:
    """Whether it is of a device that is not known, whatever is seen."""
    return allocation.device is None and allocation.among == ()


def named(pod: Pod, allocations: Iterable[Allocation]) -> Iterator[Allocated]:
    """The allocations of a pod, under its containers' labels."""
    for each in allocations:
        yield Allocated(ContainerKey(pod.namespace, pod.name, each.container), each)


def limited(allocation: Allocation, device: Device | None, sharers: int) -> Allocation:
    """The allocation with what a whole device promises by itself; a part of it promises nothing.

    A whole card is all its memory. A MIG instance is its memory and its share of the GPU, if it is
    one container's alone, whatever the container asked for. ``sharers``: how many allocations are
    of this device.
    """
    part = allocation.replicas is not None or allocation.policy == SHARED
    if device is None or part:
        return allocation
    core, memory = allocation.core, allocation.memory_bytes
    if device.parent_uuid and sharers == 1:
        memory = device.memory_bytes or memory
        return replace(allocation, core=device.core_share, memory_bytes=memory)
    if core == 1 and memory is None:
        return replace(allocation, memory_bytes=device.memory_bytes)
    return allocation
