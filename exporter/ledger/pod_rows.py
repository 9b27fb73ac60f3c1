"""Rows of pods, namespaces and kinds of groups: accounts of their own, gauges over devices."""

from collections.abc import Iterable, Mapping, Sequence

from exporter.ledger.accounts import ENERGY
from exporter.ledger.allotment_rows import allocated
from exporter.ledger.averages import OwnerKey
from exporter.ledger.book_view import BookView, CycleFacts, counters
from exporter.ledger.kept import Columns, by_name
from exporter.ledger.owners import of_limit, of_told, where
from exporter.ledger.pods import Name, Pods, summed
from exporter.ledger.view import View
from exporter.model import ContainerKey, GroupKey, Labelled, Row, Table


def pod_rows(view: View) -> Table:
    """One row for each pod that has or had something to do with a GPU here."""
    pods = Pods(view)
    columns = {**_counters(view, pods), **_gauges(pods)}
    facts, names = view.facts, pods.names
    infos, more = pods.kept.of(
        "info", (facts.pods, facts.shown, *names), lambda *_: _infos(facts, names)
    )
    there = [live or blind for live, blind in zip(pods.live, pods.blind, strict=True)]
    columns["info"] = where(there, infos)
    return Table(names, columns, {"info": more})


def _infos(
    facts: CycleFacts, names: Iterable[Name]
) -> tuple[Sequence[Labelled | None], Sequence[Mapping[str, str] | None]]:
    """What the pods are, as far as it is known, and the labels that they show."""
    pods = [facts.pods.get(name) for name in names]
    infos: list[Labelled | None] = [
        {(pod.uid, pod.qos, pod.owner_kind, pod.owner_name): 1} if pod else None for pod in pods
    ]
    return infos, [facts.shown.get(pod.uid) if pod else None for pod in pods]


def _counters(view: View, pods: Pods) -> Columns:
    columns: Columns = {}
    known = pods.known()
    for quantity, name in (("core", "core_seconds_total"), (ENERGY, "energy_joules_total")):
        columns[name] = where(pods.told, of_told(quantity, known, pods.used(quantity)))
    columns["allocated_core_seconds_total"] = where(
        pods.told, allocated(view, pods.closed, pods.limits)
    )
    return columns


def _gauges(pods: Pods) -> Columns:
    """Core against the limited containers only; memory against the fullest device."""
    kept, using, limits = pods.kept, pods.using, pods.limits
    cores, held = pods.owners.cores(), pods.owners.memory_bytes()
    core = summed(using, cores)
    limited = kept.of("limited", (using, *limits), lambda *_: pods.limited())
    limited_core = core if limited is using else summed(limited, cores)
    columns: Columns = {
        "core_usage_gpus": core,
        "memory_used_bytes": kept.of("held", (using, *held), lambda *_: summed(using, held)),
        "core_limit_utilization_ratio": list(
            map(of_limit, limited_core, [limit.core for limit in limits])
        ),
        "memory_limit_utilization_ratio": kept.of(
            "fullness", (using, *limits, *held), lambda *_: pods.fullness(held)
        ),
        "last_active_timestamp_seconds": pods.last_active(),
        **kept.of("shown", [limit.shown for limit in limits], by_name),
    }
    shown = [told and live for told, live in zip(pods.told, pods.live, strict=True)]
    return {name: where(shown, values) for name, values in columns.items()}


def namespace_rows(view: View) -> Iterable[Row]:
    """One row for each namespace on each device whose owners are measured."""
    return _sums(view, ContainerKey)


def group_kind_rows(view: View) -> Iterable[Row]:
    """One row for each kind of group on each device whose owners are measured."""
    return _sums(view, GroupKey)


def _sums(view: View, of: type[OwnerKey]) -> Iterable[Row]:
    for seen in view.books.values():
        if seen.hidden:
            continue
        for name, totals in seen.book.sums(of).items():
            yield Row((name, seen.uuid), counters(totals, _shared_in(seen, of, name)))


def _shared_in(seen: BookView, of: type[OwnerKey], name: str) -> frozenset[str]:
    """What is known of all owners of a namespace, or of a kind, on the device."""
    shared = seen.shared
    for owner in seen.book.doubts:
        if isinstance(owner, of) and owner[0] == name:
            shared = shared.difference(seen.unshared_of(owner))
    return shared
