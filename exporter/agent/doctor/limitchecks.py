"""Checks of device memory that cgroups are held to: the driver's limits and the kernel's dmem."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping

from exporter.agent.allocations.schemes import nvfractions
from exporter.agent.collector.wiring import cgroup_root
from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok, problem
from exporter.agent.doctor.privileges import CGROUPS
from exporter.agent.sources.cgroups.dmem import (
    CAPACITY,
    CURRENT,
    LOW,
    MAX,
    MIN,
    Address,
    Bytes,
    CgroupFiles,
    address_of,
    read,
)
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.model import MEMORY_LIMIT, MEMORY_REQUEST, CgroupIdentity, CgroupMemory
from exporter.shown.words import plural, some_of

_NEEDS = (
    "NVIDIA_GPU_MEMORY_REQUEST and NVIDIA_GPU_MEMORY_LIMIT both in the container's environment "
    "(KAI's fractiond puts them there), the toolkit 1.20.1 or newer with CDI, and the driver R615"
)
_UNKNOWN = frozenset({"operating_system", "no_permission", "unknown"})
_REMEDIES = {
    "not_found": "no limit is set: nothing to do; pods that ask for one are named",
    "not_supported": (
        "none is set, or the driver has no back end: it needs R615, cgroup v2, no MIG, and "
        "RmMemacctMode of NVreg_RegistryDwords not 0"
    ),
    "operating_system": (
        "the driver's library cannot open the cgroup's directory: mount the node's /sys/fs/cgroup "
        "read-only into the pod"
    ),
}
_OTHERWISE = "see the log; reading these limits needs no right"


def limits(
    evidence: ProbeResults, environ: Mapping[str, str] = os.environ
) -> Iterator[CheckResult]:
    """What the driver and the kernel say of memory limits; nothing where neither has any."""
    if evidence.settings.simulate:
        return
    yield from _answers(evidence)
    files = CgroupFiles(cgroup_root(evidence.settings), evidence.settings.path_procfs)
    if not isinstance(read(files.root, CAPACITY), Absent):
        capacity = _stated(files.root, CAPACITY)
        yield ok("dmem", f"the kernel counts the memory of {plural(len(capacity), 'device')}")
        yield from _unread(evidence, files)
        yield from _beyond(files.root, capacity)
        yield from _drift(files.root)
    yield from _own(files, environ)


def _answers(evidence: ProbeResults) -> Iterator[CheckResult]:
    """How many processes have limits by the driver or the kernel, and what was refused."""
    devices = [device for reading in evidence.readings for device in reading.devices]
    processes = [p for d in devices if d.memory for p in d.memory.processes or ()]
    cgroups = [process.cgroup for process in processes if process.cgroup]
    held = Counter(one.evidence for one in cgroups if one.evidence)
    for by, count in sorted(held.items()):
        yield ok("memory limits", f"of {count} of {len(processes)} processes, by the {by}")
    for refused, count in sorted(Counter(one.refused for one in cgroups if one.refused).items()):
        of = f"{count} of {len(processes)} processes"
        found = f"nvmlDeviceGetMemoryLimits_v1 answers {refused} for {of}"
        # Most cgroups have no limit, and most drivers have no back end for one: neither is a fault.
        make = note if refused in {"not_found", "not_supported"} else problem
        privilege = CGROUPS if refused == "operating_system" else ""
        yield make("memory limits", found, _REMEDIES.get(refused, _OTHERWISE), privilege)
    if asked := set(_asked_in_vain(evidence)):
        found = f"asked for, but neither the driver nor the kernel has one: {some_of(asked)}"
        yield problem(
            "memory limits asked for", found, f"they may take all of a card: it needs {_NEEDS}"
        )


def _asked_in_vain(evidence: ProbeResults) -> Iterator[str]:
    """Pods that ask for a limit of NVIDIA's, and have a process on a card without one."""
    table = evidence.table
    devices = [device for reading in evidence.readings for device in reading.devices]
    cards = [device.memory for device in devices if not device.device.parent_uuid]
    for process in (process for memory in cards if memory for process in memory.processes or ()):
        who, cgroup = evidence.identities.get(process.pid), process.cgroup or CgroupMemory()
        if not isinstance(who, CgroupIdentity) or cgroup.limit_bytes or cgroup.refused in _UNKNOWN:
            continue
        pod = table.pods.get(table.by_kubelet_uid.get(who.pod_uid or "", ""))
        if pod is None:
            continue
        for container in pod.containers:
            is_its = who.container_id in container.container_ids
            # The toolkit's hook sets a limit only where a container has both variables. KAI's
            # annotations ask fractiond to put them there.
            stated = container.environment.keys() >= {MEMORY_REQUEST, MEMORY_LIMIT}
            if is_its and (stated or nvfractions.states_amounts(pod, container)):
                yield f"{pod.namespace}/{pod.name}"


