"""What containers and groups have of each device, and what containers were allocated.

When an owner ends, its gauges end at once, and its counters stay for a while. Of an owner whose
figures are withheld, only the reason is shown.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exporter.agent.facts.limits import NO_LIMIT, Limit
from exporter.agent.facts.view import DeviceView, K, OwnerView, View
from exporter.agent.ledger.accounts import Account, Counters
from exporter.agent.ledger.device_status import OWNED
from exporter.model import (
    NEVER_ALLOCATED,
    NO_ALLOCATION,
    NO_AVERAGES,
    NO_HELD_MEMORY,
    NO_WAITING,
    AllocatedTime,
    AllocationFacts,
    ContainerHolding,
    ContainerKey,
    Granted,
    GroupHolding,
    HeldMemory,
    MemoryHeld,
    Unmeasured,
    Waiting,
)

NONE: Mapping[str, Unmeasured] = {}
UNNAMED = dict.fromkeys(("core_limit", "memory_limit"), Unmeasured.POD_UNKNOWN)


def container_holdings(view: View) -> Iterator[ContainerHolding]:
    """Each container on each device, and each allocation without such use.

    A limit is shown on the device that the allocation names, use on the device where it was seen.
    Where the two differ, ``misplaced`` says so, and neither is moved to the other.
    """
    for owner in view.containers:
        yield _container(view, owner)
    yield from unplaced_holdings(view)
    yield from _undecoded_holdings(view)


def _container(view: View, owner: OwnerView[ContainerKey]) -> ContainerHolding:
    """A container's use and allocation on one device.

    While the containers of a pod cannot be distinguished, its use is under "" and has no limits.
    """
    seen, key = owner.seen, owner.key
    limit = view.limits.of_container(key, seen.uuid)
    account = owner.account if key.container else view.ledger.unplaced.get((key, seen.uuid))
    if seen.withheld or account is None:
        limit, account = NO_LIMIT, None
    unlimited = NONE if limit.allocations else unplaced_reasons(view, key, seen.uuid)
    allocation = limit.sum if key.container else without_amounts(limit.sum)
    there, shown = owner.there, owner.shown
    held_against = owner.account if key.container else account
    is_known = "core" in owner.known and owner.withheld is None  # else it is the whole pod's
    if shown and not allocation.granted:
        allocation = AllocationFacts(last_granted(view, key))
    memory = owner.memory if shown else NO_HELD_MEMORY
    return ContainerHolding(
        owner=key,
        index=seen.index,
        uuid=seen.uuid,
        ended=not (there or allocation.granted),
        ended_core=owner.ended_core,
        used=owner.used,
        average=owner.average if shown else NO_AVERAGES,
        memory=memory,
        last_active_unix_ns=owner.account.active_unix_ns if shown else None,
        since_unix_ns=owner.account.since_unix_ns if shown else None,
        unmeasured=_unmeasured(owner, unlimited) if there else NONE,
        allocation=_enforced(allocation, memory),
        allocated=allocated_time(
            view,
            account,
            limit.sum.core,
            held_against.counters if held_against and is_known else None,
        ),
        waiting=_waiting(owner),
        misplaced=misplaced(view, key, seen) if owner.live and not seen.withheld else None,
    )


def _enforced(allocation: AllocationFacts, memory: HeldMemory) -> AllocationFacts:
    """The allocation, with the limit of memory that the driver or the kernel enforces."""
    if memory.cgroup is None or memory.limit_bytes is None:
        return allocation
    granted = (*allocation.granted, Granted(memory.cgroup.evidence, "enforced"))
    return replace(allocation, memory_bytes=memory.limit_bytes, granted=granted)


def _waiting(owner: OwnerView[ContainerKey]) -> Waiting:
    """How long a container may have waited, and who ran instead; nothing where use is unknown."""
    if owner.withheld or "core" not in owner.known:
        return NO_WAITING
    by_owner = owner.seen.device_ledger.waited.get(owner.key, {})
    return Waiting(owner.account.counters.waiting, by_owner)


def group_holdings(view: View) -> Iterator[GroupHolding]:
    """Each group on each device. Its names are shown as long as its counters."""
    for owner in view.groups:
        there, shown, used = owner.there, owner.shown, owner.used
        unlimited = UNNAMED if owner.key.kind == "pod" else NONE
        has_any = there or any(amount is not None for amount in used)
        yield GroupHolding(
            owner=owner.key,
            index=owner.seen.index,
            uuid=owner.seen.uuid,
            ended=not there,
            ended_core=owner.ended_core,
            used=used,
            average=owner.average if shown else NO_AVERAGES,
            memory=owner.memory if shown else NO_HELD_MEMORY,
            last_active_unix_ns=owner.account.active_unix_ns if shown else None,
            since_unix_ns=owner.account.since_unix_ns if shown else None,
            unmeasured=_unmeasured(owner, unlimited) if there else NONE,
            info=view.facts.groups.get(owner.key) if has_any else None,
        )


def _unmeasured(
    owner: OwnerView[K], unlimited: Mapping[str, Unmeasured]
) -> Mapping[str, Unmeasured]:
    """The unmeasured quantities of an owner that is there, with reasons.

    ``unlimited`` are limits that are not known.
    """
    seen, held = owner.seen, owner.account.held
    if owner.withheld is not None:
        return {**_nothing(seen, owner.withheld), **(NONE if seen.withheld else unlimited)}
    is_known = held is not None and held.used_bytes is not None
    memory = NONE if is_known else _memory_reason(seen, held, owner.unattributable)
    return {**memory, **owner.unattributable, **unlimited}


def _nothing(seen: DeviceView, reason: Unmeasured) -> dict[str, Unmeasured]:
    """The reason for each quantity that the device has."""
    lacking = [q for q in OWNED if q in {"core", "memory", *seen.device_ledger.measured}]
    return dict.fromkeys(lacking, reason)


def _memory_reason(
    seen: DeviceView, held: MemoryHeld | None, unattributable: Mapping[str, Unmeasured]
) -> Mapping[str, Unmeasured]:
    """Why an owner's memory is unmeasured, where the device itself gives no reason."""
    if "memory" in seen.unattributable:
        return NONE
    if held is not None:
        if held.is_rejected:
            return {"memory": Unmeasured.REJECTED_SAMPLES}
        is_unread = unattributable.get("core") is Unmeasured.READ_FAILED
        return {"memory": Unmeasured.READ_FAILED if is_unread else Unmeasured.NOT_SUPPORTED}
    return {"memory": Unmeasured.READ_FAILED} if seen.device_ledger.unlisted else NONE


