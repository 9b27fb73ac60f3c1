"""A pod source that uses the best of several sources that is up.

All pods come from one source, the first complete one (``whole``) that is up, because two sources
that were read at different moments contradict each other. While no complete source is up, the last
pods stay, and pods that only log files name are added. A pod has the same uid, namespace and name
in every source, so no counter moves or falls when the source changes. A pod that a source no longer
has is kept for the grace period of ``table``.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.model import Clock, Container, NodeFacts, Pod, PodTable, SourceStatus
from exporter.sources.pods.decode import KeyPrefixes
from exporter.sources.pods.health import SECOND_NS
from exporter.sources.pods.source import PodSource, StandbyPods
from exporter.sources.pods.table import PodStore


def merged(last: PodTable, names: PodTable) -> list[Pod]:
    """The pods of ``last``, then those that only ``names`` has. Pure.

    ``last`` is the last table of a complete source; ``names`` has the names and ids of the pods
    that are on the node now. A pod in both is as in ``last``, with the ids of containers that were
    started since.
    """
    named = {_uid_in(last, pod): pod for pod in names.pods.values() if not pod.deleted}
    return [
        *(_with_ids(pod, named[uid]) if uid in named else pod for uid, pod in last.pods.items()),
        *(pod for uid, pod in named.items() if uid not in last.pods),
    ]


def _uid_in(last: PodTable, named: Pod) -> str:
    """The uid of the same pod in ``last``; a static pod is there under another, and its name."""
    uid = last.by_kubelet_uid.get(named.uid, named.uid)
    pod = last.pods.get(uid)
    is_same = pod and (pod.namespace, pod.name) == (named.namespace, named.name)
    return uid if is_same else named.uid


def _with_ids(pod: Pod, named: Pod) -> Pod:
    ids = {container.name: container.container_ids for container in named.containers}
    containers = tuple(_with_newer(c, ids.get(c.name, ())) for c in pod.containers)
    return pod if containers == pod.containers else replace(pod, containers=containers)


def _with_newer(container: Container, ids: tuple[str, ...]) -> Container:
    newer = tuple(one for one in ids if one not in container.container_ids)
    return replace(container, container_ids=newer + container.container_ids) if newer else container


logger = logging.getLogger(__name__)

SWITCH_AFTER_S = 5.0  # a watch that broke is most often open again within a second
CLOSE_TIMEOUT_S = 0.95


class Standby(NamedTuple):
    """A worse source. It is asked after all better ones were down for ``after_s``."""

    source: StandbyPods
    after_s: float


class ChainedPods:
    """Implements ``PodSource``. For one thread, but for ``start``, ``wait`` and ``close``.

    ``best`` and ``standbys`` have complete pods, in order of preference; ``names`` has names only.
    ``node`` returns the node facts.
    """

    def __init__(
        self,
        best: PodSource,
        standbys: Sequence[Standby] = (),
        names: StandbyPods | None = None,
        *,
        node: Callable[[], NodeFacts] = NodeFacts,
        clock: Clock = time,
    ) -> None:
        self.node = node
        self._best, self._standbys, self._names, self._clock = best, standbys, names, clock
        self._whole: tuple[PodSource, ...] = (best, *(standby.source for standby in standbys))
        self._all = (*self._whole, *((names,) if names else ()))
        self._base: PodSource | None = None  # whose pods are used
        self._named: PodTable | None = None  # by log files, while no complete source is up
        self._made_of: tuple[object, ...] = ()  # which source's pods, and the tables' versions
        self._store = PodStore()
        self._lost_ns: int | None = None  # since when the best is down
        self._statuses: tuple[SourceStatus, ...] = ()  # of the best to the one in use
        self._in_use = best.name
        self._rest()

    @property
    def name(self) -> str:
        """The name of the best."""
        return self._best.name

    def start(self) -> None:
        """Start all sources; those that are not needed pause."""
        for source in self._all:
            source.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the best source's list; whether any source has a list."""
        return self._best.wait(timeout_s) or any(source.wait(0) for source in self._all)

    def table(self) -> PodTable:
        """The current pods. Also decides which sources are asked."""
        now_ns = self._clock.monotonic_ns()
        statuses: list[SourceStatus] = []  # as far as the first that is up
        for source in self._all:
            statuses.append(source.status())
            if statuses[-1].up:
                break
        up = len(statuses) - 1 if statuses[-1].up else None
        self._note_loss(now_ns, lost=up != 0)
        self._ask(now_ns, up)
        self._log(statuses, up, now_ns)
        self._take(now_ns, up)
        return self._store.table

    def status(self) -> SourceStatus:
        """The status of the best source, and which one is in use instead."""
        status = self._best.status()
        if status.up or self._in_use == self._best.name:
            return status
        return status._replace(detail=f"{status.detail}; meanwhile pods come from {self._in_use}")

    def others(self) -> tuple[SourceStatus, ...]:
        """The statuses of the sources that replace the best; empty while it is up."""
        return self._statuses[1:]

    def rejected(self) -> Mapping[str, int]:
        """What any of them could not use, by reason."""
        counts = [source.rejected() for source in self._all]
        return {reason: sum(c.get(reason, 0) for c in counts) for reason in set().union(*counts)}

    def follow(self, keep: KeyPrefixes) -> None:
        """Let all of them keep this."""
        for source in self._all:
            source.follow(keep)

    def close(self) -> None:
        """Close all of them, side by side."""
        threads = [
            threading.Thread(target=source.close, name=f"close {source.name}", daemon=True)
            for source in self._all
        ]
        for thread in threads:
            thread.start()
        ends_ns = self._clock.monotonic_ns() + int(CLOSE_TIMEOUT_S * SECOND_NS)
        for thread in threads:
            thread.join(max(0.0, (ends_ns - self._clock.monotonic_ns()) / SECOND_NS))

    # --- inside ---

    def _rest(self) -> None:
        """Set, before the start, which standbys are asked from the beginning."""
        for standby in self._standbys:
            standby.source.want(standby.after_s <= 0)

    def _note_loss(self, now_ns: int, *, lost: bool) -> None:
        if not lost:
            self._lost_ns = None
        elif self._lost_ns is None:
            self._lost_ns = now_ns

    def _lost_for(self, now_ns: int) -> float:
        return 0.0 if self._lost_ns is None else (now_ns - self._lost_ns) / SECOND_NS

    def _ask(self, now_ns: int, up: int | None) -> None:
        """Ask the sources that are needed: none that is worse than one that is up."""
        needed = len(self._all) if up is None else up
        for i, (source, after_s) in enumerate(self._standbys, start=1):
            source.want(0 < needed >= i and self._lost_for(now_ns) >= after_s)
        if self._names is not None:
            self._names.want(0 < needed >= len(self._whole))

    def _log(self, statuses: Sequence[SourceStatus], up: int | None, now_ns: int) -> None:
        """Publish and log which source is in use, once that has settled."""
        if up != 0 and self._lost_for(now_ns) < SWITCH_AFTER_S:
            return
        last = len(statuses) - 1 if up is None else up
        self._statuses = tuple(statuses[: last + 1])
        in_use = self._best.name if up is None else statuses[up].name
        if in_use == self._in_use:
            return
        self._in_use = in_use
        if in_use == self._best.name and up == 0:
            logger.info("pods come from %s again", in_use)
        elif up is None:
            each = "; ".join(f"{status.name}: {status.detail}" for status in statuses)
            logger.warning("no pod source is up; the pods stay as last known (%s)", each)
        else:
            best = statuses[0]
            logger.warning("%s is down (%s); pods come from %s", best.name, best.detail, in_use)

    def _take(self, now_ns: int, up: int | None) -> None:
        """Build the table if its sources' tables have changed."""
        if up is not None and up < len(self._whole):
            self._base, self._named = self._whole[up], None
        else:
            answered = (source for source in self._whole if source.table().version)
            self._base = self._base or next(answered, None)
            if up is not None and self._names is not None:
                self._named = self._names.table()
        base = self._base.table() if self._base else PodTable()
        made_of = (self._base, base.version, self._named and self._named.version)
        if made_of != self._made_of:
            self._made_of = made_of
            pods = merged(base, self._named) if self._named else base.pods.values()
            self._store.relist(pods, now_ns)
        self._store.expire(now_ns)
