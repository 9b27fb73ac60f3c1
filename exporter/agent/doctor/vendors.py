"""Checks that all GPU drivers share, and those of AMD's driver and of the kernel's DRM drivers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.agent.doctor.evidence import CheckResult, note, ok, problem
from exporter.agent.doctor.privileges import AMD_DEVICES, FDINFO, HOST_PID, SYSFS
from exporter.agent.sources.gpus.amd.amdsource import ON_WSL
from exporter.agent.sources.gpus.drm.holders import NESTED, REFUSED
from exporter.model import PARTITIONED, DeviceReading, DeviceState, Reading, Unmeasured

Said = tuple[Callable[..., CheckResult], str, str]
"""How bad something is (``note`` or ``problem``), the remedy and the privilege."""

Judge = Callable[[str, Unmeasured], Said | None]
"""What to say of a quantity that is not measured for a reason; None: that is as it should be."""

_INVISIBLE = {
    Unmeasured.NO_HOSTPID: ("set hostPID: true", HOST_PID),
    Unmeasured.NO_PERMISSION: (
        "run as root with CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (docs/installation.md, fdinfo)",
        FDINFO,
    ),
}


def quantities(
    devices: Sequence[DeviceReading], asked: Mapping[str, str], judge: Judge, prefix: str = ""
) -> Iterator[CheckResult]:
    """One result for each quantity and reason, over all devices. ``asked``: how each is read."""
    for quantity, how in asked.items():
        refusals: dict[Unmeasured, list[str]] = defaultdict(list)
        for reading in devices:
            if quantity in reading.unmeasured:
                refusals[reading.unmeasured[quantity]].append(_number(reading))
        said = {why: words for why in refusals if (words := judge(quantity, why)) is not None}
        if not said and any(quantity not in reading.unmeasured for reading in devices):
            yield ok(prefix + quantity, f"measured ({how})")
        for reason, (make, remedy, privilege) in said.items():
            where = ", ".join(dict.fromkeys(refusals[reason]))
            found = f"not measured on GPU {where}: {reason} ({how})"
            yield make(prefix + quantity, found, remedy, privilege)


def _number(reading: DeviceReading) -> str:
    device = reading.device
    return f"{device.index}" + ("" if device.gpu_instance is None else f"/{device.gpu_instance}")


def devices_found(
    devices: Iterable[DeviceReading], windows: Mapping[str, int], remedy: str
) -> Iterator[CheckResult]:
    """Whether each device is read. ``remedy`` is what to do for a device that is not."""
    for reading in devices:
        device = reading.device
        name = f"{device.model or device.vendor} {device.profile}".rstrip()
        subject = f"GPU {_number(reading)}"
        if reading.state is not DeviceState.UP:
            yield problem(subject, f"{name}: {reading.state}: {reading.detail}", remedy)
            continue
        found = ": ".join(filter(None, (f"{name}, {device.uuid}", reading.detail)))
        if device.uuid in windows or "core" in reading.unmeasured:
            yield (note if reading.detail else ok)(subject, found)
        else:
            later = "an idle driver takes its first samples seconds after it was opened; ask again"
            yield note(subject, f"{found}: no new samples yet", later)


class _Vendor(NamedTuple):
    """The checks of a driver that is read by files.

    ``of_clients`` is a quantity that only clients of DRM report; ``reports`` are the files by
    quantity.
    """

    name: str
    remedy: str
    kernel_log: str
    reports: Mapping[str, str]
    of_clients: str
    judge: Judge
    experimental: bool = False

    def look(self, reading: Reading, windows: Mapping[str, int]) -> Iterator[CheckResult]:
        """The results of this driver."""
        status = reading.status
        if not status.up:
            found = status.detail or "it does not answer"
            if reading.devices:  # so that it is loaded
                yield problem(self.name, found, self.kernel_log)
            else:
                remedy = f"{self.remedy}; in a container mount the host's /sys"
                # Under WSL the card's driver is that of Windows: there is nothing in /sys to be
                # mounted.
                if found == ON_WSL:
                    yield problem(self.name, found, "run it on a machine whose Linux has the GPU")
                else:
                    yield problem(self.name, found, remedy, SYSFS)
            yield from devices_found(reading.devices, windows, self.kernel_log)
            return
        versions = {d.device.driver_version for d in reading.devices} - {""}
        found = f"version {', '.join(sorted(versions)) or 'of the kernel'}"
        if self.experimental:
            yield note(self.name, f"{found}: experimental, not yet tested on hardware")
        else:
            yield ok(self.name, found)
        # These two are about the clients, and are said of them below with what to do.
        if status.detail and status.detail not in {NESTED, REFUSED}:
            remedy = "" if reading.devices else self.kernel_log  # else the detail has what to do
            yield problem(f"{self.name} devices", status.detail, remedy)
        yield from devices_found(reading.devices, windows, self.kernel_log)
        up = [device for device in reading.devices if device.state is DeviceState.UP]
        yield from self._clients(up, status.detail)
        for quantity, files in self.reports.items():
            seen = [d for d in up if not (self._is_blind(quantity, d) or _is_apart(quantity, d))]
            yield from quantities(seen, {quantity: files}, self.judge, f"{self.name} ")

    def _clients(self, devices: Sequence[DeviceReading], detail: str) -> Iterator[CheckResult]:
        """Whether every client of DRM is visible, on the boards whose figures are theirs."""
        reasons = {device.unmeasured.get(self.of_clients) for device in devices}
        blind = next((reason for reason in _INVISIBLE if reason in reasons), None)
        if blind is not None:
            remedy, privilege = _INVISIBLE[blind]
            yield problem("clients of DRM", detail or str(blind), remedy, privilege)
        elif None in reasons and not detail:
            yield ok("clients of DRM", "the file descriptors of all processes can be read")

    def _is_blind(self, quantity: str, reading: DeviceReading) -> bool:
        """Whether the device's clients are not visible, which is reported already."""
        reason = reading.unmeasured.get(quantity)
        is_known = reason in {*_INVISIBLE, Unmeasured.READ_FAILED}
        return is_known and reason is reading.unmeasured.get(self.of_clients)


