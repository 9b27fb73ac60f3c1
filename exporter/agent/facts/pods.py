"""Facts of pods, namespaces and kinds of groups: their own counters, and gauges over devices."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.agent.facts.holdings import allocated_time, misplaced
from exporter.agent.facts.limits import NO_POD_LIMIT, PodLimit
from exporter.agent.facts.view import DeviceView, OwnerView, View, used
from exporter.agent.ledger.accounts import ENERGY, NOTHING, Account, Counters, sum_counters
from exporter.agent.ledger.device_ledger import OwnerKey
from exporter.model import (
    ContainerKey,
    GroupKey,
    GroupKindFacts,
    NamespaceFacts,
    Pod,
    PodFacts,
    PodInfo,
    PodName,
    Used,
    of_limit,
    whole,
)

Containers = Sequence[OwnerView[ContainerKey]]
NOTHING_KNOWN: frozenset[str] = frozenset()


class Tenant(NamedTuple):
    """A pod with its containers, each on a device.

    ``closed`` is the pod's own account, with the counters of closed accounts of containers;
    ``whole`` are the accounts of what it was allocated as a whole.
    ``alive`` are the containers that are there, ``using`` those of them whose use is known.
    """

    name: PodName
    closed: Account
    containers: Containers
    alive: Containers
    using: Containers
    limit: PodLimit
    whole: Sequence[Account]


def pod_facts(view: View) -> Iterator[PodFacts]:
    """Each pod with any account here."""
    containers: Mapping[PodName, list[OwnerView[ContainerKey]]] = defaultdict(list)
    for container in view.containers:
        containers[container.key.pod_name].append(container)
    whole_pods: Mapping[PodName, list[Account]] = defaultdict(list)
    for (key, _), account in view.ledger.unplaced.items():
        whole_pods[key.pod_name].append(account)
    for name, closed in view.ledger.pods.items():
        mine = containers.get(name, [])
        alive = [container for container in mine if container.live]
        using = [container for container in alive if not container.pending]
        limit, whole = view.limits.of_pod(name), whole_pods.get(name, ())
        yield _pod(view, Tenant(name, closed, mine, alive, using, limit, whole))


def _pod(view: View, tenant: Tenant) -> PodFacts:
    """The facts of a pod: core over limited containers only, memory on the fullest device."""
    live = bool(tenant.alive) or view.live(tenant.closed)
    stale = _is_stale(view, tenant)
    measured = not (stale or view.ledger.unidentified)
    known = _known(view, tenant) if measured else NOTHING_KNOWN
    shown = measured and live
    using, limit = (tenant.using, tenant.limit) if shown else ((), NO_POD_LIMIT)
    accounts = [tenant.closed, *[container.account for container in tenant.containers]]
    counters = sum_counters(*[account.counters for account in (*accounts, *tenant.whole)])
    active_unix_ns = max([account.active_unix_ns or 0 for account in accounts]) or None
    limited = _held_against(using, limit.core_containers)
    core_known = "core" in known
    pod = view.facts.pods.get(tenant.name) if live or stale else None
    return PodFacts(
        namespace=tenant.name[0],
        name=tenant.name[1],
        ended=not (live or stale),
        info=_info(view, pod) if pod else None,
        core=whole([container.average.core for container in using]),
        core_limit=limit.core,
        allocated_gpus=limit.gpus,
        core_of_limit=of_limit(
            whole([container.average.core for container in limited]), limit.core
        ),
        memory_bytes=whole([container.memory_bytes for container in using]),
        memory_limit_bytes=limit.memory_bytes,
        memory_of_limit=max(_fullnesses(view, using, limit), default=None),
        last_active_unix_ns=active_unix_ns if shown else None,
        used=Used(
            core_ns=counters.core if core_known else None,
            energy_uj=counters.energy if ENERGY in known else None,
        ),
        limited_core_ns=view.ledger.limited_core_ns.get(tenant.name) if core_known else None,
        allocated=allocated_time(
            view,
            tenant.closed if measured else None,
            tenant.limit.core,
            counters if core_known and tenant.limit.compared else None,
        ),
        unhealthy_devices=pod.unhealthy_devices if pod else None,
    )


def _info(view: View, pod: Pod) -> PodInfo:
    """The pod's identity, and the labels that it shows."""
    shown = view.facts.shown.get(pod.uid, {})
    return PodInfo(pod.uid, pod.qos, pod.owner_kind, pod.owner_name, shown)


def _known(view: View, tenant: Tenant) -> frozenset[str]:
    """The quantities known of a pod: on all its devices, or on any before it is placed."""
    containers = tenant.alive or tenant.containers
    if containers:
        return frozenset.intersection(*[container.known for container in containers])
    anywhere = [seen.attributable for seen in view.devices.values() if not seen.stale]
    return frozenset().union(*anywhere)


