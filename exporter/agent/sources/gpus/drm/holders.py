"""Finds the processes that have DRM devices open, by ``/proc/PID/fd``.

The kernel does not notify of opened devices, so all processes are scanned now and then, in a thread
that may be late. A process costs some 50 µs: a directory listing, a readlink(2) for each of its
descriptors, and ``fdinfo`` of those in ``/dev``. Those that have a device open and those that are
new or were met last are looked at in each scan, of the others some in turn: the more there are, the
less often. Another user's descriptors take CAP_DAC_READ_SEARCH to be listed, because the directory
is readable to that user only, and CAP_SYS_PTRACE to be resolved (proc_pid_fd(5)).
"""

import errno
import logging
import os
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from exporter.agent.fairness import Held
from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus.drm.descriptors import Opened, opened, target_of
from exporter.agent.sources.gpus.drm.drmdiscovery import DRIVERS
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.pool import DeviceWorkers
from exporter.agent.sources.proc import (
    OwnersOfProcesses,
    PidNamespaces,
    pid_namespaces,
    start_time,
    user_id,
)
from exporter.model import Clock, Unmeasured

logger = logging.getLogger(__name__)

MAX_PROCESSES = 262_144
MAX_DESCRIPTORS = 1 << 20  # of one process: as many as it may have, unless fs.nr_open is raised
IN_TURN = 48  # processes without a device that are looked at again in one scan,
YOUNGEST = 48  # and those that were met last: most open a device soon after they began
AT_ONCE = 1024  # descriptors of one process, after which a scan is seen to go on
PERIOD = 100  # the interval is so many times the duration of a scan: a hundredth of a core at most
WAKING = {name for name, traits in DRIVERS.items() if traits.wakes}
_Place = tuple[int, str, str]
"""A process, a descriptor of it, and where that leads."""
SCAN = "clients"  # the worker's key; no UUID
SHARE_OF_DEADLINE = 0.75  # in which a scan is waited for
HUNG_NS = 5 * 10**9  # so long the last scan stands in for one that hangs
REFUSED = (
    "processes may not be looked into, so that not all clients can be seen: run as "
    "root with hostPID, CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE"
)
NESTED = "not all of the machine's processes can be seen: set hostPID: true in the pod spec"
CROWDED = "there are too many processes to scan, so that not all clients can be seen"
HANGS = "looking for processes that have a device open has not come back; see the kernel log"
UNREAD = "cannot be looked into ({}): what they and their containers use is unmeasured"
CUT = (
    "have more files of /dev/dri open than are looked at: what they and their containers use is "
    "unmeasured; find out why they do"
)

MAX_HANDLES = 4096  # clients of all processes together
MAX_OF_ONE = 512  # clients of one process
MAX_OF_CLIENT = 4  # handles of one client that are kept, of its youngest processes


class Handle(NamedTuple):
    """One descriptor of a process. ``start``: clock ticks since boot at which the process began."""

    start: int
    pid: int
    descriptor: int