def without_amounts(allocation: AllocationFacts) -> AllocationFacts:
    """An allocation of a pod as a whole: use is not compared with it."""
    return replace(allocation, core=None, memory_bytes=None)


def last_granted(view: View, key: ContainerKey) -> tuple[Granted, ...]:
    """What a container of an ended pod had been allocated: itself, or as a part of its pod."""
    own, whole = (view.ended.of_container(k, "").sum for k in (key, key.whole))
    return own.granted or whole.granted


def allocated_time(
    view: View,
    account: Account | None,
    core: float | None,
    counters: Counters | None = None,
) -> AllocatedTime:
    """The time allocated until now; None if there never was an allocation, or none of core.

    ``counters`` have what of it was idle and borrowed; None where use is not known. Use on a device
    without an allocation there is borrowed from it, where the owner is allocated another.
    """
    borrowed_ns = counters.borrowed if counters and counters.borrowed else None
    if account is None:
        return AllocatedTime(borrowed_ns=borrowed_ns) if borrowed_ns else NEVER_ALLOCATED
    now_ns = view.facts.now.mono_ns
    core_ns, gpu_ns = account.allocated_core_ns(now_ns), account.gpus.at(now_ns)
    is_promised = bool(core_ns) or core is not None
    used = counters if is_promised else None
    return AllocatedTime(
        core_ns if is_promised else None,
        used.allocated_idle if used else None,
        used.borrowed if used else borrowed_ns,
        gpu_ns if gpu_ns or any(account.gpus.shares) else None,
    )


