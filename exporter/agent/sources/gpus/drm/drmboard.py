"""Energy, sensors and runtime power state of one device, from its files in sysfs.

Reading sensors may wake the device; the caller decides whether to. Power state:
Documentation/power/runtime_pm.rst. ``power/control`` is ``auto`` if the device may be suspended,
and ``runtime_status`` says whether it is; reading them does not wake it.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus.board_energy import BoardEnergy
from exporter.agent.sources.gpus.energy import EnergyUse
from exporter.agent.sources.gpus.hwmon import Hwmon, unmeasured
from exporter.agent.sources.gpus.sysfs import MAX_BYTES, NotedReads, number_of, text_in
from exporter.model import Sensors, Unmeasured

_GRAPHICS_MHZ = (  # i915's and xe's
    "gt_act_freq_mhz",
    "gt_cur_freq_mhz",
    "device/tile0/gt0/freq0/act_freq",
    "device/tile0/gt0/freq0/cur_freq",
)


class DrmBoard:
    """Reads the energy and sensors of one device. ``card``: its directory in sysfs."""

    def __init__(self, card: str, driver: str) -> None:
        self._card = card
        clocks = [f"{card}/{name}" for name in _GRAPHICS_MHZ]
        self._hwmon = Hwmon(f"{card}/device", driver, clocks)
        self.energy = BoardEnergy()
        self._taken_ns: int | None = None
        self._watts: float | None = None
        self.sensors = Sensors()
        self._of_memory = NotedReads()

    def take_energy(self, mono_ns: int, busy_ns: int | None) -> EnergyUse:
        counter = self._hwmon.energy_uj()
        energy = self.energy.take(counter, self._hwmon.power_mw, mono_ns, busy_ns)
        before, self._taken_ns = self._taken_ns, mono_ns
        if energy.used_uj is not None and before is not None and self.energy.method == "counter":
            self._watts = (energy.used_uj - energy.late_uj) * 1000 / (mono_ns - before)
        return energy

    def read(self, disabled: Collection[str]) -> None:
        """Reads the sensors into ``sensors``, without those of disabled families."""
        self.sensors = self._hwmon.sensors(disabled, self._watts)

    def unmeasured(self, disabled: Collection[str]) -> Mapping[str, Unmeasured]:
        """The quantities that this board does not measure, without disabled groups of families."""
        why = self._of_memory.reason
        of_memory = {"device_memory": why} if why else {}
        unread = self._hwmon.unmeasured
        return {**of_memory, **unmeasured(self.sensors, self.energy, disabled, unread)}

    def memory_used(self, *, shares_host: bool) -> int | None:
        """Bytes of device memory in use, if the driver reports them (amdgpu)."""
        names = ("vram", "gtt") if shares_host else ("vram",)
        self._of_memory = reads = NotedReads()
        used = [reads.number(f"{self._card}/device/mem_info_{name}_used") for name in names]
        return None if None in used else sum(filter(None, used))


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
        # Where its state cannot be read, it is read as one that is awake: its figures go before its
        # sleep.
        if text_in(f"{self._power}/control") != Whole("auto"):
            return PowerState.AWAKE
        if text_in(f"{self._power}/runtime_status") == Whole("suspended"):
            return PowerState.ASLEEP
        match door.parsed(door.read(f"{self._power}/autosuspend_delay_ms", MAX_BYTES), number_of):
            case Whole(delay_ms) | Cut(delay_ms):
                pause_ns = 2 * MS * max(delay_ms, 0)
            case Absent() | Refused() | Failed():  # EIO: the driver has no delay of its own
                pause_ns = 2 * MS * _DEFAULT_DELAY_MS
        pause_ns = min(pause_ns, self._longest_ns)
        is_resting = self._was_idle and mono_ns - self._read_ns < pause_ns
        return PowerState.DROWSY if is_resting else PowerState.AWAKE
