"""Memory and sensors of a device, read at intervals: NVML's plain queries, field values, GPM."""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeVar

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.gpus.nvml.boardcounters import GROUPS, PCIE, BoardCounters
from exporter.agent.sources.gpus.nvml.cadence import (
    COUNTERS,
    PROFILING,
    SAMPLES,
    SENSORS,
    ReadPhases,
)
from exporter.agent.sources.gpus.nvml.errors import (
    NOT_SUPPORTED,
    NvmlError,
    UnmeasurableError,
    error_of,
)
from exporter.agent.sources.gpus.nvml.gpm import GPM, Gpm, GpmReading
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.refusals import Refusals
from exporter.model import Sensors

T = TypeVar("T")

ARGUMENT_VERSION_MISMATCH = 25
NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF  # of bytes: WDDM, some vGPUs, a MIG parent without privilege
MEMORY_V2 = 40 | 2 << 24  # nvmlMemory_v2: size of the struct and its version
CLOCKS = {"sm": 1, "memory": 2}  # nvmlClockType_t
GPU_SENSOR = 0  # nvmlTemperatureSensors_t
TRAFFIC = "pcie_bytes_total"  # the family that is read each cycle


class Plain(NamedTuple):
    """A number that one call returns, and its family, which has no label.

    A number above ``most`` means that the driver does not know it.
    """

    family: str
    function: str
    topic: str  # of a refusal
    divisor: int = 1  # from NVML's unit to that of the family
    phase: str = SENSORS  # or COUNTERS, for what changes rarely
    most: float = inf
    member: str = ""  # of the struct that the call returns


_STATE, _BAR1 = "performance_state", "nvmlDeviceGetBAR1MemoryInfo"
LOWEST_STATE = 15  # 32: unknown
_VGPU = 1  # NVML_GRID_LICENSE_FEATURE_CODE_VGPU

PLAIN = (
    Plain("power_watts", "nvmlDeviceGetPowerUsage", "power", 1000),
    Plain("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", "power_limit", 1000),
    Plain("fan_speed_ratio", "nvmlDeviceGetFanSpeed", "fan", 100),
    Plain(_STATE, "nvmlDeviceGetPerformanceState", _STATE, most=LOWEST_STATE),
    *(
        Plain(f"pcie_link_{family}", f"nvmlDeviceGet{function}", topic, 1, COUNTERS)
        for family, function, topic in (
            ("generation", "CurrPcieLinkGeneration", "link"),
            ("max_generation", "MaxPcieLinkGeneration", "link_max"),
            ("width", "CurrPcieLinkWidth", "link"),
            ("max_width", "MaxPcieLinkWidth", "link_max"),
        )
    ),
    Plain("bar1_used_bytes", _BAR1, "bar1", 1, COUNTERS, member="bar1Used"),
    Plain("bar1_total_bytes", _BAR1, "bar1", 1, COUNTERS, member="bar1Total"),
)


class MemoryInfo(NamedTuple):
    """Bytes of a device. ``reserved`` (the driver's own) is None before driver 510, in ``used``."""

    total: int
    used: int
    reserved: int | None


