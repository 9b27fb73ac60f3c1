"""Keeps the pods of this node over time and builds a ``model.PodTable``. Pure.

A deleted pod stays for a grace period, marked, so that the last samples of its processes keep
their labels. Where another pod has its name the period is short: a process that lives on, as after
a deletion by force, is none of its successor's. Each change makes a new table; the old one never
changes.

How many pods are kept is bounded, of those that live, have ended and are deleted each: a tenant may
make as many as he likes. At a bound the namespace that has most loses one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count

from exporter.agent.fairness import Held
from exporter.agent.sources.pods.decode import ended
from exporter.model import Pod, PodName, PodTable

GRACE_NS = 60 * 10**9
REPLACED_NS = 5 * 10**9  # the same, of a pod whose name another one has
MAX_DELETED = 500  # kept so long; beyond that the first of the namespace with most leave at once
MAX_ENDED = 1_000  # that are not deleted; the kubelet bounds the pods that run, and not these
MAX_LIVING = 10_000
VERSIONS = count(1)  # of tables, whatever their source


def indexed(pods: Mapping[str, Pod], version: int = 0) -> PodTable:
    """A table of ``pods`` (by API uid) with its indexes.

    The kubelet writes a container's id. Of several pods with one id a living pod has it, then the
    lowest uid. A static pod's hash is an annotation, which everyone who may create a pod can write.
    A uid always wins over it, and if pods of several names claim one hash, none of them has it.
    """
    # The best one comes last: of several entries of one id, the last stays.
    ordered = sorted(pods.values(), key=lambda pod: (pod.deleted, pod.uid), reverse=True)
    by_container_id = {
        container_id: (pod.uid, container.name)
        for pod in ordered
        for container in reversed(pod.containers)
        for container_id in reversed(container.container_ids)
    }
    by_hash: dict[str, Pod | None] = {}
    for pod in ordered:
        other = by_hash.setdefault(pod.static_hash, pod)
        same = other is not None and (other.namespace, other.name) == (pod.namespace, pod.name)
        by_hash[pod.static_hash] = pod if same else None
    hashes = {own: pod.uid for own, pod in by_hash.items() if own and pod is not None}
    return PodTable(version, dict(pods), hashes | {uid: uid for uid in pods}, by_container_id)


class PodStore:
    """Keeps the pods, and when each deleted one leaves. Not thread-safe.

    ``cut`` is called with each pod that is not kept because its namespace has too many.
    """

    def __init__(
        self, grace_ns: int = GRACE_NS, cut: Callable[[Pod], None] = lambda _: None
    ) -> None:
        self._pods: dict[str, Pod] = {}
        self._named: dict[PodName, set[str]] = {}  # uids
        self._table = PodTable()
        self._is_stale = False  # whether a pod changed since the table was built
        self._grace_ns = grace_ns
        self._leaves_at: dict[str, int] = {}  # uid of a deleted pod → monotonic ns
        self._cut = cut
        # Of those that live the newest gives way: the oldest hold devices.
        self._living = Held[str](MAX_LIVING, newest=True)
        self._ended, self._deleted = Held[str](MAX_ENDED), Held[str](MAX_DELETED)

    @property
    def table(self) -> PodTable:
        """The newest table; its version rises when a pod changes."""
        if self._is_stale:
            self._table = indexed(self._pods, next(VERSIONS))
            self._is_stale = False
        return self._table

    def upsert(self, pod: Pod, now_ns: int) -> None:
        """Add a pod or replace its earlier state.

        Another pod with the same name is its predecessor (in a StatefulSet): names are unique, so
        that pod is gone even if its deletion was not seen.
        """
        named = [self._pods[uid] for uid in self._named.get((pod.namespace, pod.name), ())]
        for other in named:
            if other.uid != pod.uid and not other.deleted:
                self.delete(other, now_ns)
        self._leaves_at.pop(pod.uid, None)
        self._put(pod)
        self._hasten(pod, now_ns)

    def delete(self, pod: Pod, now_ns: int) -> None:
        """Mark a pod as deleted; ``pod`` is its last state."""
        # By its first deletion, however often a watch and lists say so again.
        self._leaves_at.setdefault(pod.uid, now_ns + self._grace_ns)
        self._put(pod if pod.deleted else replace(ended(pod), deleted=True))

    def relist(self, listed: Iterable[Pod], now_ns: int) -> None:
        """Enter a complete list. A pod that is not in it, or is marked there, was deleted."""
        pods = {pod.uid: pod for pod in listed}
        missing = [pod for uid, pod in self._pods.items() if uid not in pods and not pod.deleted]
        for pod in (*missing, *(pod for pod in pods.values() if pod.deleted)):
            self.delete(pod, now_ns)
        for pod in pods.values():
            if not pod.deleted:
                self._leaves_at.pop(pod.uid, None)
                self._put(pod)
                self._hasten(pod, now_ns)

    def _hasten(self, pod: Pod, now_ns: int) -> None:
        """Lets the deleted pods that had the name of this one leave soon."""
        for uid in self._named.get((pod.namespace, pod.name), set()) - {pod.uid}:
            if uid in self._leaves_at:
                self._leaves_at[uid] = min(self._leaves_at[uid], now_ns + REPLACED_NS)

    def adopt(self, pods: Iterable[Pod], now_ns: int) -> None:
        """Keep, as deleted, the living pods of another source that this one does not have."""
        for pod in pods:
            if not pod.deleted and pod.uid not in self._pods:
                self.delete(pod, now_ns)

    def expire(self, now_ns: int) -> None:
        """Drop the deleted pods whose grace period is over."""
        for uid in [uid for uid, leaves_at in self._leaves_at.items() if leaves_at <= now_ns]:
            self._drop(uid)

    def _drop(self, uid: str) -> None:
        pod = self._pods.pop(uid)
        named = self._named[pod.namespace, pod.name]
        named.remove(uid)
        if not named:
            del self._named[pod.namespace, pod.name]
        self._leaves_at.pop(uid, None)
        for held in (self._living, self._ended, self._deleted):
            held.discard(uid)
        self._is_stale = True

    def _put(self, pod: Pod) -> None:
        if self._pods.get(pod.uid) != pod:  # most news is of nothing that is kept
            self._pods[pod.uid] = pod
            self._named.setdefault((pod.namespace, pod.name), set()).add(pod.uid)
            self._is_stale = True
        own = self._living
        if pod.deleted or pod.terminal:
            own = self._deleted if pod.deleted else self._ended
        for held in (self._living, self._ended, self._deleted):
            if held is not own:
                held.discard(pod.uid)
        if (uid := own.add(pod.uid, pod.namespace)) is not None:
            self._cut(self._pods[uid])
            self._drop(uid)
