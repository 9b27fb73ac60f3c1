"""Checks of AMD's driver, of the kernel's DRM drivers, and of AMD's library."""

from collections.abc import Iterable, Iterator, Mapping

from exporter.doctor.evidence import CheckResult, note, ok, problem
from exporter.doctor.privileges import AMD_DEVICES, FDINFO, HOST_PID, SYSFS
from exporter.model import DeviceReading, DeviceState, Reading, Unmeasured
from exporter.sources.gpus.drm.holders import NESTED, REFUSED

DRM = "drm"  # the source
_SEES = "clients of DRM"
_READ_FROM: Mapping[str, str] = {
    "core": "fdinfo: drm-engine-*, drm-cycles-*",
    "memory": "fdinfo: drm-resident-*",
    "energy": "hwmon: energy1_input, power1_average",
}
_NOT_REPORTED = "nothing to do: this driver does not report it"
_PROFILING = (
    "for panfrost and panthor write 1 or 3 to the device's profiling file in sysfs; other drivers "
    "do not report it"
)
INVISIBLE = {
    Unmeasured.NO_HOSTPID: ("set hostPID: true", HOST_PID),
    Unmeasured.NO_PERMISSION: (
        "run as root with CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (docs/installation.md, fdinfo)",
        FDINFO,
    ),
}


def drm(reading: Reading, windows: Mapping[str, int]) -> Iterator[CheckResult]:
    """Checks of the DRM drivers."""
    status = reading.status
    if not status.up:
        remedy = "load the device's driver on this node; in a container mount the host's /sys"
        yield problem("DRM", status.detail or "it does not answer", remedy, SYSFS)
        return
    drivers = sorted({d.device.driver_version for d in reading.devices})
    yield note("DRM", f"{', '.join(drivers)}: experimental, not yet tested on hardware")
    devices = [device for device in reading.devices if device.state is DeviceState.UP]
    yield from clients_seen(devices, "core", status.detail)
    for each in reading.devices:
        yield _device(each, windows)
    for quantity in _READ_FROM:
        yield from _drm_quantity(quantity, devices)


def clients_seen(
    devices: list[DeviceReading], quantity: str, detail: str = ""
) -> Iterator[CheckResult]:
    """Whether every client is visible. ``quantity`` is one that only clients report."""
    reasons = {device.unmeasured.get(quantity) for device in devices}
    blind = next((reason for reason in INVISIBLE if reason in reasons), None)
    if blind is not None:
        remedy, privilege = INVISIBLE[blind]
        yield problem(_SEES, detail or str(blind), remedy, privilege)
    elif devices:
        yield ok(_SEES, "the file descriptors of all processes can be read")


def _device(reading: DeviceReading, windows: Mapping[str, int]) -> CheckResult:
    device = reading.device
    subject, name = f"DRM card{device.minor}", f"{device.model or device.vendor}, {device.uuid}"
    if reading.state is not DeviceState.UP:
        return problem(subject, f"{name}: {reading.state}: {reading.detail}", "see the kernel log")
    if device.uuid not in windows and "core" not in reading.unmeasured:
        return note(subject, f"{name}: not read twice yet", "ask again")
    return ok(subject, name)


def _drm_quantity(quantity: str, devices: list[DeviceReading]) -> Iterator[CheckResult]:
    """Whether each device reports the quantity."""
    missing = [d for d in devices if d.unmeasured.get(quantity) is Unmeasured.NOT_SUPPORTED]
    subject, by = f"DRM {quantity}", _READ_FROM[quantity]
    if missing:
        cards = ", ".join(f"card{d.device.minor}" for d in missing)
        remedy = _PROFILING if quantity == "core" else _NOT_REPORTED
        yield note(subject, f"not reported by {cards} ({by})", remedy)
    elif any(quantity not in d.unmeasured for d in devices):
        yield ok(subject, f"reported ({by})")


