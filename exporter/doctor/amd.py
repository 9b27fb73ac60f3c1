"""AMD's drivers: what their files in sysfs tell of each board, and what may not be read."""

from collections.abc import Iterator, Mapping

from exporter.doctor.devices import devices_found
from exporter.doctor.drm import BLIND, clients_seen
from exporter.doctor.finding import Finding, note, ok, problem
from exporter.doctor.privileges import AMD_DEVICES, AMD_LIBRARY, SYSFS
from exporter.gpus.amd.smi.check import DIFFERS, SOURCE, UNANSWERED
from exporter.gpus.amd.smi.places import NAME
from exporter.gpus.drm.holders import NESTED, REFUSED
from exporter.model import DeviceReading, DeviceState, Reading, Unmeasured

AMD = "amd"  # the source
AMD_SMI = SOURCE
FILES: Mapping[str, str] = {  # what is told of processes, and by which files
    "core": "gpu_busy_percent, KFD's stats_<gpu>/cu_occupancy or fdinfo: drm-engine-*",
    "memory": "KFD's vram_<gpu>, fdinfo: drm-memory-vram",
    "energy": "gpu_metrics, hwmon power1_average",
}
_OF_CLIENTS = "decoder"  # told by fdinfo, of boards without cu_occupancy, or not at all
_CLIENTS = {None, *BLIND}  # what becomes of it there
_KERNEL_LOG = "see the kernel log for amdgpu"
_REFUSED = (
    "KFD shows a GPU to those only whose device cgroup has its /dev/dri/renderD*: let a device "
    "plugin or an NRI plugin give it to the pod (docs/installation.md, AMD), or run it privileged"
)


def amd(reading: Reading, windows: Mapping[str, int]) -> Iterator[Finding]:
    """All of AMD's."""
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
        yield from _quantity(quantity, [d for d in up if not _blind(quantity, d)])


def _blind(quantity: str, reading: DeviceReading) -> bool:
    """Whether it is not told because the device's clients are not seen, which is said already."""
    reason = reading.unmeasured.get(quantity)
    return reason in BLIND and reason is reading.unmeasured.get(_OF_CLIENTS)


def _quantity(quantity: str, devices: list[DeviceReading]) -> Iterator[Finding]:
    """What of it is not told, by reason; a partitioned board's is told of its partitions."""
    subject, by = f"amdgpu {quantity}", FILES[quantity]
    reasons: dict[Unmeasured, list[str]] = {}
    for reading in devices:
        reason = reading.unmeasured.get(quantity)
        if reason and reason is not Unmeasured.PARTITIONED:
            reasons.setdefault(reason, []).append(str(reading.device.index))
    if devices and not reasons:
        yield ok(subject, f"told ({by})")
    for reason, indexes in reasons.items():
        found = f"not told by GPU {', '.join(dict.fromkeys(indexes))}: {reason} ({by})"
        if reason is Unmeasured.NO_PERMISSION:
            yield problem(subject, found, _REFUSED, AMD_DEVICES)
        else:
            yield note(subject, found, "nothing: this kind of GPU does not tell it")


def library(reading: Reading, windows: Mapping[str, int]) -> Iterator[Finding]:  # noqa: ARG001 - as of the others
    """AMD's own library, where the figures of sysfs are to be compared with it."""
    status = reading.status
    version, _, differing = status.detail.partition(DIFFERS)
    if status.absent:
        yield note(NAME, f"not asked: {status.detail}", privilege=AMD_LIBRARY)
    elif not status.up and UNANSWERED in status.detail:
        yield note(NAME, status.detail, "nothing: the exporter goes on and takes it when it comes")
    elif not status.up:
        yield problem(NAME, status.detail, "see docs/vendors.md, or set --amd.smi=off", AMD_LIBRARY)
    elif differing:
        remedy = "compare with amd-smi metric on the node, and report which is right"
        yield problem(NAME, f"{version}; it does not agree with sysfs: {differing}", remedy)
    else:
        yield ok(NAME, f"{version}; it agrees with sysfs")
