"""The devices that a source found, one line each."""

from collections.abc import Iterable, Iterator, Mapping

from exporter.doctor.finding import Finding, note, ok, problem
from exporter.model import DeviceReading, DeviceState


def devices_found(
    devices: Iterable[DeviceReading], windows: Mapping[str, int], remedy: str
) -> Iterator[Finding]:
    """Whether each is read; ``remedy`` is for those that are not."""
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