def misplaced(view: View, key: ContainerKey, seen: DeviceView) -> bool | None:
    """Whether a container is on a device that its allocation leaves out; None without any.

    An allocation of a card includes the instances that it is divided into.
    """
    allocated = view.limits.allocated_devices(key)
    if not allocated:
        return None
    device = seen.device_ledger.device
    return device.uuid not in allocated and (device.parent_uuid or device.uuid) not in allocated


def _undecoded(view: View, key: ContainerKey) -> dict[str, Unmeasured]:
    """The limits of a pod whose allocations are not known; none of another."""
    reason = view.facts.undecoded.get(key.pod_name)
    return dict.fromkeys(("core_limit", "memory_limit"), reason) if reason else {}


def _undecoded_holdings(view: View) -> Iterator[ContainerHolding]:
    """Each pod whose allocations are not known, where nothing else of it is shown."""
    there = {owner.key.pod_name for owner in view.containers if owner.there}
    for name in view.facts.undecoded:
        key = ContainerKey(*name, "")
        if name not in there and (key, "") not in view.ledger.unplaced:
            yield ContainerHolding(owner=key, index=None, uuid="", unmeasured=_undecoded(view, key))


def unplaced_reasons(view: View, key: ContainerKey, uuid: str) -> Mapping[str, Unmeasured]:
    """The limits of its pod that cannot be shown, of a container without one of its own."""
    if undecoded := _undecoded(view, key):
        return undecoded
    if not key.container:
        return NONE
    return _unplaced(view, view.limits.of_container(key.whole, uuid))


def unplaced_holdings(view: View) -> Iterator[ContainerHolding]:
    """Each allocation whose container or device is unknown, where no use was seen."""
    unidentified = view.ledger.unidentified
    for (key, uuid), account in view.ledger.unplaced.items():
        seen, limit = view.devices.get(uuid), view.limits.of_container(key, uuid)
        if uuid and (seen is None or key in seen.device_ledger.owners or seen.withheld):
            continue
        is_withheld = not uuid and unidentified is not None
        allocation = NO_ALLOCATION if is_withheld else without_amounts(limit.sum)
        is_known = seen is not None and "core" in seen.attributable
        counters = account.counters if is_known else None
        allocated = allocated_time(view, None if is_withheld else account, limit.sum.core, counters)
        reasons = {} if uuid or key.container else _undecoded(view, key)
        if not uuid and key.container and limit.allocations:
            reasons |= _unplaced(view, limit)
            reasons |= dict.fromkeys(("core", "memory"), unidentified) if unidentified else {}
        if uuid or allocation.granted or allocated != NEVER_ALLOCATED or reasons:
            yield ContainerHolding(
                owner=key,
                index=seen.index if seen else None,
                uuid=uuid,
                ended=not (allocation.granted or reasons),
                allocation=allocation,
                allocated=allocated,
                unmeasured=reasons,
            )


def _unplaced(view: View, limit: Limit) -> dict[str, Unmeasured]:
    """The limits that exist and cannot be shown; what was not promised is not one of them."""
    allocations, instances = limit.allocations, view.has_instances
    has = {
        # a whole MIG instance is known to promise its share once it is known
        "core_limit": any(
            a.core is not None or (instances and a.replicas is None) for a in allocations
        ),
        "memory_limit": any(a.memory_bytes is not None or a.core == 1 for a in allocations),
        "allocated_replicas": any(a.replicas is not None for a in allocations),
    }
    return {name: Unmeasured.PLACEMENT for name, there in has.items() if there}
