"""The parts of a device's busy time in one window, by owner. Pure.

Core time: the samples that name its processes are an owner's part, and some of what no sample
claims is added within its credit. Where there are only the driver's averages, cut to whole percents
of samples that each name one process, their sum falls short of the busy time, and they are shares
of it within a cap (facts: dcgm-exporter#107). Either way a device that reports itself busy without
any process to show for it must not make an idle neighbour look busy.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.credit import apportion, carry, grant
from exporter.model import (
    Credit,
    Owner,
    ProcessActivity,
    Unattributed,
    Unexplained,
    Window,
)

SCALE_CAP = 4


class CoreShares(NamedTuple):
    """One window's core time by owner, why some has none, and the credit that is left."""

    shares: Mapping[Owner, int]
    unexplained: Mapping[Unexplained, int]
    credit: Mapping[Owner, Credit]


def share(quantity: str, window: Window, owners: Mapping[int, Owner]) -> dict[Owner, int] | None:
    """Busy ns of one quantity per owner; what no process explains goes to NO_PID."""
    busy: int | None = getattr(window.busy, quantity)
    if busy is None:
        return None
    return _complete(busy, _explained(busy, quantity, window, owners))


def share_core(
    window: Window, owners: Mapping[int, Owner], credit: Mapping[Owner, Credit]
) -> CoreShares | None:
    """Core time by owner, with what is granted out of the credits."""
    busy = window.busy.core
    if busy is None:
        return None
    sampled = window.told_apart
    shares = _explained(busy, "core", window, owners)
    missing = busy - sum(shares.values())
    unclaimed = min(window.unclaimed_ns, missing) if sampled and not window.rejected else 0
    length_ns = window.end_unix_ns - window.start_unix_ns
    credit = carry(credit, _spare(window, owners), length_ns)
    anyone = bool(shares or credit)
    parts, credit = grant(unclaimed, credit)
    given = sum(parts.values())
    missing -= given
    capped = (unclaimed - given if sampled else missing) if anyone else 0
    unexplained = {Unexplained.CAP: capped, Unexplained.NO_PROCESS: missing - capped}
    if window.rejected:
        unexplained = {Unexplained.REJECTED_ROWS: missing}
    both = {o: shares.get(o, 0) + parts.get(o, 0) for o in (*shares, *parts)}
    return CoreShares(_complete(busy, both), unexplained, credit)


def _spare(window: Window, owners: Mapping[int, Owner]) -> dict[Owner, int]:
    """Idle time within the samples that name an owner's processes; all who are named are there."""
    spare: dict[Owner, int] = {}
    for process in window.processes:
        if process.busy.core:
            owner = owners.get(process.pid, Unattributed.UNKNOWN_CGROUP)
            spare[owner] = spare.get(owner, 0) + process.spare_ns
    return spare


def _explained(
    busy: int, quantity: str, window: Window, owners: Mapping[int, Owner]
) -> dict[Owner, int]:
    """What the driver's figures explain of a busy time: averages are scaled up, samples are not."""
    named = _named(window.processes, quantity, owners)
    sampled = quantity == "core" and window.told_apart
    cap = 1 if sampled or window.rejected else SCALE_CAP
    return apportion(min(busy, sum(named.values()) * cap), named)


def _complete(busy: int, shares: Mapping[Owner, int]) -> dict[Owner, int]:
    """The shares with what no process explains, as NO_PID."""
    rest = busy - sum(shares.values())
    if not rest:
        return dict(shares)
    return {**shares, Unattributed.NO_PID: shares.get(Unattributed.NO_PID, 0) + rest}


def _named(
    processes: Sequence[ProcessActivity], quantity: str, owners: Mapping[int, Owner]
) -> dict[Owner, int]:
    named: dict[Owner, int] = {}
    for process in processes:
        busy = getattr(process.busy, quantity)
        if busy:
            owner = owners.get(process.pid, Unattributed.UNKNOWN_CGROUP)
            named[owner] = named.get(owner, 0) + busy
    return named
