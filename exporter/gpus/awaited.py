"""Sources that ``auto`` opens in case a node has such GPUs: one without any is no failure."""

from collections.abc import Callable
from pathlib import Path

from exporter.gpus.source import Demand, GpuSource
from exporter.model import Reading

NVIDIA_MODULE, NVIDIA_ID, DISPLAY_CLASS = "nvidia", "0x10de", "0x03"
OTHER_MODULES = ("amdgpu", "i915", "xe")


class Awaited:
    """Wraps a source. While it is down and lists no device, it counts as absent.

    Unless ``missed`` says that this node should have some.
    """

    def __init__(self, source: GpuSource, missed: Callable[[], bool]) -> None:
        self._source = source
        self._missed = missed
        self._down: Reading | None = None  # its newest reading that is shown as absent

    @property
    def name(self) -> str:
        """The wrapped source's."""
        return self._source.name

    def read(self) -> Reading:
        """Read it; see ``GpuSource.read``."""
        reading = self._source.read()
        if reading.status.up or reading.devices or self._missed():
            return reading
        if reading is not self._down:
            self._down = reading
            self._absent = reading._replace(status=reading.status._replace(absent=True))
        return self._absent

    def release(self, released: bool) -> None:  # noqa: FBT001 - a state, not an option
        """Pass it on."""
        self._source.release(released)

    def follow(self, demand: Demand) -> None:
        """Pass it on."""
        self._source.follow(demand)

    def close(self) -> None:
        """Pass it on."""
        self._source.close()


def never() -> bool:
    """Nothing says that there should be such GPUs."""
    return False


def nvidia_missed(sysfs: Path) -> Callable[[], bool]:
    """Tell whether GPUs of NVIDIA are to be expected; what is on the bus is looked up once.

    They are where one is on the bus, or its module is loaded, or no other vendor's is.
    """
    on_bus = _on_bus(sysfs)

    def missed() -> bool:
        modules = sysfs / "module"
        others = any((modules / name).is_dir() for name in OTHER_MODULES)
        return on_bus or not others or (modules / NVIDIA_MODULE).is_dir()

    return missed


def _on_bus(sysfs: Path) -> bool:
    try:
        return any(map(_is_nvidia_gpu, (sysfs / "bus/pci/devices").iterdir()))
    except OSError:
        return False


def _is_nvidia_gpu(device: Path) -> bool:
    try:
        vendor = (device / "vendor").read_text(encoding="ascii", errors="replace").strip()
        kind = (device / "class").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return vendor == NVIDIA_ID and kind.startswith(DISPLAY_CLASS)
