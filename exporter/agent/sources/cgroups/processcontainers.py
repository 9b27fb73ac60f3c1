"""Which container a process belongs to: ``/proc``, the walked tree, and what is known already.

A process is identified by pid and start time. While its pidfd shows that it lives, its identity is
known without a look. It is read again from time to time, because a process can be moved between
cgroups, and kept for a while after its end, because the driver's sample ring still reports it. Only
if ``/proc`` does not name its container, the tree is asked.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

from exporter.agent.fairness import Held
from exporter.agent.sources.cgroups.batchpatterns import NO_SITE, GroupPatterns
from exporter.agent.sources.cgroups.cgrouptree import ContainerTree
from exporter.agent.sources.cgroups.heldprocess import Hold, Lifetimes, ProcessState, look_at
from exporter.agent.sources.cgroups.layout import HOST, best_identity, unknown_unit
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.proc import (
    PidNamespaces,
    has_users_of_its_own,
    pid_namespaces,
    start_time,
    uptime_ns,
    user_id,
)
from exporter.model import (
    SECOND_NS,
    CgroupIdentity,
    Clock,
    ProcessInfo,
    SourceStatus,
    Unattributed,
    Unit,
    Unmeasured,
    job_of,
)

MAX_PROCESSES = 8192
READ_AGAIN_NS = 60 * SECOND_NS
YOUNG_NS = 30 * SECOND_NS  # a process this young may still be moved into its container's cgroup
KEPT_AFTER_END_NS = 15 * SECOND_NS  # the driver's ring holds a dead process's samples this long
ASKED_FOR_NS = 10 * SECOND_NS  # one walk is used this long for the processes that /proc hides
_TURNS = 8  # groups of processes that are read again together, within READ_AGAIN_NS
_LARGEST_PID = 2**22  # PID_MAX_LIMIT of the kernel
_TICKS = os.sysconf("SC_CLK_TCK")
_NO_HOST_PID = "hostPID is not set: set hostPID: true in the pod spec"

Answer = CgroupIdentity | Unattributed


@dataclass(slots=True)
class _Process:
    """A process that was met before. Until ``look_ns`` its answer is used without a look."""

    start: int | None
    held: bool
    met_ns: int
    answer: Answer = Unattributed.UNKNOWN_CGROUP
    look_ns: int = 0
    ended_ns: int | None = None
    name: str = ""


class CgroupProcesses:
    """The ``ProcessSource`` of a real node. May be used by several threads; one works at a time.

    It knows at most ``most_processes``; beyond that, the newest of who has most are forgotten.
    """

    name = "cgroups"

    def __init__(
        self,
        cgroup_root: str = "/sys/fs/cgroup",
        proc_root: str = "/proc",
        clock: Clock = time,
        *,
        most_processes: int = MAX_PROCESSES,
        patterns: GroupPatterns = NO_SITE,
    ) -> None:
        self._proc_root, self._clock = proc_root, clock
        self._lock = threading.Lock()
        self._tree, self._patterns = ContainerTree(cgroup_root, clock, patterns), patterns
        self._known: dict[int, _Process] = {}
        self._held = Held[int](most_processes, newest=True)
        self._namespaces: PidNamespaces | None = None  # not known yet
        self._lifetimes = Lifetimes(enabled=False)
        self._look_at_namespaces()
        self._rejected: Counter[str] = Counter()
        self._duration_ns = 0
        self._success_unix_ns: int | None = None
        self._boot_unix_ns: int | None = None

    def rejected(self) -> Mapping[str, int]:
        """By reason, of ``Walk.skipped``; "cache_full" are processes forgotten to make room."""
        with self._lock:
            return {**self._tree.skipped, **self._rejected}

    @property
    def walks(self) -> int:
        """How often the cgroup tree was walked since the start."""
        return self._tree.walks

    def resolve(self, pids: Collection[int]) -> Mapping[int, Answer]:
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if self._namespaces is None:
                self._look_at_namespaces()
            # Ends come first: a pid that is asked for may be another process's by now.
            for pid in self._lifetimes.ended():
                self._note_end(pid, self._known[pid], now_ns)
            for pid, known in list(self._known.items()):
                if known.ended_ns is not None and now_ns - known.ended_ns >= KEPT_AFTER_END_NS:
                    self._forget(pid)
            answers = {pid: self._answer(pid, now_ns) for pid in pids}
            self._duration_ns = self._clock.monotonic_ns() - now_ns
            return answers

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        with self._lock:
            # Both clocks are read a moment apart, so the boot time jitters, and with it would the
            # start of each process. It is taken again only where somebody set the wall clock.
            up_ns = uptime_ns(self._proc_root)
            if up_ns is not None:
                boot_ns = self._clock.time_ns() - up_ns
                if self._boot_unix_ns is None or abs(boot_ns - self._boot_unix_ns) > SECOND_NS:
                    self._boot_unix_ns = boot_ns
            found: dict[int, ProcessInfo] = {}
            for pid in pids:
                known = self._known.get(pid)
                if known is not None and known.name:
                    found[pid] = info = ProcessInfo(known.name, job=job_of(known.answer))
                    if known.start is not None and self._boot_unix_ns is not None:
                        start_ns = self._boot_unix_ns + known.start * SECOND_NS // _TICKS
                        found[pid] = info._replace(start_unix_ns=start_ns)
            return found

    def group_kinds(self) -> frozenset[str]:
        return self._tree.group_kinds

    def status(self) -> SourceStatus:
        """Whether identities can be found, and what to do if not (hostPID, mounts)."""
        with self._lock:
            self._tree.review()
            detail, reason = self._tree.problem, None
            if detail:
                reason = Unmeasured.NO_CGROUPS
            elif self._is_blind():
                reason = Unmeasured.NO_HOSTPID
            # With the node's own /proc mounted, identities are found without hostPID; the pids in
            # the tree, and the news of a process's end, are not.
            depth = self._namespaces.depth if self._namespaces else 0
            if not detail and (reason or depth > 1):
                detail = _NO_HOST_PID
            if reason is None:
                self._success_unix_ns = self._clock.time_ns()
            took, success = self._duration_ns, self._success_unix_ns
            return SourceStatus(self.name, reason is None, detail, took, success, reason)

    def close(self) -> None:
        with self._lock:
            for pid in tuple(self._known):
                self._forget(pid)
            self._lifetimes.close()

    # --- the answer for one process --- ``_meet`` takes in a pid that is new, ``_look`` reads a
    # known one again when its turn has come. Both end in ``_judge``, which sets the answer and the
    # next turn. ``_identify`` finds it: in the paths of ``/proc``, or if these hide the container,
    # in the tree.

    def _answer(self, pid: int, now_ns: int) -> Answer:
        known = self._known.get(pid)
        if known is None:
            return self._meet(pid, now_ns)
        if known.ended_ns is None and now_ns < known.look_ns:
            start = None if known.held else start_time(self._proc_root, pid)
            if known.held or (start is not None and start == known.start):
                return known.answer
        return self._look(pid, known, now_ns)

    def _meet(self, pid: int, now_ns: int) -> Answer:
        """A process that is not known yet."""
        if not 0 < pid <= _LARGEST_PID or self._is_blind():
            return Unattributed.UNKNOWN_CGROUP
        # Held before it is read: a pidfd taken afterwards might be of the pid's next process.
        hold = self._lifetimes.hold(pid)
        seen = None if hold is Hold.GONE else look_at(self._proc_root, pid)
        if seen is None and (hold is not Hold.HELD or self._lifetimes.hold(pid) is not Hold.HELD):
            return Unattributed.EXITED
        seen = seen or ProcessState(None, exiting=False, paths=())
        known = self._known[pid] = _Process(seen.start, hold is Hold.HELD, now_ns)
        answer = self._judge(pid, known, seen, now_ns)
        # One tenant's processes without number must not push out what is known of another's, which
        # may have ended and have samples in the ring yet.
        if (over := self._held.add(pid, _holder(answer))) is not None:
            self._forget(over)
            self._rejected["cache_full"] += 1
        return answer

    def _look(self, pid: int, known: _Process, now_ns: int) -> Answer:
        """A known process that is looked at again."""
        seen = look_at(self._proc_root, pid)
        # It is alive, because its pidfd says so, and ``/proc`` hides it (hidepid).
        if seen is None and known.held and known.start is None:
            seen = ProcessState(None, exiting=False, paths=())
        if seen is None:
            self._note_end(pid, known, now_ns)
            return known.answer if pid in self._known else Unattributed.EXITED
        if seen.start is not None and seen.start < (known.start or 0):
            return known.answer  # not read right: who has a pid next begins later
        is_same = seen.start == known.start
        if is_same and known.ended_ns is None:
            return self._judge(pid, known, seen, now_ns)
        if is_same and seen.exiting:
            # It is a zombie: its identity is kept until its parent takes it.
            known.ended_ns = now_ns
        elif not known.held or seen.start is not None:
            # Another process has the pid. One that is held and has no start is alive, but cannot be
            # read now (EMFILE).
            self._forget(pid)
            return self._meet(pid, now_ns)
        return known.answer

    def _judge(self, pid: int, known: _Process, seen: ProcessState, now_ns: int) -> Answer:
        """Make its answer of what was seen of a live process, and set when to look again."""
        answer, is_settled = self._identify(pid, known, seen, now_ns)
        if answer == HOST and (unit := unknown_unit(seen.paths)):
            answer = CgroupIdentity(unit=unit)
        elif answer == HOST or _is_session(answer):
            match user_id(self._proc_root, pid):
                case Whole(uid) | Cut(uid):
                    answer = self._of_user(pid, uid, answer)
                case Absent() | Refused() | Failed():
                    is_settled = False  # it is asked again in the next cycle
        known.name = seen.name or known.name
        if not (seen.exiting and isinstance(known.answer, CgroupIdentity)):
            known.answer = answer
        # Where the answer waits for a walk of the tree, or a young process may still be moved into
        # its container's cgroup, it is looked at each time. All others have a turn once a minute,
        # an eighth of them together, so that no cycle reads them all.
        known.look_ns = now_ns
        is_container = isinstance(known.answer, CgroupIdentity) and known.answer.container_id
        if is_settled and (is_container or now_ns - known.met_ns >= YOUNG_NS):
            turn_ns = pid % _TURNS * READ_AGAIN_NS // _TURNS
            known.look_ns += READ_AGAIN_NS - (now_ns - turn_ns) % READ_AGAIN_NS
        return known.answer

    def _of_user(self, pid: int, uid: int, answer: Answer) -> Answer:
        """The answer of a process that is in no unit, or in a user's slice, by its own user.

        Others work in a slice too (``su``, a hub that begins their programs): they are themselves.
        Root there, and the users of a container without root, are whose slice it is.
        """
        if answer == HOST:
            return CgroupIdentity(unit=Unit("host", str(uid), uid=uid))
        unit = answer.unit if isinstance(answer, CgroupIdentity) else None
        if (
            uid == 0
            or unit is None
            or uid == unit.uid
            or has_users_of_its_own(self._proc_root, pid)
        ):
            return answer
        return CgroupIdentity(unit=Unit("user", str(uid), uid=uid))

    def _identify(
        self, pid: int, known: _Process, seen: ProcessState, now_ns: int
    ) -> tuple[Answer, bool]:
        """The answer, and whether it is settled.

        It is, unless it needs a walk of the cgroup tree and none is there that is new enough.
        """
        identity = best_identity(seen.paths, self._patterns)
        is_container = identity.container_id is not None
        is_within = identity.pod_uid is not None or identity.unit is not None
        if is_container and (is_within or not any(p.startswith("/..") for p in seen.paths)):
            return identity, True
        # "/" and "/../.." name no cgroup: a reader in a cgroup namespace of its own sees those, as
        # does one who looks at a process that is exiting (cgroup v1).
        names_a_cgroup = any(path.strip("/.") for path in seen.paths)
        if names_a_cgroup and not is_container and not seen.exiting:
            return identity, True
        # A walk that began before the process was met may have its pid from a process before it.
        walk = self._tree.since(max(known.met_ns, now_ns - ASKED_FOR_NS))
        found = walk.by_pid.get(pid) if walk is not None else None
        found = found or self._tree.container(identity.container_id)
        if found is not None:
            return found, True
        if is_container or (seen.paths and not seen.exiting):
            return identity, walk is not None
        reason = Unattributed.EXITED if seen.exiting else Unattributed.UNKNOWN_CGROUP
        return reason, walk is not None

    def _is_blind(self) -> bool:
        """Whether a pid of the node may mean another process, or none, to us."""
        known = self._namespaces or PidNamespaces()
        if known.depth > 1 or self._tree.since(0) is None:
            return False
        return self._tree.hides_processes(nested=known.is_nested)

    def _look_at_namespaces(self) -> None:
        """Find out once which PID namespace is shown. What cannot be read now is read again."""
        match pid_namespaces(self._proc_root):
            case Whole(known) | Cut(known):
                self._namespaces = known
                self._lifetimes = Lifetimes(enabled=known.has_own_pids)
            case Absent() | Refused() | Failed():
                self._namespaces = None

    def _note_end(self, pid: int, known: _Process, now_ns: int) -> None:
        if known.ended_ns is not None:
            return
        if known.start is None or not isinstance(known.answer, CgroupIdentity):
            # There is nothing worth keeping, or the pid's next process could not be recognised.
            self._forget(pid)
            return
        known.held, known.ended_ns = False, now_ns

    def _forget(self, pid: int) -> None:
        del self._known[pid]
        self._held.discard(pid)
        self._lifetimes.release(pid)


def _is_session(answer: Answer) -> bool:
    """Whether a process is in a user's slice, and in nothing that has a name of its own there."""
    if not isinstance(answer, CgroupIdentity) or answer.container_id is not None:
        return False
    return answer.unit is not None and answer.unit.kind == "user"


def _holder(answer: Answer) -> Hashable:
    """Who is answerable for a process: its pod, container or unit, whatever that has inside."""
    if isinstance(answer, Unattributed):
        return answer
    return answer.pod_uid or answer.container_id or (answer.unit and answer.unit[:2])
