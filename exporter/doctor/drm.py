"""The kernel's DRM drivers: what they tell of each device, and which processes cannot be seen."""

from collections.abc import Iterator, Mapping

from exporter.doctor.finding import Finding, note, ok, problem
from exporter.doctor.privileges import FDINFO, HOST_PID, SYSFS
from exporter.model import DeviceReading, DeviceState, Reading, Unmeasured

DRM = "drm"  # the source
_SEES = "clients of DRM"
_TOLD: Mapping[str, str] = {
    "core": "fdinfo: drm-engine-*, drm-cycles-*",
    "memory": "fdinfo: drm-resident-*",
    "energy": "hwmon: energy1_input, power1_average",
}
_UNTOLD = "nothing: this driver does not tell it"
_PROFILING = (
    "if it is panfrost or panthor, write 1 or 3 to the device's profiling file in sysfs; else "
    "nothing: this driver does not tell it"
)
BLIND = {
    Unmeasured.NO_HOSTPID: ("set hostPID: true", HOST_PID),
    Unmeasured.NO_PERMISSION: (
        "run as root with CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE (docs/installation.md, fdinfo)",
        FDINFO,
    ),
}


def drm(reading: Reading, windows: Mapping[str, int]) -> Iterator[Finding]:
    """All of DRM's."""
    status = reading.status
    if not status.up:
        remedy = "load the device's driver on this node; in a container mount the host's /sys"
        yield problem("DRM", status.detail or "it does not answer", remedy, SYSFS)
        return
    drivers = sorted({d.device.driver_version for d in reading.devices})
    yield note("DRM", f"{', '.join(drivers)}: experimental, not yet seen on hardware")
    devices = [device for device in reading.devices if device.state is DeviceState.UP]
    yield from clients_seen(devices, "core", status.detail)
    for each in reading.devices:
        yield _device(each, windows)
    for quantity in _TOLD:
        yield from _quantity(quantity, devices)


def clients_seen(
    devices: list[DeviceReading], quantity: str, detail: str = ""
) -> Iterator[Finding]:
    """Whether every client can be seen; the quantity is one that only clients tell."""
    reasons = {device.unmeasured.get(quantity) for device in devices}
    blind = next((reason for reason in BLIND if reason in reasons), None)
    if blind is not None:
        remedy, privilege = BLIND[blind]
        yield problem(_SEES, detail or str(blind), remedy, privilege)
    elif devices:
        yield ok(_SEES, "the descriptors of all processes can be looked through")


def _device(reading: DeviceReading, windows: Mapping[str, int]) -> Finding:
    device = reading.device
    subject, name = f"DRM card{device.minor}", f"{device.model or device.vendor}, {device.uuid}"
    if reading.state is not DeviceState.UP:
        return problem(subject, f"{name}: {reading.state}: {reading.detail}", "see the kernel log")
    if device.uuid not in windows and "core" not in reading.unmeasured:
        return note(subject, f"{name}: not read twice yet", "ask again")
    return ok(subject, name)


def _quantity(quantity: str, devices: list[DeviceReading]) -> Iterator[Finding]:
    """What is told of it, and by which devices it is not."""
    missing = [d for d in devices if d.unmeasured.get(quantity) is Unmeasured.NOT_SUPPORTED]
    subject, by = f"DRM {quantity}", _TOLD[quantity]
    if missing:
        cards = ", ".join(f"card{d.device.minor}" for d in missing)
        remedy = _PROFILING if quantity == "core" else _UNTOLD
        yield note(subject, f"not told by {cards} ({by})", remedy)
    elif any(quantity not in d.unmeasured for d in devices):
        yield ok(subject, f"told ({by})")
