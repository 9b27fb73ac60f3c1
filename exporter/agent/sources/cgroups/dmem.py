"""Device memory of cgroups: the kernel's ``dmem`` controller (since 6.14, cgroup v2).

Each cgroup has ``dmem.current``, ``dmem.min``, ``dmem.low`` and ``dmem.max``, one line for each
region of a device: ``drm/<PCI address>/<region> <bytes or max>``
(``Documentation/admin-guide/cgroup-v2.rst``; drivers amdgpu, xe and nouveau; NVIDIA's driver:
``nvidia/<PCI address>/vidmem``). A region is found by the PCI address in its key, however the rest
is spelled. Its files are readable by all. They are there, also ``dmem.capacity`` of the root, once
``+dmem`` is in the ``cgroup.subtree_control`` above.

``min`` is kept whatever others need. ``low`` is a best effort: it is taken last, when nobody has
any left that is not protected. Both hold only as far as each cgroup above has as much.
"""

import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.cgroups.batchpatterns import NO_SITE, GroupPatterns
from exporter.agent.sources.cgroups.layout import (
    HOST,
    PathState,
    best_identity,
    cgroup_paths,
    descend,
    root_of,
)
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, UnreadError, Whole
from exporter.model import (
    MIG,
    PARTITIONED,
    CgroupCharge,
    CgroupIdentity,
    CgroupMemory,
    Clock,
    DeviceMemory,
    DeviceReading,
    ProcessMemory,
)

logger = logging.getLogger(__name__)

CAPACITY, CURRENT = "dmem.capacity", "dmem.current"
MIN, LOW, MAX = "dmem.min", "dmem.low", "dmem.max"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_AMOUNT = re.compile(r"max|[0-9]{1,20}", re.ASCII)  # 64 bits at most
_LONGEST = 64 * 1024
_UNIFIED = "0::"

LOOK_NS = 5 * 10**9  # between two looks at all cgroups: as often as drivers' lists are read
MOST_FOLDERS = 4096  # of one look
MOST_NAMES = 65_536  # of one directory, its files among them
MOST_INSIDE = 256  # of one container or group, which may make as many as it likes

Address = tuple[int, str]
Bytes = dict[Address, int | None]
"""Of each device; None: ``max``."""


def address_of(text: str) -> Address | None:
    """The PCI address in a text, whatever the number of digits of its domain."""
    found = _ADDRESS.search(text)
    return (int(found[1], 16), found[2].lower()) if found else None


def read(folder: str, name: str) -> Reply[Bytes]:
    """One file of one cgroup, by device.

    The regions of a device's own memory (``vram``) are summed up, those of system memory are left
    out. A device of which a line cannot be read is left out as a whole: a part is no sum.
    """
    return door.parsed(door.read(f"{folder}/{name}", _LONGEST), _amounts)


def _amounts(content: bytes) -> Bytes:
    sums: Bytes = {}
    unread: set[Address] = set()
    for line in _whole_lines(content):
        key, _, value = line.rpartition(" ")
        address = address_of(key)
        # Buffers that a driver keeps in the host's memory are counted by the kernel's own memory
        # controller. Added here they would make a card look fuller than it is.
        region = key.rpartition("/")[2]
        if address is None or region.startswith(("gtt", "stolen", "tt", "system")):
            continue
        if not _AMOUNT.fullmatch(value):
            unread.add(address)
            continue
        before = sums.get(address, 0)
        sums[address] = None if value == "max" or before is None else before + int(value)
    return {address: amount for address, amount in sums.items() if address not in unread}


def _whole_lines(content: bytes) -> list[str]:
    if len(content) >= _LONGEST:
        content = content[: content.rfind(b"\n") + 1]
    return os.fsdecode(content).split("\n")


def stated(folder: str, name: str) -> Bytes:
    """The same; nothing where there is no such file.

    Raises:
        UnreadError: it cannot be read now.

    """
    match read(folder, name):
        case Whole(amounts) | Cut(amounts):
            return amounts
        case Absent():
            return {}
        case (Refused() | Failed()) as reply:
            raise UnreadError(f"{folder}/{name}: {door.why(reply)}")


