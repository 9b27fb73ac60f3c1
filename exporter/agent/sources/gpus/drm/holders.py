"""Finds the processes that have DRM devices open, by ``/proc/PID/fd``.

The kernel does not notify of opened devices, so all processes are scanned now and then, in a thread
that may be late. A process costs some 30 µs: a directory listing, and a readlink(2) for each
descriptor. The more processes there are, the less often they are scanned. ``fdinfo`` is read
elsewhere, only of the descriptors found here. Another user's descriptors take CAP_DAC_READ_SEARCH
to be listed, because the directory is readable to that user only, and CAP_SYS_PTRACE to be resolved
(proc_pid_fd(5)).
"""

import errno
import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from exporter.agent.sources.door import Whole
from exporter.agent.sources.gpus.pool import DeviceWorkers
from exporter.agent.sources.gpus.source import Demand
from exporter.agent.sources.proc import PidNamespaces, pid_namespaces, start_time
from exporter.model import Clock, Unmeasured

logger = logging.getLogger(__name__)

DRM_MAJOR = 226
MAX_PROCESSES = 262_144
MAX_DESCRIPTORS = 1 << 20  # of one process: as many as it may have, unless fs.nr_open is raised
AT_ONCE = 1024  # descriptors of one process, after which a scan is seen to go on
PERIOD = 50  # the interval is so many times the duration of a scan: a fiftieth of a core at most
_NODE = re.compile(r"/dev/dri/(?:card|renderD)([0-9]{1,4})(?: \(deleted\))?", re.ASCII)
_DEVICES = "/dev/"  # elsewhere may be a file system that hangs
SCAN = "clients"  # the worker's key; no UUID
SHARE_OF_DEADLINE = 0.75  # in which a scan is waited for
HUNG_NS = 5 * 10**9  # so long the last scan stands in for one that hangs
_REFUSED = {errno.EACCES, errno.EPERM}
REFUSED = (
    "processes may not be looked into, so that not all clients can be seen: run as "
    "root with hostPID, CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE"
)
NESTED = "not all of the machine's processes can be seen: set hostPID: true in the pod spec"
CROWDED = "there are too many processes to scan, so that not all clients can be seen"
HANGS = "looking for processes that have a device open has not come back; see the kernel log"
CUT = (
    "have more files of /dev/dri open than are looked at: what they and their containers use is "
    "unmeasured; find out why they do"
)

MAX_HANDLES = 8192  # of all processes together
MAX_OF_ONE = 512  # of one process; less while all together have too many


class Handle(NamedTuple):
    """One descriptor of a process. ``start``: clock ticks since boot at which the process began."""

    start: int
    pid: int
    descriptor: int


class Handles:
    """Open DRM handles by process. Above the limit, only the processes with the most are cut.

    The limit for one process is halved until all fit: a process with few handles is cut only if
    many others have as many.
    """

    def __init__(self) -> None:
        self.cut: set[int] = set()
        self._of: dict[int, list[tuple[int, Handle]]] = {}
        self._number = 0
        self._room = MAX_OF_ONE

    def add(self, minor: int, handle: Handle) -> bool:
        """Adds a handle; False if there is no room for more of this process."""
        own = self._of.get(handle.pid, [])
        is_full = self._number >= MAX_HANDLES and self._room == 1
        if len(own) >= self._room or is_full:
            self.cut.add(handle.pid)
            return False
        own.append((minor, handle))
        self._of[handle.pid] = own
        self._number += 1
        while self._number > MAX_HANDLES and self._room > 1:
            self._room //= 2
            for pid, of_process in self._of.items():
                if len(of_process) > self._room:
                    self._number -= len(of_process) - self._room
                    del of_process[self._room :]
                    self.cut.add(pid)
        return True

    def cut_off(self, pid: int) -> None:
        """Marks a process with too many descriptors as cut, if it has any DRM handle."""
        if pid in self._of:
            self.cut.add(pid)

    def by_minor(self) -> dict[int, tuple[Handle, ...]]:
        """Handles by minor number, the youngest process first: see ``DeviceClients``."""
        found: dict[int, list[Handle]] = {}
        for own in self._of.values():
            for minor, handle in own:
                found.setdefault(minor, []).append(handle)
        return {minor: tuple(sorted(all_of, reverse=True)) for minor, all_of in found.items()}


