"""Rows of devices: state, sensors, totals, and what nobody used.

What nobody used of devices, by reason: columns of their rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from exporter.ledger.accounts import ENERGY, Totals
from exporter.ledger.book import Book
from exporter.ledger.condition import IDLE_ENERGY
from exporter.ledger.limits import known
from exporter.model import (
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Labelled,
    MemoryHeld,
    Methods,
    Number,
    Owner,
    PartCost,
    Sensors,
    Table,
    Unattributed,
    Unexplained,
    Unmeasured,
    Value,
    XidCount,
)
from exporter.rows.book_view import COUNTERS, BookView, names, unmeasured
from exporter.rows.cache import Columns, Kept, by_name
from exporter.rows.view import View, where

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


def unattributed(kept: Kept, books: Sequence[BookView | None]) -> Columns:
    """The time and energy of each device that are nobody's; nothing of one that is None."""
    return kept.of("unattributed", _made_of(books), lambda *_: by_name(*map(_unattributed, books)))


def _made_of(books: Iterable[BookView | None]) -> list[object]:
    """All that these columns go by."""
    made_of: list[object] = []
    for seen in books:
        if seen is None:
            made_of.append(None)
            continue
        made_of += (seen.book.device, names(seen.told)[0], *seen.book.unattributed)
        for account in seen.book.unattributed.values():
            made_of += account.totals
    return made_of


def _unattributed(seen: BookView | None) -> dict[str, Value]:
    """By each reason that can apply, from 0 on: a series that begins at its first use loses it."""
    if seen is None:
        return {}
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
    books, kept = list(view.books.values()), view.kept["device"]
    readings = [view.facts.readings.get(seen.uuid) for seen in books]
    up = [seen.book.state is DeviceState.UP for seen in books]
    columns: Columns = {
        "info": kept.column("info", _info, [seen.book.device for seen in books]),
        "up": list(map(int, up)),
        "unmeasured": _reasons(kept, [seen.book for seen in books]),
        **kept.columns("xids", _xids, [of.xids if of else None for of in readings]),
        **kept.columns("costs", _costs, [of.costs if of else None for of in readings]),
        **_sensed(view, kept, where(up, readings)),
        **_used(view, kept, where([not seen.blind for seen in books], books)),
    }
    return Table([(seen.index, seen.uuid) for seen in books], columns)


def _sensed(view: View, kept: Kept, readings: Sequence[DeviceReading | None]) -> Columns:
    """What was read of devices that are up."""
    sensors = [of.sensors if of else None for of in readings]
    memory = [of.memory if of else None for of in readings]
    held = [seen.book.held for seen in view.books.values()]
    totals = [of.device.memory_bytes if of else None for of in readings]
    return {
        **kept.columns("sensors", _sensors, sensors),
        **kept.of("held", kept.column("memory", _memory, memory, held, totals), by_name),
    }


def _used(view: View, kept: Kept, books: Sequence[BookView | None]) -> Columns:
    """What the accounts say of devices that can be read."""
    unexplained = [
        seen.book.unexplained if seen and "core" in seen.told else None for seen in books
    ]
    methods = [seen.book.methods if seen and seen.book.measured else None for seen in books]
    return {
        **by_name(*[_accounts(view, seen) if seen else {} for seen in books]),
        **unattributed(kept, books),
        "unexplained_core_seconds_total": kept.column("unexplained", _unexplained, unexplained),
        "method_info": kept.column("methods", _methods, methods),
    }


def _reasons(kept: Kept, books: Sequence[Book]) -> Sequence[Labelled]:
    """What is not measured of each, and why."""
    made_of = [of for b in books for of in (b.unmeasured, b.measured, b.doubts, b.state)]
    return kept.of("unmeasured", made_of, lambda *_: [_unmeasured(book) for book in books])


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


def _sensors(sensors: Sensors | None) -> dict[str, Value]:
    if sensors is None:
        return {}
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


def _xids(xids: Mapping[str, XidCount] | None) -> dict[str, Value]:
    """XIDs matter most when the device cannot be read any more."""
    if xids is None:
        return {}
    return {
        "xid_errors_total": {(xid,): x.events for xid, x in xids.items()},
        "xid_last_timestamp_seconds": {
            (xid,): x.last_unix_ns for xid, x in xids.items() if x.last_unix_ns is not None
        },
    }


def _costs(costs: Mapping[str, PartCost] | None) -> dict[str, Value]:
    """What reading the device costs matters most when it is slow, or does not answer."""
    if costs is None:
        return {}
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
    return values | _allotted(view, book)


def _methods(methods: Methods | None) -> Labelled | None:
    return {(methods.busy, methods.shares, methods.energy): 1} if methods else None


def _unexplained(core_ns: Mapping[Unexplained, int] | None) -> Labelled | None:
    return None if core_ns is None else {(str(reason),): ns for reason, ns in core_ns.items()}


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
