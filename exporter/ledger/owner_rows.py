"""Rows of containers and groups on each device."""

from collections.abc import Iterable, Sequence

from exporter.ledger.accounts import Account
from exporter.ledger.book import OWNED, Book
from exporter.ledger.view import View, counters, known, ratio, total, unmeasured
from exporter.model import Allocation, ContainerKey, GroupKey, Row, Unmeasured, Value

LIMITS = ("core_limit", "memory_limit")
UNNAMED = dict.fromkeys(LIMITS, Unmeasured.POD_UNKNOWN)


def container_rows(view: View) -> Iterable[Row]:
    """One row for each container on each device, and one where the placement is not known."""
    for uuid, book in view.ledger.books.items():
        for key, account in book.owners.items():
            if isinstance(key, ContainerKey):
                values = _owner(view, book, key)
                if not view.ledger.hidden(book):
                    values |= _allotment(view.limits.get((key, uuid), ()), account, values)
                yield Row((*key, str(book.device.index), uuid), values)
    for key, uuid in view.limits:
        if key.container and uuid not in view.ledger.books:
            missing = dict.fromkeys(LIMITS, Unmeasured.PLACEMENT)
            nameless = view.ledger.nameless
            blind = dict.fromkeys(("core", "memory"), nameless) if nameless else {}
            yield Row((*key, "", ""), {"unmeasured": unmeasured(missing, blind)})


def group_rows(view: View) -> Iterable[Row]:
    """One row for each group on each device."""
    for uuid, book in view.ledger.books.items():
        for key in book.owners:
            if isinstance(key, GroupKey):
                yield Row((*key, str(book.device.index), uuid), _owner(view, book, key))


def _owner(view: View, book: Book, key: ContainerKey | GroupKey) -> dict[str, Value]:
    """What a container and a group have alike.

    An owner that has gone keeps its counters for a while; one of whom nothing is measured, or
    whose use cannot be told apart, has nothing but the reason.
    """
    account = book.owners[key]
    live = view.live(account)
    hidden = view.ledger.hidden(book)
    if hidden:
        return _reason(book, hidden) if live or key in (book.held or ()) else {}
    if not live:
        return counters(account, view.shared(book, key))
    if isinstance(key, ContainerKey) and view.pending(book, key):
        return _reason(book, Unmeasured.CONTAINER_PENDING)
    values = view.use(book, account, view.shared(book, key))
    if account.held is not None:
        values |= known(memory_used_bytes=account.held.used_bytes, processes=account.held.processes)
    values |= known(
        memory_used_peak_bytes=account.peak_bytes,
        last_active_timestamp_seconds=account.active_unix_ns,
        observed_since_timestamp_seconds=account.since_unix_ns,
    )
    unnamed = UNNAMED if isinstance(key, GroupKey) and key.kind == "pod" else {}
    unshared = view.unshared(book, key)
    values["unmeasured"] = unmeasured(_memory_reason(book, account), unshared, unnamed)
    return values


def _reason(book: Book, reason: Unmeasured) -> dict[str, Value]:
    """Why nothing is known of an owner, for each quantity that its device has."""
    lacking = [q for q in OWNED if q in {"core", "memory", *book.measured}]
    return {"unmeasured": unmeasured(dict.fromkeys(lacking, reason))}


def _memory_reason(book: Book, account: Account) -> dict[str, Unmeasured]:
    """Why the memory held is not told, where the device itself gives no reason."""
    if "memory" in book.unshared:
        return {}
    if account.held is not None:
        unsized = account.held.used_bytes is None
        return {"memory": Unmeasured.NOT_SUPPORTED} if unsized else {}
    return {"memory": Unmeasured.READ_FAILED} if book.unlisted else {}


def _allotment(
    allotted: Sequence[Allocation], account: Account, values: dict[str, Value]
) -> dict[str, Value]:
    if not allotted:
        spent = account.allocated_core_ns
        return {"allocated_core_seconds_total": spent} if spent else {}
    core = total(a.core for a in allotted)
    memory = total(a.memory_bytes for a in allotted)
    shown = known(
        core_limit_ratio=core,
        memory_limit_bytes=memory,
        core_limit_utilization_ratio=ratio(_number(values, "core_utilization_ratio"), core),
        memory_limit_utilization_ratio=ratio(_number(values, "memory_used_bytes"), memory),
        allocated_replicas=total(a.replicas for a in allotted),
        allocated_core_seconds_total=None if core is None else account.allocated_core_ns,
    )
    shown["allocation_info"] = {(a.scheme, a.policy, a.priority): 1 for a in allotted}
    return shown


def _number(values: dict[str, Value], name: str) -> float | None:
    value = values.get(name)
    return value if isinstance(value, int | float) else None
