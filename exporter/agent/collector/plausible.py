"""Removes impossible values from the readings of all vendors.

Memory and its limits are compared with the card's total, energy and power with the board's power
limit, a profile with the busy time of the core, and each sensor with what any board can have. Rows
of processes are checked where they are read (``exporter.agent.sources.gpus.samples``).
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from exporter.model import (
    CgroupMemory,
    Device,
    DeviceMemory,
    DeviceReading,
    Reading,
    Sensors,
    Unmeasured,
)

logger = logging.getLogger(__name__)

MAX_WATTS = 10_000.0  # of a board whose limit is unknown; none of 2026 takes a fifth of it
MARGIN = 2  # boards take more than their limit for some milliseconds
STILL_NS = 10 * 10**9  # a profile is of the last seconds: a core that just began is not in it yet
PROFILE = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")
LATE_NS = 10**9  # a counter that is updated late adds to one window what belongs to the one before

HOST_BYTES = 16 * 2**40
"""No host has more memory. An AMD or Intel driver may count a process's host memory as the
device's: an APU's total is only what the firmware set aside, and its processes hold more."""

RESERVED = 16
"""A card has at most this part more than its driver reports: the kernel counts what is reserved."""

NOTHING: Mapping[str, int] = MappingProxyType({})


class Bounds(NamedTuple):
    """What a sensor can be. ``quantity``: what is unmeasured without it; "" for none of that list.

    A driver's "unknown" has all bits set, 32 or 64 of them: that is above each ``most``.
    """

    most: float
    quantity: str = ""
    least: float = 0.0


_COUNT = Bounds(2.0**31)  # of errors, rows and pages
SENSORS: Mapping[str, Bounds] = {
    "power_watts": Bounds(MAX_WATTS, "power"),
    "power_limit_watts": Bounds(MAX_WATTS, "power_limit"),
    "temperature_celsius": Bounds(250.0, "temperature", least=-60.0),
    "clock_hertz": Bounds(20e9, "clock"),
    "throttle_seconds_total": Bounds(2.0**63, "throttle"),
    "ecc_errors_total": Bounds(2.0**63, "ecc_errors"),
    "remapped_rows": _COUNT._replace(quantity="remapped_rows"),
    "row_remapping": Bounds(1),
    "retired_pages": _COUNT,
    "retired_pages_pending": Bounds(1),
    "recovery_action": Bounds(255),
    "fan_speed_ratio": Bounds(2.0),  # nvml.h: it may be above the most that is rated
    "performance_state": Bounds(15),
    "pcie_link_generation": Bounds(16),
    "pcie_link_max_generation": Bounds(16),
    "pcie_link_width": Bounds(64),
    "pcie_link_max_width": Bounds(64),
    "pcie_replays_total": _COUNT,
    "bar1_used_bytes": Bounds(HOST_BYTES),
    "bar1_total_bytes": Bounds(HOST_BYTES),
    "vgpu_licensed": Bounds(1),
    "pcie_bytes_total": Bounds(2.0**63, "pcie"),
    "nvlink_bytes_total": Bounds(2.0**63, "nvlink"),
    "nvlink_errors_total": Bounds(2.0**63),
    "dram_active_ratio": Bounds(1),
    "sm_active_ratio": Bounds(1),
    "sm_occupancy_ratio": Bounds(1),
    "tensor_active_ratio": Bounds(1),
}
"""The bounds of all families of ``Sensors``, in the units of these."""


class Plausible:
    """Checks readings before they are used.

    ``rejected`` counts by reason, with what the sources themselves have rejected.
    """

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self._memories: dict[str, _Memory] = {}  # by device
        self._boards: dict[str, _Board] = {}
        self._out_of_bounds: dict[str, Mapping[tuple[str, str], float]] = {}
        self._logged: set[tuple[str, str]] = set()

    def of(self, readings: Iterable[Reading], mono_ns: int) -> dict[str, DeviceReading]:
        """The devices of all readings by UUID, without impossible values.

        Objects that are the same in two readings are the same in the results.
        """
        devices = {d.device.uuid: d for reading in readings for d in reading.devices}
        for uuid, device in devices.items():
            device = self._with_sensors(device)  # noqa: PLW2901 - checked
            if device.memory is not None:
                device = self._with_memory(device, device.memory)  # noqa: PLW2901 - checked
            for window in device.windows:
                self.rejected.update(window.rejected)
                if excess := window.excess_samples:
                    self.rejected["excess"] += excess
                    self._log(uuid, "excess", f"{excess} samples for which no time has passed")
            if device.windows:
                device = self._with_energy(device, mono_ns)  # noqa: PLW2901 - same
            self.rejected.update(device.rejected)
            devices[uuid] = device
        # Each device that was read has an entry here. Of those that have left all of them go, so
        # that a node whose instances are made and removed for months remembers no more than it has.
        if len(self._out_of_bounds) > len(devices):
            self._boards = {u: b for u, b in self._boards.items() if u in devices}
            self._memories = {u: m for u, m in self._memories.items() if u in devices}
            self._out_of_bounds = {u: o for u, o in self._out_of_bounds.items() if u in devices}
        return devices

    def _with_sensors(self, reading: DeviceReading) -> DeviceReading:
        uuid, board = reading.device.uuid, self._board(reading.device.uuid)
        if reading.sensors is board.accepted and not reading.windows:
            return reading  # they are reported in each cycle, and read every few seconds
        wrong = out_of_bounds(reading.sensors)
        contradicted = board.contradicted(reading)
        wrong |= contradicted
        before, self._out_of_bounds[uuid] = self._out_of_bounds.get(uuid), wrong
        board.accepted = None if wrong else reading.sensors
        if not wrong:
            return reading
        # A sensor is reported in each cycle, and read every few seconds: the same wrong value again
        # is not another one.
        if wrong != before:
            self.rejected["sensor"] += len(wrong)
        for (family, label), value in wrong.items():
            name = f"{family} {label}".strip()
            self._log(uuid, f"sensor {name}", f"{name} is {value:.15g}")
        numbers = {n: v for n, v in reading.sensors.numbers.items() if (n, "") not in wrong}
        labelled = {
            name: {label: v for label, v in values.items() if (name, label) not in wrong}
            for name, values in reading.sensors.labelled.items()
        }
        lost = {family for family, _ in wrong if not labelled.get(family)}
        reasons = {SENSORS[each].quantity: Unmeasured.REJECTED_SAMPLES for each in lost}
        reasons.pop("", None)
        if any(family in PROFILE for family, _ in contradicted):
            reasons["profiling"] = Unmeasured.REJECTED_SAMPLES
        sensors = Sensors(numbers).but(**labelled)
        return reading._replace(sensors=sensors, unmeasured={**reading.unmeasured, **reasons})

    def _board(self, uuid: str) -> "_Board":
        board = self._boards.get(uuid)
        if board is None:
            board = self._boards[uuid] = _Board()
        return board

    def _with_memory(self, reading: DeviceReading, memory: DeviceMemory) -> DeviceReading:
        uuid = reading.device.uuid
        # A list of processes is read every few seconds, and reported as the same value until then.
        # It is judged once.
        known = self._memories.get(uuid)
        if known is None or known.reported is not memory:
            known = self._memories[uuid] = _Memory(reading.device, memory)
        if known.kept is memory:
            return reading
        self.rejected.update(known.rejected)
        for reason, what in known.messages.items():
            self._log(uuid, reason, what)
        unmeasured = reading.unmeasured
        if known.kept.used_bytes != memory.used_bytes:
            unmeasured = {**unmeasured, "device_memory": Unmeasured.REJECTED_SAMPLES}
        return reading._replace(memory=known.kept, unmeasured=unmeasured)

    def _with_energy(self, reading: DeviceReading, mono_ns: int) -> DeviceReading:
        """The reading without its energy if that is more than the board can have used."""
        uuid, board = reading.device.uuid, self._board(reading.device.uuid)
        energies = [each.energy_uj for each in reading.windows if each.energy_uj is not None]
        if not energies:
            return reading
        used_uj = sum(energies)
        most_uj = board.most_uj(sum([each.length_ns for each in reading.windows]), mono_ns)
        if used_uj <= most_uj:
            return reading
        self.rejected["energy"] += 1
        self._log(uuid, "energy", f"{used_uj} µJ at once, where {most_uj} can be")
        # Nobody gets energy that the board cannot have used. Which of the windows it is of is not
        # known, so that none of them has any.
        *earlier, newest = [
            each._replace(energy_uj=None, idle_energy_uj=None, late_energy_uj=0)
            for each in reading.windows
        ]
        unmeasured = {**reading.unmeasured, "energy": Unmeasured.REJECTED_SAMPLES}
        # Where no file has the power, it is made of this counter.
        if "power" in unmeasured:
            unmeasured["power"] = Unmeasured.REJECTED_SAMPLES
        return reading._replace(window=newest, earlier=tuple(earlier), unmeasured=unmeasured)

    def _log(self, uuid: str, reason: str, what: str) -> None:
        if (uuid, reason) not in self._logged:
            self._logged.add((uuid, reason))
            logger.warning(
                "device %s reports what cannot be true (%s): %s; it is left out and counted. If it "
                "goes on, upgrade the driver or reset the device",
                *(uuid, reason, what),
            )


def out_of_bounds(sensors: Sensors) -> dict[tuple[str, str], float]:
    """The values that cannot be true, by family and label ("" without)."""
    shown = {
        **{(family, ""): value for family, value in sensors.numbers.items()},
        **{(f, label): v for f, values in sensors.labelled.items() for label, v in values.items()},
    }
    return {
        name: value
        for name, value in shown.items()
        if not SENSORS[name[0]].least <= value <= SENSORS[name[0]].most
    }


class _Memory:
    """The memory that a driver ``reported`` for a card, and the plausible part of it (``kept``)."""

    def __init__(self, device: Device, reported: DeviceMemory) -> None:
        self.reported = self.kept = reported
        self.rejected = NOTHING
        self.messages: dict[str, str] = {}
        total = max(reported.total_bytes or 0, device.memory_bytes or 0)
        if not total:
            return
        most = total if device.vendor == "nvidia" else total + HOST_BYTES
        bad = {p.pid: p.used_bytes for p in reported.processes or () if (p.used_bytes or 0) > most}
        rejected: dict[str, int] = {}
        if bad:
            rejected["process_memory"] = len(bad)
            pid, used = next(iter(bad.items()))
            self.messages["process_memory"] = f"process {pid} holds {used} bytes of {most}"
            processes = tuple(
                p._replace(used_bytes=None) if p.pid in bad else p for p in reported.processes or ()
            )
            self.kept = replace(self.kept, processes=processes, rejected=frozenset(bad))
        if (reported.used_bytes or 0) > total:
            rejected["device_memory"] = 1
            self.messages["device_memory"] = f"{reported.used_bytes} bytes of {total} are in use"
            self.kept = replace(self.kept, used_bytes=None)
        self._keep_cgroups(total + total // RESERVED, rejected)
        self.rejected = rejected

    def _keep_cgroups(self, most: int, rejected: dict[str, int]) -> None:
        """Leaves out what cgroups cannot have of a card, such as limits beyond all of it."""
        kept = self.kept
        cgroups = [*(c.memory for c in kept.charges), *(p.cgroup for p in kept.processes or ())]
        wrong = [each for each in cgroups if each and each != _within(each, most)]
        if not wrong:
            return
        rejected["cgroup_memory"] = len(wrong)
        beyond = max(amount for amount in wrong[0] if isinstance(amount, int))
        self.messages["cgroup_memory"] = (
            f"a cgroup has a limit or charge of {beyond} of {most} bytes"
        )
        charges = tuple([c._replace(memory=_within(c.memory, most)) for c in kept.charges])
        processes = kept.processes and tuple(
            [p._replace(cgroup=p.cgroup and _within(p.cgroup, most)) for p in kept.processes]
        )
        self.kept = replace(kept, charges=charges, processes=processes)


def _within(cgroup: CgroupMemory, most: int) -> CgroupMemory:
    """What can be true of it."""

    def known(amount: int | None) -> int | None:
        return None if amount is not None and amount > most else amount

    # A limit beyond all of the card is none. Where none is set, neither is a guarantee of 0.
    has_limit = known(cgroup.limit_bytes) is not None or cgroup.limit_bytes is None
    guaranteed = cgroup.guaranteed_bytes
    return cgroup._replace(
        charged_bytes=known(cgroup.charged_bytes),
        guaranteed_bytes=known(guaranteed) if has_limit or guaranteed else None,
        limit_bytes=known(cgroup.limit_bytes),
        protected_bytes=known(cgroup.protected_bytes),
    )


class _Board:
    """The highest limit and power that a board has shown, and when its energy was last measured.

    A lowered limit holds only for later energy. Power without a limit bounds nothing: an idle board
    may be about to work.
    """

    def __init__(self) -> None:
        self._limit = self._watts = 0.0
        self._beyond, self._moves = 0.0, False  # the first power beyond the limit, and any other
        self._still_ns = 0  # for so long the profile says idle and the core is busy
        self.accepted: Sensors | None = None  # the newest, if nothing in them is wrong
        self._since_mono_ns: int | None = None

    def contradicted(self, reading: DeviceReading) -> dict[tuple[str, str], float]:
        """The sensors that cannot be true beside other figures of the same board.

        A laptop's board of 35 W has reported 588 W for good (open-gpu-kernel-modules#1236), and
        profiles stood at 0 after an XID (DCGM#303).
        """
        sensors = reading.sensors
        limit, power = sensors.value("power_limit_watts"), sensors.value("power_watts")
        if limit is not None and limit <= MAX_WATTS:
            self._limit, self._watts = max(self._limit, limit), max(self._watts, limit)
        wrong: dict[tuple[str, str], float] = {}
        # Some boards take more than they are said to, but not the same to the milliwatt for good. A
        # power that is far beyond the limit and never moves is none.
        is_frozen = False
        if power is not None and power > MARGIN * self._limit > 0:
            self._beyond = self._beyond or power
            self._moves = self._moves or power != self._beyond
            is_frozen = not self._moves
        if power is not None and is_frozen:
            wrong["power_watts", ""] = power
        elif self._limit:
            self._watts = max(self._watts, power or 0.0)
        # No SM works, and the core has been busy for seconds: then the profile stands still.
        is_idle = sensors.value("sm_active_ratio") == 0
        for window in reading.windows if is_idle else ():
            is_busy = 2 * (window.busy.core or 0) >= window.observed_ns > 0
            self._still_ns = self._still_ns + window.observed_ns if is_busy else 0
        if not is_idle:
            self._still_ns = 0
        elif self._still_ns >= STILL_NS:
            wrong |= {(name, ""): v for name, v in sensors.numbers.items() if name in PROFILE}
        return wrong

    def most_uj(self, length_ns: int, mono_ns: int) -> int:
        """The most energy that it can have used since the last window with any."""
        # A counter that was not read for some time has what the board used meanwhile. So the time
        # since it was last read counts, not that of the windows.
        since_ns, self._since_mono_ns = self._since_mono_ns, mono_ns
        elapsed_ns = length_ns if since_ns is None else mono_ns - since_ns
        watts = min(self._watts or MAX_WATTS, MAX_WATTS)
        return int(MARGIN * watts * (elapsed_ns + LATE_NS) / 1000)