class Handles:
    """Open DRM handles by client. Above a limit, only the owner with the most clients is cut.

    A client is one open file, however many descriptors and processes have it: it counts once.
    """

    def __init__(self) -> None:
        self.cut: set[int] = set()
        self.silent: dict[int, bool] = {}  # minors with descriptors that name no client: is it old?
        self.pids: dict[int, set[int]] = {}  # who has each minor open
        self.owners: dict[int, Hashable] = {}  # of each of them
        self._clients: dict[_Key, list[Handle]] = {}
        self._number_of: Counter[int] = Counter()  # clients of each process
        self._room: Held[_Key] = Held(MAX_HANDLES, newest=True)

    def add(
        self,
        minor: int,
        handle: Handle,
        owner: Hashable | None = None,
        opened: Opened | None = None,
    ) -> bool:
        """Adds a handle; False if there is no room for more of this process."""
        pid = handle.pid
        self.pids.setdefault(minor, set()).add(pid)
        owner = self.owners.setdefault(pid, pid if owner is None else owner)
        client = opened.client if opened else None
        if opened and client is None and not opened.driver:
            self.silent[minor] = self.silent.get(minor, False) or opened.is_old
        key: _Key = (minor, handle if client is None else client)
        own = self._clients.get(key)
        if own is not None:
            own.append(handle)
            own.sort(reverse=True)
            del own[MAX_OF_CLIENT:]
            return True
        if self._number_of[pid] >= MAX_OF_ONE:
            self.cut.add(pid)
            return False
        self._clients[key] = [handle]
        self._number_of[pid] += 1
        gone = self._room.add(key, owner)
        if gone is not None:
            self.cut.update(each.pid for each in self._clients.pop(gone))
        return True

    def keep(self, pid: int, before: "HandleScan") -> None:
        """Takes over the handles of a process that cannot be looked at now: it may have more."""
        self.cut.add(pid)
        owner = self.owners[pid] = before.owners.get(pid, pid)
        for minor, pids in before.pids.items():
            if pid in pids:
                self.pids.setdefault(minor, set()).add(pid)
        for minor, handles in before.handles.items():
            for handle in handles:
                if handle.pid == pid:
                    known = before.clients.get(handle)
                    opened = None if known is None else Opened(minor, client=known)
                    self.add(minor, handle, owner, opened)

    def cut_off(self, pid: int) -> None:
        """Marks a process as cut, if it has any DRM handle."""
        if self._number_of[pid]:
            self.cut.add(pid)

    def by_minor(self) -> dict[int, tuple[Handle, ...]]:
        """Handles by minor number, the youngest process first: see ``DeviceClients``."""
        found: dict[int, list[Handle]] = {}
        for (minor, _), own in self._clients.items():
            found.setdefault(minor, []).extend(own)
        return {minor: tuple(sorted(all_of, reverse=True)) for minor, all_of in found.items()}

    def clients(self) -> dict[Handle, int]:
        """The client of each handle that says one."""
        named = ((who, own) for (_, who), own in self._clients.items() if isinstance(who, int))
        return {handle: client for client, own in named for handle in own}


_Key = tuple[int, int | Handle]
"""The minor number of a device, and a client of it; a handle, where it does not say of which."""


@dataclass(frozen=True, slots=True)
class HandleScan:
    """One scan of all processes. ``handles``: by minor number of the device's node.

    ``since_mono_ns``: when the first of the scans began that all other processes than new ones were
    looked at in, if they were complete. ``refused``: the number of processes that may not be looked
    into, where no other user's may. ``unread``: why, of single processes that could not be looked
    into; they are ``cut``, too. ``left``: the number beyond the limit. ``cut``: processes
    with DRM descriptors of which not all were read. ``was_cut``: those of the scan before.
    ``nested``: only a container's processes are visible. ``stale``: a newer scan hangs or failed.

    ``clients``: of each handle that says one. ``pids``: all processes that have a device open, by
    minor number, and ``owners`` their owners. ``silent``: minor numbers of devices with descriptors
    that name no client, and whether they have amdgpu's form of before Linux 5.19.
    """

    handles: Mapping[int, tuple[Handle, ...]] = field(default_factory=dict)
    begun_mono_ns: int = 0
    since_mono_ns: int | None = None
    refused: int = 0
    left: int = 0
    cut: frozenset[int] = frozenset()
    unread: Mapping[int, Refused | Failed] = field(default_factory=dict)
    was_cut: frozenset[int] = frozenset()
    nested: bool = False
    stale: bool = False
    clients: Mapping[Handle, int] = field(default_factory=dict)
    pids: Mapping[int, Collection[int]] = field(default_factory=dict)
    owners: Mapping[int, Hashable] = field(default_factory=dict)
    silent: Mapping[int, bool] = field(default_factory=dict)

    @property
    def blind(self) -> Unmeasured | None:
        """Why not all processes are visible, so that some use is missing; None if all are."""
        if self.nested:
            return Unmeasured.NO_HOSTPID
        if self.refused:
            return Unmeasured.NO_PERMISSION
        return Unmeasured.READ_FAILED if self.left or self.stale else None


