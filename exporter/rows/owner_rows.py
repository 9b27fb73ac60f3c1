"""Rows of containers and groups on each device."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple

from exporter.ledger.device_status import OWNED
from exporter.model import GroupKey, Labelled, MemoryHeld, Table, Unmeasured
from exporter.rows.allocation_rows import UNKNOWN_LIMITS, add_allocations, unplaced, unplaced_rows
from exporter.rows.device_view import Columns, DeviceView, unmeasured
from exporter.rows.view import K, Owners, View, used_bytes

NAMED: dict[str, Unmeasured] = {}
UNNAMED = dict.fromkeys(UNKNOWN_LIMITS, Unmeasured.POD_UNKNOWN)


def container_rows(view: View) -> Table:
    """One row for each container on each device, and for each allocation without such a row."""
    owners = view.containers
    columns = _columns(owners, unplaced(view, owners))
    add_allocations(view, owners, columns)
    return Table(owners.labels(), columns).joined(Table.of(unplaced_rows(view)))


def group_rows(view: View) -> Table:
    """One row for each group on each device. Its names are shown as long as its counters."""
    owners = view.groups
    columns = _columns(owners, list(map(_unnamed, owners.keys)))
    facts = [view.facts.groups.get(key) for key in owners.keys]
    columns["info"] = [
        {astuple(of): 1} if of and any(value is not None for value in values) else None
        for of, *values in zip(facts, *columns.values(), strict=True)
    ]
    return Table(owners.labels(), columns)


def _unnamed(key: GroupKey) -> Mapping[str, Unmeasured]:
    """The limits that are unknown of a pod without a name, with the reason."""
    return UNNAMED if key.kind == "pod" else NAMED


def _columns(owners: Owners[K], unlimited: Sequence[Mapping[str, Unmeasured]]) -> Columns:
    """The columns that containers and groups share; ``unlimited`` are unknown limits, with reasons.

    When an owner ends, its counters stay for a while. An owner whose series are withheld has only
    the reason.
    """
    columns = owners.used()
    held = owners.of_shown(owners.held)
    columns["processes"] = [one.processes if one else None for one in held]
    columns["memory_used_bytes"] = list(map(used_bytes, held))
    for name, values in (
        ("memory_used_peak_bytes", [account.peak_bytes for account in owners.accounts]),
        ("last_active_timestamp_seconds", [one.active_unix_ns for one in owners.accounts]),
        ("observed_since_timestamp_seconds", [one.since_unix_ns for one in owners.accounts]),
    ):
        columns[name] = owners.of_shown(values)
    columns["unmeasured"] = _reasons(owners, unlimited)
    return columns


def _reasons(
    owners: Owners[K], unlimited: Sequence[Mapping[str, Unmeasured]]
) -> Sequence[Labelled | None]:
    """The unmeasured quantities of each owner, with reasons; None for an owner that has ended."""
    if not any(owners.withheld) and None not in owners.memory_bytes():  # as nearly always
        reasons = list(map(unmeasured, owners.unattributable, unlimited))
        return owners.of_shown(reasons)
    return [
        _unmeasured(seen, why, held, unattributable, others)
        if live or (why and key in (seen.device_ledger.held or ()))
        else None
        for live, seen, key, why, held, unattributable, others in zip(
            *(owners.live, owners.seen, owners.keys, owners.withheld, owners.held),
            *(owners.unattributable, unlimited),
            strict=True,
        )
    ]


def _unmeasured(
    seen: DeviceView,
    withheld: Unmeasured | None,
    held: MemoryHeld | None,
    unattributable: Mapping[str, Unmeasured],
    unlimited: Mapping[str, Unmeasured],
) -> Labelled:
    """The unmeasured quantities of an owner, with reasons."""
    if withheld is not None:
        return unmeasured(_nothing(seen, withheld), NAMED if seen.withheld else unlimited)
    is_known = held is not None and held.used_bytes is not None
    memory = {} if is_known else _memory_reason(seen, held, unattributable)
    return unmeasured(memory, unattributable, unlimited)


def _nothing(seen: DeviceView, reason: Unmeasured) -> dict[str, Unmeasured]:
    """The reason for each quantity that the device has."""
    lacking = [q for q in OWNED if q in {"core", "memory", *seen.device_ledger.measured}]
    return dict.fromkeys(lacking, reason)


def _memory_reason(
    seen: DeviceView, held: MemoryHeld | None, unattributable: Mapping[str, Unmeasured]
) -> dict[str, Unmeasured]:
    """Why an owner's memory is unmeasured, where the device itself gives no reason."""
    if "memory" in seen.unattributable:
        return {}
    if held is not None:
        if held.is_rejected:
            return {"memory": Unmeasured.REJECTED_SAMPLES}
        is_unread = unattributable.get("core") is Unmeasured.READ_FAILED
        return {"memory": Unmeasured.READ_FAILED if is_unread else Unmeasured.NOT_SUPPORTED}
    return {"memory": Unmeasured.READ_FAILED} if seen.device_ledger.unlisted else {}