def devices_found(
    devices: Iterable[DeviceReading], windows: Mapping[str, int], remedy: str
) -> Iterator[CheckResult]:
    """Whether each device is read. ``remedy`` is what to do for a device that is not."""
    for reading in devices:
        device = reading.device
        name = f"{device.model or device.vendor} {device.profile}".rstrip()
        part = "" if device.gpu_instance is None else f"/{device.gpu_instance}"
        subject = f"GPU {device.index}{part}"
        if reading.state is not DeviceState.UP:
            yield problem(subject, f"{name}: {reading.state}: {reading.detail}", remedy)
        elif device.uuid in windows or "core" in reading.unmeasured:
            yield ok(subject, f"{name}, {device.uuid}")
        else:
            later = "an idle driver takes its first samples seconds after it was opened; ask again"
            yield note(subject, f"{name}, {device.uuid}: no new samples yet", later)


AMD = "amd"  # the source
FILES: Mapping[str, str] = {  # quantities of processes, and the files that report them
    "core": "gpu_busy_percent, KFD's stats_<gpu>/cu_occupancy or fdinfo: drm-engine-*",
    "memory": "KFD's vram_<gpu>, fdinfo: drm-memory-vram",
    "energy": "gpu_metrics, hwmon power1_average",
}
_OF_CLIENTS = "decoder"  # reported by fdinfo of boards without cu_occupancy only
_CLIENTS = {None, *INVISIBLE}  # its reasons on these boards
_KERNEL_LOG = "see the kernel log for amdgpu"
_REFUSED = (
    "KFD shows a GPU only to processes whose device cgroup allows its /dev/dri/renderD*: let a "
    "device plugin or an NRI plugin add it to the pod (docs/installation.md, AMD), or run it "
    "privileged"
)


def amd(reading: Reading, windows: Mapping[str, int]) -> Iterator[CheckResult]:
    """Checks of AMD's driver."""
    status = reading.status
    if not status.up:
        remedy = "load amdgpu on this node; in a container mount the host's /sys"
        yield problem("amdgpu", status.detail or "it does not answer", remedy, SYSFS)
        return
    versions = {d.device.driver_version for d in reading.devices} - {""}
    yield ok("amdgpu", f"version {', '.join(sorted(versions)) or 'of the kernel'}")
    if status.detail and status.detail not in {NESTED, REFUSED}:
        yield problem("amdgpu devices", status.detail, _KERNEL_LOG, AMD_DEVICES)
    yield from devices_found(reading.devices, windows, _KERNEL_LOG)
    up = [device for device in reading.devices if device.state is DeviceState.UP]
    yield from clients_seen(
        [d for d in up if d.unmeasured.get(_OF_CLIENTS) in _CLIENTS], _OF_CLIENTS
    )
    for quantity in FILES:
        yield from _quantity(quantity, [d for d in up if not _is_invisible(quantity, d)])


def _is_invisible(quantity: str, reading: DeviceReading) -> bool:
    """Whether the device's clients are not visible, which is reported already."""
    reason = reading.unmeasured.get(quantity)
    return reason in INVISIBLE and reason is reading.unmeasured.get(_OF_CLIENTS)


def _quantity(quantity: str, devices: list[DeviceReading]) -> Iterator[CheckResult]:
    """Whether each device reports the quantity. A partitioned board reports it by partition."""
    subject, by = f"amdgpu {quantity}", FILES[quantity]
    reasons: dict[Unmeasured, list[str]] = {}
    for reading in devices:
        reason = reading.unmeasured.get(quantity)
        if reason and reason is not Unmeasured.PARTITIONED:
            reasons.setdefault(reason, []).append(str(reading.device.index))
    if devices and not reasons:
        yield ok(subject, f"reported ({by})")
    for reason, indexes in reasons.items():
        found = f"not reported by GPU {', '.join(dict.fromkeys(indexes))}: {reason} ({by})"
        if reason is Unmeasured.NO_PERMISSION:
            yield problem(subject, found, _REFUSED, AMD_DEVICES)
        else:
            yield note(subject, found, "nothing to do: this kind of GPU does not report it")
