"""Rows of devices: state, sensors, totals, and what nobody used."""

from collections.abc import Iterable
from functools import cache

from exporter.ledger.accounts import ENERGY, Totals
from exporter.ledger.book import Book
from exporter.ledger.condition import IDLE_ENERGY
from exporter.ledger.limits import known
from exporter.ledger.view import COUNTERS, BookView, View, unmeasured
from exporter.model import (
    Device,
    DeviceReading,
    DeviceState,
    Labelled,
    Number,
    Row,
    Unattributed,
    Unmeasured,
    Value,
)

# of time and energy that is nobody's, in the order of the page
BUSY_REASONS = (
    str(Unattributed.HOST_PROCESS),
    str(Unattributed.UNKNOWN_CGROUP),
    str(Unattributed.EXITED),
    str(Unattributed.NO_PID),
)
MEMORY_REASONS = (*BUSY_REASONS, str(Unattributed.OVERLAP))
ENERGY_REASONS = (*BUSY_REASONS, str(Unattributed.IDLE), str(Unattributed.UNOBSERVED))
SHARING_REASONS = tuple(map(str, (Unattributed.MIG, Unattributed.PARTITIONED, Unattributed.MPS)))
PARTED = (Unattributed.MIG, Unattributed.PARTITIONED)  # its parts are allotted, not the board
UNATTRIBUTED = {quantity: f"unattributed_{name}" for quantity, name in COUNTERS.items()}
RENAMED = {  # the device's own core time is its busy time
    "core_utilization_ratio": "utilization_ratio",
    "core_seconds_total": "busy_seconds_total",
}


def device_rows(view: View) -> Iterable[Row]:
    """One row a device, also of one that cannot be read: it then says why."""
    for uuid, seen in view.books.items():
        book = seen.book
        up = book.state is DeviceState.UP
        values: dict[str, Value] = {"info": {_info(book.device): 1}, "up": int(up)}
        values["unmeasured"] = unmeasured(
            {q: r for q, r in book.unmeasured.items() if q not in book.measured},
            {} if up else {"device": Unmeasured(book.state)},
            dict.fromkeys(book.undertold, Unmeasured.READ_FAILED),
            {IDLE_ENERGY: Unmeasured.NEVER_IDLE} if _never_idle(book) else {},
        )
        reading = view.facts.readings.get(uuid)
        if reading is not None:
            values |= _xids(reading)
            values |= _costs(reading)
        if reading is not None and up:
            values |= _sensors(reading)
            values["unattributed_memory_bytes"] = _unattributed_memory(book, reading)
        if not seen.blind:
            values |= _accounts(seen)
            values |= _allotted(view, book)
        yield Row((seen.index, uuid), values)


def _never_idle(book: Book) -> bool:
    """Whether the board's idle power is still unknown: all its energy then counts as active."""
    return ENERGY in book.measured and IDLE_ENERGY not in book.measured


def _info(device: Device) -> tuple[str, ...]:
    return (
        device.vendor,
        device.model,
        device.pci_bus_id,
        device.parent_uuid,
        device.profile,
        device.sharing,
        device.driver_version,
    )


def _sensors(reading: DeviceReading) -> dict[str, Value]:
    sensors, memory = reading.sensors, reading.memory
    values = known(
        power_watts=sensors.power_watts,
        power_limit_watts=sensors.power_limit_watts,
        sm_active_ratio=sensors.sm_active_ratio,
        sm_occupancy_ratio=sensors.sm_occupancy_ratio,
        tensor_active_ratio=sensors.tensor_active_ratio,
        memory_total_bytes=memory.total_bytes if memory else reading.device.memory_bytes,
        memory_used_bytes=memory.used_bytes if memory else None,
        memory_reserved_bytes=memory.reserved_bytes if memory else None,
    )
    for name, labelled in (
        ("temperature_celsius", sensors.temperature_celsius),
        ("clock_hertz", sensors.clock_hertz),
        ("throttle_seconds_total", sensors.throttle_ns),
        ("ecc_errors_total", sensors.ecc_errors),
        ("remapped_rows", sensors.remapped_rows),
        ("row_remapping", sensors.row_remapping),
        ("pcie_bytes_total", sensors.pcie_bytes),
        ("nvlink_bytes_total", sensors.nvlink_bytes),
        ("crosscheck_mismatch", sensors.crosscheck),
    ):
        values[name] = {(label,): value for label, value in labelled.items()}
    return values


