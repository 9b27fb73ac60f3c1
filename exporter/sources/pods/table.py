"""Keeps the pods of this node over time and builds a ``model.PodTable``. Pure.

A deleted pod stays for a grace period, marked, so that the last samples of its processes keep
their labels. Each change makes a new table; the old one never changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import filterfalse

from exporter.model import Pod, PodTable, other_pods

GRACE_NS = 60 * 10**9
MOST_DELETED = 500  # kept so long; beyond that the first to be deleted leave at once


_Whose = tuple[str, str]  # a pod's uid, and the name of its container


def indexed(pods: Mapping[str, Pod], version: int = 0) -> PodTable:
    """A table of ``pods`` (by API uid) with its indexes.

    A uid always wins over another pod's static hash, because that is an annotation, which everyone
    who may create a pod can write. Of several pods with one hash, a mirror pod has it, even a
    deleted one; else, as with a container's id, a living pod before a deleted one, then the lowest
    uid.
    """
    ordered = sorted(pods.values(), key=lambda pod: (pod.deleted, pod.uid), reverse=True)
    by_container_id = dict(claim for pod in ordered for claim in reversed(_container_ids(pod)))
    ordered.sort(key=lambda pod: pod.mirror)
    by_hash = {pod.static_hash: pod.uid for pod in ordered if pod.static_hash}
    by_kubelet_uid = by_hash | {uid: uid for uid in pods}
    return PodTable(version, dict(pods), by_kubelet_uid, by_container_id)


def _own_ids(pod: Pod) -> set[str]:
    return {pod.uid, pod.static_hash} - {""}


def _container_ids(pod: Pod) -> list[tuple[str, _Whose]]:
    return [
        (container_id, (pod.uid, container.name))
        for container in pod.containers
        for container_id in container.container_ids
    ]


class PodStore:
    """Keeps the pods, and when each deleted one leaves. Not thread-safe.

    A change costs time in proportion to the changed pod. A table, which is built when it is read,
    costs a copy of each index: some 0.05 ms for 1,000 pods.
    """

    def __init__(self, grace_ns: int = GRACE_NS) -> None:
        self._pods: dict[str, Pod] = {}
        self._living: dict[tuple[str, str], str] = {}  # uid by namespace and name
        self._by_kubelet_uid: dict[str, str] = {}
        self._by_container_id: dict[str, _Whose] = {}
        self._is_contested = False  # two pods claim one id: all pods are needed to decide
        self._table = PodTable()
        self._is_stale = False  # whether a pod changed since the table was built
        self._grace_ns = grace_ns
        self._leaves_at: dict[str, int] = {}  # uid of a deleted pod → monotonic ns

    @property
    def table(self) -> PodTable:
        """The newest table; the same object until a pod changes."""
        if self._is_stale:
            self._table = self._build(self._table.version + 1)
            self._is_stale = False
        return self._table

    def upsert(self, pod: Pod, now_ns: int) -> None:
        """Add a pod or replace its earlier state.

        Another pod with the same name is its predecessor (in a StatefulSet): names are unique, so
        that pod is gone even if its deletion was not seen.
        """
        other = self._living.get((pod.namespace, pod.name), pod.uid)
        if other != pod.uid:
            self.delete(self._pods[other], now_ns)
        self._leaves_at.pop(pod.uid, None)
        self._put(pod)

    def delete(self, pod: Pod, now_ns: int) -> None:
        """Mark a pod as deleted; ``pod`` is its last state."""
        self._put(pod if pod.deleted else replace(pod, deleted=True))
        self._leaves_at.setdefault(pod.uid, now_ns + self._grace_ns)
        if len(self._leaves_at) > MOST_DELETED:
            self._drop(next(iter(self._leaves_at)))

    def relist(self, listed: Iterable[Pod], now_ns: int) -> None:
        """Enter a complete list. A pod that is not in it, or is marked there, was deleted."""
        pods = {pod.uid: pod for pod in listed}
        missing = map(self._pods.__getitem__, filterfalse(pods.__contains__, self._pods))
        gone = [pod for pod in missing if not pod.deleted]
        news = [pods[uid] for uid in other_pods(pods, self._pods)]
        for pod in gone:
            self.delete(pod, now_ns)
        for pod in news:
            if pod.deleted:
                self.delete(pod, now_ns)
            else:
                self._leaves_at.pop(pod.uid, None)
                self._put(pod)

    def expire(self, now_ns: int) -> None:
        """Drop the deleted pods whose grace period is over."""
        for uid in [uid for uid, leaves_at in self._leaves_at.items() if leaves_at <= now_ns]:
            self._drop(uid)

    def _drop(self, uid: str) -> None:
        del self._leaves_at[uid]
        self._take_out(self._pods.pop(uid))
        self._is_stale = True

    def _put(self, pod: Pod) -> None:
        before = self._pods.get(pod.uid)
        if before is pod or before == pod:
            return
        if before is not None:
            self._take_out(before)
        self._pods[pod.uid] = pod
        self._enter(pod)
        self._is_stale = True

    # --- the indexes ---

    def _enter(self, pod: Pod) -> None:
        if not pod.deleted:
            self._living[pod.namespace, pod.name] = pod.uid
        for own in _own_ids(pod):
            if self._by_kubelet_uid.setdefault(own, pod.uid) != pod.uid:
                self._is_contested = True
        for container_id, whose in _container_ids(pod):
            if self._by_container_id.setdefault(container_id, whose) is not whose:
                self._is_contested = True

    def _take_out(self, pod: Pod) -> None:
        if self._living.get((pod.namespace, pod.name)) == pod.uid:
            del self._living[pod.namespace, pod.name]
        for own in _own_ids(pod):
            self._by_kubelet_uid.pop(own, None)
        for container_id, _ in _container_ids(pod):
            self._by_container_id.pop(container_id, None)

    def _build(self, version: int) -> PodTable:
        if self._is_contested:  # maybe not any more
            self._by_kubelet_uid, self._by_container_id, self._is_contested = {}, {}, False
            for pod in self._pods.values():
                self._enter(pod)
        if self._is_contested:
            return indexed(self._pods, version)
        indexes = self._by_kubelet_uid.copy(), self._by_container_id.copy()
        return PodTable(version, self._pods.copy(), *indexes)
