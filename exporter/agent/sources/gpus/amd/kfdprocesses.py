"""KFD's processes: one list in each cycle for all boards, whose bound is divided among owners.

A process is a pid and a start time. KFD's folder of it may be there for longer than the process: a
folder that is older than the process that has the pid now is nobody's.
"""

import logging
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exporter.agent.fairness import Held, Turns, by_owner
from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, Unread, Whole
from exporter.agent.sources.gpus.amd.kfd import KFD, LONGEST_LIST
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.pool import DeviceWorkers, Stuck
from exporter.agent.sources.proc import (
    OwnersOfProcesses,
    PidNamespaces,
    pid_namespaces,
    start_time,
    uptime_ns,
)
from exporter.model import SECOND_NS, Clock, Unmeasured

logger = logging.getLogger(__name__)

# Newer kernels let a process have several contexts: pid:<pid>-id:<n>, and folders context_<n>.
_PROCESS = re.compile(r"(?:pid:)?(\d{1,10})(?:-id:\w{1,20})?", re.ASCII)
_CONTEXT = re.compile(r"context_\w{1,20}", re.ASCII)
_TICK_NS = 10**7  # of a start time: USER_HZ is 100 on all that amdgpu runs on
MAX_PROCESSES = 8192  # that are known; beyond, whoever has the most loses one for each new one
MAX_CONTEXTS = 64  # of one process
LONGEST_FOLDER = 4096  # a process has three files a GPU, and its contexts
NEW_A_SECOND = 128  # processes that are looked at for the first time, after a first 8,192
NEW_AT_ONCE = 1024  # of these, in one cycle: they take a tenth of a second
CHECKED = 16  # processes that are looked at again, in each cycle
CHECK_EVERY_NS = 5 * SECOND_NS
OLDER_NS = 5 * SECOND_NS  # by so much a folder is certainly older than a process
TOO_MANY = (
    "have /dev/kfd open beside too many others of their containers: what these use is unmeasured; "
    "find out why they are so many"
)


LIST = "processes"  # the worker's key; no UUID
SHARE_OF_DEADLINE = 0.25  # in which the list is waited for
HUNG_NS = 5 * SECOND_NS  # so long the last list stands in for one that hangs
HANGS = "the list of KFD's processes has not come back; see the kernel log for amdgpu"


class KfdProcess(NamedTuple):
    """A process with its folders. ``number``: they count up. ``is_new``: it was in no list before.

    ``folders``: one for each of its contexts; none if they are of one that had its pid before.
    ``tops``: the names of those in the list.
    """

    pid: int
    start: int | None
    owner: Hashable
    folders: tuple[str, ...]
    tops: list[str]
    number: int
    is_new: bool


class KfdList(NamedTuple):
    """The processes as they are now. ``why``: why they are not known; they are the last ones then.

    ``cut``: a process of each owner who has too many, some of which are left out. ``is_short``:
    some were not looked at yet.
    """

    processes: dict[int, KfdProcess]
    by_owner: Mapping[Hashable, list[int]]
    cut: frozenset[int] = frozenset()
    is_short: bool = False
    why: Unmeasured | None = None

    @property
    def newest_number(self) -> int:
        """The number of the newest process."""
        return next((each.number for each in reversed(self.processes.values())), 0)


class _Waiting(NamedTuple):
    """A process that was not looked at yet, by its folders' names."""

    names: list[str]
    is_new: bool


@dataclass(slots=True)
class _LastLook:
    """What the last look at a process showed: when it was, and which folder it has.

    ``start_before``: when the process began that had this folder before, by its pid.
    """

    seen_ns: int
    inode: int | None
    start_before: int | None = None


