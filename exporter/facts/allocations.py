"""What containers were allocated: amounts, time, placement, and allocations without any use."""

from collections.abc import Iterator, Mapping

from exporter.facts.device_view import DeviceView
from exporter.facts.limits import Limit
from exporter.facts.view import View
from exporter.ledger.accounts import Account, Counters
from exporter.model import (
    NEVER_ALLOCATED,
    NO_ALLOCATION,
    AllocatedTime,
    AllocationFacts,
    ContainerHolding,
    ContainerKey,
    Granted,
    Unmeasured,
)


def allocation_of(limit: Limit, *, whole_pod: bool) -> AllocationFacts:
    """What a container was allocated; without amounts if use is not compared with them."""
    if not limit.allocations:
        return NO_ALLOCATION
    if whole_pod:
        return AllocationFacts(limit.granted, replicas=limit.replicas, gpus=limit.gpus)
    return AllocationFacts(
        limit.granted, limit.core, limit.memory_bytes, limit.replicas, limit.gpus
    )


def last_granted(view: View, key: ContainerKey) -> tuple[Granted, ...]:
    """What a container of an ended pod had been allocated: itself, or as a part of its pod."""
    return view.ended.of(key, "").granted or view.ended.of(key._replace(container=""), "").granted


def allocated_time(
    view: View,
    account: Account | None,
    core: float | None,
    counters: Counters | None = None,
) -> AllocatedTime:
    """The time allocated until now; None if there never was an allocation, or none of core.

    ``counters`` have what of it was idle and borrowed; None where use is not known.
    """
    if account is None:
        return NEVER_ALLOCATED
    now_ns = view.facts.now.mono_ns
    core_ns, gpu_ns = account.allocated_core_ns(now_ns), account.gpus.at(now_ns)
    is_promised = bool(core_ns) or core is not None
    used = counters if is_promised else None
    return AllocatedTime(
        core_ns if is_promised else None,
        used.allocated_idle if used else None,
        used.borrowed if used else None,
        gpu_ns if gpu_ns or any(account.gpus.shares) else None,
    )


def misplaced(view: View, key: ContainerKey, seen: DeviceView) -> bool | None:
    """Whether a container is on a device that its allocation leaves out; None without any.

    An allocation of a card includes the instances that it is divided into.
    """
    allocated = view.limits.devices_of(key)
    if not allocated:
        return None
    device = seen.device_ledger.device
    return device.uuid not in allocated and (device.parent_uuid or device.uuid) not in allocated


def unplaced_reasons(view: View, key: ContainerKey, uuid: str) -> Mapping[str, Unmeasured]:
    """The limits of a container's pod that cannot be shown, where it has none of its own."""
    if not key.container or view.limits.of(key, uuid).allocations:
        return {}
    return _unplaced(view, view.limits.of(key._replace(container=""), uuid))


def unplaced_holdings(view: View) -> Iterator[ContainerHolding]:
    """Each allocation whose container or device is unknown, where no use was seen."""
    unidentified = view.ledger.unidentified
    for (key, uuid), account in view.ledger.unplaced.items():
        seen, limit = view.devices.get(uuid), view.limits.of(key, uuid)
        if uuid and (seen is None or key in seen.device_ledger.owners or seen.withheld):
            continue
        is_withheld = not uuid and unidentified is not None
        allocation = NO_ALLOCATION if is_withheld else allocation_of(limit, whole_pod=True)
        allocated = allocated_time(view, None if is_withheld else account, limit.core)
        reasons: dict[str, Unmeasured] = {}
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
