"""A cache of processes and their identities.

A process is identified by pid and start time. While its pidfd shows that it lives, its identity is
cached. It is read again from time to time, because a process can be moved between cgroups, and kept
for a while after its end, because the driver's sample ring still reports it.

One epoll over all pidfds (pidfd_open(2)) reports the end of processes in a microsecond. A held
pidfd also proves, without reading ``/proc``, that a pid still means the same process.
"""

import errno
import os
import resource
import select
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush

from exporter.model import CgroupIdentity, Unattributed, Unit
from exporter.sources.cgroups.containers import ContainerTree
from exporter.sources.cgroups.layout import HOST, best_identity
from exporter.sources.cgroups.proc import (
    ProcessState,
    look_again,
    look_at,
    paths_of,
    start_time,
    user_id,
)

_GONE = {errno.ESRCH}
_SHARE_OF_DESCRIPTORS = 2  # one half is left to the rest of the program: sockets above all


class Hold(Enum):
    """What became of the attempt to hold a process."""

    HELD = auto()
    GONE = auto()
    IMPOSSIBLE = auto()  # no pidfds in this kernel or sandbox, no descriptor or watch left


class Lifetimes:
    """Holds processes: one pidfd for each, all of them watched by one epoll.

    If ``enabled`` is False, none is held: for pids of another PID namespace, where a pidfd
    would be of another process. ``close`` closes ``epoll`` too.
    """

    def __init__(self, *, enabled: bool = True, epoll: select.epoll | None = None) -> None:
        self._enabled = enabled and hasattr(os, "pidfd_open")
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = sys.maxsize if limit < 0 else limit // _SHARE_OF_DESCRIPTORS
        self._epoll = epoll or select.epoll()
        self._pid_of: dict[int, int] = {}
        self._pidfd_of: dict[int, int] = {}

    def hold(self, pid: int) -> Hold:
        """Hold the process that has this pid now, if that is possible."""
        if not self._enabled or len(self._pid_of) >= self._most:
            return Hold.IMPOSSIBLE
        self.release(pid)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            return Hold.GONE if error.errno in _GONE else Hold.IMPOSSIBLE
        try:
            self._epoll.register(pidfd, select.EPOLLIN)
        except OSError:  # ENOSPC: fs.epoll.max_user_watches is reached
            os.close(pidfd)
            return Hold.IMPOSSIBLE
        self._pid_of[pidfd], self._pidfd_of[pid] = pid, pidfd
        return Hold.HELD

    def ended(self) -> list[int]:
        """The held processes that ended since the last call, zombies included; now released."""
        pids = [self._pid_of[pidfd] for pidfd, _ in self._epoll.poll(0)] if self._pid_of else []
        for pid in pids:
            self.release(pid)
        return pids

    def release(self, pid: int) -> None:
        """Hold this process no longer. It need not be held."""
        pidfd = self._pidfd_of.pop(pid, None)
        if pidfd is not None:
            del self._pid_of[pidfd]
            self._epoll.unregister(pidfd)  # closing is not enough while a forked child has a copy
            os.close(pidfd)

    def close(self) -> None:
        """Release all."""
        for pid in list(self._pidfd_of):
            self.release(pid)
        self._epoll.close()


SECOND_NS = 10**9
READ_AGAIN_NS = 60 * SECOND_NS
YOUNG_NS = 30 * SECOND_NS  # a process this young may still be moved into its container's cgroup
_TURNS = 8  # groups of processes that are read again together, within READ_AGAIN_NS

Answer = CgroupIdentity | Unattributed


def ttl_ns(pid: int, answer: Answer, met_ns: int, now_ns: int) -> int:
    """For how long, from now on, a settled answer is used without a look at the process.

    ``met_ns`` is when the process was met. A young process in no container is looked at each time.
    All others have a turn once a minute. An eighth of them has its turn at the same moment: looks
    one after another find more of what they need in the CPU's caches.
    """
    is_container = isinstance(answer, CgroupIdentity) and answer.container_id
    if not is_container and now_ns - met_ns < YOUNG_NS:
        return 0
    turn_ns = pid % _TURNS * READ_AGAIN_NS // _TURNS
    return READ_AGAIN_NS - (now_ns - turn_ns) % READ_AGAIN_NS


CACHED_AFTER_END_NS = 15 * SECOND_NS  # the driver's ring holds a dead process's samples this long
RENAMED_NS = 300 * SECOND_NS  # a process in its old container is shown by its old name this long
ASKED_FOR_NS = 10 * SECOND_NS  # one walk is used this long for the processes that /proc hides
_LARGEST_PID = 2**22  # PID_MAX_LIMIT of the kernel


@dataclass(slots=True)
class CachedProcess:
    """A process that was met before. Until ``fresh_until_ns`` its answer is used without a look.

    ``paths`` are its cgroups at ``seen_ns``: as long as it has the same, the answer stays. They are
    empty if they do not name the container.
    """

    start: int | None
    held: bool
    met_ns: int
    answer: Answer = Unattributed.UNKNOWN_CGROUP
    look_ns: int = 0
    fresh_until_ns: int = 0
    ended_ns: int | None = None
    name: str = ""
    paths: tuple[str, ...] = ()
    seen_ns: int = 0


