"""Which container a process belongs to: ``/proc``, the walked tree, and a cache of both.

Of processes that were asked for before, only those cost anything that ended or are to be looked at
again (``known``).
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
from exporter.sources.cgroups.known import CachedProcess, Lifetimes, ProcessCache
from exporter.sources.cgroups.proc import (
    in_nested_pid_namespace,
    pid_namespace_depth,
    shows_own_pids,
    uptime_ns,
)

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
        self._is_nested = in_nested_pid_namespace(proc_root)
        self._namespace_depth = pid_namespace_depth(proc_root)
        lifetimes = Lifetimes(enabled=shows_own_pids(proc_root))
        self._known = ProcessCache(
            *(proc_root, self._containers, lifetimes, self._is_blind, most_processes)
        )
        self._duration_ns = 0
        self._success_unix_ns: int | None = None
        self._boot_unix_ns: int | None = None
        self._described: Collection[int] = ()
        self._infos: Mapping[int, ProcessInfo] = {}  # of these
        self._infos_by: tuple[int, int | None] = 0, None

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
        """Identity of each pid, or the reason why there is none. Never raises.

        Where nothing has changed since the same pids were asked for, it is the same mapping.
        """
        with self._lock:
            now = self._clock.monotonic_ns()
            answers = self._known.answers(pids, now)
            self._duration_ns = self._clock.monotonic_ns() - now
            return answers

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Name and start of those among the resolved processes of which they are known."""
        with self._lock:
            known, by = self._known.by_pid, (self._known.version, self._booted())
            if by != self._infos_by:
                self._infos_by, self._infos, self._described = by, {}, ()
            asked = known.keys() & pids
            if asked != self._described:
                before, self._described = self._infos, asked
                self._infos = {
                    pid: before.get(pid) or _info(known[pid], by[1])
                    for pid in asked
                    if known[pid].name
                }
            return self._infos

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
            if not detail and (reason or self._namespace_depth > 1):
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
        return Unmeasured.NO_HOSTPID if self._is_blind() else None

    def _is_blind(self) -> bool:
        """Whether a pid of the node may mean another process, or none, to us."""
        if self._namespace_depth > 1 or self._containers.since(0) is None:
            return False
        return self._containers.hides_processes(nested=self._is_nested)


def _info(known: CachedProcess, boot_unix_ns: int | None) -> ProcessInfo:
    if known.start is None or boot_unix_ns is None:
        return ProcessInfo(known.name)
    return ProcessInfo(known.name, boot_unix_ns + known.start * SECOND_NS // _TICKS)
