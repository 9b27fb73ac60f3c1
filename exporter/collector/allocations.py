"""The allocations of this node's pods, decoded again only when pods or devices change."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from exporter.allocations.devices import sharing_replicas
from exporter.allocations.kept import kept
from exporter.allocations.rules import Rules
from exporter.allocations.scheme import SHARED, DecodeProblem, Reason
from exporter.attribution.join import place
from exporter.attribution.ownership import Member
from exporter.ledger import Allocated
from exporter.model import (
    MIG,
    Allocation,
    ContainerKey,
    Device,
    NodeFacts,
    Pod,
    PodTable,
    other_pods,
)


class PodsByName(Mapping[tuple[str, str], Pod]):
    """The pods of a table by namespace and name; of two with one name, the one that lives.

    Built on first use. Thread-safe.
    """

    def __init__(self, table: PodTable) -> None:
        self._table = table

    def __getitem__(self, name: tuple[str, str]) -> Pod:
        """The pod of this namespace and name; KeyError if there is none."""
        return self._pods[name]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The names."""
        return iter(self._pods)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._pods)

    @cached_property
    def _pods(self) -> dict[tuple[str, str], Pod]:
        every = self._table.pods.values()
        pods = {(pod.namespace, pod.name): pod for pod in every}
        if len(pods) == len(every):
            return pods
        pods.clear()
        for pod in every:
            before = pods.get((pod.namespace, pod.name))
            if before is None or before.deleted or before.terminal:
                pods[pod.namespace, pod.name] = pod
        return pods


logger = logging.getLogger(__name__)

# What follows from an annotation that is not accepted, and what to do.
_OUTCOMES = {
    Reason.NOT_REQUESTED: "the annotation is ignored; find out who wrote it, or state the resource "
    "names if they are configured (--allocations.hami)",
    Reason.LIMITS_DIFFER: "the limits' amounts are used; find out who changed the annotation, or "
    "state the unit of memory if it is configured (--allocations.hami)",
    Reason.GRANT_DIFFERS: "its use is counted where it is seen; its limit stays where the "
    "annotation has it",
    Reason.UNPROVEN: "the annotation is ignored; find out who wrote it, or whether its sharing "
    "system runs on this node and the exporter may read the node",
}


