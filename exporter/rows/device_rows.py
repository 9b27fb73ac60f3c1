"""Rows of devices: state, sensors, totals, and what nobody used.

What nobody used of devices, by reason: columns of their rows.
"""

from collections.abc import Mapping
from functools import cache

from exporter.ledger.accounts import ENERGY, Totals
from exporter.ledger.book import Book
from exporter.ledger.condition import IDLE_ENERGY
from exporter.model import (
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Labelled,
    MemoryHeld,
    Number,
    Owner,
    PartCost,
    Sensors,
    Table,
    Unattributed,
    Unmeasured,
    Value,
    XidCount,
)
from exporter.rows.book_view import COUNTERS, BookView, Columns, by_name, names, unmeasured
from exporter.rows.limits import known
from exporter.rows.view import View

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
UNATTRIBUTED = {quantity: f"unattributed_{name}" for quantity, name in COUNTERS.items()}


def _unattributed(seen: BookView) -> dict[str, Value]:
    """The time and energy that are nobody's, by each reason that can apply, from 0 on.

    A series that begins at its first use loses it.
    """
    device, nobody = seen.book.device, seen.book.unattributed
    used: dict[tuple[str, ...], Totals] = {
        (str(reason),): account.totals for reason, account in nobody.items()
    }
    instance = device.parent_uuid and device.vendor == "nvidia"
    sharing = "mig" if instance else device.sharing
    shared = tuple(r for r in SHARING_REASONS if r == sharing or (r,) in used)
    busy, energy = _nothing(BUSY_REASONS + shared), _nothing(ENERGY_REASONS + shared)
    values: dict[str, Value] = {}
    for quantity, _ in names(seen.told)[0]:
        nothing = energy if quantity == ENERGY else busy
        some = {r: getattr(totals, quantity) for r, totals in used.items() if r in nothing}
        values[UNATTRIBUTED[quantity]] = {**nothing, **some}
    return values


@cache
def _nothing(reasons: tuple[str, ...]) -> Labelled:
    return dict.fromkeys(zip(reasons, strict=True), 0)


def unattributed_memory(
    used_bytes: int | None, held: Mapping[Owner, MemoryHeld] | None
) -> Mapping[tuple[str, ...], Number]:
    """By reason, from 0 on; all of it where the device's processes are not listed."""
    if used_bytes is None:
        return {}
    if held is None:
        return {(str(Unattributed.NO_PID),): used_bytes}
    used: dict[str, int | None] = dict.fromkeys(MEMORY_REASONS, 0)
    for owner, holds in held.items():
        if isinstance(owner, Unattributed):
            used[str(owner)] = holds.used_bytes
    return {(reason,): bytes_ for reason, bytes_ in used.items() if bytes_ is not None}


PARTED = (Unattributed.MIG, Unattributed.PARTITIONED)  # its parts are allotted, not the board
RENAMED = {  # the device's own core time is its busy time
    "core_utilization_ratio": "utilization_ratio",
    "core_seconds_total": "busy_seconds_total",
}


def device_rows(view: View) -> Table:
    """One row a device, also of one that cannot be read: it then says why."""
    books = list(view.books.values())
    readings = [view.facts.readings.get(seen.uuid) for seen in books]
    up = [seen.book.state is DeviceState.UP for seen in books]
    columns: Columns = {
        "info": [_info(seen.book.device) for seen in books],
        "up": list(map(int, up)),
        "unmeasured": [_unmeasured(seen.book) for seen in books],
        **by_name(*[_always(reading) if reading else {} for reading in readings]),
        **by_name(
            *[
                _sensed(reading, seen.book.held) if is_up and reading else {}
                for reading, seen, is_up in zip(readings, books, up, strict=True)
            ]
        ),
        **by_name(*[{} if seen.blind else _accounts(view, seen) for seen in books]),
    }
    return Table([(seen.index, seen.uuid) for seen in books], columns)


