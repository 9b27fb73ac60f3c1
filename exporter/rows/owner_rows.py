"""Rows of containers and groups on each device."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple

from exporter.ledger.condition import OWNED
from exporter.model import GroupKey, Labelled, MemoryHeld, Table, Unmeasured
from exporter.rows.allocation_rows import UNKNOWN_LIMITS, add_allotments, loose_rows, unplaced
from exporter.rows.book_view import BookView, Columns, unmeasured
from exporter.rows.view import K, Owners, View, used_bytes

NAMED: dict[str, Unmeasured] = {}
UNNAMED = dict.fromkeys(UNKNOWN_LIMITS, Unmeasured.POD_UNKNOWN)


def container_rows(view: View) -> Table:
    """One row for each container on each device, and for what is allotted and has no such row."""
    owners = view.containers
    columns = _columns(owners, unplaced(view, owners))
    add_allotments(view, owners, columns)
    return Table(owners.labels(), columns).joined(Table.of(loose_rows(view)))


def group_rows(view: View) -> Table:
    """One row for each group on each device. Its names stand beside its counters to the last."""
    owners = view.groups
    columns = _columns(owners, list(map(_unnamed, owners.keys)))
    facts = [view.facts.groups.get(key) for key in owners.keys]
    columns["info"] = [
        {astuple(of): 1} if of and any(value is not None for value in values) else None
        for of, *values in zip(facts, *columns.values(), strict=True)
    ]
    return Table(owners.labels(), columns)


def _unnamed(key: GroupKey) -> Mapping[str, Unmeasured]:
    """Which limits are not known of a pod without a name."""
    return UNNAMED if key.kind == "pod" else NAMED


def _columns(owners: Owners[K], unlimited: Sequence[Mapping[str, Unmeasured]]) -> Columns:
    """What containers and groups have alike. ``unlimited``: which limits are not known, and why.

    An owner that has gone keeps its counters for a while; one of whom nothing is measured, or
    whose use cannot be told apart, has nothing but the reason.
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
    """What is not told of each, and why; None of one that has gone."""
    if not any(owners.withheld) and None not in owners.memory_bytes():  # as nearly always
        reasons = list(map(unmeasured, owners.unshared, unlimited))
        return owners.of_shown(reasons)
    return [
        _unmeasured(seen, why, held, unshared, others)
        if live or (why and key in (seen.book.held or ()))
        else None
        for live, seen, key, why, held, unshared, others in zip(
            *(owners.live, owners.seen, owners.keys, owners.withheld, owners.held),
            *(owners.unshared, unlimited),
            strict=True,
        )
    ]


def _unmeasured(
    seen: BookView,
    withheld: Unmeasured | None,
    held: MemoryHeld | None,
    unshared: Mapping[str, Unmeasured],
    unlimited: Mapping[str, Unmeasured],
) -> Labelled:
    """What is not told of an owner, and why."""
    if withheld is not None:
        return unmeasured(_nothing(seen, withheld), NAMED if seen.hidden else unlimited)
    is_told = held is not None and held.used_bytes is not None
    untold = {} if is_told else _memory_reason(seen, held, unshared)
    return unmeasured(untold, unshared, unlimited)


def _nothing(seen: BookView, reason: Unmeasured) -> dict[str, Unmeasured]:
    """Why nothing is known of an owner, for each quantity that its device has."""
    lacking = [q for q in OWNED if q in {"core", "memory", *seen.book.measured}]
    return dict.fromkeys(lacking, reason)


def _memory_reason(
    seen: BookView, held: MemoryHeld | None, unshared: Mapping[str, Unmeasured]
) -> dict[str, Unmeasured]:
    """Why memory that is not told is not, where the device itself gives no reason."""
    if "memory" in seen.unshared:
        return {}
    if held is not None:
        if held.is_rejected:
            return {"memory": Unmeasured.REJECTED_SAMPLES}
        is_untold = unshared.get("core") is Unmeasured.READ_FAILED
        return {"memory": Unmeasured.READ_FAILED if is_untold else Unmeasured.NOT_SUPPORTED}
    return {"memory": Unmeasured.READ_FAILED} if seen.book.unlisted else {}