class ProcessCache:
    """Says what each process is. It caches at most ``most`` processes.

    ``rejected`` counts those that were forgotten to make room. ``is_blind`` returns whether a pid
    of the node may mean another process here. Not for use by several threads at once.
    """

    def __init__(
        self,
        proc_root: str,
        containers: ContainerTree,
        lifetimes: Lifetimes,
        is_blind: Callable[[], bool],
        most: int,
    ) -> None:
        self.rejected: Counter[str] = Counter()
        self._proc_root, self._containers, self._lifetimes = proc_root, containers, lifetimes
        self._is_blind, self._most = is_blind, most
        self.by_pid: dict[int, CachedProcess] = {}
        self.version = 0  # rises when a process is forgotten or takes another name
        self._ended: dict[int, CachedProcess] = {}
        self._asked: frozenset[int] | None = None  # the last time, and what was answered
        self._answers: Mapping[int, Answer] = {}
        self._stale: set[int] = set()  # to be looked at the next time
        self._due: list[tuple[int, int]] = []  # a heap: from when on, and which pid

    def answers(self, pids: Collection[int], now: int) -> Mapping[int, Answer]:
        """What each of these processes is now; the same mapping as before if nothing has changed.

        A process that was asked for the last time is looked at only if its answer is not fresh.
        """
        asked = frozenset(pids)
        before, self._asked = self._asked, None  # if this fails, the next call looks at all
        self._note_ends(now)
        # A process that is forgotten and met again leaves an old entry in ``_due``. They are
        # cleared before there are too many.
        if before is None or len(self._due) > 2 * self._most:
            self._stale, self._due = set(), []
            self._answers = {pid: self._answer(pid, now) for pid in pids}
        elif asked is before or asked == before:
            self._renew(asked, now)
        else:
            self._stale |= asked - before
            self._renew(asked, now)
            answers = self._answers
            self._answers = dict(zip(pids, map(answers.__getitem__, pids), strict=True))
        self._asked = asked
        return self._answers

    def close(self) -> None:
        """Forget all of them."""
        self.by_pid.clear()
        self._ended.clear()
        self._asked = None
        self._lifetimes.close()

    def _renew(self, asked: frozenset[int], now: int) -> None:
        while self._due and self._due[0][0] <= now:
            self._stale.add(heappop(self._due)[1])
        before, stale, self._stale = self._answers, self._stale & asked, set()
        news = {pid: self._answer(pid, now) for pid in stale}
        if not news.items() <= before.items():
            self._answers = {**before, **news}

    def _answer(self, pid: int, now: int) -> Answer:
        """What one process is; records when it is to be looked at again."""
        known = self.by_pid.get(pid)
        if known is not None and (now < known.fresh_until_ns or self._stays(pid, known, now)):
            answer = known.answer
        else:
            answer = self._look(pid, known, now)
            known = self.by_pid.get(pid)
        if known is None or now >= known.fresh_until_ns:
            self._stale.add(pid)
        else:
            heappush(self._due, (known.fresh_until_ns, pid))
        return answer

    def _look(self, pid: int, known: CachedProcess | None, now: int) -> Answer:
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
            seen = ProcessState(
                None, exiting=False, paths=()
            )  # alive, but hidden from us (hidepid)
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

    def _stays(self, pid: int, known: CachedProcess, now: int) -> bool:
        """Whether it is still in its container; asking costs half as much as a whole look."""
        is_same = known.held and known.paths and now < known.seen_ns + RENAMED_NS
        if not is_same or paths_of(self._proc_root, pid) != known.paths:
            return False
        known.look_ns = known.fresh_until_ns = now + ttl_ns(pid, known.answer, known.met_ns, now)
        return True

    def _meet(self, pid: int, now: int) -> Answer:
        if not 0 < pid <= _LARGEST_PID or self._is_blind():
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
        known = CachedProcess(seen.start, hold is Hold.HELD, now, name=seen.name)
        self.by_pid[pid] = known
        return self._judge(pid, known, seen, now)

    def _judge(self, pid: int, known: CachedProcess, seen: ProcessState, now: int) -> Answer:
        """Make its answer of what was seen of a live process, and set when to look again."""
        answer, is_settled = self._identify(pid, known, seen, now)
        if answer == HOST:
            answer = self._bare(pid)
        if seen.name not in {"", known.name}:
            known.name = seen.name
            self.version += 1
        if not (seen.exiting and isinstance(known.answer, CgroupIdentity)):
            known.answer = answer
        known.paths, known.seen_ns = _named_paths(seen.paths, known.answer), now
        known.look_ns = now + (ttl_ns(pid, known.answer, known.met_ns, now) if is_settled else 0)
        known.fresh_until_ns = known.look_ns if known.held else 0
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
        for pid, known in list(self._ended.items()):
            if now - (known.ended_ns or 0) >= CACHED_AFTER_END_NS:
                self._forget(pid)

    def _note_end(self, pid: int, known: CachedProcess, now: int) -> None:
        if known.ended_ns is not None:
            return
        if known.start is None or not isinstance(known.answer, CgroupIdentity):
            self._forget(
                pid
            )  # nothing worth keeping, or the pid's next process cannot be recognised
            return
        known.held, known.ended_ns, known.fresh_until_ns = False, now, 0
        self._ended[pid] = known
        self._stale.add(pid)

    def _forget(self, pid: int) -> None:
        del self.by_pid[pid]
        self.version += 1
        self._ended.pop(pid, None)
        self._lifetimes.release(pid)
        self._stale.add(pid)


def _named_paths(paths: tuple[str, ...], answer: Answer) -> tuple[str, ...]:
    """The paths, if they name the pod's container that is the answer; else none."""
    container_id = isinstance(answer, CgroupIdentity) and answer.pod_uid and answer.container_id
    return paths if container_id and best_identity(paths).container_id == container_id else ()
