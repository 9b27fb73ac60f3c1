"""Marks: what is wrong with a thing now, in words for people, from its facts. Pure.

They stand beside the thing itself, on the page and in the terminal. They are no alerts: nothing is
averaged, waits or is sent to anybody. The rules for Prometheus are in ``rules/``::

    device_marks(device, snapshot.unix_ns, earlier)
    holding_marks(holding)
    pod_marks(pod_of_a_tree)
    waiting_marks(device_of_a_tree)  # of all that is on it, by owner

The worst mark comes first.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from exporter.model import (
    ContainerHolding,
    ContainerKey,
    DeviceFacts,
    DeviceState,
    GroupHolding,
    GroupKey,
    XidCount,
)
from exporter.model.alerts import HARDWARE, NEAR_LIMIT, OVER_SHARE, XID_S, codes, lost, what_to_do
from exporter.shown.tree import DeviceEntry, PodEntry
from exporter.shown.words import gib

THROTTLED = 0.1  # of the time since the facts before
_HEAT_AND_SUPPLY = ("hw_thermal", "sw_thermal", "hw_power_brake")  # a power cap is nothing odd
FULL = 0.95  # of a device's core
SOME, MOSTLY = 0.1, 0.5  # of the time, or of a share
_HARDWARE_XIDS = frozenset(map(str, codes(HARDWARE)))
_BAD_ROWS = {
    "failed": "a bad row of its memory could not be replaced: exchange it",
    "pending": "a bad row of its memory is replaced at the next reset",
}


MAKE_ROOM = "move one of the two to another card, or set a policy of fixed shares"
FEWER = "take a card with fewer others, or a system that promises shares"
"""What to do about waiting, where a share of the core is promised and where none is."""


class MarkKind(StrEnum):
    """The kinds of marks. The value is the mark in few words."""

    LOST = "lost"
    UNREADABLE = "unreadable"
    XID = "hardware fault"
    BAD_MEMORY = "bad memory"
    RECOVERY = "needs a reset"
    THROTTLED = "throttled"
    UNHEALTHY = "unhealthy device"
    MISPLACED = "not where it was allocated"
    UNASKED = "did not ask for it"
    OVER_SHARE = "over its share"
    WAITING = "waits for others"
    CROWDS = "others wait for it"
    NEAR_MEMORY_LIMIT = "near its memory limit"
    BORROWS_MEMORY = "borrows memory"


_SEVERE = {MarkKind.LOST, MarkKind.XID, MarkKind.RECOVERY}


class Mark(NamedTuple):
    """One mark. ``detail`` is a sentence for whoever asks."""

    kind: MarkKind
    detail: str

    @property
    def is_severe(self) -> bool:
        """Whether the device cannot be used until somebody does something."""
        return self.kind in _SEVERE


class Earlier(NamedTuple):
    """A device at an earlier moment."""

    device: DeviceFacts
    unix_ns: int


def device_marks(
    device: DeviceFacts, unix_ns: int, earlier: Earlier | None = None
) -> tuple[Mark, ...]:
    """The marks of a device at this time. Without ``earlier`` it is never ``THROTTLED``."""
    return (*_faults(device, unix_ns), *_throttled(device, unix_ns, earlier))


def _faults(device: DeviceFacts, unix_ns: int) -> Iterator[Mark]:
    if device.state is DeviceState.LOST:
        said = lost(device.device.vendor, last_fault(device.xids or {}))
        # A MIG instance has no XIDs of its own: by its vendor alone its remedy would be another one
        # than that of its GPU, which is lost with it.
        is_instance = device.device.parent_uuid and device.device.vendor == "nvidia"
        yield Mark(
            MarkKind.LOST, "it is lost with its GPU, which has what to do" if is_instance else said
        )
    elif device.state not in {DeviceState.UP, DeviceState.RELEASED}:
        yield Mark(MarkKind.UNREADABLE, f"it cannot be read: {device.state}")
    if device.is_unhealthy:
        yield Mark(MarkKind.UNHEALTHY, "the kubelet says so: its device plugin has withdrawn it")
    # The XIDs of a lost device are said with that: its cause lasts as long as it does.
    xids = {} if device.state is DeviceState.LOST else device.xids or {}
    for xid, count in xids.items():
        last_ns = count.last_unix_ns
        if xid in _HARDWARE_XIDS and last_ns is not None and unix_ns - last_ns < XID_S * 10**9:
            yield Mark(MarkKind.XID, f"XID {xid}: {what_to_do(int(xid))}")
    if device.sensors.value("recovery_action"):
        yield Mark(MarkKind.RECOVERY, "the driver says that it needs a reset or a restart")
    for state, is_so in device.sensors.by_label("row_remapping").items():
        if is_so and state in _BAD_ROWS:
            yield Mark(MarkKind.BAD_MEMORY, _BAD_ROWS[state])
    if device.sensors.value("retired_pages_pending"):
        yield Mark(MarkKind.BAD_MEMORY, "a bad page of its memory is retired at the next reset")


def last_fault(xids: Mapping[str, XidCount]) -> int | None:
    """The newest XID for which a device must be reset, or its node restarted; None: none came."""
    times = {
        int(xid): count.last_unix_ns
        for xid, count in xids.items()
        if xid in _HARDWARE_XIDS and count.last_unix_ns is not None
    }
    return max(times, key=lambda xid: times[xid], default=None)


def _throttled(device: DeviceFacts, unix_ns: int, earlier: Earlier | None) -> Iterator[Mark]:
    """Whether heat or supply held its clocks down for a part of the time since then."""
    if earlier is None or unix_ns <= earlier.unix_ns:
        return
    before = earlier.device.sensors.by_label("throttle_seconds_total")
    least_ns = THROTTLED * (unix_ns - earlier.unix_ns)
    now = device.sensors.by_label("throttle_seconds_total")
    # A board that was lost begins to count again. A reason that is new has no time before, and none
    # since then.
    reasons = [
        reason
        for reason in _HEAT_AND_SUPPLY
        if now.get(reason, 0) - before.get(reason, now.get(reason, 0)) > least_ns
    ]
    if reasons:
        yield Mark(MarkKind.THROTTLED, f"its clocks are held down by {', '.join(reasons)}")


def holding_marks(holding: ContainerHolding | GroupHolding) -> tuple[Mark, ...]:
    """The marks of a container on a device by its own allocation; of a group by its cgroup."""
    found: list[Mark] = []
    if isinstance(holding, ContainerHolding):
        if holding.misplaced:
            said = "its processes are on a device that it was not allocated"
            found.append(Mark(MarkKind.MISPLACED, said))
        core = None if holding.allocation.may_borrow else holding.core_of_limit
        found += _limits(core, holding.memory_of_limit)
    # Where nothing is kept for anybody, nobody was promised any, and nothing can be lost.
    kept, borrowed = holding.memory.guaranteed_bytes, holding.memory.borrowed_bytes
    if kept and borrowed:
        said = f"it holds {gib(borrowed)} beyond the {gib(kept)} kept for it"
        found.append(Mark(MarkKind.BORROWS_MEMORY, f"{said}, and may lose it to others"))
    return tuple(found)


class _Runner(NamedTuple):
    """Who ran on a device, by name, and how much of it."""

    name: str
    core: float


def waiting_marks(device: DeviceEntry) -> Mapping[ContainerKey | GroupKey, Mark]:
    """The marks of who waits on a full device, and of who ran most meanwhile, by owner."""
    # On a device that is not full nobody has to wait: who seems to is pausing.
    if device.facts is None or (device.facts.average.core or 0) < FULL:
        return {}
    # All that may have run on it. None: what the reader may not see, as one sum.
    runners: dict[ContainerKey | GroupKey | None, _Runner] = {
        held.owner: _Runner("/".join(held.owner.pod_name), held.average.core or 0.0)
        for held in _containers(device)
    }
    for group in device.groups:
        info, owner, average = group.holding.info, group.holding.owner, group.holding.average
        name = (info.name if info else "") or owner.group
        runners[owner] = _Runner(f"{owner.kind} {name}", average.core or 0.0)
    if device.others is not None and device.others.core:
        runners[None] = _Runner("others", device.others.core)
    found: dict[ContainerKey | GroupKey, Mark] = {}
    waited_for: dict[ContainerKey | GroupKey, list[str]] = {}
    for held in _containers(device):
        if not _waits(held):
            continue
        # Waiting is divided by what the others ran, so it is most for the one that ran most.
        others = {owner: each for owner, each in runners.items() if owner != held.owner}
        most = max(others, key=lambda owner: others[owner].core, default=None)
        said = f"it waits up to {held.average.waiting or 0:.0%} of the time"
        said += f", most for {others[most].name}" if most in others else ""
        said += f". To do: {FEWER if held.allocation.core is None else MAKE_ROOM}"
        found[held.owner] = Mark(MarkKind.WAITING, said)
        if most is not None:
            waited_for.setdefault(most, []).append(runners[held.owner].name)
    # One that waits itself is no culprit, whoever waits for it.
    for culprit, victims in waited_for.items():
        if culprit not in found:
            more = f" and {len(victims) - 1} more" if victims[1:] else ""
            found[culprit] = Mark(MarkKind.CROWDS, f"waiting most for it: {victims[0]}{more}")
    return found


def _containers(device: DeviceEntry) -> list[ContainerHolding]:
    return [each.holding for pod in device.pods for each in pod.containers]


def _waits(holding: ContainerHolding) -> bool:
    """Whether it waits on a full device."""
    # A program that pauses by itself has a pressure, too. So there must be a second sign: that it
    # does not get its share; without a share, that it waits mostly.
    pressure, share = holding.average.waiting, holding.core_of_limit
    if pressure is None:
        return False
    return pressure > MOSTLY if share is None else pressure > SOME and share < 1 - SOME


def pod_marks(entry: PodEntry) -> tuple[Mark, ...]:
    """The marks of a pod over all its devices. One that may borrow is never ``OVER_SHARE``."""
    pod, found = entry.facts, list[Mark]()
    if pod is None:
        return ()
    if count := pod.unhealthy_devices:
        said = f"the kubelet says that {count:.0f} of its devices {'is' if count == 1 else 'are'}"
        words = f"{said} unhealthy: kubectl describe pod names them"
        found.append(Mark(MarkKind.UNHEALTHY, words))
    # As MgpuGpuUsedWithoutAllocation: nothing limits what no allocation is known of. An allocation
    # of a lost device has no amount.
    is_allocated = entry.is_allocated or pod.allocated_gpus is not None
    if not is_allocated and not pod.ended and (pod.core or pod.memory_bytes):
        said = "it uses a GPU and was allocated none: nothing limits it"
        found.append(Mark(MarkKind.UNASKED, said))
    core = None if entry.may_borrow else pod.core_of_limit
    return (*found, *_limits(core, pod.memory_of_limit))


def _limits(core: float | None, memory: float | None) -> Iterator[Mark]:
    """The marks of use over limits."""
    if core is not None and core > OVER_SHARE:
        yield Mark(MarkKind.OVER_SHARE, f"it uses {core:.0%} of its share of the core")
    if memory is not None and memory > NEAR_LIMIT:
        yield Mark(MarkKind.NEAR_MEMORY_LIMIT, f"it holds {memory:.0%} of its memory")
