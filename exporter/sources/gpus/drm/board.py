"""Energy, sensors and runtime power state of one device, from its files in sysfs.

Sources: Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon and
Documentation/gpu/amdgpu/thermal.rst. Reading sensors may wake the device; the caller decides
whether to. Power state: Documentation/power/runtime_pm.rst. ``power/control`` is ``auto`` if the
device may be suspended, and ``runtime_status`` says whether it is; reading them does not wake it.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum, auto

from exporter.model import Sensors, Unmeasured
from exporter.sources.gpus.board_energy import BoardEnergy
from exporter.sources.gpus.energy import EnergyUse
from exporter.sources.gpus.sysfs import names, number, text

_SENSORS = {"edge": "gpu", "pkg": "gpu", "junction": "hotspot", "mem": "memory", "vram": "memory"}
_CLOCKS_MHZ = {  # the first one that exists: i915's and xe's
    "graphics": (
        "gt_act_freq_mhz",
        "gt_cur_freq_mhz",
        "device/tile0/gt0/freq0/act_freq",
        "device/tile0/gt0/freq0/cur_freq",
    )
}
_CLOCKS_HZ = {"graphics": "freq1_input", "memory": "freq2_input"}  # amdgpu's, in hwmon
_POWER = ("power1_average", "power1_input")
_LIMIT = ("power1_cap", "power1_max")
_MOST_SENSORS = 16


class DrmBoard:
    """Reads the energy and sensors of one device. ``card``: its directory in sysfs."""

    def __init__(self, card: str, driver: str) -> None:
        self._card = card
        self._hwmon = _hwmon(f"{card}/device/hwmon", driver)
        self.energy = BoardEnergy()
        self._taken_ns: int | None = None
        self._watts: float | None = None
        self.sensors = Sensors()

    def take_energy(self, mono_ns: int, busy_ns: int | None) -> EnergyUse:
        counter = self._number("energy1_input")
        energy = self.energy.take(counter, self._power_mw, mono_ns, busy_ns)
        before, self._taken_ns = self._taken_ns, mono_ns
        if energy.used_uj is not None and before is not None and self.energy.method == "counter":
            self._watts = (energy.used_uj - energy.late_uj) * 1000 / (mono_ns - before)
        return energy

    def _power_mw(self) -> int | None:
        microwatts = self._first(_POWER)
        return None if microwatts is None else microwatts // 1000

    def read(self, disabled: Collection[str]) -> None:
        """Reads the sensors into ``sensors``, without those of disabled families."""
        power, limit = self._first(_POWER), self._first(_LIMIT)
        watts = self._watts if power is None else power / 1e6
        self.sensors = Sensors.of(
            power_watts=None if "power" in disabled else watts,
            power_limit_watts=limit / 1e6 if limit and "power" not in disabled else None,
            temperature_celsius={} if "temperature" in disabled else dict(self._temperatures()),
            clock_hertz={} if "clocks" in disabled else dict(self._clocks()),
        )

    def unmeasured(self, disabled: Collection[str]) -> Mapping[str, Unmeasured]:
        """The quantities that this board does not measure, without disabled groups of families."""
        sensors = self.sensors
        absent = {
            "energy": ("", self.energy.method == "none"),
            "power": ("power", sensors.number("power_watts") is None),
            "power_limit": ("power", sensors.number("power_limit_watts") is None),
            "temperature": ("temperature", not sensors.by_label("temperature_celsius")),
            "clock": ("clocks", not sensors.by_label("clock_hertz")),
            "throttle": ("throttle", True),
            "ecc_errors": ("ecc", True),
            "pcie": ("pcie", True),
        }
        return {
            quantity: Unmeasured.NOT_SUPPORTED
            for quantity, (group, is_absent) in absent.items()
            if is_absent and group not in disabled
        }

    def vram_used(self) -> int | None:
        """Bytes of device memory in use, if the driver reports them (amdgpu)."""
        return number(f"{self._card}/device/mem_info_vram_used")

    def _temperatures(self) -> Iterator[tuple[str, float]]:
        for name in names(self._hwmon)[: 16 * _MOST_SENSORS] if self._hwmon else ():
            if name.startswith("temp") and name.endswith("_input"):
                value = self._number(name)
                label = text(f"{self._hwmon}/{name.removesuffix('input')}label")
                if value is not None:
                    yield _SENSORS.get(label) or _plain(label) or "gpu", value / 1000

    def _clocks(self) -> Iterator[tuple[str, int]]:
        for clock, paths in _CLOCKS_MHZ.items():
            values = (number(f"{self._card}/{path}") for path in paths)
            mhz = next((value for value in values if value is not None), None)
            if mhz is not None:
                yield clock, mhz * 1_000_000
        for clock, name in _CLOCKS_HZ.items():
            hertz = self._number(name)
            if hertz is not None:
                yield clock, hertz

    def _first(self, wanted: tuple[str, ...]) -> int | None:
        values = (self._number(name) for name in wanted)
        return next((value for value in values if value is not None), None)

    def _number(self, name: str) -> int | None:
        value = number(f"{self._hwmon}/{name}") if self._hwmon else None
        return None if value is None or (value < 0 and not name.startswith("temp")) else value


def _hwmon(folder: str, driver: str) -> str:
    """The hwmon directory of the whole device; i915 has others for its parts (``i915_gt0``)."""
    found = [f"{folder}/{name}" for name in names(folder) if name.startswith("hwmon")]
    return next((path for path in found if text(f"{path}/name") == driver), "")


def _plain(label: str) -> str:
    return label if label.isascii() and label.isidentifier() and len(label) <= 32 else ""  # noqa: PLR2004 - a word


MS = 10**6
LONGEST_PAUSE_NS = 5 * 10**9
_DEFAULT_DELAY_MS = 1000


class PowerState(Enum):
    """The effect that a read would have on a device now."""

    AWAKE = auto()
    DROWSY = auto()  # idle at the last read: a read would keep it awake
    ASLEEP = auto()  # a read would wake it


class RuntimeSleep:
    """The runtime power state of one device. ``power``: the directory of that name in sysfs."""

    def __init__(self, power: str, longest_pause_ns: int = LONGEST_PAUSE_NS) -> None:
        self._power = power
        self._longest_ns = longest_pause_ns
        self._was_idle = False
        self._read_ns = 0

    def note(self, mono_ns: int, *, idle: bool) -> None:
        """Notes a read, and whether the device was idle since the one before."""
        self._was_idle, self._read_ns = idle, mono_ns

    def state(self, mono_ns: int) -> PowerState:
        if text(f"{self._power}/control") != "auto":
            return PowerState.AWAKE
        if text(f"{self._power}/runtime_status") == "suspended":
            return PowerState.ASLEEP
        delay_ms = number(f"{self._power}/autosuspend_delay_ms")
        pause_ns = 2 * MS * (_DEFAULT_DELAY_MS if delay_ms is None else max(delay_ms, 0))
        pause_ns = min(pause_ns, self._longest_ns)
        is_resting = self._was_idle and mono_ns - self._read_ns < pause_ns
        return PowerState.DROWSY if is_resting else PowerState.AWAKE
