"""Rows of pods and namespaces: accounts of their own, gauges summed over devices."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from exporter.ledger.accounts import ENERGY, Account
from exporter.ledger.limits import Allotted, PodLimit
from exporter.ledger.view import COUNTERS, BookView, View, counters, ratio, whole
from exporter.model import ContainerKey, Row, Value

ACCOUNTED = ("core", ENERGY)


_Part = tuple[BookView, ContainerKey, Account]
"""One container of a pod on one device."""


class _Use(NamedTuple):
    """What one part uses now."""

    key: ContainerKey
    device: str
    core: float | None
    memory: float | None


def pod_rows(view: View) -> Iterable[Row]:
    """One row for each pod that has or had something to do with a GPU here."""
    parts: dict[tuple[str, str], list[_Part]] = {}
    for seen in view.books.values():
        for key, own in seen.book.owners.items():
            if isinstance(key, ContainerKey):
                parts.setdefault(key[:2], []).append((seen, key, own))
    any_blind = any(seen.blind for seen in view.books.values())
    for name, account in view.ledger.of_pods().items():
        pod = view.facts.pods.get(name)
        here = parts.get(name, ())
        blind = any_blind and _is_any_blind(view, name, here)
        values: dict[str, Value] = {}
        if pod is not None and (blind or view.live(account)):
            values["info"] = {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1}
        if not blind and not view.ledger.nameless:
            _account(view, view.limits.of_pod(name), account, here, values)
        shown = view.facts.shown.get(pod.uid) if pod else None
        yield Row(name, values, {"info": shown}) if shown else Row(name, values)


def namespace_rows(view: View) -> Iterable[Row]:
    """One row for each namespace on each device of which owners can be told."""
    for seen in view.books.values():
        if seen.hidden:
            continue
        for namespace, totals in seen.book.of_namespaces().items():
            yield Row((namespace, seen.uuid), counters(totals, _shared_in(seen, namespace)))


def _shared_in(seen: BookView, namespace: str) -> frozenset[str]:
    """What is known of all owners of a namespace on the device."""
    shared = seen.shared
    for owner in seen.book.doubts:
        if isinstance(owner, ContainerKey) and owner.namespace == namespace:
            shared = shared.difference(seen.unshared_of(owner))
    return shared


def _account(
    view: View,
    limit: PodLimit,
    account: Account,
    parts: Sequence[_Part],
    values: dict[str, Value],
) -> None:
    """Add to a row's values what the pod uses and used."""
    alive = [(seen, key, own) for seen, key, own in parts if seen.live(own)]
    known, totals = _known(view, alive or parts), account.totals
    for quantity in ACCOUNTED:
        if quantity in known:
            values[COUNTERS[quantity]] = totals[quantity]
    allocated_ns = view.allocated(account)
    if allocated_ns or limit.core is not None:
        values["allocated_core_seconds_total"] = allocated_ns
    if view.live(account):
        if account.active_unix_ns is not None:
            values["last_active_timestamp_seconds"] = account.active_unix_ns
        values |= limit.shown
        uses = [_use(seen, key, own) for seen, key, own in alive if not seen.pending(key)]
        _gauge(uses, limit, values)


def _is_any_blind(view: View, name: tuple[str, str], parts: Sequence[_Part]) -> bool:
    """Whether the pod is or should be on a device that cannot be read."""
    allotted = view.limits.of_pod(name).allotted
    return any(_is_blind(view, part) for part in parts) or _is_allotted_blind(view, allotted)


def _is_blind(view: View, part: _Part) -> bool:
    """Whether the pod is, as far as is known, on a device that cannot be read.

    One that is allotted other devices now, and not this one, has left it: a StatefulSet's pod that
    was made anew keeps its name. But not one that had its allotment while it was still seen here.
    """
    seen, key, account = part
    if not seen.blind or not (seen.live(account) or key in (seen.book.held or ())):
        return False
    limits = view.limits.of_pod(key[:2]).allotted
    if not limits or any(a.device in {None, seen.uuid} for _, a in limits):
        return True
    tenure = view.ledger.tenures.get(key[:2])
    return tenure is not None and tenure.since_mono_ns <= seen.book.read_mono_ns


def _is_allotted_blind(view: View, limits: Sequence[Allotted]) -> bool:
    books = (view.books.get(a.device or "") for _, a in limits)
    return any(seen is not None and seen.blind for seen in books)


def _known(view: View, parts: Sequence[_Part]) -> frozenset[str]:
    """What is known of a pod: on all its devices, or on any before its placement is known."""
    if not parts:
        return frozenset().union(*(seen.shared for seen in view.books.values() if not seen.blind))
    known, *others = [seen.shared_of(key) for seen, key, _ in parts]
    return known.intersection(*others) if others else known


def _use(seen: BookView, key: ContainerKey, account: Account) -> _Use:
    core = seen.core(key, account) if "core" in seen.shared_of(key) else None
    return _Use(key, seen.uuid, core, account.held.used_bytes if account.held else None)


def _gauge(uses: Sequence[_Use], limit: PodLimit, values: dict[str, Value]) -> None:
    """Add core against the limited containers only; memory against the fullest device."""
    core, memory = whole([use.core for use in uses]), whole([use.memory for use in uses])
    if core is not None:
        values["core_usage_gpus"] = core
    if memory is not None:
        values["memory_used_bytes"] = memory
    if limit.core:
        limited = _held_against(uses, limit.keys)
        held = core if limited is uses else whole([use.core for use in limited])
        if held is not None:
            values["core_limit_utilization_ratio"] = held / limit.core
    if limit.memory:
        fullness = list(_fullness(uses, limit))
        if fullness:
            values["memory_limit_utilization_ratio"] = max(fullness)


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
