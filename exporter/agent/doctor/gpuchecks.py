"""Checks of NVIDIA's driver: library, kernel module, device files, quantities, and read times."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from ctypes import CDLL, create_string_buffer
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil

from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok, problem
from exporter.agent.doctor.privileges import DEVICES, DRIVER, MIG_MONITOR, ROOT
from exporter.agent.doctor.vendors import OTHERS, Said, devices_found, quantities
from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Reply, Whole
from exporter.agent.sources.gpus.nvml.cadence import MAX_SHARE, SECOND, AdaptiveInterval
from exporter.agent.sources.gpus.nvml.errors import SUCCESS, LibraryError
from exporter.agent.sources.gpus.nvml.library import SONAME, load
from exporter.agent.sources.gpus.sysfs import text_in
from exporter.metrics.families import groups_without
from exporter.model import (
    QUANTITIES,
    DeviceReading,
    DeviceState,
    Naming,
    PartCost,
    Reading,
    Sampling,
    Unmeasured,
)

_MS = 1_000_000
_MANY_MS = 10


class _Turn(NamedTuple):
    """One read of a part of a device: its cost, and the interval that is set.

    ``alone``: it is the only read so far. It may be a cold one and widens no interval.
    """

    cost_ns: int
    every_ns: int | None
    gpu: int
    alone: bool

    @property
    def widened_ns(self) -> int:
        """The interval that such a cost leads to."""
        interval = AdaptiveInterval()
        # Twice: ``AdaptiveInterval`` goes by the cheaper of the two newest reads.
        for _ in range(2):
            interval.observe(self.cost_ns, self.every_ns or 0)
        return interval.widened_ns(self.every_ns or 0)

    @property
    def slow(self) -> bool:
        """Whether it is read less often than set."""
        if self.every_ns is None or self.alone:
            return False
        return self.widened_ns > self.every_ns


def pace(evidence: ProbeResults) -> Iterator[CheckResult]:
    """The cost of reads, and the parts that are read less often than set."""
    parts: dict[str, list[_Turn]] = defaultdict(list)
    for reading in (device for source in evidence.readings for device in source.devices):
        for part, turn in _turns(reading.device.index, evidence.costs.get(reading.device.uuid, ())):
            parts[part].append(turn)
    if parts:
        yield ok("driver's pace", "; ".join(_said(part, found) for part, found in parts.items()))
    slow = [_slow(part, found) for part, found in parts.items() if any(t.slow for t in found)]
    if slow:
        remedy = (
            "nothing is lost, values are only older; see what else keeps the driver busy (DCGM, "
            "nvidia-smi in a loop), and switch off what is not needed (--metrics.disable)"
        )
        yield note("slow to answer", "; ".join(slow), remedy)


def _turns(gpu: int, readings: Sequence[Mapping[str, PartCost]]) -> Iterator[tuple[str, _Turn]]:
    """The newest read of each part, at the cheaper cost of its last two reads.

    A part that is read less often than the check lasts has one read only. Costs in ``readings`` are
    totals so far; the interval of the first one is the one that is set.
    """
    spent: dict[str, list[int]] = {}
    every: dict[str, int | None] = {}
    for part, cost in (item for costs in readings for item in costs.items()):
        every.setdefault(part, cost.every_ns)
        found = spent.setdefault(part, [0])
        # The total stands still where the part was not due.
        if cost.duration_ns > found[-1]:
            found.append(cost.duration_ns)
    for part, found in spent.items():
        newest = [after - before for before, after in pairwise(found)][-2:]
        if newest:
            yield part, _Turn(min(newest), every[part], gpu, alone=len(newest) == 1)


def _said(part: str, turns: Sequence[_Turn]) -> str:
    costs = [turn.cost_ns / _MS for turn in turns]
    low, high = (f"{c:.2g}" if c < _MANY_MS else f"{c:.0f}" for c in (min(costs), max(costs)))
    every_ns = turns[0].every_ns
    often = "each cycle" if every_ns is None else f"every {every_ns / SECOND:g} s"
    by = " (one read)" if any(turn.alone for turn in turns) else ""
    return f"{part} {low if low == high else f'{low} to {high}'} ms{by} {often}"


def _slow(part: str, turns: Sequence[_Turn]) -> str:
    slow = [turn for turn in turns if turn.slow]
    worst = max(slow, key=lambda turn: turn.cost_ns)
    return (
        f"{part}: {worst.cost_ns / _MS:.0f} ms of GPU {worst.gpu}, {len(slow)} of {len(turns)} "
        f"devices use over {MAX_SHARE:.0%} of the time; meanwhile they are read every "
        f"{worst.widened_ns / SECOND:g} s, not every {(worst.every_ns or 0) / SECOND:g} s"
    )


# The driver calls by quantity; the names are those of ``DeviceReading.unmeasured``.
CALLS: dict[str, str] = {
    "core": "nvmlDeviceGetProcessUtilization, nvmlDeviceGetSamples",
    "memory_active": "nvmlDeviceGetSamples",
    "encoder": "nvmlDeviceGetSamples",
    "decoder": "nvmlDeviceGetSamples",
    "memory": "nvmlDeviceGetComputeRunningProcesses",
    "device_memory": "nvmlDeviceGetMemoryInfo",
    "energy": "nvmlDeviceGetTotalEnergyConsumption",
    "power": "nvmlDeviceGetPowerUsage",
    "power_limit": "nvmlDeviceGetEnforcedPowerLimit",
    "temperature": "nvmlDeviceGetTemperature",
    "clock": "nvmlDeviceGetClockInfo",
    "throttle": "nvmlDeviceGetFieldValues",
    "ecc_errors": "nvmlDeviceGetFieldValues",
    "remapped_rows": "nvmlDeviceGetFieldValues",
    "pcie": "nvmlGpmSampleGet, nvmlDeviceGetFieldValues",
    "nvlink": "nvmlDeviceGetFieldValues",
    "profiling": "nvmlGpmSampleGet",
    "xid": "nvmlDeviceRegisterEvents",
}
GROUPS = {  # groups of metric families by quantity, if the names differ
    "power_limit": "power",
    "clock": "clocks",
    "ecc_errors": "ecc",
    "remapped_rows": "ecc",
}
UNKNOWN = "unknown"
NEEDED = ("core", "memory")  # without these no container has a value

_DEV = Path("/dev")
_MAX_DEVICE_FILES = 65_536
_VERSION = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s")
_REMEDIES = {
    Unmeasured.NO_PERMISSION: (
        "run as root; under MIG give the pod NVIDIA_MIG_MONITOR_DEVICES=all; for profiling set the "
        "kernel module's NVreg_RestrictProfilingToAdminUsers=0"
    ),
    Unmeasured.DRIVER_TOO_OLD: "upgrade the driver: its library lacks the function",
    Unmeasured.NOT_SUPPORTED: "nothing to do: the device does not support it",
}


def gpus(evidence: ProbeResults, dev: Path = _DEV) -> Iterator[CheckResult]:
    """Checks of all GPU drivers."""
    if evidence.settings.simulate:
        yield note("driver", f"simulated ({evidence.settings.simulate}): no value is measured")
        devices = (device for reading in evidence.readings for device in reading.devices)
        lost = [device for device in devices if device.state is not DeviceState.UP]
        yield from devices_found(lost, evidence.windows, "see faults in the scenario's file")
        return
    readings = [r for r in evidence.readings if not r.status.absent]
    others = [reading for reading in readings if reading.status.name in OTHERS]
    wanted = {"auto", "nvml"} & set(evidence.settings.gpus_source)
    # On a machine with cards of other vendors only, nothing is missing of NVIDIA.
    if wanted and not any(r.status.absent and r.status.name == "nvml" for r in evidence.readings):
        yield from _nvidia(evidence, [r for r in readings if r not in others], dev)
    for reading in others:
        yield from OTHERS[reading.status.name](reading, evidence.windows)
    yield from pace(evidence)


def _nvidia(evidence: ProbeResults, readings: list[Reading], dev: Path) -> Iterator[CheckResult]:
    opened = any(reading.status.up for reading in readings)
    module = module_version(Path(evidence.settings.path_procfs))
    yield _module(module, opened=opened)
    version = module.value if isinstance(module, Whole | Cut) else UNKNOWN
    try:
        library = load(evidence.settings.nvml_library or None)
    except LibraryError as error:
        remedy = (
            "on the machine itself install the driver, in a container give it the driver's "
            "libraries; or name the file with --nvml.library"
        )
        yield problem(SONAME, f"not found: {error.detail}", remedy, DRIVER)
        return
    yield from _library(library, version)
    yield from _device_files(dev, opened=opened)
    yield from _driver(evidence.fatal, readings)
    devices = [device for reading in readings for device in reading.devices]
    yield from devices_found(devices, evidence.windows, "see the kernel log for NVRM and Xid")
    # What is switched off is not asked for: that the driver refuses it is no problem here.
    off = groups_without(evidence.settings.metrics_left_out)
    asked = {name: calls for name, calls in CALLS.items() if GROUPS.get(name, name) not in off}
    yield from quantities([d for d in devices if d.state is DeviceState.UP], asked, _judged)
    yield from sampling(devices, evidence.sampling)


_NAMING: Mapping[Naming, str] = {
    Naming.ALWAYS: "each busy sample names a process",
    Naming.PARTLY: "some busy samples name no process",
    Naming.NEVER: "no busy sample names a process",
    Naming.UNKNOWN: "whether busy samples name processes is not known yet",
}
_UNNAMED = (
    "that time is unattributed (no_pid): the work ended before the driver looked, or the driver "
    "hides its process, as one of another virtual machine"
)


def sampling(
    devices: Sequence[DeviceReading], found: Mapping[str, Sampling]
) -> Iterator[CheckResult]:
    """What the samples of each device have shown: their period, and whom they name."""
    for reading in devices:
        seen = found.get(reading.device.uuid, Sampling())
        if not seen.naming:
            continue
        period = seen.labels[1]
        said = f"one every {period} s; " if seen.period_us is not None else ""
        engines: dict[Naming, list[str]] = defaultdict(list)
        for engine, naming in zip(QUANTITIES, seen.naming, strict=True):
            engines[naming].append(engine)
        unknown = engines.pop(Naming.UNKNOWN, []) if len(engines) > 1 else []
        parts = [f"{_NAMING[naming]} ({', '.join(own)})" for naming, own in engines.items()]
        parts += [f"not known yet: {', '.join(unknown)}"] if unknown else []
        subject = f"GPU {reading.device.index} samples"
        sentence = said + "; ".join(parts)
        if engines.keys() & {Naming.PARTLY, Naming.NEVER}:
            yield note(subject, sentence, _UNNAMED)
        else:
            yield ok(subject, sentence)


def module_version(procfs: Path) -> Reply[str]:
    """The kernel module's version; absent if it is not loaded."""

    def parsed(text: str) -> str:
        found = _VERSION.search(text)
        return found[1] if found else UNKNOWN

    return door.parsed(text_in(procfs / "driver/nvidia/version"), parsed)


