"""The pods of this node over time → ``model.PodTable``. Pure: the time is an argument.

A deleted pod stays for a grace period, marked, so that the last samples of its processes keep
their labels. Each change makes a new table; readers hold the old one as long as they like.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from exporter.model import Pod, PodTable

GRACE_NS = 60 * 10**9
MOST_DELETED = 500  # kept so long; beyond that the first to be deleted leave at once


_Ids = Mapping[str, Sequence[tuple[str, tuple[str, str]]]]  # by uid: container's id → uid, name


def indexed(pods: Mapping[str, Pod], version: int = 0) -> PodTable:
    """A table of ``pods`` (by API uid) with its indexes.

    A uid is never overruled by another pod's static hash: that is an annotation, which anyone who
    may create a pod can write. Of the pods that claim one hash a mirror pod has it, even a deleted
    one; else, as with a container's id, a living one before a deleted, then the lowest uid.
    """
    return _indexed(pods, {uid: _container_ids(pod) for uid, pod in pods.items()}, version)


def _indexed(pods: Mapping[str, Pod], ids_of: _Ids, version: int) -> PodTable:
    ids, hashes = [*chain.from_iterable(ids_of.values())], _hashes(pods.values())
    by_container_id, by_hash = dict(ids), dict(hashes)
    if len(by_container_id) < len(ids) or len(by_hash) < len(hashes):  # claimed more than once
        ordered = sorted(pods.values(), key=lambda pod: (pod.deleted, pod.uid))
        ids = [*chain.from_iterable(ids_of[pod.uid] for pod in ordered)]
        by_container_id = dict(reversed(ids))
        by_hash = dict(reversed(_hashes(sorted(ordered, key=lambda pod: not pod.mirror))))
    by_kubelet_uid = by_hash | dict(zip(pods, pods, strict=True))
    return PodTable(version, dict(pods), by_kubelet_uid, by_container_id)


def _container_ids(pod: Pod) -> list[tuple[str, tuple[str, str]]]:
    return [
        (container_id, (pod.uid, container.name))
        for container in pod.containers
        for container_id in container.container_ids
    ]


def _hashes(pods: Iterable[Pod]) -> list[tuple[str, str]]:
    return [(pod.static_hash, pod.uid) for pod in pods if pod.static_hash]


class Roster:
    """Keeps the pods, and when each deleted one leaves. Not thread-safe.

    A change costs next to nothing: the table is made of all of them when it is asked for, in some
    0.2 ms for 1,000 pods.
    """

    def __init__(self, grace_ns: int = GRACE_NS) -> None:
        self._pods: dict[str, Pod] = {}
        self._ids: dict[str, Sequence[tuple[str, tuple[str, str]]]] = {}
        self._table = PodTable()
        self._is_stale = False  # whether the table was made before a change
        self._grace_ns = grace_ns
        self._leaves_at: dict[str, int] = {}  # uid of a deleted pod → monotonic ns

    @property
    def table(self) -> PodTable:
        """The newest table: the same one until a pod has changed."""
        if self._is_stale:
            self._table = _indexed(self._pods, self._ids, self._table.version + 1)
            self._is_stale = False
        return self._table

    def upsert(self, pod: Pod, now_ns: int) -> None:
        """Add a pod or replace its earlier state.

        A pod of the same name and another uid is its predecessor (a StatefulSet's): names are
        unique, so it is gone even if its deletion was not heard.
        """
        before = self._pods.get(pod.uid)
        if before is None or before.deleted:  # else it was seen to when this one came
            name = pod.namespace, pod.name
            for other in tuple(self._pods.values()):
                if (other.namespace, other.name) == name and other.uid != pod.uid:
                    self.delete(other, now_ns)
        self._leaves_at.pop(pod.uid, None)
        self._put(pod)

    def delete(self, pod: Pod, now_ns: int) -> None:
        """Mark a pod as deleted; ``pod`` is its last state."""
        self._put(pod if pod.deleted else replace(pod, deleted=True))
        self._leaves_at.setdefault(pod.uid, now_ns + self._grace_ns)
        if len(self._leaves_at) > MOST_DELETED:
            self._drop(next(iter(self._leaves_at)))

    def relist(self, listed: Iterable[Pod], now_ns: int) -> None:
        """Take over a complete list; whoever is not in it, or marked there, was deleted."""
        pods = {pod.uid: pod for pod in listed}
        gone = [pod for uid, pod in self._pods.items() if uid not in pods and not pod.deleted]
        news = [pod for uid, pod in pods.items() if self._pods.get(uid) is not pod]
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
        del self._pods[uid], self._ids[uid]
        self._is_stale = True

    def _put(self, pod: Pod) -> None:
        before = self._pods.get(pod.uid)
        if before is not pod and before != pod:
            self._pods[pod.uid] = pod
            self._ids[pod.uid] = _container_ids(pod)
            self._is_stale = True
