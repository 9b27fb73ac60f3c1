"""What containers and groups have of each device, and what containers were allocated.

When an owner ends, its gauges end at once, and its counters stay for a while. Of an owner whose
figures are withheld, only the reason is shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exporter.agent.allocations.terms import MPS
from exporter.agent.facts.factsview import DeviceView, FactsView, K, OwnerView, Times
from exporter.agent.facts.shownlimits import NO_LIMIT, Limit
from exporter.agent.ledger.accounts import Account, Counters
from exporter.agent.ledger.device_status import OWNED
from exporter.model import (
    NEVER_ALLOCATED,
    NO_ALLOCATION,
    NO_AVERAGES,
    NO_HELD_MEMORY,
    NO_WAITING,
    NOTHING_USED,
    AllocatedTime,
    AllocationFacts,
    ContainerHolding,
    ContainerKey,
    Granted,
    GroupHolding,
    Unmeasured,
    Waiting,
)

NONE: Mapping[str, Unmeasured] = {}
UNNAMED = dict.fromkeys(("core_limit", "memory_limit"), Unmeasured.POD_UNKNOWN)


def container_holdings(view: FactsView) -> Iterator[ContainerHolding]:
    """Each container on each device, and each allocation without such use.

    A limit is shown on the device that the allocation names, use on the device where it was seen.
    Where the two differ, ``misplaced`` says so, and neither is moved to the other.
    """
    for owner in view.containers:
        yield _container(view, owner)
    yield from unplaced_holdings(view)
    # Of a pod whose allocations are not known, nothing else may be shown. So that it is not taken
    # for one without any, it has an entry with the reason.
    present = {owner.key.pod_name for owner in view.containers if not owner.ended}
    for name in view.facts.undecoded:
        key = ContainerKey(*name, "")
        if name not in present and (key, "") not in view.ledger.unplaced:
            yield ContainerHolding(owner=key, index=None, uuid="", unmeasured=_undecoded(view, key))


def _container(view: FactsView, owner: OwnerView[ContainerKey]) -> ContainerHolding:
    """A container's use and allocation on one device.

    While the containers of a pod cannot be distinguished, its use is under "" and has no limits.
    """
    device, key = owner.device, owner.key
    limit = view.limits.of_container(key, device.uuid)
    account: Account | None = owner.account
    times: Times | None = owner.times
    if not key.container:
        account = view.ledger.unplaced.get((key, device.uuid))
        times = view.times_of(account, device.uuid) if account else None
    if device.withheld or account is None:
        limit, account, times = NO_LIMIT, None, None
    unknown_limits = NONE if limit.allocations else unplaced_reasons(view, key, device.uuid)
    allocation = limit.sum if key.container else without_amounts(limit.sum)
    # While its use stands under its pod, what its own account left idle is not known.
    is_known = "core" in owner.known and owner.withheld is None
    held_against = owner.account if key.container else account
    # A pod that has ended has no allocation any more, and its last processes may still be listed.
    # What they were given is shown beside them.
    if owner.has_gauges and not allocation.granted:
        allocation = AllocationFacts(last_granted(view, key))
    memory = owner.memory if owner.has_gauges else NO_HELD_MEMORY
    ended = owner.ended and not allocation.granted
    # The limit of memory that the driver or the kernel enforces is the true one.
    if memory.cgroup is not None and memory.limit_bytes is not None:
        granted = (*allocation.granted, Granted(memory.cgroup.evidence, "enforced"))
        allocation = replace(allocation, memory_bytes=memory.limit_bytes, granted=granted)
    waited = device.device_ledger.waited.get(key, {})
    # Clients of MPS run at once: none waits for another.
    waits = is_known and MPS not in [granted.policy for granted in allocation.granted]
    average = owner.average if owner.has_gauges else NO_AVERAGES
    return ContainerHolding(
        owner=key,
        index=device.index,
        uuid=device.uuid,
        ended=ended,
        ended_core=owner.ended_core,
        used=owner.used,
        average=average if waits else average._replace(waiting=None),
        memory=memory,
        last_active_unix_ns=owner.account.active_unix_ns if owner.has_gauges else None,
        since_unix_ns=owner.account.since_unix_ns if owner.has_gauges else None,
        unmeasured=NONE if owner.ended else _unmeasured(owner, unknown_limits),
        jobs=view.facts.jobs.get((device.uuid, key), ()),
        allocation=allocation,
        allocated=allocated_time(
            times,
            limit.sum.core,
            held_against.counters if held_against and is_known else None,
        ),
        waiting=Waiting(owner.account.counters.waiting, waited) if waits else NO_WAITING,
        misplaced=misplaced(view, key, device) if owner.live and not device.withheld else None,
    )


def group_holdings(view: FactsView) -> Iterator[GroupHolding]:
    """Each group on each device. Its names are shown as long as its counters."""
    for owner in view.groups:
        # The pod of a group of this kind is not known, and so its limits are not either.
        unknown_limits = UNNAMED if owner.key.kind == "pod" else NONE
        has_any = not owner.ended or owner.used != NOTHING_USED
        yield GroupHolding(
            owner=owner.key,
            index=owner.device.index,
            uuid=owner.device.uuid,
            ended=owner.ended,
            ended_core=owner.ended_core,
            used=owner.used,
            average=owner.average if owner.has_gauges else NO_AVERAGES,
            memory=owner.memory if owner.has_gauges else NO_HELD_MEMORY,
            last_active_unix_ns=owner.account.active_unix_ns if owner.has_gauges else None,
            since_unix_ns=owner.account.since_unix_ns if owner.has_gauges else None,
            unmeasured=NONE if owner.ended else _unmeasured(owner, unknown_limits),
            jobs=view.facts.jobs.get((owner.device.uuid, owner.key), ()),
            info=view.facts.groups.get(owner.key) if has_any else None,
        )


def _unmeasured(
    owner: OwnerView[K], unknown_limits: Mapping[str, Unmeasured]
) -> Mapping[str, Unmeasured]:
    """The unmeasured quantities of an owner that has not ended, with reasons."""
    device: DeviceView = owner.device
    held = owner.account.held
    if owner.withheld is not None:
        # Only what the device has at all is withheld; the rest is missing for reasons of its own.
        lacking = [q for q in OWNED if q in {"core", "memory", *device.device_ledger.measured}]
        limits = NONE if device.withheld else unknown_limits
        return {**dict.fromkeys(lacking, owner.withheld), **limits}
    memory: Mapping[str, Unmeasured] = NONE
    if (held is None or held.used_bytes is None) and "memory" not in device.unattributable:
        reason = _memory_reason(owner)
        memory = {"memory": reason} if reason else NONE
    return {**memory, **owner.unattributable, **unknown_limits}


def _memory_reason(owner: OwnerView[K]) -> Unmeasured | None:
    """Why an owner's memory is not known, where the device itself gives no reason."""
    held = owner.account.held
    if held is None:
        return Unmeasured.READ_FAILED if owner.device.device_ledger.unlisted else None
    if held.is_rejected:
        return Unmeasured.REJECTED_SAMPLES
    is_unread = held.is_unread or owner.unattributable.get("core") is Unmeasured.READ_FAILED
    return Unmeasured.READ_FAILED if is_unread else Unmeasured.NOT_SUPPORTED


