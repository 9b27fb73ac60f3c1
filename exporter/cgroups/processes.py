"""Which container a process belongs to: ``/proc``, the walked tree, and a memory of both.

A process is known by pid and start time. While its pidfd says that it lives, its identity costs a
dictionary lookup; it is read anew now and then because a process can be moved between cgroups, and
kept for a while after its end because the driver's sample ring still reports the dead.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from exporter.cgroups.containers import Containers
from exporter.cgroups.layout import HOST, best_identity
from exporter.cgroups.lifetimes import Hold, Lifetimes
from exporter.cgroups.proc import (
    Seen,
    in_nested_pid_namespace,
    look_again,
    look_at,
    pid_namespace_depth,
    shows_own_pids,
    start_time,
    uptime_ns,
    user_id,
)
from exporter.model import (
    CgroupIdentity,
    Clock,
    ProcessInfo,
    SourceStatus,
    Tree,
    Unattributed,
    Unit,
    Unmeasured,
)

SECOND_NS = 10**9
KEPT_AFTER_END_NS = 15 * SECOND_NS  # the driver's ring holds a dead process's samples this long
READ_AGAIN_NS = 60 * SECOND_NS
YOUNG_NS = 30 * SECOND_NS  # so long an entrypoint may still be moved into its container's cgroup
ASKED_FOR_NS = 10 * SECOND_NS  # so long one walk serves for the processes that /proc hides
MOST_PROCESSES = 8192
_TICKS = os.sysconf("SC_CLK_TCK")
_LARGEST_PID = 2**22  # PID_MAX_LIMIT of the kernel
_NO_HOST_PID = "hostPID is not set: set hostPID: true in the pod spec"


@dataclass(slots=True)
class _Known:
    """A process met before. ``fresh_until_ns``: so long the answer holds without a look."""

    start: int | None
    held: bool
    met_ns: int
    answer: CgroupIdentity | Unattributed = Unattributed.UNKNOWN_CGROUP
    look_ns: int = 0
    fresh_until_ns: int = 0
    ended_ns: int | None = None
    name: str = ""


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
        self._most = most_processes
        self._lock = threading.Lock()
        self._containers = Containers(cgroup_root, clock)
        self._lifetimes = Lifetimes(enabled=shows_own_pids(proc_root))
        self._is_nested = in_nested_pid_namespace(proc_root)
        self._namespace_depth = pid_namespace_depth(proc_root)
        self._known: dict[int, _Known] = {}
        self._ended: dict[int, _Known] = {}
        self._rejected: Counter[str] = Counter()
        self._duration_ns = 0
        self._success_unix_ns: int | None = None
        self._boot_unix_ns: int | None = None

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        return "cgroups"

    def rejected(self) -> Mapping[str, int]:
        """What could not be used since the start, by reason: of ``Tree.skipped``, or cache_full."""
        with self._lock:
            return self._rejected + Counter(self._containers.skipped)

    @property
    def walks(self) -> int:
        """How often the cgroup tree was walked since the start."""
        return self._containers.walks

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """Identity of each pid, or the reason why there is none. Never raises.

        For pids seen before: a dictionary lookup each and one poll for all.
        """
        with self._lock:
            now = self._clock.monotonic_ns()
            self._note_ends(now)
            answers: dict[int, CgroupIdentity | Unattributed] = {}
            for pid in pids:
                known = self._known.get(pid)
                if known is not None and now < known.fresh_until_ns:
                    answers[pid] = known.answer
                else:
                    answers[pid] = self._look(pid, known, now)
            self._duration_ns = self._clock.monotonic_ns() - now
            return answers

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Name and start of those among the resolved processes of which they are known."""
        with self._lock:
            boot_ns = self._booted()
            known = ((pid, self._known.get(pid)) for pid in pids)
            return {
                pid: ProcessInfo(one.name, _started(one.start, boot_ns))
                for pid, one in known
                if one is not None and one.name
            }

    def tree(self) -> Tree:
        """The newest walk of the cgroup file system; at most one a second, and only on change."""
        with self._lock:
            return self._containers.newest().tree

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
            self._known.clear()
            self._ended.clear()
            self._lifetimes.close()
            self._containers.close()

    def _booted(self) -> int | None:
        """When the machine started; said anew only when the wall clock was set."""
        up_ns = uptime_ns(self._proc_root)
        if up_ns is not None:
            boot_ns = self._clock.time_ns() - up_ns
            if self._boot_unix_ns is None or abs(boot_ns - self._boot_unix_ns) > SECOND_NS:
                self._boot_unix_ns = boot_ns
        return self._boot_unix_ns

    def _look(self, pid: int, known: _Known | None, now: int) -> CgroupIdentity | Unattributed:
        if known is None:
            return self._meet(pid, now)
        if known.ended_ns is None and now < known.look_ns:  # not held: is it still the same one?
            seen_start = start_time(self._proc_root, pid)
            if seen_start is not None and seen_start == known.start:
                return known.answer
        seen = None
        if known.held and known.start is not None:
            seen = look_again(self._proc_root, pid, known.start)
        seen = seen or look_at(self._proc_root, pid)
        if seen is None and known.held and known.start is None:
            seen = Seen(None, exiting=False, paths=())  # alive, but hidden from us (hidepid)
        if seen is None:
            self._note_end(pid, known, now)
            return known.answer if pid in self._known else Unattributed.EXITED
        is_same = seen.start == known.start
        if is_same and known.ended_ns is None:
            return self._judge(pid, known, seen, now)
        if is_same and seen.exiting:  # a zombie: its identity is kept until its parent takes it
            known.ended_ns = now
            return known.answer
        self._forget(pid)
        return self._meet(pid, now)

    def _meet(self, pid: int, now: int) -> CgroupIdentity | Unattributed:
        if not 0 < pid <= _LARGEST_PID or self._is_blind():
            return Unattributed.UNKNOWN_CGROUP
        # Held before it is read: a pidfd taken afterwards might be of the pid's next process.
        hold = self._lifetimes.hold(pid)
        seen = None if hold is Hold.GONE else look_at(self._proc_root, pid)
        if seen is None and (hold is not Hold.HELD or self._lifetimes.hold(pid) is not Hold.HELD):
            return Unattributed.EXITED
        while len(self._known) >= self._most:
            self._forget(next(iter(self._known)))
            self._rejected["cache_full"] += 1
        seen = seen or Seen(None, exiting=False, paths=())
        known = self._known[pid] = _Known(seen.start, hold is Hold.HELD, now)
        return self._judge(pid, known, seen, now)

    def _judge(
        self, pid: int, known: _Known, seen: Seen, now: int
    ) -> CgroupIdentity | Unattributed:
        """Take what was seen of a live process as its answer, and say when to look again."""
        answer, is_settled = self._identify(pid, known, seen, now)
        if answer == HOST:
            answer = self._bare(pid)
        known.name = seen.name or known.name
        if not (seen.exiting and isinstance(known.answer, CgroupIdentity)):
            known.answer = answer
        known.look_ns = now + (_patience(pid, known, now) if is_settled else 0)
        known.fresh_until_ns = known.look_ns if known.held else 0
        return known.answer

    def _identify(
        self, pid: int, known: _Known, seen: Seen, now: int
    ) -> tuple[CgroupIdentity | Unattributed, bool]:
        """The answer, and whether it is settled: the tree was asked wherever it had to be."""
        identity = best_identity(seen.paths)
        is_container = identity.container_id is not None
        is_relative = any(path.startswith("/..") for path in seen.paths)
        is_within = identity.pod_uid is not None or identity.unit is not None
        if is_container and (is_within or not is_relative):
            return identity, True
        # "/" and "/../.." name no cgroup: a reader in a cgroup namespace of its own sees those, as
        # does one who looks at a process that is exiting (cgroup v1).
        names_a_cgroup = any(path.strip("/.") for path in seen.paths)
        if names_a_cgroup and not is_container and not seen.exiting:
            return identity, True
        walk = self._containers.since(max(known.met_ns, now - ASKED_FOR_NS))
        found = walk.by_pid.get(pid) if walk is not None else None
        found = found or self._containers.container(identity.container_id)
        if found is not None:
            return found, True
        if is_container or (seen.paths and not seen.exiting):
            return identity, walk is not None
        reason = Unattributed.EXITED if seen.exiting else Unattributed.UNKNOWN_CGROUP
        return reason, walk is not None

    def _bare(self, pid: int) -> CgroupIdentity:
        """A process in no unit: it is its user's."""
        uid = user_id(self._proc_root, pid)
        return HOST if uid is None else CgroupIdentity(unit=Unit("host", str(uid), uid=uid))

    def _note_ends(self, now: int) -> None:
        for pid in self._lifetimes.ended():
            self._note_end(pid, self._known[pid], now)
        for pid, known in list(self._ended.items()):
            if now - (known.ended_ns or 0) >= KEPT_AFTER_END_NS:
                self._forget(pid)

    def _note_end(self, pid: int, known: _Known, now: int) -> None:
        if known.ended_ns is not None:
            return
        if known.start is None or not isinstance(known.answer, CgroupIdentity):
            self._forget(pid)  # nothing worth keeping, or no way to tell the pid's next process
            return
        known.held, known.ended_ns, known.fresh_until_ns = False, now, 0
        self._ended[pid] = known

    def _forget(self, pid: int) -> None:
        del self._known[pid]
        self._ended.pop(pid, None)
        self._lifetimes.release(pid)

    def _blindness(self) -> Unmeasured | None:
        if self._containers.problem:
            return Unmeasured.NO_CGROUPS
        return Unmeasured.NO_HOSTPID if self._is_blind() else None

    def _is_blind(self) -> bool:
        """Whether a pid of the node may mean another process, or none, to us."""
        if self._namespace_depth > 1 or self._containers.since(0) is None:
            return False
        return self._containers.hides_processes(nested=self._is_nested)


def _started(start: int | None, boot_unix_ns: int | None) -> int | None:
    if start is None or boot_unix_ns is None:
        return None
    return boot_unix_ns + start * SECOND_NS // _TICKS


def _patience(pid: int, known: _Known, now: int) -> int:
    """How long a settled answer is not looked into; spread over the processes by their pid."""
    is_container = isinstance(known.answer, CgroupIdentity) and known.answer.container_id
    if not is_container and now - known.met_ns < YOUNG_NS:
        return 0
    return READ_AGAIN_NS * (16 + pid % 16) // 32
