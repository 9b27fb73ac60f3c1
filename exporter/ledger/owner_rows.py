"""Rows of containers and groups on each device."""

from collections.abc import Iterable
from dataclasses import astuple

from exporter.ledger.allotment_rows import UNKNOWN_LIMITS, allotment, loose_rows
from exporter.ledger.book import OWNED, Book
from exporter.ledger.view import View, counters, unmeasured
from exporter.model import ContainerKey, GroupKey, Row, Unmeasured, Value

UNNAMED = dict.fromkeys(UNKNOWN_LIMITS, Unmeasured.POD_UNKNOWN)


def container_rows(view: View) -> Iterable[Row]:
    """One row for each container on each device, and for what is allotted and has no such row."""
    for uuid, book in view.ledger.books.items():
        hidden, index = view.ledger.hidden(book), str(book.device.index)
        for key, account in book.owners.items():
            if isinstance(key, ContainerKey):
                values = _owner(view, book, key, hidden)
                if not hidden:
                    allotment(view, book, key, account, values)
                yield Row((*key, index, uuid), values)
    yield from loose_rows(view)


def group_rows(view: View) -> Iterable[Row]:
    """One row for each group on each device. Its names stand beside its counters to the last."""
    for uuid, book in view.ledger.books.items():
        hidden = view.ledger.hidden(book)
        for key in book.owners:
            if isinstance(key, GroupKey):
                values = _owner(view, book, key, hidden)
                if (facts := view.facts.groups.get(key)) and values:
                    values["info"] = {astuple(facts): 1}
                yield Row((*key, str(book.device.index), uuid), values)


def _owner(
    view: View, book: Book, key: ContainerKey | GroupKey, hidden: Unmeasured | None
) -> dict[str, Value]:
    """What a container and a group have alike.

    An owner that has gone keeps its counters for a while; one of whom nothing is measured, or
    whose use cannot be told apart, has nothing but the reason.
    """
    account = book.owners[key]
    live = view.live(account)
    if hidden:
        return _reason(book, hidden) if live or key in (book.held or ()) else {}
    if not live:
        return counters(account, view.shared(book, key))
    if isinstance(key, ContainerKey) and view.pending(book, key):
        return _reason(book, Unmeasured.CONTAINER_PENDING)
    values = view.use(book, account, view.shared(book, key))
    held = account.held
    if held is not None:
        values["processes"] = held.processes
        if held.used_bytes is not None:
            values["memory_used_bytes"] = held.used_bytes
    if account.peak_bytes is not None:
        values["memory_used_peak_bytes"] = account.peak_bytes
    if account.active_unix_ns is not None:
        values["last_active_timestamp_seconds"] = account.active_unix_ns
    values["observed_since_timestamp_seconds"] = account.since_unix_ns
    unnamed = UNNAMED if isinstance(key, GroupKey) and key.kind == "pod" else {}
    unshared = view.unshared(book, key)
    values["unmeasured"] = unmeasured(_memory_reason(view, book, key), unshared, unnamed)
    return values


def _reason(book: Book, reason: Unmeasured) -> dict[str, Value]:
    """Why nothing is known of an owner, for each quantity that its device has."""
    lacking = [q for q in OWNED if q in {"core", "memory", *book.measured}]
    return {"unmeasured": unmeasured(dict.fromkeys(lacking, reason))}


def _memory_reason(view: View, book: Book, key: ContainerKey | GroupKey) -> dict[str, Unmeasured]:
    """Why the memory held is not told, where the device itself gives no reason."""
    if "memory" in view.unshared_by_any(book):
        return {}
    held = book.owners[key].held
    if held is not None:
        is_untold = view.unshared(book, key).get("core") is Unmeasured.READ_FAILED
        reason = Unmeasured.READ_FAILED if is_untold else Unmeasured.NOT_SUPPORTED
        return {"memory": reason} if held.used_bytes is None else {}
    return {"memory": Unmeasured.READ_FAILED} if book.unlisted else {}