def _library(library: CDLL, module: str) -> Iterator[CheckResult]:
    # Mapped is the file that the link leads to, whose name ends in the driver's version.
    mapped = [file.path for file in psutil.Process().memory_maps() if SONAME[:-2] in file.path]
    # The library's own version, ``<NVML's>.<driver's>``, which it says without a driver.
    ask, text = getattr(library, "nvmlSystemGetNVMLVersion", None), create_string_buffer(80)
    is_said = ask is not None and ask(text, len(text)) == SUCCESS
    version = text.value.decode("ascii", "replace") if is_said else ""
    words = f"version {version}" if version else "of an unknown version"
    yield ok(SONAME, f"{words}, {mapped[0] if mapped else 'by the loader'}")
    # An upgrade replaces the library at once, and the module only when nobody has it open. Until
    # then NVML refuses to begin.
    if module != UNKNOWN and version and not version.endswith(module):
        yield problem(
            "versions",
            f"the library is {version}, the kernel module {module}",
            "restart the pod; if it stays, restart the driver's container, or the node",
            DRIVER,
        )


def _module(module: Reply[str], *, opened: bool) -> CheckResult:
    match module:
        case Whole(version) | Cut(version):
            return ok("kernel module", f"version {version}")
        case Absent() if opened:
            return note("kernel module", "not in /proc/driver/nvidia, yet the library answers")
        case Absent():
            found = "not loaded, or not visible in /proc/driver/nvidia"
            remedy = "load the driver on this node (nvidia-smi on the host shows whether it is)"
            return problem("kernel module", found, remedy)
        case Refused() | Failed():
            found = f"its version cannot be read in /proc/driver/nvidia: {door.why(module)}"
            return note("kernel module", found, "see the kernel log")


