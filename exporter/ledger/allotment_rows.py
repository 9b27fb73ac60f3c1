"""What rows of containers say of allotments: limits, use against them, where they are.

Limits stand on the device that the allotment names, use on the device that it was seen on. Where
the two differ, ``placement_mismatch`` says so, and neither is moved to the other.
"""

from collections.abc import Iterable, Mapping, Sequence

from exporter.ledger.accounts import Account
from exporter.ledger.book import Book
from exporter.ledger.limits import Limit
from exporter.ledger.view import View, ratio, unmeasured
from exporter.model import Allocation, ContainerKey, Labelled, Row, Unmeasured, Value

UNKNOWN_LIMITS = ("core_limit", "memory_limit")


def allotment(
    view: View, book: Book, key: ContainerKey, account: Account, values: dict[str, Value]
) -> None:
    """Add to a row's values what a container with an account on the device was allotted there.

    The use of a pod whose containers cannot be told apart
    yet stands under "", and has no limits.
    """
    uuid = book.device.uuid
    here = view.limits.of(key, uuid)
    if key.container:
        values |= _granted(here, account)
        if here.limits:
            values |= here.limits
            _hold_against(here, values)
    elif (key, uuid) in view.ledger.loose:
        values |= _granted(here, view.ledger.loose[key, uuid])
    if not view.live(account):
        return
    mismatch = _mismatch(view, book, key)
    if mismatch is not None:
        values["placement_mismatch"] = mismatch
    reasons = values.get("unmeasured", {})
    if key.container and not here.allocations and isinstance(reasons, Mapping):
        of_pod = view.limits.of(key._replace(container=""), uuid).allocations
        if of_pod:
            values["unmeasured"] = {**reasons, **_unplaced(view, of_pod)}


def loose_rows(view: View) -> Iterable[Row]:
    """A row for each allotment whose container or device is not known, where use has none."""
    nameless = view.ledger.nameless
    blind = dict.fromkeys(("core", "memory"), nameless) if nameless else {}
    for (key, uuid), account in view.ledger.loose.items():
        book = view.ledger.books.get(uuid)
        limit = view.limits.of(key, uuid)
        if book is not None and key not in book.owners and not view.ledger.hidden(book):
            yield Row((*key, str(book.device.index), uuid), _granted(limit, account))
        elif not uuid:
            values = {} if nameless else _granted(limit, account)
            if key.container and limit.allocations:
                unplaced = _unplaced(view, limit.allocations)
                values["unmeasured"] = {**unplaced, **unmeasured(blind)}
            if values:
                yield Row((*key, "", ""), values)


def _granted(limit: Limit, account: Account) -> dict[str, Value]:
    """What is true of an allotment wherever it is."""
    values = dict(limit.shown)
    spent = account.allocated_core_ns
    if spent or limit.core is not None:
        values["allocated_core_seconds_total"] = spent
    return values


def _hold_against(limit: Limit, values: dict[str, Value]) -> None:
    core = ratio(_number(values, "core_utilization_ratio"), limit.core)
    if core is not None:
        values["core_limit_utilization_ratio"] = core
    memory = ratio(_number(values, "memory_used_bytes"), limit.memory_bytes)
    if memory is not None:
        values["memory_limit_utilization_ratio"] = memory


def _mismatch(view: View, book: Book, key: ContainerKey) -> int | None:
    """Whether a container is on a device that its allotment leaves out; None without any.

    An allotment of a card covers the instances that it is divided into.
    """
    allotted = view.limits.devices_of(key)
    if not allotted:
        return None
    device = book.device
    whole = device.parent_uuid or device.uuid
    return int(device.uuid not in allotted and whole not in allotted)


def _unplaced(view: View, allocations: Sequence[Allocation]) -> Labelled:
    """Which limits there are that cannot be shown; what nobody promised is not one of them."""
    instances = any(book.device.parent_uuid for book in view.ledger.books.values())
    has = {
        # a whole MIG instance is known to promise its share once it is known
        "core_limit": any(
            a.core is not None or (instances and a.replicas is None) for a in allocations
        ),
        "memory_limit": any(a.memory_bytes is not None or a.core == 1 for a in allocations),
        "allocated_replicas": any(a.replicas is not None for a in allocations),
    }
    return unmeasured({name: Unmeasured.PLACEMENT for name, there in has.items() if there})


def _number(values: dict[str, Value], name: str) -> float | None:
    value = values.get(name)
    return value if isinstance(value, int | float) else None