@dataclass(frozen=True, slots=True)
class HandleScan:
    """One scan of all processes. ``handles``: by minor number of the device's node.

    ``since_mono_ns``: when the scan before began, if it was complete. ``refused``: the number of
    processes that may not be looked into. ``left``: the number beyond the limit. ``cut``: processes
    with too many DRM descriptors, of which only some were read. ``was_cut``: those of the scan
    before. ``nested``: only a container's processes are visible. ``stale``: a newer scan hangs.
    """

    handles: Mapping[int, tuple[Handle, ...]] = field(default_factory=dict)
    begun_mono_ns: int = 0
    since_mono_ns: int | None = None
    refused: int = 0
    left: int = 0
    cut: frozenset[int] = frozenset()
    was_cut: frozenset[int] = frozenset()
    nested: bool = False
    stale: bool = False

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

    def __init__(self, proc_root: str, clock: Clock) -> None:
        self._root = proc_root
        self._clock = clock
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
        cut = self.newest.cut if self.newest else ()
        some = f"processes ({min(cut)} is the first of {len(cut)}) " if cut else ""
        return self._missing().replace(CUT, some + CUT)

    def _missing(self) -> str:
        scan = self.newest or HandleScan()
        if self._nested:
            return NESTED
        if scan.refused:
            return REFUSED
        return CROWDED if scan.left else CUT if scan.cut else ""

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
        found, refused, before = Handles(), 0, self.newest
        try:
            listed = os.listdir(self._root)  # noqa: PTH208 - names are all that is wanted, ten times a cheap
        except OSError:
            listed = []
        pids = sorted(int(name) for name in listed if name.isdecimal())
        for pid in pids[:MAX_PROCESSES]:
            self._move()
            try:
                for opened in _handles(self._root, pid):
                    self._move()
                    if opened is not None and not found.add(*opened):
                        break
            except OSError as error:
                refused += error.errno in _REFUSED
                if error.errno == errno.E2BIG:  # else it ended meanwhile
                    found.cut_off(pid)
        # Only after a complete scan is a client that is found now known to be new since then.
        was_complete = before is not None and not before.refused and not before.left
        return HandleScan(
            found.by_minor(),
            begun_ns,
            before.begun_mono_ns if before and was_complete else None,
            refused,
            max(len(pids) - MAX_PROCESSES, 0),
            frozenset(found.cut),
            before.cut if before else frozenset(),
            self._nested,
        )


class WorkerScans:
    """Scans in a worker, because a file of ``/proc`` may hang. The last scan is then stale."""

    def __init__(self, proc_root: str, clock: Clock, workers: DeviceWorkers) -> None:
        self._root = proc_root
        self._clock = clock
        self._workers = workers
        self._hung = False
        self.restart()

    def restart(self) -> None:
        """Drops all scans, after a time without any. One that hangs ends for nobody."""
        self._scanner = HandleScanner(self._root, self._clock)

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


def _handles(root: str, pid: int) -> Iterator[tuple[int, Handle] | None]:
    """Minor number and handle of each DRM descriptor; None after every ``AT_ONCE`` descriptors.

    Raises:
        OSError: the process has ended, may not be looked into, or has too many (E2BIG).

    """
    # Its descriptors are then read through the open folder, which is the same process's to the end.
    folder = os.open(f"{root}/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    start: int | None = None
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries, 1):
                if number > MAX_DESCRIPTORS:
                    raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
                minor = _minor(entry.name, folder)
                if minor is not None:
                    # Where its beginning cannot be read, the process counts as the oldest.
                    start = (start_time(root, pid) or 0) if start is None else start
                    yield minor, Handle(start, pid, int(entry.name))
                if number % AT_ONCE == 0:
                    yield None
    finally:
        os.close(folder)


def _minor(name: str, folder: int) -> int | None:
    """The minor number of a descriptor's DRM device; None if it has none."""
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError:
        return None
    if not target.startswith(_DEVICES) or not name.isdecimal():
        return None
    named = _NODE.fullmatch(target)
    try:
        node = os.stat(name, dir_fd=folder)
    except OSError:  # a copy of /proc whose links lead nowhere, in tests
        return int(named[1]) if named else None
    # A container may have the device under another name: its number is the same everywhere.
    is_drm = stat.S_ISCHR(node.st_mode) and os.major(node.st_rdev) == DRM_MAJOR
    return os.minor(node.st_rdev) if is_drm else None