def without_amounts(allocation: AllocationFacts) -> AllocationFacts:
    """An allocation of a pod as a whole: use is not compared with it."""
    return replace(allocation, core=None, memory_bytes=None)


def last_granted(view: FactsView, key: ContainerKey) -> tuple[Granted, ...]:
    """What a container of an ended pod had been allocated: itself, or as a part of its pod."""
    own, whole = (view.ended.of_container(k, "").sum for k in (key, key.whole))
    return own.granted or whole.granted


def allocated_time(
    times: Times | None, core: float | None, counters: Counters | None = None
) -> AllocatedTime:
    """The allocated time; None if there never was an allocation, or none of core.

    ``counters`` have what of it was idle and borrowed; None where use is not known. Use on a device
    without an allocation there is borrowed from it, where the owner is allocated another.
    """
    borrowed_ns = counters.borrowed if counters and counters.borrowed else None
    if times is None:
        return AllocatedTime(borrowed_ns=borrowed_ns) if borrowed_ns else NEVER_ALLOCATED
    is_promised = bool(times.core_ns) or core is not None
    used = counters if is_promised else None
    return AllocatedTime(
        times.core_ns if is_promised else None,
        used.allocated_idle if used else None,
        used.borrowed if used else borrowed_ns,
        times.gpu_ns if times.gpu_ns or times.has_gpus else None,
    )