def _is_apart(quantity: str, reading: DeviceReading) -> bool:
    """Whether the parts of its board have this figure, or the board has it for its parts."""
    is_whole = quantity == "energy" or reading.device.sharing == PARTITIONED
    return is_whole and reading.unmeasured.get(quantity) is Unmeasured.PARTITIONED


def _judge_drm(quantity: str, reason: Unmeasured) -> Said | None:
    if reason is not Unmeasured.NOT_SUPPORTED:
        return None
    profiling = (
        "for panfrost and panthor write 1 or 3 to the device's profiling file in sysfs; other "
        "drivers do not report it"
    )
    never = "nothing to do: this driver does not report it"
    if quantity == "core":
        profiling = f"{profiling}, and i915 and amdgpu not before Linux 5.19, xe 6.11"
    return note, profiling if quantity == "core" else never, ""


def _judge_amd(quantity: str, reason: Unmeasured) -> Said | None:
    if reason is Unmeasured.PARTITIONED:
        known = (
            "the use of a partition takes gpu_metrics 1.6 to 1.9 (Linux 6.14 on MI300); a table "
            "that is not known is named at its GPU"
        )
        return note, known, ""
    if reason is Unmeasured.MODULE:
        return note, "nothing to do: the driver counts all dies of a module on its first one", ""
    if reason is not Unmeasured.NO_PERMISSION:
        return note, "nothing to do: this kind of GPU does not report it", ""
    # KFD refuses processes, sysfs single files: core and the device's figures are in both
    of_files = "let the exporter's user read the board's files in /sys"
    if quantity == "energy":
        return problem, of_files, SYSFS
    refused = (
        "KFD shows a GPU only to processes whose device cgroup allows its /dev/dri/renderD*: let a "
        "device plugin or an NRI plugin add it to the pod (docs/installation.md, AMD), or run it "
        "privileged"
    )
    if quantity == "core":
        refused = f"if its GPU has a file that may not be read: {of_files}; otherwise: {refused}"
    return problem, refused, AMD_DEVICES


OTHERS: Mapping[str, Callable[[Reading, Mapping[str, int]], Iterator[CheckResult]]] = {
    "amd": _Vendor(
        "amdgpu",
        "load amdgpu on this node",
        "see the kernel log for amdgpu",
        {
            "core": "gpu_busy_percent, KFD's stats_<gpu>/cu_occupancy or fdinfo: drm-engine-*",
            "memory": "KFD's vram_<gpu>, fdinfo: drm-memory-vram",
            "energy": "gpu_metrics, hwmon power1_average",
        },
        "encoder",
        _judge_amd,
    ).look,
    "drm": _Vendor(
        "DRM",
        "load the device's driver on this node",
        "see the kernel log",
        {
            "core": "fdinfo: drm-engine-*, drm-cycles-*",
            "memory": "fdinfo: drm-resident-*",
            "energy": "hwmon: energy1_input, power1_average",
        },
        "core",
        _judge_drm,
        experimental=True,
    ).look,
}
"""The checks of drivers other than NVIDIA's, by the source's name."""
