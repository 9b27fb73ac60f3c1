"""Facts of pods, namespaces and kinds of groups: their own counters, and gauges over devices."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.agent.facts.factsview import DeviceView, FactsView, OwnerView, Times, used
from exporter.agent.facts.holdings import allocated_time, misplaced
from exporter.agent.facts.shownlimits import NO_POD_LIMIT, PodLimit
from exporter.agent.ledger.accounts import (
    ENERGY,
    NOTHING,
    Account,
    Counters,
    sum_counters,
)
from exporter.agent.ledger.device_ledger import OwnerKey
from exporter.model import (
    ContainerKey,
    Engines,
    GroupKey,
    GroupKindFacts,
    NamespaceFacts,
    PodFacts,
    PodInfo,
    PodName,
    Used,
    of_limit,
    sum_of_all,
)

Containers = Sequence[OwnerView[ContainerKey]]
NOTHING_KNOWN: frozenset[str] = frozenset()


class PodTenant(NamedTuple):
    """A pod with its containers, each on a device.

    ``closed`` is the pod's own account, with the counters of closed accounts of containers;
    ``whole`` are the accounts of what it was allocated as a whole.
    ``live`` are the containers that are, ``using`` those of them whose use is their own.
    """

    name: PodName
    closed: Account
    containers: Containers
    live: Containers
    using: Containers
    limit: PodLimit
    whole: Sequence[tuple[str, Account]]  # and their devices


def pod_facts(view: FactsView) -> Iterator[PodFacts]:
    """Each pod with any account here."""
    containers: Mapping[PodName, list[OwnerView[ContainerKey]]] = defaultdict(list)
    for container in view.containers:
        containers[container.key.pod_name].append(container)
    whole_pods: Mapping[PodName, list[tuple[str, Account]]] = defaultdict(list)
    for (key, uuid), account in view.ledger.unplaced.items():
        whole_pods[key.pod_name].append((uuid, account))
    for name, closed in view.ledger.pods.items():
        mine = containers.get(name, [])
        live = [container for container in mine if container.live]
        # Use that may be a container's and stands under the pod is counted there, once.
        using = [container for container in live if not container.under_pod]
        limit, whole = view.limits.of_pod(name), whole_pods.get(name, ())
        yield _pod(view, PodTenant(name, closed, mine, live, using, limit, whole))


def _pod(view: FactsView, tenant: PodTenant) -> PodFacts:
    """The facts of a pod: core over limited containers only, memory on the fullest device."""
    live = bool(tenant.live) or view.live(tenant.closed)
    stale = _is_stale(view, tenant)
    measured = not (stale or view.ledger.unidentified)
    # A counter of a pod is a sum, which is known if all its parts are. Before it is on any device,
    # it is known from 0 on if its first use can be.
    containers, known = tenant.live or tenant.containers, NOTHING_KNOWN
    if measured and containers:
        known = frozenset.intersection(*[container.known for container in containers])
    elif measured:
        anywhere = [device.attributable for device in view.devices.values() if not device.stale]
        known = NOTHING_KNOWN.union(*anywhere)
    has_gauges = measured and live
    using, limit = (tenant.using, tenant.limit) if has_gauges else ((), NO_POD_LIMIT)
    accounts = [tenant.closed, *[container.account for container in tenant.containers]]
    whole = [account for _, account in tenant.whole]
    counters = sum_counters(*[account.counters for account in (*accounts, *whole)])
    active_unix_ns = max([account.active_unix_ns or 0 for account in accounts]) or None
    limited = _held_against(using, limit.core_containers)
    core_known = "core" in known
    pod, info = view.facts.pods.get(tenant.name) if live or stale else None, None
    if pod is not None:
        labels = view.facts.shown.get(pod.uid, {})
        info = PodInfo(pod.uid, pod.qos, pod.owner_kind, pod.owner_name, labels)
    return PodFacts(
        namespace=tenant.name[0],
        name=tenant.name[1],
        ended=not (live or stale),
        info=info,
        core=sum_of_all([container.average.core for container in using]),
        core_limit=limit.core,
        allocated_gpus=limit.gpus,
        core_of_limit=of_limit(
            sum_of_all([container.average.core for container in limited]), limit.core
        ),
        memory_bytes=sum_of_all([container.memory_bytes for container in using]),
        memory_limit_bytes=limit.memory_bytes,
        memory_of_limit=max(_fullnesses(view, using, limit), default=None),
        last_active_unix_ns=active_unix_ns if has_gauges else None,
        used=Used(
            Engines(counters.core if core_known else None),
            counters.energy if ENERGY in known else None,
        ),
        limited_core_ns=view.ledger.limited_core_ns.get(tenant.name) if core_known else None,
        allocated=allocated_time(
            _times(view, tenant) if measured else None,
            tenant.limit.core,
            counters if core_known and tenant.limit.compared else None,
        ),
        unhealthy_devices=pod.unhealthy_devices if pod else None,
    )


def _times(view: FactsView, tenant: PodTenant) -> Times:
    """What was allocated to a pod: to its closed parts, and to the others until their moments."""
    cores_ns, gpus_ns, has_gpus = tenant.closed.cores.before_ns, tenant.closed.gpus.before_ns, False
    parts = [container.times for container in tenant.containers]
    for times in (*parts, *[view.times_of(account, uuid) for uuid, account in tenant.whole]):
        cores_ns, gpus_ns = cores_ns + times.core_ns, gpus_ns + times.gpu_ns
        has_gpus |= times.has_gpus
    return Times(cores_ns, gpus_ns, has_gpus)


def _fullnesses(view: FactsView, using: Containers, limit: PodLimit) -> Iterator[float]:
    """The memory of a pod's containers over their limit, on each device."""
    by_device: Mapping[str, list[OwnerView[ContainerKey]]] = defaultdict(list)
    for container in using:
        by_device[container.device.uuid].append(container)
    for device, names, most in limit.memory_by_device:
        here = by_device.get(device, [])
        held = sum_of_all([container.memory_bytes for container in _held_against(here, names)])
        if held is not None and most:
            yield held / most
    # Where one of them is on a device that it was not allocated, it would seem to hold nothing of
    # its limit. So all that they hold over all limits counts too.
    if limit.memory_bytes and any(misplaced(view, each.key, each.device) for each in using):
        names = {name for one in limit.memory_by_device for name in one.containers}
        held = sum_of_all([container.memory_bytes for container in _held_against(using, names)])
        if held is not None:
            yield held / limit.memory_bytes