class KfdProcesses:
    """Keeps the list. ``look`` is called once a cycle, by one caller at a time."""

    def __init__(
        self, sysfs: Path, proc_root: str, owners: OwnersOfProcesses, clock: Clock
    ) -> None:
        self._folder, self._root, self._clock = f"{sysfs / KFD}/proc", proc_root, clock
        self._owners = owners
        # A container's own procfs has other processes under these pids.
        namespaces = pid_namespaces(proc_root)
        known = namespaces.value if isinstance(namespaces, Whole) else PidNamespaces()
        self._is_nested = known.depth == 1 and known.is_nested
        self._names: frozenset[str] = frozenset()
        self._waiting: dict[int, _Waiting] = {}
        self._known: dict[int, KfdProcess] = {}
        self._left_out: dict[int, tuple[Hashable, list[str]]] = {}  # owner, the folders' names
        self._room: Held[int] = Held(MAX_PROCESSES, newest=True)
        self._looks: dict[int, _LastLook] = {}
        self._turns: Turns[int] = Turns()
        self._number, self._tokens, self._refilled_ns = 0, float(MAX_PROCESSES), 0
        self._seen: tuple[int, int] | None = None  # how the folder was when it was listed
        self._listed_ns = 0
        self._was_whole = self._has_changed = False
        self._said = False
        self.newest: KfdList | None = None

    @property
    def trouble(self) -> str:
        """What is missing, and what to do; "" if nothing is."""
        if not self._left_out:
            return ""
        return f"processes ({min(self._left_out)} is the first of {len(self._left_out)}) {TOO_MANY}"

    def look(self) -> None:
        """Reads the list, and looks at the processes that are new, as far as there is room."""
        reply, why = self._names_now(), None
        match reply:
            case Whole(names):
                self._take(names)
            case Cut():
                why = Unmeasured.READ_FAILED
            case Absent() | Refused() | Failed():
                why = _reason(reply, was_there=self._was_whole)
        before = self.newest
        if self._has_changed or before is None or before.why is not why:
            here = {pid: each for pid, each in self._known.items() if each.folders}
            self.newest = KfdList(*(here, self._by_owner(), self._cut(), bool(self._waiting), why))
        if self._left_out and not self._said:
            logger.warning("KFD: %s", self.trouble)
        self._said = bool(self._left_out)

    def _names_now(self) -> Reply[frozenset[str]]:
        """The names in the list; those of before while the folder says that they are the same."""
        reply, now_ns = door.about(self._folder), self._clock.monotonic_ns()
        seen = (reply.value.st_nlink, reply.value.st_mtime_ns) if isinstance(reply, Whole) else None
        # A folder counts the folders in it. One that has gone as another came is seen later.
        is_due = now_ns - self._listed_ns >= CHECK_EVERY_NS
        if seen is not None and seen == self._seen and not is_due:
            return Whole(self._names)
        names = door.parsed(door.names(self._folder, LONGEST_LIST), frozenset)
        self._seen = seen if isinstance(names, Whole) else None
        self._listed_ns = now_ns
        return names

    def _take(self, names: frozenset[str]) -> None:
        """Takes a whole list of folders."""
        now_ns = self._clock.monotonic_ns()
        self._has_changed = names != self._names or bool(self._waiting)
        for name in self._names - names:
            self._drop(name)
        for name in sorted(names - self._names):
            if match := _PROCESS.fullmatch(name):
                is_new = self._was_whole
                self._waiting.setdefault(int(match[1]), _Waiting([], is_new)).names.append(name)
        self._names, self._was_whole = names, True
        # Who was left out comes in again as soon as there is room.
        for pid in list(self._left_out)[: MAX_PROCESSES - len(self._known)]:
            self._waiting[pid] = _Waiting(self._left_out.pop(pid)[1], is_new=False)
        refill = (now_ns - self._refilled_ns) / SECOND_NS * NEW_A_SECOND
        self._tokens, self._refilled_ns = min(self._tokens + refill, MAX_PROCESSES), now_ns
        for pid in list(self._waiting)[: min(int(self._tokens), NEW_AT_ONCE)]:
            self._tokens -= 1
            self._meet(pid, *self._waiting.pop(pid))
        most = min(CHECKED, len(self._known) * SECOND_NS // CHECK_EVERY_NS + 1)
        for pid in self._turns.take(self.newest.by_owner if self.newest else {}, most):
            if pid in self._known:
                self._check(self._known[pid])

    def _drop(self, name: str) -> None:
        match = _PROCESS.fullmatch(name)
        if match is None:
            return
        pid = int(match[1])
        known = self._known.get(pid)
        waiting, left_out = self._waiting.get(pid), self._left_out.get(pid)
        for names in filter(None, (waiting and waiting.names, left_out and left_out[1])):
            if name in names:
                names.remove(name)
        if waiting and not waiting.names:
            del self._waiting[pid]
        if left_out and not left_out[1]:
            del self._left_out[pid]
        if known is not None:
            tops = [top for top in known.tops if top != name]
            if tops:
                self._known[pid] = known._replace(tops=tops, folders=self._folders(tops))
            else:
                self._forget(pid)

    def _forget(self, pid: int) -> None:
        self._room.discard(pid)
        del self._known[pid]
        self._looks.pop(pid, None)

    def _meet(self, pid: int, names: list[str], is_new: bool) -> None:  # noqa: FBT001 - of a pair
        """Looks at a process for the first time, or at folders of it that are new."""
        if known := self._known.get(pid):
            tops = [*known.tops, *names]
            self._known[pid] = known._replace(tops=tops, folders=self._folders(tops))
            return
        owner = self._owners.of(pid)
        gone = self._room.add(pid, owner)
        if gone == pid:
            self._left_out[pid] = owner, names
            return
        if gone is not None:
            before = self._known.pop(gone)
            self._left_out[gone] = before.owner, before.tops
            self._looks.pop(gone, None)
        self._number += 1
        start = None if self._is_nested else start_time(self._root, pid)
        reply = door.about(f"{self._folder}/{names[0]}")
        folder = reply.value if isinstance(reply, Whole) else None  # what is in it says so itself
        self._looks[pid] = _LastLook(self._clock.monotonic_ns(), folder and folder.st_ino)
        is_older = folder is not None and self._is_older(folder.st_mtime_ns, start)
        folders = () if is_older else self._folders(names)
        self._known[pid] = KfdProcess(pid, start, owner, folders, names, self._number, is_new)

    def _folders(self, tops: list[str]) -> tuple[str, ...]:
        """The folders of these names, and those of contexts in them."""
        found: list[str] = []
        for folder in (f"{self._folder}/{top}" for top in tops):
            found.append(folder)
            match door.names(folder, LONGEST_FOLDER):
                case Whole(names) | Cut(names):
                    inner = sorted(n for n in names if _CONTEXT.fullmatch(n))[:MAX_CONTEXTS]
                    found += [f"{folder}/{name}" for name in inner]
                case Absent() | Refused() | Failed():  # what is in it says so itself
                    pass
        return tuple(found)

    def _is_older(self, made_ns: int, start: int | None) -> bool:
        """Whether a folder was there before the process began that has its pid now."""
        up_ns = uptime_ns(self._root)
        if start is None or up_ns is None:
            return False
        # A folder's time is that of the wall clock. One from before the machine began says that
        # this clock was set since, and nothing of the folder.
        boot_ns = self._clock.time_ns() - up_ns
        return boot_ns < made_ns < boot_ns + start * _TICK_NS - OLDER_NS

    def _check(self, known: KfdProcess) -> None:
        """Looks at a known process again: its pid may be another's, or it has more contexts."""
        pid, look = known.pid, self._looks[known.pid]
        start = None if self._is_nested else start_time(self._root, pid)
        if start is not None and start == look.start_before:
            # Who had the folder goes on: the start that was reported in between was wrong.
            look.start_before = None
            folders = self._folders(known.tops)
            self._known[pid] = known._replace(start=start, folders=folders, is_new=False)
            self._has_changed = True
            return
        # Who has a pid next begins later. A start before the known one was not read right.
        if start is None or known.start is None or start <= known.start:
            start = known.start or start
        elif self._is_next(look.seen_ns, start):
            self._has_changed = True
            self._forget(pid)
            self._meet(pid, known.tops, is_new=True)
            now = self._looks.get(pid)  # None: another gave way
            if now is not None and now.inode is not None and now.inode == look.inode:
                # The folder is the same one as when another process had the pid.
                self._known[pid] = self._known[pid]._replace(folders=())
                now.start_before = known.start
            return
        look.seen_ns = self._clock.monotonic_ns()
        folders = self._folders(known.tops) if known.folders else ()
        if (folders, start) != (known.folders, known.start):
            self._known[pid] = known._replace(folders=folders, start=start)
            self._has_changed = True

    def _is_next(self, seen_ns: int, start: int) -> bool:
        """Whether a process that began then can have the pid of one that was seen at a time.

        It began after that, and before now. Otherwise a start was reported wrong.
        """
        up_ns = uptime_ns(self._root)
        if up_ns is None:
            return True
        up_then_ns = up_ns - (self._clock.monotonic_ns() - seen_ns)
        return up_then_ns - SECOND_NS < start * _TICK_NS < up_ns + SECOND_NS

    def _cut(self) -> frozenset[int]:
        """One process of each owner who has too many."""
        return frozenset({owner: pid for pid, (owner, _) in self._left_out.items()}.values())

    def _by_owner(self) -> dict[Hashable, list[int]]:
        return by_owner(self._known, {pid: each.owner for pid, each in self._known.items()})


class WorkerLists:
    """Reads the list in a worker, as a file may hang: the last one is then used for a while."""

    def __init__(self, processes: KfdProcesses, clock: Clock, workers: DeviceWorkers) -> None:
        self._processes, self._clock, self._workers = processes, clock, workers
        self._late_since_ns: int | None = None
        self._hangs = False

    def newest(self, demand: Demand) -> KfdList | None:
        """The newest list; None for the seconds that the first may take. One that hangs is late."""
        job = self._processes.look
        result = self._workers.run({LIST: job}, SHARE_OF_DEADLINE * demand.deadline_s)[LIST]
        if isinstance(result, Exception):
            raise result
        now_ns, before = self._clock.monotonic_ns(), self._hangs
        is_late = isinstance(result, Stuck)
        self._late_since_ns = (self._late_since_ns or now_ns) if is_late else None
        self._hangs = is_late and now_ns - (self._late_since_ns or now_ns) >= HUNG_NS
        if self._hangs and not before:
            logger.warning("KFD: %s", HANGS)
        listed = self._processes.newest
        if not self._hangs:
            return listed
        return (listed or KfdList({}, {}))._replace(why=Unmeasured.READ_FAILED)

    @property
    def trouble(self) -> str:
        """What is missing, and what to do; "" if nothing is."""
        return HANGS if self._hangs else self._processes.trouble


def _reason(reply: Unread, *, was_there: bool) -> Unmeasured:
    match reply:
        case Refused():
            return Unmeasured.NO_PERMISSION
        case Absent():  # older kernels have none; a folder that was there cannot be listed now
            return Unmeasured.READ_FAILED if was_there else Unmeasured.NOT_SUPPORTED
        case Failed():
            return Unmeasured.READ_FAILED
