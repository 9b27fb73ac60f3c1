"""Rows of pods and namespaces: accounts of their own, gauges summed over devices."""

from collections.abc import Collection, Iterable, Sequence

from exporter.ledger.accounts import ENERGY, Account
from exporter.ledger.limits import Allotted, PodLimit
from exporter.ledger.view import BookView, View, counters, whole
from exporter.model import ContainerKey, Row, Value

_Part = tuple[BookView, ContainerKey, Account]
"""One container of a pod on one device."""
_Use = tuple[str, str, float | None, int | None]
"""A container, a device, and the core and the memory that it uses there now."""


def pod_rows(view: View) -> Iterable[Row]:
    """One row for each pod that has or had something to do with a GPU here."""
    parts: dict[tuple[str, str], list[_Part]] = {}
    for seen in view.books.values():
        for key, own in seen.book.owners.items():
            if isinstance(key, ContainerKey):
                parts.setdefault(key[:2], []).append((seen, key, own))
    any_blind = any(seen.blind for seen in view.books.values())
    pods, shown = view.facts.pods, view.facts.shown
    for name, account in view.ledger.pods.items():
        here = parts.get(name, ())
        blind = any_blind and _is_any_blind(view, name, here)
        values, live = _values(view, name, account, here)
        if blind or view.ledger.nameless:
            values = {}
        more = None
        if (pod := pods.get(name)) is not None:
            if blind or live:
                values["info"] = {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1}
            more = shown.get(pod.uid)
        yield Row(name, values, {"info": more}) if more else Row(name, values)


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


def _values(
    view: View, name: tuple[str, str], closed: Account, parts: Sequence[_Part]
) -> tuple[dict[str, Value], bool]:
    """What a pod used and uses, and whether it is there. ``closed`` has what its parts have not."""
    core, energy = closed.totals.core, closed.totals.energy
    active_unix_ns = closed.active_unix_ns or 0
    alive = []
    for part in parts:
        seen, _, own = part
        core += own.totals.core
        energy += own.totals.energy
        if own.active_unix_ns and own.active_unix_ns > active_unix_ns:
            active_unix_ns = own.active_unix_ns
        if seen.live(own):
            alive.append(part)
    live = bool(alive) or view.live(closed)
    limit, known = view.limits.of_pod(name), _known(view, alive or parts)
    values: dict[str, Value] = dict(limit.shown) if live else {}
    if "core" in known:
        values["core_seconds_total"] = core
    if ENERGY in known:
        values["energy_joules_total"] = energy
    allocated_ns = view.allocated(closed)
    if allocated_ns or limit.core is not None:
        values["allocated_core_seconds_total"] = allocated_ns
    if live:
        if active_unix_ns:
            values["last_active_timestamp_seconds"] = active_unix_ns
        _gauge(values, alive, limit)
    return values, live


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
    return frozenset.intersection(*[seen.told_of(key) for seen, key, _ in parts])


def _gauge(values: dict[str, Value], alive: Sequence[_Part], limit: PodLimit) -> None:
    """Add core against the limited containers only; memory against the fullest device."""
    uses: list[_Use] = []
    for seen, key, own in alive:
        if not seen.pending(key):
            held_bytes = own.held.used_bytes if own.held else None
            uses.append((key.container, seen.uuid, seen.core(key, own), held_bytes))
    core, memory = whole([core for _, _, core, _ in uses]), whole([held for _, _, _, held in uses])
    if core is not None:
        values["core_usage_gpus"] = core
    if memory is not None:
        values["memory_used_bytes"] = memory
    if limit.core:
        limited = _held_against(uses, limit.containers)
        held = core if limited is uses else whole([core for _, _, core, _ in limited])
        if held is not None:
            values["core_limit_utilization_ratio"] = held / limit.core
    fullness = []
    for device, containers, most in limit.memory:
        limited = _held_against([use for use in uses if use[1] == device], containers)
        held = whole([memory for _, _, _, memory in limited])
        if held is not None and most:
            fullness.append(held / most)
    if fullness:
        values["memory_limit_utilization_ratio"] = max(fullness)


def _held_against(uses: Sequence[_Use], limited: Collection[str]) -> Sequence[_Use]:
    """The use of containers with a limit; all of it where it or a limit is the pod's as a whole."""
    own = [use for use in uses if use[0] in limited]
    if len(own) == len(uses):
        return uses
    return uses if "" in limited or not all(container for container, *_ in uses) else own
