"""A board's power, energy, temperature, clocks and counters, computed from its busy time.

Power rises from idle to maximum in proportion to the busy time. So the energy of any range of time
is known exactly. A board that is busy for a whole second draws its limit, and the driver throttles
its clocks for a part of that second.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter.agent.simulation.description import DeviceSpec
from exporter.agent.simulation.population import Population, busy_ns
from exporter.agent.simulation.ring import SECOND_US
from exporter.model import Sensors

STEP_NS = 10**9
MAX_STEPS = 1024
ENERGY_STEP_NS = 10**8  # the energy counter moves about ten times a second (ml.energy)
ROOM_CELSIUS = 32.0
RISE_CELSIUS = 45.0  # of a board that is always busy
MEMORY_WARMER_CELSIUS = 8.0
IDLE_CLOCK_HERTZ = 210_000_000
MEMORY_CLOCK_HERTZ = 1_593_000_000
CAPPED_SHARE = 0.2  # of a second in which a board is always busy
SENT_PER_BUSY_NS, RECEIVED_PER_BUSY_NS = 0.4, 1.5  # bytes over PCIe
NVLINK_PER_BUSY_NS = 12.0  # bytes in each direction
WITH_NVLINK = "SXM"  # in the model of a board with NVLink to all others
WITH_GPM = ("H100", "H200", "B100", "B200", "B300")  # in its model: Hopper and newer
GPM_SPAN_US = 5 * SECOND_US  # over which GPM's figures are averaged
TEMPERATURE_SPAN_US = 12 * SECOND_US  # over which the busy time warms a board
SM_SHARE, WARP_SHARE, TENSOR_SHARE, DRAM_SHARE = 0.85, 0.4, 0.3, 0.45  # of the busy time
IDLE_STATE = 8  # performance state of an idle board
PCIE_GENERATION, PCIE_LANES = 4, 16  # an idle link falls back to the first generation
BAR1_USED_BYTES = 16 << 20

Load = Callable[[int, int], float]
"""Of a time and a span (both µs): the share of the span before the time that a board was busy."""


class Counts(NamedTuple):
    """How long a board was busy, and throttled by its power limit, since the scenario's start."""

    busy_ns: int = 0
    capped_ns: int = 0