def _always(reading: DeviceReading) -> dict[str, Value]:
    """What matters most when the device is slow, or cannot be read any more."""
    return _xids(reading.xids) | _costs(reading.costs)


def _sensed(reading: DeviceReading, held: Mapping[Owner, MemoryHeld] | None) -> dict[str, Value]:
    """What was read of a device that is up."""
    memory = _memory(reading.memory, held, reading.device.memory_bytes)
    return _sensors(reading.sensors) | memory


def _unmeasured(book: Book) -> Labelled:
    return unmeasured(
        {q: r for q, r in book.unmeasured.items() if q not in book.measured},
        {} if book.state is DeviceState.UP else {"device": Unmeasured(book.state)},
        dict.fromkeys(sorted(book.undertold), Unmeasured.READ_FAILED),
        {IDLE_ENERGY: Unmeasured.NEVER_IDLE} if _never_idle(book) else {},
    )


def _never_idle(book: Book) -> bool:
    """Whether the board's idle power is still unknown: all its energy then counts as active."""
    return ENERGY in book.measured and IDLE_ENERGY not in book.measured


def _info(device: Device) -> Labelled:
    labels = (
        device.vendor,
        device.model,
        device.pci_bus_id,
        device.parent_uuid,
        device.profile,
        device.sharing,
        device.driver_version,
    )
    return {labels: 1}


def _sensors(sensors: Sensors) -> dict[str, Value]:
    values = known(
        power_watts=sensors.power_watts,
        power_limit_watts=sensors.power_limit_watts,
        sm_active_ratio=sensors.sm_active_ratio,
        sm_occupancy_ratio=sensors.sm_occupancy_ratio,
        tensor_active_ratio=sensors.tensor_active_ratio,
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
    ):
        values[name] = {(label,): value for label, value in labelled.items()}
    return values


def _memory(
    memory: DeviceMemory | None, held: Mapping[Owner, MemoryHeld] | None, total_bytes: int | None
) -> dict[str, Value]:
    """What the device has and holds. ``total_bytes``: as far as is known without asking it."""
    if memory is None:
        return known(memory_total_bytes=total_bytes)
    values = known(
        memory_total_bytes=memory.total_bytes,
        memory_used_bytes=memory.used_bytes,
        memory_reserved_bytes=memory.reserved_bytes,
    )
    values["unattributed_memory_bytes"] = unattributed_memory(memory.used_bytes, held)
    return values


def _xids(xids: Mapping[str, XidCount]) -> dict[str, Value]:
    return {
        "xid_errors_total": {(xid,): x.events for xid, x in xids.items()},
        "xid_last_timestamp_seconds": {
            (xid,): x.last_unix_ns for xid, x in xids.items() if x.last_unix_ns is not None
        },
    }


def _costs(costs: Mapping[str, PartCost]) -> dict[str, Value]:
    return {
        "driver_seconds_total": {(part,): cost.duration_ns for part, cost in costs.items()},
        "read_interval_seconds": {
            (part,): cost.every_ns for part, cost in costs.items() if cost.every_ns is not None
        },
    }


def _accounts(view: View, seen: BookView) -> dict[str, Value]:
    book = seen.book
    values = seen.use()
    for name, own_name in RENAMED.items():
        if name in values:
            values[own_name] = values.pop(name)
    if IDLE_ENERGY in book.measured:
        values["idle_energy_joules_total"] = book.idle_energy_uj
    if book.measured:
        values["unobserved_seconds_total"] = book.unobserved_ns
    if "core" in seen.told:
        values |= known(normalization_ratio=book.normalization)
        values["unexplained_core_seconds_total"] = {
            (str(reason),): core_ns for reason, core_ns in book.unexplained.items()
        }
    if book.measured:
        methods = book.methods
        values["method_info"] = {(methods.busy, methods.shares, methods.energy): 1}
    return values | _unattributed(seen) | _allotted(view, book)


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