class _Charged(NamedTuple):
    """The outermost directory of a container or group, and what is charged to it alone."""

    identity: CgroupIdentity
    folder: str
    own: dict[Address, int]


class _Place(NamedTuple):
    """A directory to look into.

    ``within`` is what it is a part of, of which ``left`` more are looked at.
    """

    folder: str
    state: PathState
    within: _Charged | None
    left: list[int]


Charges = Mapping[Address, tuple[CgroupCharge, ...]]
ReadFile = Callable[[str, str], Bytes]


class CgroupFiles:
    """The cgroups of processes, as directories, and what cgroups are charged of devices' memory.

    For one source of devices.
    """

    def __init__(
        self, root: str, proc_root: str, clock: Clock = time, patterns: GroupPatterns = NO_SITE
    ) -> None:
        hybrid = f"{root}/unified"
        has_controllers = isinstance(door.about(f"{root}/cgroup.controllers"), Whole)
        is_hybrid = not has_controllers and isinstance(door.about(hybrid), Whole)
        self.root = hybrid if is_hybrid else root
        self._proc_root, self._clock, self._patterns = proc_root, clock, patterns
        self._own: str | None = None
        self._newest: dict[str, tuple[DeviceMemory, DeviceMemory]] = {}  # by UUID: read, charged
        self._charges: Charges = {}
        self._looked: tuple[int, frozenset[Address]] | None = None  # when, and for which
        self._is_said = False

    def path_of(self, pid: int) -> str | None:
        """The directory of a process's cgroup (v2); None if it is not known or not to be seen.

        A reader in a cgroup namespace of its own sees other paths relative to its own cgroup.
        """
        lines = self._cgroups_of(pid).split("\n")
        path = next((one[len(_UNIFIED) :] for one in lines if one.startswith(_UNIFIED)), None)
        if path is None:
            return None
        base = self.own() if path.startswith("/..") else self.root
        folder = os.path.normpath(f"{base}/{path}")
        is_below = folder == self.root or folder.startswith(f"{self.root}/")
        return folder if is_below and isinstance(door.about(folder), Whole) else None

    def _cgroups_of(self, pid: int) -> str:
        """The lines of ``/proc/PID/cgroup``; none where they cannot be read."""
        match door.read(f"{self._proc_root}/{pid}/cgroup", _LONGEST):
            case Whole(content) | Cut(content):
                return "\n".join(_whole_lines(content))
            case Absent() | Refused() | Failed():
                return ""

    def own(self) -> str:
        """The directory that lists this process; the root if none does."""
        if self._own is None:
            own, is_sure, folders = b"%d" % os.getpid(), True, [self.root]
            for folder in folders:  # which becomes longer meanwhile
                match door.read(f"{folder}/cgroup.procs", _LONGEST):
                    case Whole(pids) | Cut(pids) if own in pids.split():
                        self._own = folder
                        return folder
                    case Failed():
                        is_sure = False
                    case Whole() | Cut() | Absent() | Refused():
                        pass
                match door.folders(folder, MOST_FOLDERS - len(folders)):
                    case Whole(names) | Cut(names):
                        folders += [f"{folder}/{name}" for name in names]
                    case Failed():
                        is_sure = False
                    case Absent() | Refused():
                        pass
            if not is_sure:  # it may be one of those that were not read: look again
                return self.root
            self._own = self.root
        return self._own

    def charged(self, readings: Sequence[DeviceReading]) -> tuple[DeviceReading, ...]:
        """The source's readings with what the kernel says of cgroups.

        Of each container and group what it is charged, also where the driver lists no process of
        it; and of each listed process what its cgroup is held to. What the driver said of it stays.
        """
        before, self._newest = self._newest, {}
        # The kernel counts whole cards. What it says of one that is divided would be said of each
        # of its parts, so these are left out.
        places = {
            r.device.uuid: where
            for r in readings
            if not r.device.parent_uuid and r.device.sharing not in {MIG, PARTITIONED}
            if (where := address_of(r.device.pci_bus_id))
        }
        charges = self._look(frozenset(places.values()))
        changed: list[DeviceReading] = []
        for reading in readings:
            uuid, memory = reading.device.uuid, reading.memory
            address = places.get(uuid)
            if memory is not None and address is not None and charges is not None:
                # A source hands out the same memory until it reads the card again. So long the
                # limits of its processes are not looked up again either: they are three files for
                # each cgroup up to the root.
                read_before, after = before.get(uuid, (None, None))
                if read_before is not memory or after is None:
                    after = self._of_processes(memory, address)
                if after.charges != (own := charges.get(address, ())):
                    after = replace(after, charges=own)
                self._newest[uuid] = memory, after
                if after is not memory:
                    reading = reading._replace(memory=after)  # noqa: PLW2901
            changed.append(reading)
        return tuple(changed)

    def _of_processes(self, memory: DeviceMemory, address: Address) -> DeviceMemory:
        """The memory with what the cgroup of each process is held to, if the driver does not say.

        That is the cgroup of its container or group, whichever below it a process is in: what holds
        for one part holds for no other.
        """
        known: dict[str | None, CgroupMemory | None] = {None: None}
        once = cache(stated)
        processes: list[ProcessMemory] = []
        for process in memory.processes or ():
            if process.cgroup is None or process.cgroup.refused:
                folder = self.home_of(process.pid)
                if folder is not None and folder not in known:
                    known[folder] = self._tried(folder, address, once)
                process = process._replace(cgroup=known[folder] or process.cgroup)  # noqa: PLW2901
            processes.append(process)
        return replace(memory, processes=tuple(processes)) if processes else memory

    def owner_of(self, pid: int) -> Hashable | None:
        """The container or group of a process, by what it cannot choose; None: none is known.

        What lies inside of a container is the container's, whatever it is called there.
        """
        identity = best_identity(cgroup_paths(self._cgroups_of(pid)), self._patterns)
        if identity.enclosing:
            return identity.enclosing[-1]
        return None if identity == HOST else identity._replace(job=None)

    def home_of(self, pid: int) -> str | None:
        """The directory of a process's container or group, what lies inside of it included."""
        folder = self.path_of(pid)
        return folder and self.home(folder)

    def home(self, folder: str) -> str:
        """The outermost directory of the container or group that a directory is of; else itself."""
        places = [(self.root, root_of(self._patterns))]
        for name in folder.removeprefix(self.root).split("/"):
            if name:
                above, state = places[-1]
                places.append((f"{above}/{name}", descend(state, name)))
        identity = places[-1][1].identity
        if _is_named(identity):
            own = _without_step(identity)
            return next(at for at, state in places if _without_step(state.identity) == own)
        return folder

    def _look(self, wanted: frozenset[Address]) -> Charges | None:
        """The charges of all containers and groups by device; None if the kernel has no dmem."""
        now_ns = self._clock.monotonic_ns()
        if self._looked is not None:
            looked_ns, before = self._looked
            if before == wanted and now_ns - looked_ns < LOOK_NS:
                return self._charges
        capacity = read(self.root, CAPACITY) if wanted else Absent()
        if not isinstance(capacity, Whole | Cut):
            if not isinstance(capacity, Absent):
                self._say(UnreadError(f"{self.root}/{CAPACITY}: {door.why(capacity)}"))
            self._looked = None
            return None
        found: dict[Address, list[CgroupCharge]] = {}
        once = cache(stated)  # a file has all devices, and those above are everybody's
        for identity, folder, own in self._walk(wanted, once):
            for address, charged in own.items():
                memory = self._tried(folder, address, once) or CgroupMemory(evidence="kernel")
                charge = CgroupCharge(identity, memory._replace(charged_bytes=charged))
                found.setdefault(address, []).append(charge)
        self._looked = now_ns, wanted
        self._charges = {address: tuple(charges) for address, charges in found.items()}
        return self._charges

    def _tried(self, folder: str, address: Address, read: ReadFile) -> CgroupMemory | None:
        try:
            return self.of(folder, address, read)
        except UnreadError as error:
            self._say(error)
            return None

    def _say(self, error: UnreadError) -> None:
        if not self._is_said:
            logger.warning("memory of cgroups: %s; what follows from it is not shown", error)
        self._is_said = True

    def _walk(self, wanted: frozenset[Address], read: ReadFile) -> list[_Charged]:
        """The containers and groups that are charged for these devices.

        A directory without a charge has none below it, so most of the tree is never seen. What is
        not looked at, because there is too much, stays with the container or group around it.
        """
        found: list[_Charged] = []
        most = MOST_FOLDERS
        waiting = deque([_Place(self.root, root_of(self._patterns), None, [MOST_FOLDERS])])
        while waiting:
            place = waiting.pop()
            listed = door.folders(place.folder, MOST_NAMES)
            if isinstance(listed, Refused | Failed):
                _take_off(place.within, None)
            for name in listed.value if isinstance(listed, Whole | Cut) else ():
                if min(place.left[0], most) <= 0:
                    break
                most -= 1
                place.left[0] -= 1
                folder, state = f"{place.folder}/{name}", descend(place.state, name)
                own: dict[Address, int] | None = None
                try:
                    current = read(folder, CURRENT)
                except UnreadError as error:  # those below it are looked at all the same
                    self._say(error)
                else:
                    own = {a: bytes_ for a in wanted if (bytes_ := current.get(a))}
                    if not own:
                        continue
                # The kernel charges a cgroup with all that is below it. A container inside of
                # another, as in a node that is itself a container, is taken off the outer one:
                # else the same bytes would count for both.
                within, inside = place.within, place.left
                if state.identity != place.state.identity and _is_named(state.identity):
                    _take_off(within, own)
                    within, inside = _Charged(state.identity, folder, own or {}), [MOST_INSIDE]
                    found.append(within)
                # What lies inside of containers comes last, so that it hides no other.
                add = waiting.append if within is None else waiting.appendleft
                add(_Place(folder, state, within, inside))
        return found

    def of(self, folder: str, address: Address, read: ReadFile) -> CgroupMemory | None:
        """What a cgroup is charged, guaranteed and limited to; None if the kernel says nothing.

        The limit is the lowest of its own and those of the cgroups above it, and so are both kinds
        of protection. A cgroup without files of its own has that limit only. The root is charged
        for all of the device, so nothing is said of it.
        """
        if folder == self.root:
            return None
        own = read(folder, CURRENT)
        limit = self._lowest(folder, MAX, address, read)
        if address not in own:
            return None if limit is None else CgroupMemory(limit_bytes=limit, evidence="kernel")
        has_min, has_low = (read(folder, name).get(address, 0) != 0 for name in (MIN, LOW))
        # A protection of ``max`` up to the root protects all that the cgroup can have: its limit,
        # or where there is none the card. It is no number that could be shown by itself.
        can_have = limit or read(self.root, CAPACITY).get(address) or 0
        least, low = (
            can_have if lowest is None else lowest
            for lowest in (self._lowest(folder, name, address, read) for name in (MIN, LOW))
        )
        return CgroupMemory(
            own[address],
            least if limit is not None or has_min else None,
            limit,
            "kernel",
            protected_bytes=max(least, low) if has_low else None,
        )

    def _lowest(self, folder: str, name: str, address: Address, read: ReadFile) -> int | None:
        """The lowest amount of a cgroup and those above it; None: ``max`` everywhere."""
        files = (read(each, name) for each in self.upward(folder))
        return min((most for one in files if (most := one.get(address)) is not None), default=None)

    def upward(self, folder: str) -> Iterator[str]:
        """The cgroup and those above it, but for the root."""
        while folder.startswith(f"{self.root}/"):
            yield folder
            folder = folder.rpartition("/")[0]


def _take_off(outer: _Charged | None, inner: Mapping[Address, int] | None) -> None:
    """Take a container's part off the one around it. None: it is not known, nor is the rest."""
    if outer is None:
        return
    if inner is None:
        outer.own.clear()
        return
    for address in inner.keys() & outer.own:
        outer.own[address] = max(0, outer.own[address] - inner[address])


def _is_named(identity: CgroupIdentity) -> bool:
    """Whether a directory is of one container or group. A pod's own is of several containers."""
    unit = identity.unit
    return identity.container_id is not None or bool(unit and unit.name)


def _without_step(identity: CgroupIdentity) -> CgroupIdentity:
    unit = identity.unit
    return identity._replace(unit=unit._replace(step="")) if unit and unit.step else identity