class HandleScanner:
    """Scans ``proc_root`` at intervals. One caller at a time.

    ``moved_mono_ns``: when a scan last went on, which one that hangs does not. ``needed``: what is
    not visible is missing, and not only one source of some.
    """

    def __init__(
        self, proc_root: str, clock: Clock, owners: OwnersOfProcesses | None = None
    ) -> None:
        self._root = proc_root
        self._clock = clock
        self._owners = owners or OwnersOfProcesses(proc_root, lambda _pid: None)
        self._asleep: dict[_Place, Opened] = {}  # of drivers that reading wakes
        # When the scan began that looked at each process, of those that are there.
        self._looked_ns: dict[int, int] = {}
        self._took_ns = 0
        self._said = ""
        # A container's own procfs hides the others. The node's, mounted there, is of a namespace
        # further out, so that this process is in more than one.
        namespaces = pid_namespaces(proc_root)
        known = namespaces.value if isinstance(namespaces, Whole) else PidNamespaces()
        self._nested = known.depth == 1 and known.is_nested
        self.newest: HandleScan | None = None
        self.moved_mono_ns = clock.monotonic_ns()
        self.needed = True

    @property
    def trouble(self) -> str:
        scan, missing = self.newest or HandleScan(), self._missing()
        which = {UNREAD: scan.unread, CUT: scan.cut}.get(missing)
        if not which:
            return missing
        why = door.why(scan.unread[min(which)]) if which is scan.unread else ""
        return f"processes ({min(which)} is the first of {len(which)}) {missing.format(why)}"

    def _missing(self) -> str:
        scan = self.newest or HandleScan()
        if self._nested:
            return NESTED
        if scan.refused:
            return REFUSED
        if scan.left:
            return CROWDED
        return UNREAD if scan.unread else CUT if scan.cut else ""

    def look(self, every_ns: int) -> None:
        """Scans if it is due."""
        now_ns = self._move()
        pause_ns = max(every_ns, PERIOD * self._took_ns)
        if self.newest is None or now_ns - self.newest.begun_mono_ns >= pause_ns:
            self.newest = self._scan(now_ns)
            self._took_ns = self._clock.monotonic_ns() - now_ns
            # The first of the processes that are cut may be another one each time, so the log goes
            # by what is missing, not by the whole sentence.
            missing = self._missing()
            if missing and missing != self._said:
                level = logging.WARNING if self.needed else logging.INFO
                logger.log(level, "clients of /dev/dri: %s", self.trouble)
            self._said = missing

    def _move(self) -> int:
        self.moved_mono_ns = self._clock.monotonic_ns()
        return self.moved_mono_ns

    def _scan(self, begun_ns: int) -> HandleScan:
        found, before = Handles(), self.newest
        listed = door.names(self._root, MAX_PROCESSES)
        if not isinstance(listed, Whole | Cut):
            # No list is no empty list: what was seen last is old, and what comes may be, too.
            known = before or HandleScan(nested=self._nested)
            return replace(known, begun_mono_ns=begun_ns, since_mono_ns=None, stale=True)
        pids = sorted(int(name) for name in listed.value if name.isdecimal())
        was_open = {
            pid for of_minor in (before.pids.values() if before else ()) for pid in of_minor
        }
        # Only after complete scans is a client that is found now known to be new since then.
        here = set(pids)
        looked_ns = {pid: at_ns for pid, at_ns in self._looked_ns.items() if pid in here}
        since_ns: int | None = None
        if before and not (before.refused or before.left or before.stale):
            since_ns = min(looked_ns.values(), default=before.begun_mono_ns)
        # In the order in which they were met first, so that the youngest are the last.
        others = [pid for pid in looked_ns if pid not in was_open][:-YOUNGEST]
        others.sort(key=looked_ns.__getitem__)
        waiting = frozenset(others[IN_TURN:])
        kept, self._asleep = self._asleep, {}
        shown: list[int] = []
        unread: dict[int, Refused | Failed] = {}
        for pid in sorted(here - waiting):
            self._move()
            try:
                shown += [pid] if self._look_at(pid, found, kept) else []
                looked_ns[pid] = begun_ns
            except OSError as error:
                reply = door.unread(error)
                if reply == Failed(errno.E2BIG):
                    found.cut_off(pid)
                elif not isinstance(reply, Absent):
                    unread[pid] = reply
                looked_ns |= {pid: begun_ns} if pid in looked_ns else {}
        refused = self._refused(unread, shown)
        # Who was seen without a device is taken to have none.
        idle = (looked_ns.keys() - was_open) | refused
        unread = {pid: reply for pid, reply in unread.items() if pid not in idle}
        for pid in unread:
            if before:
                found.keep(pid, before)
            found.cut.add(pid)
        self._looked_ns = looked_ns
        return HandleScan(
            found.by_minor(),
            begun_ns,
            since_ns,
            len(refused),
            int(isinstance(listed, Cut)),
            frozenset(found.cut),
            unread,
            before.cut if before else frozenset(),
            self._nested,
            clients=found.clients(),
            pids=found.pids,
            owners=found.owners,
            silent=found.silent,
        )

    def _refused(
        self, unread: Mapping[int, Refused | Failed], shown: Collection[int]
    ) -> frozenset[int]:
        """The refused ones of these processes, if no other user's has shown any descriptor.

        Who may look into other users' processes, but not into some, does not know of these. Who may
        look into none does not know of anybody.
        """
        refused = frozenset(pid for pid, reply in unread.items() if isinstance(reply, Refused))
        users = (user_id(self._root, pid) for pid in (shown if refused else ()))
        others = any(isinstance(e, Whole | Cut) and e.value != os.geteuid() for e in users)
        return frozenset() if others else refused

    def _look_at(self, pid: int, found: Handles, kept: Mapping[_Place, Opened]) -> bool:
        """Adds the handles of one process, and returns whether it has shown any descriptor.

        Raises:
            OSError: it has ended, may not be looked into, or has too many descriptors (E2BIG).

        """
        # Its descriptors are read through the open folder, which is the same process's to the end.
        folder = os.open(f"{self._root}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        start: int | None = None
        owner: Hashable | None = None
        number = 0
        try:
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries, 1):
                    if number > MAX_DESCRIPTORS:
                        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
                    if number % AT_ONCE == 0:
                        self._move()
                    target = target_of(entry.name, folder)
                    if not target:
                        continue
                    self._move()
                    place = (pid, entry.name, target)
                    seen = kept.get(place) or opened(self._root, pid, entry.name, folder, target)
                    if seen is None:
                        continue
                    # To read it again would wake a device of this driver.
                    if seen.driver in WAKING:
                        self._asleep[place] = seen
                    if start is None:
                        # Where its beginning cannot be read, it counts as the oldest.
                        start, owner = start_time(self._root, pid) or 0, self._owners.of(pid)
                    if not found.add(seen.minor, Handle(start, pid, int(entry.name)), owner, seen):
                        return True
            return number > 0
        finally:
            os.close(folder)