def _device_files(dev: Path, *, opened: bool) -> Iterator[CheckResult]:
    """Opens the device files as the library does, because the device cgroup may refuse them."""
    listed = door.names(dev, _MAX_DEVICE_FILES)
    paths: list[Path] = []
    match listed:
        case Whole(names) | Cut(names):
            paths = sorted(dev / name for name in names if re.fullmatch(r"nvidia(ctl|\d+)", name))
        case Absent():
            pass
        case Refused() | Failed():
            found, remedy = f"{dev} cannot be listed: {door.why(listed)}", "see the kernel log"
            yield problem("device files", found, remedy, DEVICES)
            return
    if not paths and not opened:
        remedy = "give the pod the node's GPUs"
        yield problem("device files", f"none in {dev}", remedy, DEVICES)
        return
    replies = {path.name: door.opens(path, os.O_RDWR) for path in paths}
    refused = {n: door.why(each) for n, each in replies.items() if not isinstance(each, Whole)}
    for name, why in refused.items():
        remedy = "give the pod the device; after systemctl daemon-reload restart the pod"
        yield problem("device files", f"{dev / name}: {why}", remedy, DEVICES)
    if paths and not refused:
        yield ok("device files", f"{len(paths)} in {dev} can be opened")


def _driver(fatal: str, readings: list[Reading]) -> Iterator[CheckResult]:
    if fatal:
        yield problem("driver", fatal, "restart the pod", DRIVER)
    for reading in readings:
        status = reading.status
        if not status.up:
            yield problem("driver", status.detail or "it does not answer", "see above", DRIVER)
            continue
        versions = {d.device.driver_version for d in reading.devices} - {""}
        yield ok("driver", f"answers; version {', '.join(sorted(versions)) or 'not reported'}")
        if status.detail:
            yield problem("devices", status.detail, "see the kernel log for NVRM and Xid", DEVICES)


def _judged(quantity: str, reason: Unmeasured) -> Said:
    refused = reason is Unmeasured.NO_PERMISSION
    # A board that is divided has no core of its own to be measured: its instances have.
    needed = quantity in NEEDED and reason is not Unmeasured.MIG
    remedy = _REMEDIES.get(reason, "see this reason in docs/troubleshooting.md")
    privilege = f"{ROOT}, or {MIG_MONITOR}" if refused else ""
    return problem if refused or needed else note, remedy, privilege
