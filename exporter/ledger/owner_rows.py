"""Rows of containers and groups on each device."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple

from exporter.ledger.accounts import Account
from exporter.ledger.allotment_rows import UNKNOWN_LIMITS, allotment, loose_rows
from exporter.ledger.condition import OWNED
from exporter.ledger.view import BookView, View, counters, unmeasured
from exporter.model import ContainerKey, GroupKey, MemoryHeld, Row, Unmeasured, Value

NAMED: dict[str, Unmeasured] = {}
UNNAMED = dict.fromkeys(UNKNOWN_LIMITS, Unmeasured.POD_UNKNOWN)


def container_rows(view: View) -> Iterable[Row]:
    """One row for each container on each device, and for what is allotted and has no such row."""
    for seen in view.books.values():
        for key, account in seen.book.owners.items():
            if isinstance(key, ContainerKey):
                values = _owner(seen, key, account)
                if not seen.hidden:
                    allotment(view, seen, key, account, values)
                yield Row((*key, seen.index, seen.uuid), values)
    yield from loose_rows(view)


def group_rows(view: View) -> Iterable[Row]:
    """One row for each group on each device. Its names stand beside its counters to the last."""
    for seen in view.books.values():
        for key, account in seen.book.owners.items():
            if isinstance(key, GroupKey):
                values = _owner(seen, key, account)
                if (facts := view.facts.groups.get(key)) and values:
                    values["info"] = {astuple(facts): 1}
                yield Row((*key, seen.index, seen.uuid), values)


def _owner(seen: BookView, key: ContainerKey | GroupKey, account: Account) -> dict[str, Value]:
    """What a container and a group have alike.

    An owner that has gone keeps its counters for a while; one of whom nothing is measured, or
    whose use cannot be told apart, has nothing but the reason.
    """
    live = seen.live(account)
    if seen.hidden:
        return _reason(seen, seen.hidden) if live or key in (seen.book.held or ()) else {}
    if not live:
        return counters(account.totals, seen.told_of(key))
    if seen.pending(key):
        return _reason(seen, Unmeasured.CONTAINER_PENDING)
    values = seen.use(key, account)
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
    unshared = seen.unshared_of(key)
    unnamed = UNNAMED if isinstance(key, GroupKey) and key.kind == "pod" else NAMED
    untold = {} if "memory_used_bytes" in values else _memory_reason(seen, held, unshared)
    values["unmeasured"] = unmeasured(untold, unshared, unnamed)
    return values


def _reason(seen: BookView, reason: Unmeasured) -> dict[str, Value]:
    """Why nothing is known of an owner, for each quantity that its device has."""
    lacking = [q for q in OWNED if q in {"core", "memory", *seen.book.measured}]
    return {"unmeasured": unmeasured(dict.fromkeys(lacking, reason))}


def _memory_reason(
    seen: BookView, held: MemoryHeld | None, unshared: Mapping[str, Unmeasured]
) -> dict[str, Unmeasured]:
    """Why memory that is not told is not, where the device itself gives no reason."""
    if "memory" in seen.unshared:
        return {}
    if held is not None:
        is_untold = unshared.get("core") is Unmeasured.READ_FAILED
        return {"memory": Unmeasured.READ_FAILED if is_untold else Unmeasured.NOT_SUPPORTED}
    return {"memory": Unmeasured.READ_FAILED} if seen.book.unlisted else {}