def _held_against(containers: Containers, limited: Collection[str]) -> Containers:
    """The containers with a limit; all of them where a use or a limit is the whole pod's."""
    if "" in limited or "" in [container.key.container for container in containers]:
        return containers
    return [container for container in containers if container.key.container in limited]


def _is_stale(view: FactsView, tenant: PodTenant) -> bool:
    """Whether a pod is, or should be, on a device that cannot be read."""
    if not view.has_stale:
        return False
    allocated = {allocation.device for _, allocation in tenant.limit.allocated}
    is_unknown = not allocated or None in allocated
    tenure = view.ledger.tenures.get(tenant.name)
    for container in tenant.containers:
        device = container.device
        if not device.stale or container.ended:
            continue
        # A pod that now has other devices has left this one: a StatefulSet's pod that was created
        # again keeps its name. A pod that had its allocation while it was still seen here has not.
        came_before = (
            tenure is not None and tenure.since_mono_ns <= device.device_ledger.read_mono_ns
        )
        if is_unknown or device.uuid in allocated or came_before:
            return True
    devices = [view.devices.get(uuid or "") for uuid in allocated]
    return any(device is not None and bool(device.stale) for device in devices)


def namespace_facts(view: FactsView) -> Iterator[NamespaceFacts]:
    """Each namespace on each device whose owners are measured.

    The core allocated to it is under the device "" while its device is unknown.
    """
    accounts = view.ledger.namespaces
    whole_pods: Mapping[tuple[str, str], list[Counters]] = defaultdict(list)
    for (key, uuid), account in view.ledger.unplaced.items():
        whole_pods[key.namespace, uuid].append(account.counters)
    for device in view.devices.values():
        if not device.withheld:
            for name, counters in device.device_ledger.sums(ContainerKey).items():
                known, place = _attributable_in(device, ContainerKey, name), (name, device.uuid)
                of_all = sum_counters(counters, *whole_pods.get(place, ()))
                yield _namespace(view, place, accounts.get(place), of_all, known)
    if not view.ledger.unidentified:
        for place, account in accounts.items():
            if not place[1]:
                yield _namespace(view, place, account, NOTHING, frozenset())


def _namespace(
    view: FactsView,
    place: tuple[str, str],
    account: Account | None,
    counters: Counters,
    known: frozenset[str],
) -> NamespaceFacts:
    core = 0.0 if account and any(account.cores.shares) else None
    times = view.times_of(account, place[1]) if account else None
    allocated = allocated_time(times, core, counters if "core" in known else None)
    gpus = sum(account.gpus.shares) if account and any(account.gpus.shares) else None
    return NamespaceFacts(*place, used(counters, known), allocated, gpus)


def group_kind_facts(view: FactsView) -> Iterator[GroupKindFacts]:
    """Each kind of group on each device whose owners are measured."""
    for device in view.devices.values():
        if not device.withheld:
            for kind, counters in device.device_ledger.sums(GroupKey).items():
                known = _attributable_in(device, GroupKey, kind)
                yield GroupKindFacts(kind, device.uuid, used(counters, known))


def _attributable_in(device: DeviceView, of: type[OwnerKey], name: str) -> frozenset[str]:
    """The quantities known of all owners of a namespace, or of a kind, that are on the device."""
    attributable, owners = device.attributable, device.device_ledger.owners
    for owner in device.device_ledger.uncertain:
        if not isinstance(owner, of) or owner[0] != name:
            continue
        account = owners.get(owner)
        if account and device.live(account):
            attributable = attributable.difference(device.unattributable_of(owner))
    return attributable
