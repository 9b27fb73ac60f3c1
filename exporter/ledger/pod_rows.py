"""Rows of pods and namespaces: accounts of their own, gauges summed over devices."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from exporter.ledger.accounts import ENERGY, Account
from exporter.ledger.book import Book
from exporter.ledger.view import View, counters, known, ratio, total, whole
from exporter.model import Allocation, ContainerKey, Row, Value

ACCOUNTED = frozenset({"core", ENERGY})


class _Part(NamedTuple):
    """One container of a pod on one device."""

    book: Book
    key: ContainerKey
    account: Account


class _Use(NamedTuple):
    """What one part uses now, and what it may."""

    core: float | None
    core_limit: float | None
    memory: float | None
    memory_limit: float | None


def pod_rows(view: View) -> Iterable[Row]:
    """One row for each pod that has or had something to do with a GPU here."""
    parts: dict[tuple[str, str], list[_Part]] = {}
    for book in view.ledger.books.values():
        for key, account in book.owners.items():
            if isinstance(key, ContainerKey):
                parts.setdefault(key[:2], []).append(_Part(book, key, account))
    limits: dict[tuple[str, str], list[Allocation]] = {}
    for key, allocation in view.facts.allotted:
        limits.setdefault(key[:2], []).append(allocation)
    for name, account in view.ledger.pods.items():
        yield Row(name, _pod(view, name, account, parts.get(name, []), limits.get(name, [])))


def namespace_rows(view: View) -> Iterable[Row]:
    """One row for each namespace on each device of which owners can be told."""
    for uuid, book in view.ledger.books.items():
        if view.ledger.hidden(book):
            continue
        for namespace, account in book.namespaces.items():
            yield Row((namespace, uuid), counters(account, _shared_in(view, book, namespace)))


def _shared_in(view: View, book: Book, namespace: str) -> set[str]:
    """What is known of all owners of a namespace on the device."""
    shared = book.shared
    for owner in book.doubts:
        if isinstance(owner, ContainerKey) and owner.namespace == namespace:
            shared -= view.unshared(book, owner).keys()
    return shared


def _pod(
    view: View,
    name: tuple[str, str],
    account: Account,
    parts: Sequence[_Part],
    limits: Sequence[Allocation],
) -> dict[str, Value]:
    live = view.live(account)
    alive = [part for part in parts if view.live(part.account)]
    pod = view.facts.pods.get(name)
    blind = any(_is_blind(view, part, limits) for part in parts)
    values: dict[str, Value] = {}
    if (live or blind) and pod is not None:
        values["info"] = {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1}
    if blind or view.ledger.nameless:
        return values
    values |= counters(account, _accounted(view, alive or parts))
    if account.allocated_core_ns or any(a.core is not None for a in limits):
        values["allocated_core_seconds_total"] = account.allocated_core_ns
    if live:
        values |= known(last_active_timestamp_seconds=account.active_unix_ns)
        uses = [_use(view, part) for part in alive if not view.pending(part.book, part.key)]
        values |= _gauges(uses, limits, whole_pod=any(not part.key.container for part in alive))
    return values


def _is_blind(view: View, part: _Part, limits: Sequence[Allocation]) -> bool:
    """Whether the pod is, as far as is known, on a device that cannot be read.

    One that is allotted other devices now, and not this one, has left it: a StatefulSet's pod that
    was made anew keeps its name.
    """
    book = part.book
    if not book.blind or not (view.live(part.account) or part.key in (book.held or ())):
        return False
    return not limits or any(a.device in {None, book.device.uuid} for a in limits)


def _accounted(view: View, parts: Sequence[_Part]) -> Collection[str]:
    """What is known of a pod: on all its devices, or on any before its placement is known."""
    if parts:
        return ACCOUNTED.intersection(*(view.shared(part.book, part.key) for part in parts))
    books = view.ledger.books.values()
    return ACCOUNTED & set[str]().union(*(book.shared for book in books if not book.blind))


def _use(view: View, part: _Part) -> _Use:
    book, key, account = part
    allotted = view.limits.get((key, book.device.uuid), [])
    return _Use(
        core=view.ratio(book, account, "core") if "core" in view.shared(book, key) else None,
        core_limit=total(a.core for a in allotted),
        memory=account.held.used_bytes if account.held else None,
        memory_limit=total(a.memory_bytes for a in allotted),
    )


def _gauges(
    uses: Sequence[_Use], limits: Sequence[Allocation], *, whole_pod: bool
) -> dict[str, Value]:
    """Core against the limited containers only; memory against the fullest device.

    Where use or limits are the pod's as a whole, all of its use stands against all of its limits.
    """
    core_limit, memory_limit = total(a.core for a in limits), total(a.memory_bytes for a in limits)
    if whole_pod or any(not a.container for a in limits):
        limited, core_of = uses, core_limit
        fullness = [ratio(whole(use.memory for use in uses), memory_limit)]
    else:
        limited = [use for use in uses if use.core_limit]
        core_of = total(use.core_limit for use in limited)
        fullness = [ratio(use.memory, use.memory_limit) for use in uses]
    return known(
        core_usage_gpus=whole(use.core for use in uses),
        core_limit_gpus=core_limit,
        memory_used_bytes=whole(use.memory for use in uses),
        memory_limit_bytes=memory_limit,
        core_limit_utilization_ratio=ratio(whole(use.core for use in limited), core_of),
        memory_limit_utilization_ratio=max((r for r in fullness if r is not None), default=None),
    )
