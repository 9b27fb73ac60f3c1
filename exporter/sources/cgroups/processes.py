"""Which container a process belongs to: ``/proc``, the walked tree, and a cache of both.

The way of a question: ``processes`` → ``known`` (met before?) → ``proc`` (its cgroups) → and only
if those do not name its container, ``containers`` → ``walk``.
"""

import os
import threading
import time
from collections.abc import Collection, Mapping

from exporter.model import (
    CgroupIdentity,
    Clock,
    ProcessInfo,
    SourceStatus,
    Unattributed,
    Unmeasured,
)
from exporter.sources.cgroups.containers import ContainerTree
from exporter.sources.cgroups.known import CachedProcess, ProcessCache
from exporter.sources.cgroups.proc import uptime_ns

SECOND_NS = 10**9
MOST_PROCESSES = 8192
_TICKS = os.sysconf("SC_CLK_TCK")
_NO_HOST_PID = "hostPID is not set: set hostPID: true in the pod spec"


class CgroupProcesses:
    """The ``ProcessSource`` of a real node. May be used by several threads; one works at a time."""

    def __init__(
        self,
        cgroup_root: str = "/sys/fs/cgroup",
        proc_root: str = "/proc",
        clock: Clock = time,
        *,
        most_processes: int = MOST_PROCESSES,
    ) -> None:
        self._proc_root = proc_root
        self._clock = clock
        self._lock = threading.Lock()
        self._containers = ContainerTree(cgroup_root, clock)
        self._known = ProcessCache(proc_root, self._containers, most_processes)
        self._duration_ns = 0
        self._success_unix_ns: int | None = None
        self._boot_unix_ns: int | None = None

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        return "cgroups"

    def rejected(self) -> Mapping[str, int]:
        """What could not be used since the start, by reason: of ``Walk.skipped``, or cache_full."""
        with self._lock:
            return {**self._containers.skipped, **self._known.rejected}

    @property
    def walks(self) -> int:
        """How often the cgroup tree was walked since the start."""
        return self._containers.walks

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """Identity of each pid, or the reason why there is none. Never raises."""
        with self._lock:
            now = self._clock.monotonic_ns()
            answers = self._known.answers(pids, now)
            self._duration_ns = self._clock.monotonic_ns() - now
            return answers

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Name and start of those among the resolved processes of which they are known."""
        with self._lock:
            booted, cached = self._booted(), ((pid, self._known.by_pid.get(pid)) for pid in pids)
            return {pid: _info(one, booted) for pid, one in cached if one and one.name}

    def group_kinds(self) -> frozenset[str]:
        """The kinds of groups that this node can have, by all walks so far."""
        return self._containers.group_kinds

    def status(self) -> SourceStatus:
        """Whether identities can be found, and what to do if not."""
        with self._lock:
            self._containers.review()
            detail, reason = self._containers.problem, self._blindness()
            # With the node's own /proc mounted, identities are found without hostPID; the pids in
            # the tree, and the news of a process's end, are not.
            if not detail and (reason or self._known.namespace_depth > 1):
                detail = _NO_HOST_PID
            if reason is None:
                self._success_unix_ns = self._clock.time_ns()
            took, success = self._duration_ns, self._success_unix_ns
            return SourceStatus(self.name, reason is None, detail, took, success, reason)

    def close(self) -> None:
        """Close the descriptors held."""
        with self._lock:
            self._known.close()

    def _booted(self) -> int | None:
        """Boot time in Unix ns; it changes only when the wall clock is set."""
        up_ns = uptime_ns(self._proc_root)
        if up_ns is not None:
            boot_ns = self._clock.time_ns() - up_ns
            if self._boot_unix_ns is None or abs(boot_ns - self._boot_unix_ns) > SECOND_NS:
                self._boot_unix_ns = boot_ns
        return self._boot_unix_ns

    def _blindness(self) -> Unmeasured | None:
        if self._containers.problem:
            return Unmeasured.NO_CGROUPS
        return Unmeasured.NO_HOSTPID if self._known.is_blind() else None


def _info(known: CachedProcess, boot_unix_ns: int | None) -> ProcessInfo:
    if known.start is None or boot_unix_ns is None:
        return ProcessInfo(known.name)
    return ProcessInfo(known.name, boot_unix_ns + known.start * SECOND_NS // _TICKS)