class Allocations:
    """The allocations of all pods, with the placements that were observed.

    If a container's sharing system does not name its device, it is placed where its processes were
    seen. That stays until the pod goes, so that a pause in its work does not displace it.

    ``rules`` may be replaced at any time: the next call decodes all pods by them.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.problems: Counter[str] = Counter()
        self.replicas: Mapping[str, int] = {}  # of each device that is divided into some, by UUID
        self.pods_by_name = PodsByName(PodTable())
        self._decoded_by: Rules | None = None
        self._version = -1
        self._node = self._facts = NodeFacts()  # from the sources; and as decoders got it
        self._pods: Mapping[str, Pod] = {}  # that are decoded
        self._devices: dict[str, Device] = {}  # by UUID
        self._decoded: dict[str, tuple[Allocation, ...]] = {}
        self._seen: dict[str, dict[str, list[str]]] = {}  # pod uid → container → device UUIDs
        self._suspected: dict[
            str, list[DecodeProblem]
        ] = {}  # by uid, until they are seen to be right
        self._unplaced: frozenset[str] = frozenset()  # uids of pods whose devices are not named
        self._allocated: list[Allocated] | None = None  # None: to be built again
        self._logged: set[tuple[str, str, str]] = set()
        self._logged_node_unknown = False

    def of(
        self, table: PodTable, node: NodeFacts, seen: Callable[[], Mapping[Member, Sequence[str]]]
    ) -> list[Allocated]:
        """Every allocation on this node, under its container's labels.

        It is the same list as the last time if nothing has changed. ``seen`` returns the devices on
        which a container has a process now, by UUID. It is called only while an allocation has no
        device.
        """
        rules = self.rules
        if table.pods is not self._pods:
            self.pods_by_name = PodsByName(table)
        as_before = rules is self._decoded_by and table.version == self._version
        if node is not self._node and node != self._node:
            as_before = False
            replicas = sharing_replicas(node)
            if node.devices != self._node.devices or replicas != self.replicas:
                self._allocated = None
            self._devices = {d.uuid: d for d in node.devices}
            self.replicas = replicas
        if not as_before:
            self._decode(table, node, rules)
            self._version, self._node, self._decoded_by = table.version, node, rules
        if self._unplaced or self._suspected:
            where = seen()
            self._observe(where)
            self._settle(table, where)
        if self._allocated is None:
            self._allocated = self._placed(table)
        return self._allocated

    def _placed(self, table: PodTable) -> list[Allocated]:
        placed: list[Allocated] = []
        for uid, allocations in self._decoded.items():
            pod, on = table.pods[uid], self._seen.get(uid, {})
            placed += (
                Allocated(ContainerKey(pod.namespace, pod.name, a.container), a)
                for a in place(allocations, on)
            )
        shared = Counter(allocation.device for _, allocation in placed)
        found = [
            Allocated(key, limited(a, self._devices.get(a.device or ""), shared[a.device]))
            for key, a in placed
        ]
        return [
            Allocated(key, replace(a, gpus=kept(a, self._devices, self.replicas, shared[a.device])))
            for key, a in found
        ]

    def _decode(self, table: PodTable, node: NodeFacts, rules: Rules) -> None:
        """Decodes the pods that changed; all of them where the facts or the rules did."""
        pods, known = table.pods, self._pods if rules is self._decoded_by else {}
        changed = {  # most news of pods is about something else
            uid: plain(pods[uid])
            for uid in other_pods(pods, known)
            if uid not in known or plain(known[uid]) != plain(pods[uid])
        }
        related = rules.neighbours(changed).keys() | (self._facts.pods.keys() - changed.keys())
        neighbours = {u: plain(pods[u]) for u in pods if u in related} if related else {}
        facts = self._facts
        if node is not self._node or rules is not self._decoded_by or neighbours != facts.pods:
            facts = replace(node, pods=neighbours, index_bases=rules.index_bases)
        if facts != self._facts:
            changed = {uid: plain(pod) for uid, pod in pods.items()}
        found = {uid: self._decode_pod(pod, facts, rules) for uid, pod in changed.items()}
        before = self._decoded
        news = any(before.get(uid, ()) != allocations for uid, allocations in found.items())
        if news or before.keys() - pods.keys():
            decoded = {uid: found[uid] if uid in found else before.get(uid, ()) for uid in pods}
            self._take({uid: allocations for uid, allocations in decoded.items() if allocations})
        self._facts, self._pods = facts, pods
        self._logged = {problem for problem in self._logged if problem[0] in pods}

    def _take(self, decoded: dict[str, tuple[Allocation, ...]]) -> None:
        self._decoded, self._allocated = decoded, None
        self._unplaced = frozenset(
            uid for uid, of_pod in decoded.items() if any(a.device is None for a in of_pod)
        )
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in decoded}

    def _decode_pod(self, pod: Pod, facts: NodeFacts, rules: Rules) -> tuple[Allocation, ...]:
        found = rules.decode(pod, facts)
        suspected = [problem for problem in found.problems if problem.devices]
        self._suspected.pop(pod.uid, None)
        if suspected:
            self._suspected[pod.uid] = suspected
        for problem in found.problems:
            if not problem.devices:
                self._log(pod, problem)
        return tuple(map(self._off_board, found.allocations))

    def _off_board(self, allocation: Allocation) -> Allocation:
        """An allocation of a board in MIG mode is of one of its instances; which is not known."""
        device = self._devices.get(allocation.device or "")
        in_mig_mode = device is not None and device.sharing == MIG
        return replace(allocation, device=None) if in_mig_mode else allocation

    def _log(self, pod: Pod, problem: DecodeProblem) -> None:
        _, scheme, reason, detail, *_ = problem
        if (pod.uid, scheme, reason) in self._logged:
            return
        self._logged.add((pod.uid, scheme, reason))
        self.problems[reason] += 1
        if reason is Reason.NODE_UNKNOWN:
            self._log_node_unknown(scheme)
            return
        outcome = _OUTCOMES.get(reason, "its limits are not exported")
        logger.warning(
            "pod %s/%s: its %s allocation cannot be read (%s: %s); %s",
            pod.namespace,
            pod.name,
            scheme,
            reason,
            detail,
            outcome,
        )

    def _log_node_unknown(self, scheme: str) -> None:
        if not self._logged_node_unknown:
            self._logged_node_unknown = True
            logger.warning(
                "limits of %s's allocations are not exported: nothing is known of the node, whose "
                "devices may be shared; let the exporter 'get' its own 'nodes' object",
                scheme,
            )

    def _settle(self, table: PodTable, seen: Mapping[Member, Sequence[str]]) -> None:
        """Counts what is seen to be right, and forgets those of pods that are gone."""
        left: dict[str, list[DecodeProblem]] = {}
        for uid, suspected in self._suspected.items():
            for doubt in suspected if uid in table.pods else ():
                where = set(seen.get(Member(uid, doubt.container), ()))
                if where and where <= set(doubt.devices):
                    self._log(table.pods[uid], doubt)
                else:
                    left.setdefault(uid, []).append(doubt)
        self._suspected = left

    def _observe(self, seen: Mapping[Member, Sequence[str]]) -> None:
        """Records where containers were seen whose device is not named."""
        for (uid, container), uuids in seen.items():
            if uid in self._unplaced and any(
                a.device is None and a.container in {container, ""} for a in self._decoded[uid]
            ):
                known = self._seen.setdefault(uid, {}).setdefault(container, [])
                news = [uuid for uuid in uuids if uuid not in known]
                if news:
                    known += news
                    self._allocated = None


def plain(pod: Pod) -> Pod:
    """The pod as decoders see it: without what changes while it runs."""
    containers = tuple(replace(container, container_ids=()) for container in pod.containers)
    phase = pod.phase if pod.terminal else ""
    return replace(pod, phase=phase, containers=containers, acknowledged=False)


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