def _fullnesses(view: View, using: Containers, limit: PodLimit) -> Iterator[float]:
    """The memory of a pod's containers over their limit, on each device.

    Where one of them is on a device that it was not allocated, all that they hold over all limits
    counts too: its limit goes with it, and it would seem to hold nothing.
    """
    by_device: Mapping[str, list[OwnerView[ContainerKey]]] = defaultdict(list)
    for container in using:
        by_device[container.seen.uuid].append(container)
    for device, names, most in limit.memory_by_device:
        here = by_device.get(device, [])
        held = whole([container.memory_bytes for container in _held_against(here, names)])
        if held is not None and most:
            yield held / most
    if limit.memory_bytes and any(misplaced(view, each.key, each.seen) for each in using):
        names = {name for one in limit.memory_by_device for name in one.containers}
        held = whole([container.memory_bytes for container in _held_against(using, names)])
        if held is not None:
            yield held / limit.memory_bytes


def _held_against(containers: Containers, limited: Collection[str]) -> Containers:
    """The containers with a limit; all of them where a use or a limit is the whole pod's."""
    if "" in limited or "" in [container.key.container for container in containers]:
        return containers
    return [container for container in containers if container.key.container in limited]


def _is_stale(view: View, tenant: Tenant) -> bool:
    """Whether a pod is, or should be, on a device that cannot be read."""
    if not view.has_stale:
        return False
    allocated = {allocation.device for _, allocation in tenant.limit.allocated}
    return any(_is_on_stale(view, container, allocated) for container in tenant.containers) or any(
        (seen := view.devices.get(uuid or "")) is not None and seen.stale for uuid in allocated
    )


def _is_on_stale(
    view: View, container: OwnerView[ContainerKey], allocated: Collection[str | None]
) -> bool:
    """Whether a pod is, as far as is known, on a container's device that cannot be read.

    A pod that now has ``allocated`` devices, of which this is none, has left it: a StatefulSet's
    pod that was created again keeps its name. A pod that had its allocation while it was still seen
    here has not.
    """
    seen, key = container.seen, container.key
    if not seen.stale or not container.there:
        return False
    if not allocated or None in allocated or seen.uuid in allocated:
        return True
    tenure = view.ledger.tenures.get(key.pod_name)
    return tenure is not None and tenure.since_mono_ns <= seen.device_ledger.read_mono_ns


def namespace_facts(view: View) -> Iterator[NamespaceFacts]:
    """Each namespace on each device whose owners are measured.

    The core allocated to it is under the device "" while its device is unknown.
    """
    accounts = view.ledger.namespaces
    whole_pods: Mapping[tuple[str, str], list[Counters]] = defaultdict(list)
    for (key, uuid), account in view.ledger.unplaced.items():
        whole_pods[key.namespace, uuid].append(account.counters)
    for seen in view.devices.values():
        if not seen.withheld:
            for name, counters in seen.device_ledger.sums(ContainerKey).items():
                known, place = _attributable_in(seen, ContainerKey, name), (name, seen.uuid)
                of_all = sum_counters(counters, *whole_pods.get(place, ()))
                yield _namespace(view, place, accounts.get(place), of_all, known)
    if not view.ledger.unidentified:
        for place, account in accounts.items():
            if not place[1]:
                yield _namespace(view, place, account, NOTHING, frozenset())


def _namespace(
    view: View,
    place: tuple[str, str],
    account: Account | None,
    counters: Counters,
    known: frozenset[str],
) -> NamespaceFacts:
    core = 0.0 if account and any(account.cores.shares) else None
    allocated = allocated_time(view, account, core, counters if "core" in known else None)
    gpus = sum(account.gpus.shares) if account and any(account.gpus.shares) else None
    return NamespaceFacts(*place, used(counters, known), allocated, gpus)


def group_kind_facts(view: View) -> Iterator[GroupKindFacts]:
    """Each kind of group on each device whose owners are measured."""
    for seen in view.devices.values():
        if not seen.withheld:
            for kind, counters in seen.device_ledger.sums(GroupKey).items():
                known = _attributable_in(seen, GroupKey, kind)
                yield GroupKindFacts(kind, seen.uuid, used(counters, known))


def _attributable_in(seen: DeviceView, of: type[OwnerKey], name: str) -> frozenset[str]:
    """The quantities known of all owners of a namespace, or of a kind, that are on the device."""
    attributable, owners = seen.attributable, seen.device_ledger.owners
    for owner in seen.device_ledger.uncertain:
        if not isinstance(owner, of) or owner[0] != name:
            continue
        account = owners.get(owner)
        if account and seen.live(account):
            attributable = attributable.difference(seen.unattributable_of(owner))
    return attributable
