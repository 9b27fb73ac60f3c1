"""Rows of pods and namespaces: accounts of their own, gauges summed over devices."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from exporter.ledger.accounts import ENERGY, Account, Averaged
from exporter.ledger.book import Book
from exporter.ledger.limits import Allotted, PodLimit, known
from exporter.ledger.view import View, counters, ratio, whole
from exporter.model import ContainerKey, Row, Value

ACCOUNTED = frozenset({"core", ENERGY})


class _Part(NamedTuple):
    """One container of a pod on one device."""

    book: Book
    key: ContainerKey
    account: Averaged


class _Use(NamedTuple):
    """What one part uses now."""

    key: ContainerKey
    device: str
    core: float | None
    memory: float | None


def pod_rows(view: View) -> Iterable[Row]:
    """One row for each pod that has or had something to do with a GPU here."""
    parts: dict[tuple[str, str], list[_Part]] = {}
    for book in view.ledger.books.values():
        for key, own in book.owners.items():
            if isinstance(key, ContainerKey):
                parts.setdefault(key[:2], []).append(_Part(book, key, own))
    any_blind = any(book.blind for book in view.ledger.books.values())
    for name, account in view.ledger.pods.items():
        pod = view.facts.pods.get(name)
        shown = view.facts.shown.get(pod.uid) if pod else None
        here = parts.get(name, [])
        blind = any_blind and _is_any_blind(view, name, here)
        values = _pod(view, name, account, here, blind=blind)
        yield Row(name, values, {"info": shown} if shown else {})


def namespace_rows(view: View) -> Iterable[Row]:
    """One row for each namespace on each device of which owners can be told."""
    for uuid, book in view.ledger.books.items():
        if view.ledger.hidden(book):
            continue
        for namespace, account in book.namespaces.items():
            yield Row((namespace, uuid), counters(account, _shared_in(view, book, namespace)))


def _shared_in(view: View, book: Book, namespace: str) -> frozenset[str]:
    """What is known of all owners of a namespace on the device."""
    shared = view.shared_by_all(book)
    for owner in book.doubts:
        if isinstance(owner, ContainerKey) and owner.namespace == namespace:
            shared = shared.difference(view.unshared(book, owner))
    return shared


def _pod(
    view: View, name: tuple[str, str], account: Account, parts: Sequence[_Part], *, blind: bool
) -> dict[str, Value]:
    live = view.live(account)
    alive = [part for part in parts if view.live(part.account)]
    pod = view.facts.pods.get(name)
    limit = view.limits.of_pod(name)
    values: dict[str, Value] = {}
    if (live or blind) and pod is not None:
        values["info"] = {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1}
    if blind or view.ledger.nameless:
        return values
    values |= counters(account, _accounted(view, alive or parts))
    if account.allocated_core_ns or limit.core is not None:
        values["allocated_core_seconds_total"] = account.allocated_core_ns
    if live:
        if account.active_unix_ns is not None:
            values["last_active_timestamp_seconds"] = account.active_unix_ns
        uses = [_use(view, part) for part in alive if not view.pending(part.book, part.key)]
        values |= limit.shown
        values |= _gauges(uses, limit)
    return values


def _is_any_blind(view: View, name: tuple[str, str], parts: Sequence[_Part]) -> bool:
    """Whether the pod is or should be on a device that cannot be read."""
    allotted = view.limits.of_pod(name).allotted
    return any(_is_blind(view, part) for part in parts) or _is_allotted_blind(view, allotted)


def _is_blind(view: View, part: _Part) -> bool:
    """Whether the pod is, as far as is known, on a device that cannot be read.

    One that is allotted other devices now, and not this one, has left it: a StatefulSet's pod that
    was made anew keeps its name. But not one that had its allotment while it was still seen here.
    """
    book, key, account = part
    if not book.blind or not (view.live(account) or key in (book.held or ())):
        return False
    limits = view.limits.of_pod(key[:2]).allotted
    if not limits or any(a.device in {None, book.device.uuid} for _, a in limits):
        return True
    tenure = view.ledger.tenures.get(key[:2])
    return tenure is not None and tenure.since_mono_ns <= book.read_mono_ns


def _is_allotted_blind(view: View, limits: Sequence[Allotted]) -> bool:
    books = (view.ledger.books.get(a.device or "") for _, a in limits)
    return any(book is not None and book.blind for book in books)


def _accounted(view: View, parts: Sequence[_Part]) -> frozenset[str]:
    """What is known of a pod: on all its devices, or on any before its placement is known."""
    if parts:
        accounted = ACCOUNTED
        for part in parts:
            accounted &= view.shared(part.book, part.key)
        return accounted
    books = view.ledger.books.values()
    return ACCOUNTED & set[str]().union(*(book.shared for book in books if not book.blind))


def _use(view: View, part: _Part) -> _Use:
    book, key, account = part
    core = view.core(book, account) if "core" in view.shared(book, key) else None
    return _Use(key, book.device.uuid, core, account.held.used_bytes if account.held else None)


def _gauges(uses: Sequence[_Use], limit: PodLimit) -> dict[str, Value]:
    """Core against the limited containers only; memory against the fullest device."""
    core, limited = whole([use.core for use in uses]), _held_against(uses, limit.keys)
    limited_core = core if limited is uses else whole([use.core for use in limited])
    return known(
        core_usage_gpus=core,
        memory_used_bytes=whole([use.memory for use in uses]),
        core_limit_utilization_ratio=ratio(limited_core, limit.core),
        memory_limit_utilization_ratio=max(_fullness(uses, limit), default=None),
    )


def _fullness(uses: Sequence[_Use], limit: PodLimit) -> Iterable[float]:
    """Memory held against what is allotted, for each device that is named."""
    for device, keys, most in limit.memory:
        limited = _held_against([use for use in uses if use.device == device], keys)
        full = ratio(whole([use.memory for use in limited]), most)
        if full is not None:
            yield full


def _held_against(uses: Sequence[_Use], limited: Collection[ContainerKey]) -> Sequence[_Use]:
    """The use of containers with a limit; all of it where it or a limit is the pod's as a whole."""
    own = [use for use in uses if use.key in limited]
    if len(own) == len(uses):
        return uses
    whole_pod = any(not key.container for key in limited) or any(not u.key.container for u in uses)
    return uses if whole_pod else own
