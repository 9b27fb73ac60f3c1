"""What rows of containers say of allotments: limits, use against them, where they are.

Limits stand on the device that the allotment names, use on the device that it was seen on. Where
the two differ, ``placement_mismatch`` says so, and neither is moved to the other.
"""

from collections.abc import Iterable, Mapping, Sequence

from exporter.ledger.accounts import Account
from exporter.ledger.limits import Limit
from exporter.ledger.view import BookView, View, unmeasured
from exporter.model import Allocation, ContainerKey, Device, Labelled, Row, Unmeasured, Value

UNKNOWN_LIMITS = ("core_limit", "memory_limit")


def allotment(
    view: View, seen: BookView, key: ContainerKey, account: Account, values: dict[str, Value]
) -> None:
    """Add to a row's values what a container with an account on the device was allotted there.

    The use of a pod whose containers cannot be told apart
    yet stands under "", and has no limits.
    """
    here = view.limits.of(key, seen.uuid)
    if key.container:
        _grant(view, values, here, account)
        if here.limits:
            values |= here.limits
            _hold_against(here, values)
    elif (key, seen.uuid) in view.ledger.loose:
        _grant(view, values, here, view.ledger.loose[key, seen.uuid])
    if not seen.live(account):
        return
    mismatch = _mismatch(view, seen.book.device, key)
    if mismatch is not None:
        values["placement_mismatch"] = mismatch
    if key.container and not here.allocations:
        of_pod = view.limits.of(key._replace(container=""), seen.uuid).allocations
        reasons = values.get("unmeasured", {})
        if of_pod and isinstance(reasons, Mapping):
            values["unmeasured"] = {**reasons, **_unplaced(view, of_pod)}


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
                unplaced = _unplaced(view, limit.allocations)
                values["unmeasured"] = {**unplaced, **unmeasured(blind)}
            if values:
                yield Row((*key, "", ""), values)


def _grant(view: View, values: dict[str, Value], limit: Limit, account: Account) -> None:
    """Add what is true of an allotment wherever it is."""
    values |= limit.shown
    spent = view.allocated(account)
    if spent or limit.core is not None:
        values["allocated_core_seconds_total"] = spent


def _hold_against(limit: Limit, values: dict[str, Value]) -> None:
    core, memory = values.get("core_utilization_ratio"), values.get("memory_used_bytes")
    if limit.core and isinstance(core, float):
        values["core_limit_utilization_ratio"] = core / limit.core
    if limit.memory_bytes and isinstance(memory, int):
        values["memory_limit_utilization_ratio"] = memory / limit.memory_bytes


def _mismatch(view: View, device: Device, key: ContainerKey) -> int | None:
    """Whether a container is on a device that its allotment leaves out; None without any.

    An allotment of a card covers the instances that it is divided into.
    """
    allotted = view.limits.devices_of(key)
    if not allotted:
        return None
    whole = device.parent_uuid or device.uuid
    return int(device.uuid not in allotted and whole not in allotted)


def _unplaced(view: View, allocations: Sequence[Allocation]) -> Labelled:
    """Which limits there are that cannot be shown; what nobody promised is not one of them."""
    instances = any(seen.book.device.parent_uuid for seen in view.books.values())
    has = {
        # a whole MIG instance is known to promise its share once it is known
        "core_limit": any(
            a.core is not None or (instances and a.replicas is None) for a in allocations
        ),
        "memory_limit": any(a.memory_bytes is not None or a.core == 1 for a in allocations),
        "allocated_replicas": any(a.replicas is not None for a in allocations),
    }
    return unmeasured({name: Unmeasured.PLACEMENT for name, there in has.items() if there})