def memory_info(library: Library, handle: Any) -> MemoryInfo:  # noqa: ANN401 - pynvml's pointer
    """Memory of a device or MIG instance, in bytes.

    Raises:
        NvmlError: the driver's answer. A board that shares its host's memory has none of its own,
            and no size is no answer either (nvitop#208, nvtop#411).

    """
    try:
        info = library.ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
        reserved = info.reserved
    except NvmlError as error:
        # Drivers before 510 have no second version of the struct.
        if not isinstance(error, UnmeasurableError) and error.code != ARGUMENT_VERSION_MISMATCH:
            raise
        info, reserved = library.ask("nvmlDeviceGetMemoryInfo", handle), None
    if info.total in {0, NOT_AVAILABLE}:
        raise error_of(NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo")
    return MemoryInfo(info.total, info.used, reserved)


class BoardReader:
    """Reads the sensor values of one board. Each is reused until its next scheduled read.

    What only disabled metric families need is not read.
    """

    def __init__(
        self,
        library: Library,
        handle: Any,  # noqa: ANN401 - pynvml's pointer
        refusals: Refusals,
        demand: Demand,
        phases: ReadPhases,
    ) -> None:
        self._library = library
        self._ask = library.ask
        self._refusals = refusals
        self._phases = phases
        self._cadences = {phase: phases.cadence(phase) for phase in (SENSORS, COUNTERS, PROFILING)}
        self._counters = BoardCounters(library, refusals, demand, phases)
        self._gpm: Gpm | None = None
        self._disabled = demand.disabled
        self._all: Sensors | None = None  # None: some were read since they were put together
        self.bind(handle)

    def follow(self, demand: Demand) -> None:
        """Applies another demand, with the same handle. Sums go on.

        Nothing is read again because somebody begins or ceases to look: each scrape may do that.
        """
        if demand.disabled == self._disabled:
            return
        profiled = self._gpm is not None
        self._disabled, self._all = demand.disabled, None
        self._counters.follow(demand)
        if profiled is (PROFILING in demand.disabled):
            self._restart_profiling()
        self._cadences[SENSORS].restart()

    def bind(self, handle: Any) -> None:  # noqa: ANN401 - pynvml's pointer
        """Uses another handle from now on; everything is due at once."""
        self._handle, self._all = handle, None
        self._counters.bind(handle)
        self._restart_profiling()
        self._sensors = Sensors()
        self._rare: Mapping[str, float] = {}
        self._cadences[SENSORS].restart()

    def _restart_profiling(self) -> None:
        self.close()
        shown = PROFILING not in self._disabled
        self._gpm = Gpm(self._library, self._handle, self._refusals) if shown else None
        self._profile: GpmReading | None = None
        self._moved: Mapping[str, float] = {}
        self._gpm_lacks_pcie = False
        self._counting = False  # whether traffic was counted by the counters, not by GPM
        self._counters.traffic.restart()  # what GPM counts, the counters do not see, and back
        self._cadences[PROFILING].restart()

    def close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()

    def read(self) -> Sensors:
        """The sensor values; those that fail are left out. The same object: none was read."""
        if self._cadences[SENSORS].begin_if_due():
            self._phases.read(SENSORS, self._read_sensors)
            self._all = None
        if self._cadences[COUNTERS].begin_if_due():
            self._phases.read(COUNTERS, self._read_counters)
            self._all = None
        if self._cadences[PROFILING].begin_if_due() and self._gpm is not None:
            self._profile = self._phases.read(PROFILING, self._gpm.read)
            self._moved = self._count_traffic(self._profile)
            self._all = None
        counting = self._gpm_lacks_pcie or self._gpm is None or GPM in self._refusals
        if counting:
            self._counters.read(SAMPLES)  # each cycle, because it wraps
        elif self._counting:
            self._counters.traffic.restart()  # GPM counts from now on
        if self._all is None or counting or self._counting:
            self._all = self._sum()
        self._counting = counting
        return self._all

    def _sum(self) -> Sensors:
        """All values: the counters add labels to families and whole families."""
        labelled = dict(self._sensors.labelled)
        numbers = {
            **self._sensors.numbers,
            **self._rare,
            **(self._profile or GpmReading()).ratios,
        }
        for family, values in self._counters.shown.items():
            if "" in values:
                numbers[family] = values[""]
            elif values:
                labelled[family] = {**labelled.get(family, {}), **values}
        if self._moved:
            labelled[TRAFFIC] = self._moved
        return Sensors(numbers, labelled)

    def _count_traffic(self, profile: GpmReading | None) -> Mapping[str, float]:
        """Adds GPM's traffic, which does not wrap. Without it, the counters are read.

        Once the counters are read, GPM is not used again: both would count the same bytes.
        """
        if PCIE in self._disabled or profile is None or self._gpm_lacks_pcie:
            return {}
        sent, received = profile.pcie_tx_bytes, profile.pcie_rx_bytes
        if sent is None or received is None:
            self._gpm_lacks_pcie = True
            return {}
        traffic = self._counters.traffic
        return {
            "transmit": traffic.add("transmit", sent),
            "receive": traffic.add("receive", received),
        }

    def _read_sensors(self) -> None:
        ask, handle = self._ask, self._handle
        plain = self._plain(SENSORS)
        celsius = self._try("temperature_celsius", "temperature", self._temperature)
        clock = partial(ask, "nvmlDeviceGetClockInfo", handle)
        clocks = {
            name: self._try("clock_hertz", "clock", partial(clock, kind))
            for name, kind in CLOCKS.items()
        }
        self._sensors = Sensors(plain).but(
            temperature_celsius={} if celsius is None else {"gpu": float(celsius)},
            clock_hertz={name: mhz * 1_000_000 for name, mhz in clocks.items() if mhz is not None},
        )
        self._counters.read(SENSORS)

    def _read_counters(self) -> None:
        licensed = self._try("vgpu_licensed", "license", self._vgpu_licensed)
        known = {} if licensed is None else {"vgpu_licensed": licensed}
        self._rare = {**self._plain(COUNTERS), **known}
        self._counters.read(COUNTERS)

    def _plain(self, phase: str) -> dict[str, float]:
        """The numbers of PLAIN that are read in this phase and known, by family."""
        found = {}
        answers: dict[str, Any] = {}  # one call may answer for two families
        for each in PLAIN:
            if each.phase == phase:
                if each.function not in answers:
                    call = partial(self._ask, each.function, self._handle)
                    answers[each.function] = self._try(each.family, each.topic, call)
                answer = answers[each.function]
                if answer is not None and each.member:
                    answer = getattr(answer, each.member)
                if answer is not None and answer <= each.most:
                    found[each.family] = answer / each.divisor
        return found

    def _vgpu_licensed(self) -> float | None:
        """1 or 0, as DCGM says it; None where what can be licensed is no vGPU."""
        found = self._ask("nvmlDeviceGetGridLicensableFeatures_v4", self._handle)
        if not found.isGridLicenseSupported:
            return 0
        listed = found.gridLicensableFeatures[: found.licensableFeaturesCount]
        states = [one.featureState for one in listed if one.featureCode == _VGPU]
        return float(states[0] > 0) if states else None

    def _temperature(self) -> int:
        newer = self._refusals.ask(
            "temperature_v",
            partial(self._ask, "nvmlDeviceGetTemperatureV", self._handle, GPU_SENSOR),
        )
        if newer is not None:
            return int(newer) % 2**32  # the older call's is unsigned: -1 is its "unknown"
        return int(self._ask("nvmlDeviceGetTemperature", self._handle, GPU_SENSOR))

    def _try(self, family: str, topic: str, call: Callable[[], T]) -> T | None:
        """The answer, if the family that needs it is shown and the device has one."""
        is_off = GROUPS[family] in self._disabled
        return None if is_off else self._refusals.attempt(topic, call)