def misplaced(view: FactsView, key: ContainerKey, device: DeviceView) -> bool | None:
    """Whether a container is on a device that its allocation leaves out; None without any.

    An allocation of a card includes the instances that it is divided into.
    """
    allocated = view.limits.allocated_devices(key)
    if not allocated:
        return None
    itself = device.device_ledger.device
    return itself.uuid not in allocated and (itself.parent_uuid or itself.uuid) not in allocated


def _undecoded(view: FactsView, key: ContainerKey) -> dict[str, Unmeasured]:
    """The limits of a pod whose allocations are not known; none of another."""
    reason = view.facts.undecoded.get(key.pod_name)
    return dict.fromkeys(("core_limit", "memory_limit"), reason) if reason else {}


def unplaced_reasons(view: FactsView, key: ContainerKey, uuid: str) -> Mapping[str, Unmeasured]:
    """The limits of its pod that cannot be shown, of a container without one of its own."""
    if undecoded := _undecoded(view, key):
        return undecoded
    if not key.container:
        return NONE
    return _unplaced(view, view.limits.of_container(key.whole, uuid))


def unplaced_holdings(view: FactsView) -> Iterator[ContainerHolding]:
    """Each allocation whose container or device is unknown, where no use was seen."""
    unidentified = view.ledger.unidentified
    for (key, uuid), account in view.ledger.unplaced.items():
        device, limit = view.devices.get(uuid), view.limits.of_container(key, uuid)
        # Where use was seen, ``_container`` shows the allocation beside it.
        if uuid and (device is None or key in device.device_ledger.owners or device.withheld):
            continue
        is_withheld = not uuid and unidentified is not None
        allocation = NO_ALLOCATION if is_withheld else without_amounts(limit.sum)
        is_known = device is not None and "core" in device.attributable
        counters = account.counters if is_known else None
        times = None if is_withheld else view.times_of(account, uuid)
        allocated = allocated_time(times, limit.sum.core, counters)
        reasons = {} if uuid or key.container else _undecoded(view, key)
        if not uuid and key.container and limit.allocations:
            reasons |= _unplaced(view, limit)
            reasons |= dict.fromkeys(("core", "memory"), unidentified) if unidentified else {}
        if uuid or allocation.granted or allocated != NEVER_ALLOCATED or reasons:
            yield ContainerHolding(
                owner=key,
                index=device.index if device else None,
                uuid=uuid,
                ended=not (allocation.granted or reasons),
                allocation=allocation,
                allocated=allocated,
                unmeasured=reasons,
            )


def _unplaced(view: FactsView, limit: Limit) -> dict[str, Unmeasured]:
    """The limits that exist and cannot be shown; what was not promised is not one of them."""
    allocations, instances = limit.allocations, view.has_instances
    has = {
        # A whole MIG instance promises its share of the board, which is known once it is placed.
        "core_limit": any(
            a.core is not None or (instances and a.replicas is None) for a in allocations
        ),
        "memory_limit": any(a.memory_bytes is not None or a.core == 1 for a in allocations),
        "allocated_replicas": any(a.replicas is not None for a in allocations),
    }
    return {name: Unmeasured.PLACEMENT for name, is_promised in has.items() if is_promised}
