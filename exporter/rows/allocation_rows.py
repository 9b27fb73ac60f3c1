"""Columns and rows of allocations: limits, use against them, and placement.

A limit is shown on the device that the allocation names, use on the device where it was seen. Where
the two differ, ``placement_mismatch`` shows it, and neither is moved to the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from exporter.ledger.accounts import Account
from exporter.model import ContainerKey, Device, Row, Unmeasured, Value
from exporter.rows.device_view import Columns, by_name, unmeasured
from exporter.rows.limits import NO_LIMIT, Limit, Limits, PodLimit
from exporter.rows.view import Owners, View, of_limit, where

UNKNOWN_LIMITS = ("core_limit", "memory_limit")


def add_allocations(view: View, owners: Owners[ContainerKey], columns: Columns) -> None:
    """Adds the columns of what containers with accounts on a device were allocated there.

    While the containers of a pod cannot be distinguished, its use is under "" and has no limits.
    """
    unplaced = view.ledger.unplaced
    accounts = [  # that hold the allocated time; None where the device's series are withheld
        None if seen.withheld else account if key.container else unplaced.get((key, seen.uuid))
        for seen, key, account in zip(owners.seen, owners.keys, owners.accounts, strict=True)
    ]
    granted = [account is not None for account in accounts]
    limits = where(granted, _limits(view, owners), other=NO_LIMIT)
    columns |= by_name(*[limit.shown for limit in limits])
    columns["allocated_core_seconds_total"] = allocated_core_ns(view, accounts, limits)
    limits = where([bool(key.container) for key in owners.keys], limits, other=NO_LIMIT)
    columns |= by_name(*[limit.limits for limit in limits])
    for part, use, most in (
        ("core", "core_utilization_ratio", [limit.core for limit in limits]),
        ("memory", "memory_used_bytes", [limit.memory_bytes for limit in limits]),
    ):
        if use in columns:
            name = f"{part}_limit_utilization_ratio"
            columns[name] = list(map(of_limit, columns[use], most))
    there = [
        live and not seen.withheld for live, seen in zip(owners.live, owners.seen, strict=True)
    ]
    columns["placement_mismatch"] = where(there, _mismatches(view, owners))


def _limits(view: View, owners: Owners[ContainerKey]) -> Sequence[Limit]:
    return list(map(view.limits.of, owners.keys, owners.uuids))


def _mismatches(view: View, owners: Owners[ContainerKey]) -> Sequence[int | None]:
    devices = [seen.device_ledger.device for seen in owners.seen]
    return list(map(partial(_mismatch, view.limits), owners.keys, devices))


def unplaced(view: View, owners: Owners[ContainerKey]) -> Sequence[Mapping[str, Unmeasured]]:
    """The limits of each container's pod that cannot be shown, where it has none of its own."""
    instances = _has_instances(view)
    return [
        {}
        if limit.allocations or not key.container
        else _unplaced(view.limits.of(key._replace(container=""), uuid), instances=instances)
        for limit, key, uuid in zip(_limits(view, owners), owners.keys, owners.uuids, strict=True)
    ]


def unplaced_rows(view: View) -> Iterable[Row]:
    """One row for each allocation whose container or device is unknown, where use has none."""
    unidentified = view.ledger.unidentified
    stale = dict.fromkeys(("core", "memory"), unidentified) if unidentified else {}
    for (key, uuid), account in view.ledger.unplaced.items():
        seen = view.devices.get(uuid)
        limit = view.limits.of(key, uuid)
        values: dict[str, Value] = {}
        if seen is not None and key not in seen.device_ledger.owners and not seen.withheld:
            _grant(view, values, limit, account)
            yield Row((*key, seen.index, uuid), values)
        elif not uuid:
            if not unidentified:
                _grant(view, values, limit, account)
            if key.container and limit.allocations:
                values["unmeasured"] = unmeasured(
                    _unplaced(limit, instances=_has_instances(view)), stale
                )
            if values:
                yield Row((*key, "", ""), values)


def _grant(view: View, values: dict[str, Value], limit: Limit, account: Account) -> None:
    """Adds what is true of an allocation wherever it is."""
    values |= limit.shown
    [spent] = allocated_core_ns(view, [account], [limit])
    if spent is not None:
        values["allocated_core_seconds_total"] = spent


def allocated_core_ns(
    view: View, accounts: Sequence[Account | None], limits: Sequence[Limit | PodLimit]
) -> list[int | None]:
    """The core time allocated until now, in ns; None if there never was an allocation of core."""
    now_ns = view.facts.now.mono_ns
    return [
        account.allocated_core_ns(now_ns) or (None if limit.core is None else 0)
        if account
        else None
        for account, limit in zip(accounts, limits, strict=True)
    ]


def _mismatch(limits: Limits, key: ContainerKey, device: Device) -> int | None:
    """Whether a container is on a device that its allocation leaves out; None without any.

    An allocation of a card includes the instances that it is divided into.
    """
    allocated = limits.devices_of(key)
    if not allocated:
        return None
    whole = device.parent_uuid or device.uuid
    return int(device.uuid not in allocated and whole not in allocated)


def _has_instances(view: View) -> bool:
    return any(seen.device_ledger.device.parent_uuid for seen in view.devices.values())


def _unplaced(limit: Limit, *, instances: bool) -> Mapping[str, Unmeasured]:
    """The limits that exist and cannot be shown; what was not promised is not one of them."""
    allocations = limit.allocations
    has = {
        # a whole MIG instance is known to promise its share once it is known
        "core_limit": any(
            a.core is not None or (instances and a.replicas is None) for a in allocations
        ),
        "memory_limit": any(a.memory_bytes is not None or a.core == 1 for a in allocations),
        "allocated_replicas": any(a.replicas is not None for a in allocations),
    }
    return {name: Unmeasured.PLACEMENT for name, there in has.items() if there}
