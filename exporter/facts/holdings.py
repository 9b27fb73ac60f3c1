"""What containers and groups have of each device.

When an owner ends, its gauges end at once, and its counters stay for a while. Of an owner whose
figures are withheld, only the reason is shown.
"""

from collections.abc import Iterator, Mapping

from exporter.facts.allocations import (
    allocated_time,
    allocation_of,
    last_granted,
    misplaced,
    unplaced_holdings,
    unplaced_reasons,
)
from exporter.facts.device_view import DeviceView
from exporter.facts.limits import NO_LIMIT
from exporter.facts.view import K, Part, View
from exporter.ledger.device_status import OWNED
from exporter.model import (
    NO_AVERAGES,
    NO_HELD_MEMORY,
    NO_WAITING,
    AllocationFacts,
    ContainerHolding,
    ContainerKey,
    GroupHolding,
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
    for part in view.containers:
        yield _container(view, part)
    yield from unplaced_holdings(view)


def _container(view: View, part: Part[ContainerKey]) -> ContainerHolding:
    """A container's use and allocation on one device.

    While the containers of a pod cannot be distinguished, its use is under "" and has no limits.
    """
    seen, key = part.seen, part.key
    limit = view.limits.of(key, seen.uuid)
    account = part.account if key.container else view.ledger.unplaced.get((key, seen.uuid))
    if seen.withheld or account is None:
        limit, account = NO_LIMIT, None
    allocation = allocation_of(limit, whole_pod=not key.container)
    there, shown = part.there, part.shown
    if shown and not allocation.granted:
        allocation = AllocationFacts(last_granted(view, key))
    return ContainerHolding(
        owner=key,
        index=seen.index,
        uuid=seen.uuid,
        ended=not (there or allocation.granted),
        used=part.used,
        average=part.average if shown else NO_AVERAGES,
        memory=part.memory if shown else NO_HELD_MEMORY,
        last_active_unix_ns=part.account.active_unix_ns if shown else None,
        since_unix_ns=part.account.since_unix_ns if shown else None,
        unmeasured=_unmeasured(part, unplaced_reasons(view, key, seen.uuid)) if there else NONE,
        allocation=allocation,
        allocated=allocated_time(
            view, account, limit.core, part.account.counters if "core" in part.known else None
        ),
        waiting=_waiting(part),
        misplaced=misplaced(view, key, seen) if part.live and not seen.withheld else None,
    )


def _waiting(part: Part[ContainerKey]) -> Waiting:
    """How long a container may have waited, and who ran instead; nothing where use is unknown."""
    if part.withheld or "core" not in part.known:
        return NO_WAITING
    by_owner = part.seen.device_ledger.waited.get(part.key, {})
    return Waiting(part.account.counters.waiting, by_owner)


def group_holdings(view: View) -> Iterator[GroupHolding]:
    """Each group on each device. Its names are shown as long as its counters."""
    for part in view.groups:
        there, shown, used = part.there, part.shown, part.used
        unlimited = UNNAMED if part.key.kind == "pod" else NONE
        has_any = there or any(amount is not None for amount in used)
        yield GroupHolding(
            owner=part.key,
            index=part.seen.index,
            uuid=part.seen.uuid,
            ended=not there,
            used=used,
            average=part.average if shown else NO_AVERAGES,
            memory=part.memory if shown else NO_HELD_MEMORY,
            last_active_unix_ns=part.account.active_unix_ns if shown else None,
            since_unix_ns=part.account.since_unix_ns if shown else None,
            unmeasured=_unmeasured(part, unlimited) if there else NONE,
            info=view.facts.groups.get(part.key) if has_any else None,
        )


def _unmeasured(part: Part[K], unlimited: Mapping[str, Unmeasured]) -> Mapping[str, Unmeasured]:
    """The unmeasured quantities of an owner that is there, with reasons.

    ``unlimited`` are limits that are not known.
    """
    seen, held = part.seen, part.account.held
    if part.withheld is not None:
        return {**_nothing(seen, part.withheld), **(NONE if seen.withheld else unlimited)}
    is_known = held is not None and held.used_bytes is not None
    memory = NONE if is_known else _memory_reason(seen, held, part.unattributable)
    return {**memory, **part.unattributable, **unlimited}


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
