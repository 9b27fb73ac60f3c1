"""A cache of processes and their identities.

A process is identified by pid and start time. While its pidfd shows that it lives, its identity is
cached. It is read again from time to time, because a process can be moved between cgroups, and kept
for a while after its end, because the driver's sample ring still reports it.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from exporter.model import CgroupIdentity, Unattributed, Unit
from exporter.sources.cgroups.containers import ContainerTree
from exporter.sources.cgroups.layout import HOST, best_identity
from exporter.sources.cgroups.lifetimes import Hold, Lifetimes
from exporter.sources.cgroups.proc import (
    ProcessState,
    in_nested_pid_namespace,
    look_at,
    pid_namespace_depth,
    shows_own_pids,
    start_time,
    user_id,
)

SECOND_NS = 10**9
READ_AGAIN_NS = 60 * SECOND_NS
YOUNG_NS = 30 * SECOND_NS  # a process this young may still be moved into its container's cgroup
_TURNS = 8  # groups of processes that are read again together, within READ_AGAIN_NS
CACHED_AFTER_END_NS = 15 * SECOND_NS  # the driver's ring holds a dead process's samples this long
ASKED_FOR_NS = 10 * SECOND_NS  # one walk is used this long for the processes that /proc hides
_LARGEST_PID = 2**22  # PID_MAX_LIMIT of the kernel

Answer = CgroupIdentity | Unattributed


def ttl_ns(pid: int, answer: Answer, met_ns: int, now_ns: int) -> int:
    """For how long, from now on, a settled answer is used without a look at the process.

    ``met_ns`` is when the process was met. A young process in no container is looked at each time.
    All others have a turn once a minute, an eighth of them at the same moment.
    """
    is_container = isinstance(answer, CgroupIdentity) and answer.container_id
    if not is_container and now_ns - met_ns < YOUNG_NS:
        return 0
    turn_ns = pid % _TURNS * READ_AGAIN_NS // _TURNS
    return READ_AGAIN_NS - (now_ns - turn_ns) % READ_AGAIN_NS


@dataclass(slots=True)
class CachedProcess:
    """A process that was met before. Until ``look_ns`` its answer is used without a look."""

    start: int | None
    held: bool
    met_ns: int
    answer: Answer = Unattributed.UNKNOWN_CGROUP
    look_ns: int = 0
    ended_ns: int | None = None
    name: str = ""


class ProcessCache:
    """Says what each process is. It caches at most ``most`` processes.

    ``rejected`` counts those that were forgotten to make room. Not for use by several threads at
    once.
    """

    def __init__(self, proc_root: str, containers: ContainerTree, most: int) -> None:
        self.rejected: Counter[str] = Counter()
        self.by_pid: dict[int, CachedProcess] = {}
        self.namespace_depth = pid_namespace_depth(proc_root)
        self._is_nested = in_nested_pid_namespace(proc_root)
        self._lifetimes = Lifetimes(enabled=shows_own_pids(proc_root))
        self._proc_root, self._containers, self._most = proc_root, containers, most

    def answers(self, pids: Collection[int], now: int) -> Mapping[int, Answer]:
        """What each of these processes is now."""
        self._note_ends(now)
        return {pid: self._answer(pid, now) for pid in pids}

    def is_blind(self) -> bool:
        """Whether a pid of the node may mean another process, or none, to us."""
        if self.namespace_depth > 1 or self._containers.since(0) is None:
            return False
        return self._containers.hides_processes(nested=self._is_nested)

    def close(self) -> None:
        """Forget all of them."""
        self.by_pid.clear()
        self._lifetimes.close()

    def _answer(self, pid: int, now: int) -> Answer:
        known = self.by_pid.get(pid)
        if known is None:
            return self._meet(pid, now)
        is_fresh = known.ended_ns is None and now < known.look_ns
        return (
            known.answer if is_fresh and self._is_same(pid, known) else self._look(pid, known, now)
        )

    def _is_same(self, pid: int, known: CachedProcess) -> bool:
        """Whether this pid still means the process that was met."""
        if known.held:
            return True
        start = start_time(self._proc_root, pid)
        return start is not None and start == known.start

    def _look(self, pid: int, known: CachedProcess, now: int) -> Answer:
        seen = look_at(self._proc_root, pid)
        if seen is None and known.held and known.start is None:  # alive, but hidden (hidepid)
            seen = ProcessState(None, exiting=False, paths=())
        if seen is None:
            self._note_end(pid, known, now)
            return known.answer if pid in self.by_pid else Unattributed.EXITED
        is_same = seen.start == known.start
        if is_same and known.ended_ns is None:
            return self._judge(pid, known, seen, now)
        if is_same and seen.exiting:  # a zombie: its identity is kept until its parent takes it
            known.ended_ns = now
        elif not known.held or seen.start is not None:  # held: alive, but unreadable now (EMFILE)
            self._forget(pid)
            return self._meet(pid, now)
        return known.answer

    def _meet(self, pid: int, now: int) -> Answer:
        if not 0 < pid <= _LARGEST_PID or self.is_blind():
            return Unattributed.UNKNOWN_CGROUP
        # Held before it is read: a pidfd taken afterwards might be of the pid's next process.
        hold = self._lifetimes.hold(pid)
        seen = None if hold is Hold.GONE else look_at(self._proc_root, pid)
        if seen is None and (hold is not Hold.HELD or self._lifetimes.hold(pid) is not Hold.HELD):
            return Unattributed.EXITED
        while len(self.by_pid) >= self._most:
            self._forget(next(iter(self.by_pid)))
            self.rejected["cache_full"] += 1
        seen = seen or ProcessState(None, exiting=False, paths=())
        known = self.by_pid[pid] = CachedProcess(seen.start, hold is Hold.HELD, now)
        return self._judge(pid, known, seen, now)

    def _judge(self, pid: int, known: CachedProcess, seen: ProcessState, now: int) -> Answer:
        """Make its answer of what was seen of a live process, and set when to look again."""
        answer, is_settled = self._identify(pid, known, seen, now)
        if answer == HOST:
            answer = self._bare(pid)
        known.name = seen.name or known.name
        if not (seen.exiting and isinstance(known.answer, CgroupIdentity)):
            known.answer = answer
        known.look_ns = now + (ttl_ns(pid, known.answer, known.met_ns, now) if is_settled else 0)
        return known.answer

    def _identify(
        self, pid: int, known: CachedProcess, seen: ProcessState, now: int
    ) -> tuple[Answer, bool]:
        """The answer, and whether it is settled.

        It is, unless it needs a walk of the cgroup tree and none is there that is new enough.
        """
        identity = best_identity(seen.paths)
        is_container = identity.container_id is not None
        is_within = identity.pod_uid is not None or identity.unit is not None
        if is_container and (is_within or not any(p.startswith("/..") for p in seen.paths)):
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
            self._note_end(pid, self.by_pid[pid], now)
        for pid, known in list(self.by_pid.items()):
            if known.ended_ns is not None and now - known.ended_ns >= CACHED_AFTER_END_NS:
                self._forget(pid)

    def _note_end(self, pid: int, known: CachedProcess, now: int) -> None:
        if known.ended_ns is not None:
            return
        if known.start is None or not isinstance(known.answer, CgroupIdentity):
            # nothing worth keeping, or the pid's next process cannot be recognised
            self._forget(pid)
            return
        known.held, known.ended_ns = False, now

    def _forget(self, pid: int) -> None:
        del self.by_pid[pid]
        self._lifetimes.release(pid)
