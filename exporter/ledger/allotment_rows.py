"""What rows of containers say of allotments: limits, use against them, where they are.

Limits stand on the device that the allotment names, use on the device that it was seen on. Where
the two differ, ``placement_mismatch`` says so, and neither is moved to the other.
"""

from collections.abc import Iterable, Mapping, Sequence

from exporter.ledger.accounts import Account
from exporter.ledger.book import Book
from exporter.ledger.view import View, known, ratio, total, unmeasured
from exporter.model import Allocation, ContainerKey, Labelled, Row, Unmeasured, Value

UNKNOWN_LIMITS = ("core_limit", "memory_limit")


def allotment(
    view: View, book: Book, key: ContainerKey, account: Account, values: dict[str, Value]
) -> dict[str, Value]:
    """What a container with an account on the device was allotted there.

    ``values`` is what its row has so far. The use of a pod whose containers cannot be told apart
    yet stands under "", and has no limits.
    """
    uuid = book.device.uuid
    here = view.limits.get((key, uuid), [])
    shown: dict[str, Value] = {}
    if key.container:
        shown = _granted(here, account) | _against(here, values)
    elif (key, uuid) in view.ledger.loose:
        shown = _granted(here, view.ledger.loose[key, uuid])
    if not view.live(account):
        return shown
    shown |= known(placement_mismatch=_mismatch(view, book, key))
    of_pod = view.limits.get((key._replace(container=""), uuid), [])
    reasons = values.get("unmeasured", {})
    if key.container and of_pod and not here and isinstance(reasons, Mapping):
        shown["unmeasured"] = {**reasons, **_unplaced(view, of_pod)}
    return shown


def loose_rows(view: View) -> Iterable[Row]:
    """A row for each allotment whose container or device is not known, where use has none."""
    nameless = view.ledger.nameless
    blind = dict.fromkeys(("core", "memory"), nameless) if nameless else {}
    for (key, uuid), account in view.ledger.loose.items():
        book = view.ledger.books.get(uuid)
        allocations = view.limits.get((key, uuid), [])
        if book is not None and key not in book.owners and not view.ledger.hidden(book):
            yield Row((*key, str(book.device.index), uuid), _granted(allocations, account))
        elif not uuid:
            values = {} if nameless else _granted(allocations, account)
            if key.container and allocations:
                unplaced = _unplaced(view, allocations)
                values["unmeasured"] = {**unplaced, **unmeasured(blind)}
            if values:
                yield Row((*key, "", ""), values)


def _granted(allocations: Sequence[Allocation], account: Account) -> dict[str, Value]:
    """What is true of an allotment wherever it is."""
    core = total(a.core for a in allocations)
    spent = account.allocated_core_ns
    values = known(allocated_core_seconds_total=spent if spent or core is not None else None)
    if allocations:
        values["allocation_info"] = {(a.scheme, a.policy, a.priority): 1 for a in allocations}
    if any(a.device for a in allocations):
        values |= known(allocated_replicas=total(a.replicas for a in allocations))
    return values


def _against(allocations: Sequence[Allocation], values: dict[str, Value]) -> dict[str, Value]:
    core = total(a.core for a in allocations)
    memory = total(a.memory_bytes for a in allocations)
    return known(
        core_limit_ratio=core,
        memory_limit_bytes=memory,
        core_limit_utilization_ratio=ratio(_number(values, "core_utilization_ratio"), core),
        memory_limit_utilization_ratio=ratio(_number(values, "memory_used_bytes"), memory),
    )


def _mismatch(view: View, book: Book, key: ContainerKey) -> int | None:
    """Whether a container is on a device that its allotment leaves out; None without any.

    An allotment of a card covers the instances that it is divided into.
    """
    allotted = _own(view, key)
    if not allotted:
        return None
    covered = {book.device.uuid, book.device.parent_uuid or book.device.uuid}
    return int(covered.isdisjoint(a.device for a in allotted))


def _own(view: View, key: ContainerKey) -> list[Allocation]:
    """The allotment that a container's use is held against, on all devices.

    Its own; else that of the pod as a whole. Of use that no container is named for: any.
    """
    of_pod = view.of_pods.get(key[:2], ())
    own = [a for k, a in of_pod if k == key or not key.container]
    return own or [a for k, a in of_pod if not k.container]


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
