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

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from exporter.model import CgroupMemory, Device, DeviceMemory, DeviceReading, ProcessMemory

CAPACITY, CURRENT = "dmem.capacity", "dmem.current"
MIN, LOW, MAX = "dmem.min", "dmem.low", "dmem.max"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_LONGEST = 64 * 1024
_UNIFIED = "0::"

Address = tuple[int, str]
Bytes = dict[Address, int | None]
"""Of each device; None: ``max``."""


def address_of(text: str) -> Address | None:
    """The PCI address in a text, whatever the number of digits of its domain."""
    found = _ADDRESS.search(text)
    return (int(found[1], 16), found[2].lower()) if found else None


def read(folder: str, name: str) -> Bytes | None:
    """One file of one cgroup, by device; None if it is not there. Never raises.

    The regions of a device's own memory (``vram``) are summed up, those of system memory are left
    out.
    """
    try:
        with open(f"{folder}/{name}", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - strings, as in walk
            lines = file.read(_LONGEST).splitlines()
    except OSError:
        return None
    sums: Bytes = {}
    for line in lines:
        key, _, value = line.rpartition(" ")
        address = address_of(key)
        if address is None or _is_system_memory(key) or not (value == "max" or value.isdecimal()):
            continue
        before = sums.get(address, 0)
        sums[address] = None if value == "max" or before is None else before + int(value)
    return sums


def _is_system_memory(key: str) -> bool:
    region = key.rpartition("/")[2]
    return region.startswith(("gtt", "stolen", "tt", "system"))


class CgroupFiles:
    """The cgroups of processes, as directories, and what they are charged of a device's memory.

    For one source of devices.
    """

    def __init__(self, root: str, proc_root: str) -> None:
        has_controllers = os.path.exists(f"{root}/cgroup.controllers")  # noqa: PTH110 - as above
        hybrid = f"{root}/unified"
        is_hybrid = not has_controllers and os.path.isdir(hybrid)  # noqa: PTH112 - as above
        self.root = hybrid if is_hybrid else root
        self._proc_root = proc_root
        self._own: str | None = None
        self._newest: dict[str, tuple[DeviceMemory, DeviceMemory]] = {}  # by UUID: read, charged

    def path_of(self, pid: int) -> str | None:
        """The directory of a process's cgroup (v2); None if it is not known or not to be seen.

        A reader in a cgroup namespace of its own sees other paths relative to its own cgroup.
        """
        try:
            with open(f"{self._proc_root}/{pid}/cgroup", encoding="utf-8") as file:  # noqa: PTH123
                lines = file.read(_LONGEST).split("\n")
        except (OSError, ValueError):
            return None
        path = next((one[len(_UNIFIED) :] for one in lines if one.startswith(_UNIFIED)), None)
        if path is None:
            return None
        base = self.own() if path.startswith("/..") else self.root
        folder = os.path.normpath(f"{base}/{path}")
        is_below = folder == self.root or folder.startswith(f"{self.root}/")
        return folder if is_below and os.path.isdir(folder) else None  # noqa: PTH112 - as above

    def own(self) -> str:
        """The directory that lists this process; the root if none does."""
        if self._own is None:
            pid = str(os.getpid())
            self._own = next((f for f in self._folders() if pid in _processes(f)), self.root)
        return self._own

    def _folders(self) -> Iterator[str]:
        return (folder for folder, _, _ in os.walk(self.root))

    def charged(self, readings: Sequence[DeviceReading]) -> tuple[DeviceReading, ...]:
        """The source's readings with what the kernel says of each process's cgroup.

        What the driver said of it stays. Read again when the list of processes was.
        """
        before, self._newest = self._newest, {}
        return tuple([self._with_charges(reading, before) for reading in readings])

    def _with_charges(
        self, reading: DeviceReading, before: Mapping[str, tuple[DeviceMemory, DeviceMemory]]
    ) -> DeviceReading:
        memory, device = reading.memory, reading.device
        if memory is None or not memory.processes or device.parent_uuid:
            return reading
        read_before, after = before.get(device.uuid, (None, None))
        if read_before is not memory or after is None:
            after = self._charged(memory, device)
        self._newest[device.uuid] = memory, after
        return reading if after is memory else reading._replace(memory=after)

    def _charged(self, memory: DeviceMemory, device: Device) -> DeviceMemory:
        address = address_of(device.pci_bus_id)
        if address is None or read(self.root, CAPACITY) is None:
            return memory
        known: dict[str | None, CgroupMemory | None] = {None: None}
        processes: list[ProcessMemory] = []
        for process in memory.processes or ():
            if process.cgroup is None or process.cgroup.refused:
                folder = self.path_of(process.pid)
                if folder not in known:
                    known[folder] = self.of(folder or "", address)
                process = process._replace(cgroup=known[folder] or process.cgroup)  # noqa: PLW2901
            processes.append(process)
        return replace(memory, processes=tuple(processes))

    def of(self, folder: str, address: Address) -> CgroupMemory | None:
        """What a cgroup is charged, guaranteed and limited to; None if the kernel says nothing.

        The limit is the lowest of its own and those of the cgroups above it, and so are both kinds
        of protection. A cgroup without files of its own has that limit only. The root is charged
        for all of the device, so nothing is said of it.
        """
        if folder == self.root:
            return None
        own = read(folder, CURRENT) or {}
        limit = self._lowest(folder, MAX, address)
        if address not in own:
            return None if limit is None else CgroupMemory(limit_bytes=limit, evidence="kernel")
        has_min, has_low = ((read(folder, n) or {}).get(address, 0) != 0 for n in (MIN, LOW))
        least, low = (self._protection(folder, name, address, limit) for name in (MIN, LOW))
        return CgroupMemory(
            own[address],
            least if limit is not None or has_min else None,
            limit,
            "kernel",
            protected_bytes=max(least, low) if has_low else None,
        )

    def _protection(self, folder: str, name: str, address: Address, limit: int | None) -> int:
        """How much is protected; ``max`` is all that the cgroup can have."""
        lowest = self._lowest(folder, name, address)
        if lowest is not None:
            return lowest
        return limit or (read(self.root, CAPACITY) or {}).get(address) or 0

    def _lowest(self, folder: str, name: str, address: Address) -> int | None:
        """The lowest amount of a cgroup and those above it; None: ``max`` everywhere."""
        files = (read(each, name) or {} for each in self.upward(folder))
        return min((most for one in files if (most := one.get(address)) is not None), default=None)

    def upward(self, folder: str) -> Iterator[str]:
        """The cgroup and those above it, but for the root."""
        while folder.startswith(f"{self.root}/"):
            yield folder
            folder = folder.rpartition("/")[0]


def _processes(folder: str) -> list[str]:
    try:
        with open(f"{folder}/cgroup.procs", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read().split()
    except OSError:
        return []
