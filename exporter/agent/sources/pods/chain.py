"""A pod source that uses the best of several readers that is up.

All pods come from one reader, the first complete one that is up, because two that were read at
different moments contradict each other. While no complete one is up, the last pods stay, and pods
that only log files name are added. A pod has the same uid, namespace and name in every reader, so
no counter moves or falls when the reader changes. A pod that the next reader does not have is kept
there for its grace period.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.agent.sources.pods.podreader import PodThread
from exporter.agent.sources.pods.podtable import VERSIONS, indexed
from exporter.model import SECOND_NS, Clock, Container, NodeFacts, Pod, PodTable, SourceStatus

logger = logging.getLogger(__name__)

SWITCH_AFTER_S = 5.0  # a watch that broke is most often open again within a second
CLOSE_TIMEOUT_S = 0.95


def merged(last: PodTable, names: PodTable) -> dict[str, Pod]:
    """The pods of ``last``, and those that only ``names`` has, by uid. Pure.

    ``last`` is the last table of a complete source; ``names`` has the names and ids of the pods
    that are on the node now. A pod in both is as in ``last``, with the ids of containers that were
    started since.
    """
    named: dict[str, Pod] = {}
    for pod in names.pods.values():
        # Log files name a static pod by the hash of its manifest, the API server by a uid of its
        # own. The hash is an annotation, which a tenant may write, so the names have to agree too.
        uid = last.by_kubelet_uid.get(pod.uid, pod.uid)
        same = last.pods.get(uid)
        is_same = same and (same.namespace, same.name) == (pod.namespace, pod.name)
        named[uid if is_same else pod.uid] = pod
    known = {
        uid: _with_ids(pod, named[uid]) if uid in named and not named[uid].deleted else pod
        for uid, pod in last.pods.items()
    }
    return named | known


def _with_ids(pod: Pod, named: Pod) -> Pod:
    """The pod, whose containers have the ids of ``named`` too: the newer ones, so they are first.

    Only so is a container that restarted while the API server was away still this pod's.
    """
    ids = {container.name: container.container_ids for container in named.containers}
    containers: list[Container] = []
    for one in pod.containers:
        newer = tuple(i for i in ids.get(one.name, ()) if i not in one.container_ids)
        containers.append(replace(one, container_ids=newer + one.container_ids) if newer else one)
    return replace(pod, containers=tuple(containers))


class ChainedPods:
    """Implements ``PodSource``. For one thread, but for ``start``, ``wait`` and ``close``.

    ``whole`` have complete pods, in order of preference; ``names`` has names only. A worse one is
    asked after all better ones were down for a while, ``names`` at once. ``node`` returns the node
    facts.
    """

    def __init__(
        self,
        whole: Sequence[PodThread],
        names: PodThread,
        *,
        node: Callable[[], NodeFacts] = NodeFacts,
        clock: Clock = time,
    ) -> None:
        self.node = node
        self._best, self._whole, self._names, self._clock = whole[0], whole, names, clock
        self._all = (*whole, names)
        self._base: PodThread | None = None  # whose pods are used
        self._named: PodTable | None = None  # by log files, while no complete source is up
        self._made_of = 0, 0  # versions of the tables that were merged
        self._table = PodTable()
        self._lost_ns: int | None = None  # since when the best is down
        self._statuses: tuple[SourceStatus, ...] = ()  # of the best to the one in use
        self._in_use = self.name = self._best.name
        for reader in whole[1:]:
            reader.want(False)

    def start(self) -> None:
        """Start all readers; those that are not needed pause."""
        for reader in self._all:
            reader.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the best reader's list; whether any has a list."""
        return self._best.wait(timeout_s) or any(reader.wait(0) for reader in self._all)

    def table(self) -> PodTable:
        """The current pods. Also decides which readers are asked."""
        statuses = [reader.status() for reader in self._all]
        up = next((i for i, status in enumerate(statuses) if status.up), None)
        now_ns = self._clock.monotonic_ns()
        self._lost_ns = None if up == 0 else self._lost_ns or now_ns
        lost_s = 0.0 if self._lost_ns is None else (now_ns - self._lost_ns) / SECOND_NS
        # Reading log files costs the node a little and nobody else anything, so they are asked at
        # once. A kubelet is asked only when the watch has not come back by itself.
        for i, reader in enumerate(self._all[1:], start=1):
            patient = reader is not self._names and lost_s < SWITCH_AFTER_S
            reader.want(up != 0 and (up is None or i <= up) and not patient)
        if up == 0 or lost_s >= SWITCH_AFTER_S:
            self._publish(statuses, up)
        self._use(up)
        return self._table

    def status(self) -> SourceStatus:
        """The status of the best reader, and which one is in use instead."""
        status = self._best.status()
        if status.up or self._in_use == self._best.name:
            return status
        return status._replace(detail=f"{status.detail}; meanwhile pods come from {self._in_use}")

    def others(self) -> tuple[SourceStatus, ...]:
        """The statuses of the readers that replace the best; empty while it is up."""
        return self._statuses[1:]

    def rejected(self) -> Mapping[str, int]:
        counts = [reader.rejected() for reader in self._all]
        return {reason: sum(c.get(reason, 0) for c in counts) for reason in set().union(*counts)}

    def follow(self, keep: KeyPrefixes) -> None:
        for reader in self._all:
            reader.follow(keep)

    def close(self) -> None:
        """Close all of them, side by side."""
        threads = [
            threading.Thread(target=reader.close, name=f"close {reader.name}", daemon=True)
            for reader in self._all
        ]
        for thread in threads:
            thread.start()
        ends_ns = self._clock.monotonic_ns() + int(CLOSE_TIMEOUT_S * SECOND_NS)
        for thread in threads:
            thread.join(max(0.0, (ends_ns - self._clock.monotonic_ns()) / SECOND_NS))

    # --- inside ---

    def _publish(self, statuses: Sequence[SourceStatus], up: int | None) -> None:
        """Publish and log which reader is in use, once that has settled."""
        self._statuses = tuple(statuses if up is None else statuses[: up + 1])
        in_use = self._best.name if up is None else statuses[up].name
        if in_use == self._in_use:
            return
        self._in_use, best = in_use, statuses[0]
        if up == 0:
            logger.info("pods come from %s again", in_use)
        elif up is None:
            each = "; ".join(f"{status.name}: {status.detail}" for status in statuses)
            logger.warning("no pod source is up; the pods stay as last known (%s)", each)
        else:
            logger.warning("%s is down (%s); pods come from %s", best.name, best.detail, in_use)

    def _use(self, up: int | None) -> None:
        """The pods of the reader in use; while no complete one is up, with those of the names."""
        if up is not None and up < len(self._whole):
            base = self._whole[up]
            # What another reader had and this one has not may have ended while nobody looked. Its
            # processes still have samples in the driver's ring, so it stays for its grace period.
            if self._named is not None or self._base not in {None, base}:
                base.adopt(self._table)
            self._base, self._named = base, None
        else:
            answered = (reader for reader in self._whole if reader.table().version)
            self._base = self._base or next(answered, None)
            if up is not None:
                self._named = self._names.table()
        table = self._base.table() if self._base else PodTable()
        if self._named is None:
            self._table = table
        elif self._made_of != (table.version, self._named.version):
            self._made_of = table.version, self._named.version
            self._table = indexed(merged(table, self._named), next(VERSIONS))
