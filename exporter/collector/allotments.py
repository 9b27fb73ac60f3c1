"""What this node's pods were allotted, decoded again only when pods or devices changed."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from exporter.allocations.registry import decode
from exporter.allocations.scheme import Problem, Reason
from exporter.attribution import Member, member_of, place
from exporter.ledger import Allotted
from exporter.model import (
    Allocation,
    CgroupIdentity,
    ContainerKey,
    DeviceReading,
    NodeFacts,
    Pod,
    PodTable,
    Unattributed,
)

logger = logging.getLogger(__name__)


class Allotments:
    """The allocations of all pods, with the placements that were observed.

    A container whose sharing system does not tell its device is placed where its processes were
    seen; that stays until the pod goes, so that a pause in its work does not displace it.
    """

    def __init__(self) -> None:
        self.problems: Counter[str] = Counter()
        self._version = -1
        self._node = NodeFacts()
        self._instances: dict[str, float] = {}  # shares of a GPU, by UUID
        self._decoded: dict[str, tuple[Allocation, ...]] = {}
        self._seen: dict[Member, list[str]] = {}  # device UUIDs
        self._told: set[tuple[str, str, str]] = set()
        self._said_node_unknown = False

    def of(
        self, table: PodTable, node: NodeFacts, seen: Mapping[Member, Sequence[str]]
    ) -> list[Allotted]:
        """Every allocation on this node, under its container's labels.

        ``seen``: the devices on which a container has a process now, by UUID.
        """
        if table.version != self._version or node != self._node:
            self._decode(table, node)
            self._version, self._node = table.version, node
            self._instances = {d.uuid: d.core_share for d in node.devices if d.parent_uuid}
        self._observe(seen)
        allotted: list[Allotted] = []
        for uid, allocations in self._decoded.items():
            pod = table.pods[uid]
            on = {a.container: self._seen.get(Member(uid, a.container), []) for a in allocations}
            allotted += (
                Allotted(
                    ContainerKey(pod.namespace, pod.name, a.container),
                    limited(a, self._instances),
                )
                for a in place(allocations, on)
            )
        return allotted

    def _decode(self, table: PodTable, node: NodeFacts) -> None:
        self._decoded = {}
        node = replace(node, pods=table.pods)
        for uid, pod in table.pods.items():
            found = decode(pod, node)
            if found.allocations:
                self._decoded[uid] = found.allocations
            for problem in found.problems:
                self._tell(pod, problem)
        self._told = {told for told in self._told if told[0] in table.pods}

    def _tell(self, pod: Pod, problem: Problem) -> None:
        _, scheme, reason, detail = problem
        if (pod.uid, scheme, reason) in self._told:
            return
        self._told.add((pod.uid, scheme, reason))
        self.problems[reason] += 1
        if reason is Reason.NODE_UNKNOWN:
            self._say_node_unknown(scheme)
            return
        logger.warning(
            "pod %s/%s: its %s allotment cannot be read (%s: %s); its limits are not exported",
            pod.namespace,
            pod.name,
            scheme,
            reason,
            detail,
        )

    def _say_node_unknown(self, scheme: str) -> None:
        if not self._said_node_unknown:
            self._said_node_unknown = True
            logger.warning(
                "limits of %s's allotments are not exported: nothing is known of the node, whose "
                "devices may be shared; let the exporter 'get' its own 'nodes' object",
                scheme,
            )

    def _observe(self, seen: Mapping[Member, Sequence[str]]) -> None:
        """Remember where the containers were seen whose device is not told."""
        for uid, allocations in self._decoded.items():
            for member in {Member(uid, a.container) for a in allocations if a.device is None}:
                known = self._seen.setdefault(member, [])
                known += (uuid for uuid in seen.get(member, ()) if uuid not in known)
        for member in [m for m in self._seen if m.pod_uid not in self._decoded]:
            del self._seen[member]


def limited(allocation: Allocation, instances: Mapping[str, float]) -> Allocation:
    """A whole MIG instance promises its share of the GPU, if nothing else says; a replica does not.

    ``instances``: the shares by UUID.
    """
    share = instances.get(allocation.device or "")
    if share is None or allocation.core is not None or allocation.replicas is not None:
        return allocation
    return replace(allocation, core=share)


def pods_by_name(table: PodTable) -> dict[tuple[str, str], Pod]:
    """Pods by namespace and name; of two with one name, the one that lives."""
    pods: dict[tuple[str, str], Pod] = {}
    for pod in table.pods.values():
        before = pods.get((pod.namespace, pod.name))
        if before is None or before.deleted or before.terminal:
            pods[pod.namespace, pod.name] = pod
    return pods


def seen_on(
    devices: Iterable[DeviceReading],
    identities: Mapping[int, CgroupIdentity | Unattributed],
    table: PodTable,
) -> dict[Member, list[str]]:
    """The devices on which each container of a pod has a process now."""
    seen: dict[Member, list[str]] = {}
    for device in devices:
        for pid in pids_of(device):
            identity = identities.get(pid)
            member = member_of(identity, table) if isinstance(identity, CgroupIdentity) else None
            if member is not None and device.device.uuid not in seen.setdefault(member, []):
                seen[member].append(device.device.uuid)
    return seen


def pids_of(device: DeviceReading) -> set[int]:
    """All processes that a reading is about."""
    pids = {p.pid for p in device.window.processes} if device.window else set()
    if device.memory is not None:
        pids.update(p.pid for p in device.memory.processes or ())
    return pids
