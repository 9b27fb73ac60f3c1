"""A board's power, energy, temperature, clocks and counters, computed from its busy time.

Power rises from idle to maximum in proportion to the busy time. So the energy of any range of time
is known exactly. A board that is busy for a whole second draws its limit, and the driver throttles
its clocks for a part of that second.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter.model import Sensors
from exporter.simulation.description import DeviceSpec
from exporter.simulation.population import Population, busy_ns
from exporter.simulation.ring import SECOND_US

STEP_NS = 10**9
MOST_STEPS = 1024
COUNTER_NS = 10**8  # the energy counter moves about ten times a second (ml.energy)
ROOM_CELSIUS = 32.0
RISE_CELSIUS = 45.0
MEMORY_WARMER_CELSIUS = 8.0
IDLE_CLOCK_HERTZ = 210_000_000
MEMORY_CLOCK_HERTZ = 1_593_000_000
CAPPED_SHARE = 0.2
SENT_PER_BUSY_NS, RECEIVED_PER_BUSY_NS = 0.4, 1.5  # bytes over PCIe
NVLINK_PER_BUSY_NS = 12.0  # bytes in each direction
LINKED = "SXM"  # the form of boards with NVLink to all others
PROFILED = ("H100", "H200", "B100", "B200", "B300")  # Hopper and newer
PROFILE_US = 5 * SECOND_US  # that a figure of GPM is an average of
WARMTH_US = 12 * SECOND_US  # likewise, of the temperature
SM_SHARE, WARP_SHARE, TENSOR_SHARE, DRAM_SHARE = 0.85, 0.4, 0.3, 0.45  # of the busy time
IDLE_STATE = 8  # performance state of an idle board
PCIE_GENERATION, PCIE_LANES = 4, 16  # an idle link falls back to the first generation
BAR1_USED_BYTES = 16 << 20

Load = Callable[[int, int], float]  # how busy a board was before a time (us), for so long (us)


class Counts(NamedTuple):
    """A board's counters since the scenario's start."""

    busy_ns: int = 0
    capped_ns: int = 0


class BoardMeter:
    """One device's energy and counters, at times in nanoseconds since the scenario's start.

    The busy time is cached in steps, of which there is a bounded number. A question about an
    earlier time is computed from the start, and has the same answer.
    """

    def __init__(
        self,
        population: Population,
        device: DeviceSpec,
        instances: Sequence[DeviceSpec] = (),
    ) -> None:
        self._population = population
        self._device = device
        self._parts = instances or (device,)
        self._steps: dict[int, Counts] = {0: Counts()}

    def read_uj(self, now_ns: int) -> int:
        """Microjoules, in whole millijoules and tenths of a second."""
        at = max(now_ns, 0) // COUNTER_NS * COUNTER_NS
        step = at // STEP_NS
        busy = self._until(step).busy_ns + self._busy(step * STEP_NS, at)
        return sum(energy_uj(self._device, at, busy)) // 1000 * 1000

    def counts(self, now_ns: int) -> Counts:
        """The counters over the whole seconds so far."""
        return self._until(max(now_ns, 0) // STEP_NS)

    def _until(self, step: int) -> Counts:
        """The counters over all steps before one."""
        if step in self._steps:
            return self._steps[step]
        known = max((cached for cached in self._steps if cached < step), default=0)
        busy, capped = self._steps.get(known, Counts())
        for number in range(known, step):
            more = self._busy(number * STEP_NS, (number + 1) * STEP_NS)
            busy += more
            capped += int(CAPPED_SHARE * STEP_NS) if more >= STEP_NS else 0
            self._steps[number + 1] = Counts(busy, capped)
            if len(self._steps) > MOST_STEPS:
                del self._steps[min(self._steps)]
        return Counts(busy, capped)

    def _busy(self, begin_ns: int, end_ns: int) -> int:
        """Busy time of a board. Each instance of a divided board counts with its share."""
        return sum(
            int(busy_ns(self._population.bursts(part.number, begin_ns, end_ns)) * part.core_share)
            for part in self._parts
        )


def energy_uj(device: DeviceSpec, length_ns: int, busy: int) -> tuple[int, int]:
    """Microjoules that a device uses idle in a length of time, and on top for being busy."""
    idle = round(device.idle_watts * 1000) * length_ns // 10**6
    active = round((device.max_watts - device.idle_watts) * 1000) * busy // 10**6
    return idle, active


def sensors(device: DeviceSpec, load: Load, now_us: int, counts: Counts) -> Sensors:
    """Power over the last second, temperature over the whole ring, clocks of the moment.

    Only those that the driver of its vendor reports.
    """
    known = _known(device, load, now_us, counts)
    watts, limit = known.number("power_watts"), known.number("power_limit_watts")
    warmth, clocks = known.by_label("temperature_celsius"), known.by_label("clock_hertz")
    if device.vendor == "amd":  # as gpu_metrics and hwmon of an Instinct have it
        names = ("prochot", "socket_thermal", "vr_thermal", "hbm_thermal")
        capped = known.by_label("throttle_seconds_total")["sw_power_cap"]
        return Sensors.of(
            power_watts=watts,
            power_limit_watts=limit,
            temperature_celsius={"hotspot": warmth["gpu"], "memory": warmth["memory"]},
            clock_hertz=clocks,
            throttle_seconds_total={"ppt": capped, **dict.fromkeys(names, 0)},
            ecc_errors_total=known.by_label("ecc_errors_total"),
        )
    if device.vendor == "intel":  # xe's hwmon
        return Sensors.of(
            power_watts=watts,
            power_limit_watts=limit,
            temperature_celsius=warmth,
            clock_hertz={"graphics": clocks["sm"]},
        )
    return known


def _known(device: DeviceSpec, load: Load, now_us: int, counts: Counts) -> Sensors:
    busy = load(now_us, SECOND_US)
    warmth = RISE_CELSIUS * load(now_us, WARMTH_US)
    return Sensors.of(
        power_watts=round(device.idle_watts + (device.max_watts - device.idle_watts) * busy, 3),
        power_limit_watts=device.max_watts,
        temperature_celsius={
            "gpu": float(round(ROOM_CELSIUS + warmth)),
            "memory": float(round(ROOM_CELSIUS + MEMORY_WARMER_CELSIUS + warmth)),
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
        bar1_used_bytes=min(BAR1_USED_BYTES, device.memory_bytes),
        bar1_total_bytes=device.memory_bytes,
        recovery_action=0,
        vgpu_licensed=0,
        **_profile(device, load, now_us),
        **_transfers(device, counts.busy_ns),
    )


def _transfers(device: DeviceSpec, busy_ns: int) -> dict[str, dict[str, int]]:
    """What the board sent and received over PCIe, and over NVLink if its model has that."""
    linked = LINKED in device.model
    directions = ("transmit", "receive") if linked else ()
    errors = ("crc_flit", "crc_data", "replay", "recovery") if linked else ()
    return {
        "pcie_bytes_total": {
            "transmit": int(SENT_PER_BUSY_NS * busy_ns),
            "receive": int(RECEIVED_PER_BUSY_NS * busy_ns),
        },
        "nvlink_bytes_total": dict.fromkeys(directions, int(NVLINK_PER_BUSY_NS * busy_ns)),
        "nvlink_errors_total": dict.fromkeys(errors, 0),
    }


def profiled(device: DeviceSpec) -> bool:
    """Whether a board has GPM."""
    return any(name in device.model for name in PROFILED)


def _profile(device: DeviceSpec, load: Load, now_us: int) -> dict[str, float]:
    """GPM's figures, of the boards that have it."""
    if not profiled(device):
        return {}
    busy = load(now_us, PROFILE_US)
    return {
        "sm_active_ratio": round(SM_SHARE * busy, 4),
        "sm_occupancy_ratio": round(WARP_SHARE * busy, 4),
        "tensor_active_ratio": round(TENSOR_SHARE * busy, 4),
        "dram_active_ratio": round(DRAM_SHARE * busy, 4),
    }