class BoardMeter:
    """A board's energy and counters, at times in nanoseconds since the scenario's start.

    ``parts`` are the instances of a board that is divided, otherwise the board itself.

    The counters are cached by step, of which there is a bounded number. Those of an earlier time
    are computed from the start, and are the same.
    """

    def __init__(
        self, population: Population, device: DeviceSpec, parts: Sequence[DeviceSpec]
    ) -> None:
        self._population = population
        self._device = device
        self._parts = parts
        self._steps: dict[int, Counts] = {0: Counts()}

    def energy_uj(self, now_ns: int) -> int:
        """Microjoules so far. The counter moves each tenth of a second, by whole millijoules."""
        at_ns = max(now_ns, 0) // ENERGY_STEP_NS * ENERGY_STEP_NS
        step = at_ns // STEP_NS
        busy_ns = self._before(step).busy_ns + self._busy_ns(step * STEP_NS, at_ns)
        return sum(idle_and_active_uj(self._device, at_ns, busy_ns)) // 1000 * 1000

    def counts(self, now_ns: int) -> Counts:
        """The counters at the end of the last whole second."""
        return self._before(max(now_ns, 0) // STEP_NS)

    def _before(self, step: int) -> Counts:
        """The counters over all steps before one."""
        if step in self._steps:
            return self._steps[step]
        # The step of the start may have been dropped, too. Its counters are 0.
        nearest = max((cached for cached in self._steps if cached < step), default=0)
        busy, capped = self._steps.get(nearest, Counts())
        for number in range(nearest, step):
            more = self._busy_ns(number * STEP_NS, (number + 1) * STEP_NS)
            busy += more
            # Only a board with work for all of the second is held at its limit.
            capped += int(CAPPED_SHARE * STEP_NS) if more >= STEP_NS else 0
            self._steps[number + 1] = Counts(busy, capped)
            if len(self._steps) > MAX_STEPS:
                del self._steps[min(self._steps)]
        return Counts(busy, capped)

    def _busy_ns(self, begin_ns: int, end_ns: int) -> int:
        """The board's busy time; each part counts with its share of the core."""
        bursts = self._population.bursts
        return sum(
            int(busy_ns(bursts(part.number, begin_ns, end_ns)) * part.shown.core_share)
            for part in self._parts
        )


def idle_and_active_uj(device: DeviceSpec, length_ns: int, busy_ns: int) -> tuple[int, int]:
    """Microjoules that a board would use idle in this time, and those that its work adds."""
    idle = round(device.idle_watts * 1000) * length_ns // 10**6
    active = round((device.max_watts - device.idle_watts) * 1000) * busy_ns // 10**6
    return idle, active


def sensors(device: DeviceSpec, load: Load, now_us: int, counts: Counts) -> Sensors:
    """What the driver of the board's vendor reports of it.

    Power and clocks follow the busy time of the last second, temperatures that of the last twelve.
    """
    reported = _of_nvidia(device, load, now_us, counts)
    if device.shown.vendor == "amd":
        return _of_amd(reported)
    return _of_intel(reported) if device.shown.vendor == "intel" else reported


def _of_amd(nvidia: Sensors) -> Sensors:
    """The same board's, as gpu_metrics and hwmon of an Instinct have them."""
    celsius = nvidia.by_label("temperature_celsius")
    capped_ns = nvidia.by_label("throttle_seconds_total")["sw_power_cap"]
    others = ("prochot", "socket_thermal", "vr_thermal", "hbm_thermal")
    return Sensors.of(
        power_watts=nvidia.value("power_watts"),
        power_limit_watts=nvidia.value("power_limit_watts"),
        temperature_celsius={"hotspot": celsius["gpu"], "memory": celsius["memory"]},
        clock_hertz=nvidia.by_label("clock_hertz"),
        throttle_seconds_total={"ppt": capped_ns, **dict.fromkeys(others, 0)},
        ecc_errors_total=nvidia.by_label("ecc_errors_total"),
    )


def _of_intel(nvidia: Sensors) -> Sensors:
    """The same board's, as hwmon of the driver xe has them."""
    return Sensors.of(
        power_watts=nvidia.value("power_watts"),
        power_limit_watts=nvidia.value("power_limit_watts"),
        temperature_celsius=nvidia.by_label("temperature_celsius"),
        clock_hertz={"graphics": nvidia.by_label("clock_hertz")["sm"]},
    )


def _of_nvidia(device: DeviceSpec, load: Load, now_us: int, counts: Counts) -> Sensors:
    busy = load(now_us, SECOND_US)
    celsius = ROOM_CELSIUS + RISE_CELSIUS * load(now_us, TEMPERATURE_SPAN_US)
    return Sensors.of(
        # NVML reports milliwatts, and whole degrees.
        power_watts=round(device.idle_watts + (device.max_watts - device.idle_watts) * busy, 3),
        power_limit_watts=device.max_watts,
        temperature_celsius={
            "gpu": float(round(celsius)),
            "memory": float(round(celsius + MEMORY_WARMER_CELSIUS)),
        },
        clock_hertz={
            "sm": device.clock_hertz if busy else min(IDLE_CLOCK_HERTZ, device.clock_hertz),
            "memory": MEMORY_CLOCK_HERTZ,
        },
        throttle_seconds_total={
            "sw_power_cap": counts.capped_ns,
            **dict.fromkeys(("sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"), 0),
        },
        ecc_errors_total={"corrected": 0, "uncorrected": 0},
        remapped_rows={"corrected": 0, "uncorrected": 0},
        row_remapping={"pending": 0, "failed": 0},
        performance_state=0 if busy else IDLE_STATE,
        pcie_link_generation=PCIE_GENERATION if busy else 1,
        pcie_link_max_generation=PCIE_GENERATION,
        pcie_link_width=PCIE_LANES,
        pcie_link_max_width=PCIE_LANES,
        pcie_replays_total=0,
        bar1_used_bytes=min(BAR1_USED_BYTES, device.shown.memory_bytes or 0),
        bar1_total_bytes=device.shown.memory_bytes,
        recovery_action=0,
        vgpu_licensed=0,
        **_gpm(device, load, now_us),
        **_transfers(device, counts.busy_ns),
    )


def _transfers(device: DeviceSpec, busy_ns: int) -> dict[str, dict[str, int]]:
    """What the board sent and received over PCIe, and over NVLink if its model has that."""
    has_nvlink = WITH_NVLINK in device.shown.model
    # A board without NVLink has none of its series: zero would say that a link is there and idle.
    directions = ("transmit", "receive") if has_nvlink else ()
    errors = ("crc_flit", "crc_data", "replay", "recovery") if has_nvlink else ()
    return {
        "pcie_bytes_total": {
            "transmit": int(SENT_PER_BUSY_NS * busy_ns),
            "receive": int(RECEIVED_PER_BUSY_NS * busy_ns),
        },
        "nvlink_bytes_total": dict.fromkeys(directions, int(NVLINK_PER_BUSY_NS * busy_ns)),
        "nvlink_errors_total": dict.fromkeys(errors, 0),
    }


def has_gpm(device: DeviceSpec) -> bool:
    """Whether a board has GPM, its hardware counters of activity."""
    return any(name in device.shown.model for name in WITH_GPM)


def _gpm(device: DeviceSpec, load: Load, now_us: int) -> dict[str, float]:
    """GPM's figures, of the boards that have it."""
    if not has_gpm(device):
        return {}
    busy = load(now_us, GPM_SPAN_US)
    return {
        "sm_active_ratio": round(SM_SHARE * busy, 4),
        "sm_occupancy_ratio": round(WARP_SHARE * busy, 4),
        "tensor_active_ratio": round(TENSOR_SHARE * busy, 4),
        "dram_active_ratio": round(DRAM_SHARE * busy, 4),
    }
