"""Rows of devices: state, sensors, counters, and the use without an owner."""

from collections.abc import Mapping
from functools import cache

from exporter.ledger.accounts import ENERGY, Counters
from exporter.ledger.device_ledger import DeviceLedger
from exporter.ledger.device_status import IDLE_ENERGY
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
from exporter.rows.device_view import COUNTERS, Columns, DeviceView, by_name, names, unmeasured
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


def _unattributed(seen: DeviceView) -> dict[str, Value]:
    """The time and energy without an owner, by each reason that can apply, from 0 on.

    A series that begins at its first use loses that use.
    """
    device, nobody = seen.device_ledger.device, seen.device_ledger.unattributed
    used: dict[tuple[str, ...], Counters] = {
        (str(reason),): account.counters for reason, account in nobody.items()
    }
    instance = device.parent_uuid and device.vendor == "nvidia"
    sharing = "mig" if instance else device.sharing
    attributable = tuple(r for r in SHARING_REASONS if r == sharing or (r,) in used)
    busy, energy = _nothing(BUSY_REASONS + attributable), _nothing(ENERGY_REASONS + attributable)
    values: dict[str, Value] = {}
    for quantity, _ in names(seen.known)[0]:
        nothing = energy if quantity == ENERGY else busy
        some = {r: getattr(counters, quantity) for r, counters in used.items() if r in nothing}
        values[UNATTRIBUTED[quantity]] = {**nothing, **some}
    return values


@cache
def _nothing(reasons: tuple[str, ...]) -> Labelled:
    return dict.fromkeys(zip(reasons, strict=True), 0)


def unattributed_memory(
    used_bytes: int | None, held: Mapping[Owner, MemoryHeld] | None
) -> Mapping[tuple[str, ...], Number]:
    """Memory without an owner, by reason, from 0 on.

    All of it is ``NO_PID`` where the device's processes are not listed.
    """
    if used_bytes is None:
        return {}
    if held is None:
        return {(str(Unattributed.NO_PID),): used_bytes}
    used: dict[str, int | None] = dict.fromkeys(MEMORY_REASONS, 0)
    for owner, holds in held.items():
        if isinstance(owner, Unattributed):
            used[str(owner)] = holds.used_bytes
    return {(reason,): bytes_ for reason, bytes_ in used.items() if bytes_ is not None}


PARTED = (Unattributed.MIG, Unattributed.PARTITIONED)  # its parts are allocated, not the board
CORE_SHARE = "core_share"  # for documents; no family has this name
RENAMED = {  # the device's own core time is its busy time
    "core_utilization_ratio": "utilization_ratio",
    "core_seconds_total": "busy_seconds_total",
}


def device_rows(view: View) -> Table:
    """One row for each device. A device that cannot be read has a row with the reason."""
    devices = list(view.devices.values())
    readings = [view.facts.readings.get(seen.uuid) for seen in devices]
    up = [seen.device_ledger.state is DeviceState.UP for seen in devices]
    columns: Columns = {
        "info": [_info(seen.device_ledger.device) for seen in devices],
        "up": list(map(int, up)),
        "unmeasured": [_unmeasured(seen.device_ledger) for seen in devices],
        CORE_SHARE: [_core_share(seen.device_ledger.device) for seen in devices],
        **by_name(*[_always(reading) if reading else {} for reading in readings]),
        **by_name(
            *[
                _sensed(reading, seen.device_ledger.held) if is_up and reading else {}
                for reading, seen, is_up in zip(readings, devices, up, strict=True)
            ]
        ),
        **by_name(*[{} if seen.stale else _accounts(view, seen) for seen in devices]),
    }
    return Table([(seen.index, seen.uuid) for seen in devices], columns)


def _core_share(device: Device) -> float | None:
    """What part of its GPU's core a partition has; None for a whole GPU."""
    return device.core_share if device.parent_uuid else None


def _always(reading: DeviceReading) -> dict[str, Value]:
    """What matters most when the device is slow, or cannot be read any more."""
    return _xids(reading.xids) | _costs(reading.costs)


def _sensed(reading: DeviceReading, held: Mapping[Owner, MemoryHeld] | None) -> dict[str, Value]:
    """What was read of a device that is up."""
    memory = _memory(reading.memory, held, reading.device.memory_bytes)
    return _sensors(reading.sensors) | memory


def _unmeasured(device_ledger: DeviceLedger) -> Labelled:
    return unmeasured(
        {q: r for q, r in device_ledger.unmeasured.items() if q not in device_ledger.measured},
        {}
        if device_ledger.state is DeviceState.UP
        else {"device": Unmeasured(device_ledger.state)},
        dict.fromkeys(sorted(device_ledger.lower_bounds), Unmeasured.READ_FAILED),
        {IDLE_ENERGY: Unmeasured.NEVER_IDLE} if _never_idle(device_ledger) else {},
    )


def _never_idle(device_ledger: DeviceLedger) -> bool:
    """Whether the board's idle power is still unknown: all its energy then counts as active."""
    return ENERGY in device_ledger.measured and IDLE_ENERGY not in device_ledger.measured


def _info(device: Device) -> Labelled:
    labels = (
        device.vendor,
        device.model,
        device.pci_bus_id,
        device.parent_uuid,
        device.profile,
        device.sharing,
        device.driver_version,
        "" if device.gpu_instance is None else str(device.gpu_instance),
        device.cuda_version,
    )
    return {labels: 1}


def _sensors(sensors: Sensors) -> dict[str, Value]:
    """The known values, by family."""
    values: dict[str, Value] = {**sensors.numbers}
    for family, labelled in sensors.labelled.items():
        values[family] = {(label,): value for label, value in labelled.items()}
    return values


def _memory(
    memory: DeviceMemory | None, held: Mapping[Owner, MemoryHeld] | None, total_bytes: int | None
) -> dict[str, Value]:
    """The device's memory; ``total_bytes`` is what is known without asking the driver."""
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


def _accounts(view: View, seen: DeviceView) -> dict[str, Value]:
    device_ledger = seen.device_ledger
    values = seen.use()
    for name, own_name in RENAMED.items():
        if name in values:
            values[own_name] = values.pop(name)
    if IDLE_ENERGY in device_ledger.measured:
        values["idle_energy_joules_total"] = device_ledger.idle_energy_uj
    if device_ledger.measured:
        values["unobserved_seconds_total"] = device_ledger.unobserved_ns
    if "core" in seen.known:
        values |= known(normalization_ratio=device_ledger.normalization)
        values["unexplained_core_seconds_total"] = {
            (str(reason),): core_ns for reason, core_ns in device_ledger.unexplained.items()
        }
    if device_ledger.measured:
        methods, sampling = device_ledger.methods, device_ledger.sampling
        labels = (methods.busy, methods.shares, methods.energy, *sampling.labels)
        values["method_info"] = {labels: 1}
    return values | _unattributed(seen) | _allocated(view, device_ledger)


def _allocated(view: View, device_ledger: DeviceLedger) -> dict[str, Value]:
    """Sums over the allocations that name the device; 0 where none can be of it."""
    uuid = device_ledger.device.uuid
    here = view.limits.of_device(uuid)
    parted = device_ledger.device.sharing in PARTED
    some = here.allocations or view.limits.unplaced or parted
    none = 0 if view.facts.pods and not some else None
    return known(
        allocated_core_ratio=none if here.core is None else here.core,
        allocated_memory_bytes=none if here.memory_bytes is None else here.memory_bytes,
        sharing_replicas=view.facts.replicas.get(uuid),
    )