class WorkerScans:
    """Scans in a worker, because a file of ``/proc`` may hang. The last scan is then stale."""

    def __init__(
        self, proc_root: str, clock: Clock, workers: DeviceWorkers, owners: OwnersOfProcesses
    ) -> None:
        self._root = proc_root
        self._clock = clock
        self._owners = owners
        self._workers = workers
        self._hung = False
        self.restart()

    def restart(self) -> None:
        """Drops all scans, after a time without any. One that hangs ends for nobody."""
        self._scanner = HandleScanner(self._root, self._clock, self._owners)

    def newest(self, demand: Demand, *, needed: bool = True) -> HandleScan | None:
        """The newest scan; None for the seconds that the first may take. One that hangs is late."""
        self._scanner.needed = needed
        job = partial(self._scanner.look, demand.processes_every_ns)
        result = self._workers.run({SCAN: job}, SHARE_OF_DEADLINE * demand.deadline_s)[SCAN]
        if isinstance(result, Exception):
            raise result
        before, scan = self._hung, self._scanner.newest
        moved_ns = self._scanner.moved_mono_ns
        self._hung = result is not None and self._clock.monotonic_ns() - moved_ns >= HUNG_NS
        if self._hung and not before:
            logger.warning("clients of /dev/dri: %s", HANGS)
        return replace(scan or HandleScan(), stale=True) if self._hung else scan

    @property
    def trouble(self) -> str:
        """What is not visible, and what to do; "" if nothing is missing."""
        return HANGS if self._hung else self._scanner.trouble
