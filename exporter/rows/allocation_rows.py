"""What rows of containers say of allotments: limits, use against them, where they are.

Limits stand on the device that the allotment names, use on the device that it was seen on. Where
the two differ, ``placement_mismatch`` says so, and neither is moved to the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from exporter.ledger.accounts import Account
from exporter.model import ContainerKey, Device, Row, Unmeasured, Value
from exporter.rows.book_view import Columns, by_name, unmeasured
from exporter.rows.limits import NO_LIMIT, Limit, Limits, PodLimit
from exporter.rows.view import Owners, View, of_limit, where

UNKNOWN_LIMITS = ("core_limit", "memory_limit")


def add_allotments(view: View, owners: Owners[ContainerKey], columns: Columns) -> None:
    """Add to their columns what containers with accounts on a device were allotted there.

    The use of a pod whose containers cannot be told apart yet stands under "", and has no limits.
    """
    loose = view.ledger.loose
    accounts = [  # in which allotted time stands; of a hidden device nothing is said of allotments
        None if seen.hidden else account if key.container else loose.get((key, seen.uuid))
        for seen, key, account in zip(owners.seen, owners.keys, owners.accounts, strict=True)
    ]
    granted = [account is not None for account in accounts]
    limits = where(granted, _limits(view, owners), other=NO_LIMIT)
    columns |= by_name(*[limit.shown for limit in limits])
    columns["allocated_core_seconds_total"] = allocated(view, accounts, limits)
    limits = where([bool(key.container) for key in owners.keys], limits, other=NO_LIMIT)
    columns |= by_name(*[limit.limits for limit in limits])
    for part, use, most in (
        ("core", "core_utilization_ratio", [limit.core for limit in limits]),
        ("memory", "memory_used_bytes", [limit.memory_bytes for limit in limits]),
    ):
        if use in columns:
            name = f"{part}_limit_utilization_ratio"
            columns[name] = list(map(of_limit, columns[use], most))
    there = [live and not seen.hidden for live, seen in zip(owners.live, owners.seen, strict=True)]
    columns["placement_mismatch"] = where(there, _mismatches(view, owners))


def _limits(view: View, owners: Owners[ContainerKey]) -> Sequence[Limit]:
    return list(map(view.limits.of, owners.keys, owners.uuids))


def _mismatches(view: View, owners: Owners[ContainerKey]) -> Sequence[int | None]:
    devices = [seen.book.device for seen in owners.seen]
    return list(map(partial(_mismatch, view.limits), owners.keys, devices))


def unplaced(view: View, owners: Owners[ContainerKey]) -> Sequence[Mapping[str, Unmeasured]]:
    """Which limits of each one's pod cannot be shown, where it has none of its own."""
    instances = _has_instances(view)
    return [
        {}
        if limit.allocations or not key.container
        else _unplaced(view.limits.of(key._replace(container=""), uuid), instances=instances)
        for limit, key, uuid in zip(_limits(view, owners), owners.keys, owners.uuids, strict=True)
    ]


def loose_rows(view: View) -> Iterable[Row]:
    """A row for each allotment whose container or device is not known, where use has none."""
    nameless = view.ledger.nameless
    blind = dict.fromkeys(("core", "memory"), nameless) if nameless else {}
    for (key, uuid), account in view.ledger.loose.items():
        seen = view.books.get(uuid)
        limit = view.limits.of(key, uuid)
        values: dict[str, Value] = {}
        if seen is not None and key not in seen.book.owners and not seen.hidden:
            _grant(view, values, limit, account)
            yield Row((*key, seen.index, uuid), values)
        elif not uuid:
            if not nameless:
                _grant(view, values, limit, account)
            if key.container and limit.allocations:
                values["unmeasured"] = unmeasured(
                    _unplaced(limit, instances=_has_instances(view)), blind
                )
            if values:
                yield Row((*key, "", ""), values)


def _grant(view: View, values: dict[str, Value], limit: Limit, account: Account) -> None:
    """Add what is true of an allotment wherever it is."""
    values |= limit.shown
    [spent] = allocated(view, [account], [limit])
    if spent is not None:
        values["allocated_core_seconds_total"] = spent


def allocated(
    view: View, accounts: Sequence[Account | None], limits: Sequence[Limit | PodLimit]
) -> list[int | None]:
    """The core time that was allotted until now; None if none was ever, and none is known of."""
    now_ns = view.facts.now.mono_ns
    return [
        account.allocated_core_ns(now_ns) or (None if limit.core is None else 0)
        if account
        else None
        for account, limit in zip(accounts, limits, strict=True)
    ]


def _mismatch(limits: Limits, key: ContainerKey, device: Device) -> int | None:
    """Whether a container is on a device that its allotment leaves out; None without any.

    An allotment of a card covers the instances that it is divided into.
    """
    allotted = limits.devices_of(key)
    if not allotted:
        return None
    whole = device.parent_uuid or device.uuid
    return int(device.uuid not in allotted and whole not in allotted)


def _has_instances(view: View) -> bool:
    return any(seen.book.device.parent_uuid for seen in view.books.values())


def _unplaced(limit: Limit, *, instances: bool) -> Mapping[str, Unmeasured]:
    """Which limits there are that cannot be shown; what nobody promised is not one of them."""
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