def _unread(evidence: ProbeResults, files: CgroupFiles) -> Iterator[CheckResult]:
    """Cgroups of the cards' processes whose memory limits the kernel has, and that are not read."""
    hidden, on_cards = 0, list(_on_cards(evidence))
    without: set[str] = set()  # the lowest cgroups that have no dmem for those below them
    garbled: set[str] = set()
    for pid, address in on_cards:
        folder = files.path_of(pid)
        home = files.home(folder) if folder else files.root
        if folder is None:
            hidden += 1
        elif home != files.root and isinstance(read(home, CURRENT), Absent):
            has = (at for at in files.upward(home) if not isinstance(read(at, CURRENT), Absent))
            without.add(next(has, "").removeprefix(files.root) or "/")
        garbled |= {
            f"{home.removeprefix(files.root)}/{name}"
            for name in (CURRENT, MIN, LOW, MAX)
            if not isinstance(read(home, name), Absent) and address not in _stated(home, name)
        }
    if hidden:
        found = f"{hidden} of {len(on_cards)} processes have a cgroup that is not to be seen"
        remedy = "mount the node's /sys/fs/cgroup read-only, or set --path.cgroup and --path.procfs"
        yield problem("processes' cgroups", found, remedy, CGROUPS)
    if without:
        remedy = (
            "write +dmem into cgroup.subtree_control of these, then of those below down to the "
            "containers; until then all memory is charged to these, and no container has a limit "
            "of its own"
        )
        yield note("dmem limits", f"none can be read below {some_of(without)}", remedy)
    if garbled:
        remedy = "they name no amount for the card: see the kernel log, and report the file"
        yield problem("dmem files", f"not read: {some_of(garbled)}", remedy)


def _stated(folder: str, name: str) -> Bytes:
    """The amounts of a file; none where it is not there, or cannot be read."""
    match read(folder, name):
        case Whole(amounts) | Cut(amounts):
            return amounts
        case Absent() | Refused() | Failed():
            return {}


def _on_cards(evidence: ProbeResults) -> Iterator[tuple[int, Address]]:
    """The processes of whose limits the driver says nothing, each with its card's place."""
    for device in (device for reading in evidence.readings for device in reading.devices):
        address = address_of(device.device.pci_bus_id)
        if address is None or device.memory is None:
            continue
        for process in device.memory.processes or ():
            if process.cgroup is None or process.cgroup.evidence != "driver":
                yield process.pid, address


def _beyond(root: str, capacity: Mapping[Address, int | None]) -> Iterator[CheckResult]:
    """Limits that nobody can reach: they hold nobody, and are not shown."""
    beyond = [
        folder.removeprefix(root)
        for folder, _, _ in os.walk(root)
        for device, most in _stated(folder, MAX).items()
        # Where no capacity is stated, no limit is beyond it.
        if most is not None and most > (capacity.get(device) or most)
    ]
    if beyond:
        remedy = "set dmem.max of these below the card's dmem.capacity, in bytes"
        yield problem(MAX, f"beyond all of the card: {some_of(set(beyond))}", remedy)


def _drift(root: str) -> Iterator[CheckResult]:
    """Cgroups that keep more than the living cgroups below them, or less."""
    stale = [
        folder.removeprefix(root)
        for folder, own, below in reserved(root, MIN)
        for device, least in own.items()
        if least > below.get(device, 0)
    ]
    if stale:
        remedy = (
            "a cgroup was deleted without its soft limit being set to 0 first: set dmem.min of "
            "these to the sum of those below them"
        )
        yield problem(MIN, f"more than below is kept by {some_of(stale)}", remedy)
    # dmem.low is best effort by the kernel's own word: less of it above breaks no promise.
    for name, make in ((MIN, problem), (LOW, note)):
        short = [
            folder.removeprefix(root)
            for folder, own, below in reserved(root, name)
            for device in below
            if own.get(device, 0) < below[device]
        ]
        if short:
            remedy = (
                "the kernel honours it only as far as each cgroup above has as much: set soft "
                f"limits by nvidia-smi or NVML, not by the files; or raise {name} of these"
            )
            yield make(name, f"less than below is kept by {some_of(short)}", remedy)


def reserved(root: str, name: str) -> Iterator[tuple[str, dict[Address, int], dict[Address, int]]]:
    """Each cgroup with others below it: its protection, and the sum of the leaves' below it.

    ``name`` is the file. A device's capacity stands for ``max``, and is the most of a sum.
    """
    capacity = {device: size or 0 for device, size in _stated(root, CAPACITY).items()}
    sums: dict[str, dict[Address, int]] = {}
    # The lowest ones first: the sum of what is below a cgroup is known when its turn comes.
    for folder, names, _ in os.walk(root, topdown=False):
        found = _stated(folder, name)
        own = {d: capacity.get(d, 0) if least is None else least for d, least in found.items()}
        below: Counter[Address] = Counter()
        for each in names:
            below.update(sums.pop(f"{folder}/{each}", {}))
        has_leaves = bool(below)
        sums[folder] = (
            {d: min(sum_, capacity.get(d, sum_)) for d, sum_ in below.items()}
            if has_leaves
            else own
        )
        if has_leaves and own and folder != root:
            yield folder, own, sums[folder]


def _own(files: CgroupFiles, environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Whether this process is in a limited cgroup: NVML would show the limit as the card."""
    own = files.path_of(os.getpid())
    limited = [
        folder
        for folder in (files.upward(own) if own else ())
        if any(most is not None for most in _stated(folder, MAX).values())
    ]
    if limited or MEMORY_LIMIT in environ:
        found = limited[0] if limited else f"{MEMORY_LIMIT} is set"
        remedy = (
            "in such a cgroup NVML reports the limit as the card's memory: take the annotations "
            "and variables of GPU memory away from the exporter's pod"
        )
        yield problem("exporter's cgroup", f"its GPU memory is limited: {found}", remedy)