def _xids(reading: DeviceReading) -> dict[str, Value]:
    """XIDs matter most when the device cannot be read any more."""
    return {
        "xid_errors_total": {(xid,): x.events for xid, x in reading.xids.items()},
        "xid_last_timestamp_seconds": {
            (xid,): x.last_unix_ns for xid, x in reading.xids.items() if x.last_unix_ns is not None
        },
    }


def _costs(reading: DeviceReading) -> dict[str, Value]:
    """What reading the device costs matters most when it is slow, or does not answer."""
    return {
        "driver_seconds_total": {(part,): cost.duration_ns for part, cost in reading.costs.items()},
        "read_interval_seconds": {
            (part,): cost.every_ns
            for part, cost in reading.costs.items()
            if cost.every_ns is not None
        },
    }


def _accounts(seen: BookView) -> dict[str, Value]:
    book, told = seen.book, seen.told
    values = seen.use(None, book.whole)
    for name, own_name in RENAMED.items():
        if name in values:
            values[own_name] = values.pop(name)
    values |= _unattributed(book, told)
    if IDLE_ENERGY in book.measured:
        values["idle_energy_joules_total"] = book.idle_energy_uj
    if book.measured:
        values["unobserved_seconds_total"] = book.unobserved_ns
        methods = book.methods
        values["method_info"] = {(methods.busy, methods.shares, methods.energy): 1}
    if "core" in told:
        values |= known(normalization_ratio=book.normalization)
        values["unexplained_core_seconds_total"] = {
            (str(reason),): ns for reason, ns in book.unexplained.items()
        }
    return values


def _unattributed(book: Book, told: frozenset[str]) -> dict[str, Value]:
    """By each reason that can apply, from 0 on: a series that begins at its first use loses it."""
    used: dict[tuple[str, ...], Totals] = {
        (str(reason),): account.totals for reason, account in book.unattributed.items()
    }
    instance = book.device.parent_uuid and book.device.vendor == "nvidia"
    sharing = "mig" if instance else book.device.sharing
    shared = tuple(r for r in SHARING_REASONS if r == sharing or (r,) in used)
    busy, energy = _nothing(BUSY_REASONS + shared), _nothing(ENERGY_REASONS + shared)
    values: dict[str, Value] = {}
    for quantity, name in UNATTRIBUTED.items():
        if quantity in told:
            nothing = energy if quantity == ENERGY else busy
            some = {r: getattr(totals, quantity) for r, totals in used.items() if r in nothing}
            values[name] = {**nothing, **some}
    return values


@cache
def _nothing(reasons: tuple[str, ...]) -> Labelled:
    return dict.fromkeys(zip(reasons, strict=True), 0)


def _unattributed_memory(book: Book, reading: DeviceReading) -> dict[tuple[str, ...], Number]:
    """By reason, from 0 on; all of it where the device's processes are not listed."""
    if reading.memory is None or reading.memory.used_bytes is None:
        return {}
    if book.held is None:
        return {(str(Unattributed.NO_PID),): reading.memory.used_bytes}
    used: dict[str, int | None] = dict.fromkeys(MEMORY_REASONS, 0)
    for owner, held in book.held.items():
        if isinstance(owner, Unattributed):
            used[str(owner)] = held.used_bytes
    return {(reason,): held for reason, held in used.items() if held is not None}


def _allotted(view: View, book: Book) -> dict[str, Value]:
    """Sums over the allotments that name the device; 0 where it is known that none can be of it."""
    uuid = book.device.uuid
    here = view.limits.of_device(uuid)
    parted = book.device.sharing in PARTED
    some = here.allocations or view.limits.unplaced or parted
    none = 0 if view.facts.pods and not some else None
    return known(
        allocated_core_ratio=none if here.core is None else here.core,
        allocated_memory_bytes=none if here.memory_bytes is None else here.memory_bytes,
        sharing_replicas=view.facts.replicas.get(uuid),
    )
