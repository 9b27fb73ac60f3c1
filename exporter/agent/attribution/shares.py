"""Divides the busy time of a device's window among owners. Pure.

If the window is attributed per sample, an owner has the time of the samples that name its
processes. Time that no sample names has no owner.

If the driver reports only averages of the processes, their sum is less than the busy time, because
the driver cuts each to whole percents (dcgm-exporter#107). They are then scaled up, at most to
``SCALE_CAP`` times, and not at all in a window with rejected rows. Without this limit, a process
that hardly works would be charged for all the busy time of a device whose other processes the
driver does not name.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import QUANTITIES, Owner, Unattributed, Unexplained, Window

SCALE_CAP = 4


def apportion(total: int, weights: Mapping[Owner, int]) -> dict[Owner, int]:
    """Splits ``total`` by weight into integers that add up to it exactly; {} without weights."""
    whole = sum(weights.values())
    if not whole:
        return {}
    if total == whole:
        return dict(weights)
    shares: dict[Owner, int] = {}
    # Each part ends where all parts up to it are to end. So roundings do not add up, and the parts
    # make the total to the last unit.
    upto = begin = 0
    for owner, weight in weights.items():
        upto += weight
        end = total * upto // whole
        shares[owner] = end - begin
        begin = end
    return shares


class CoreShares(NamedTuple):
    """One window's core time by owner, and the reasons for the rest.

    ``shares`` None: the core is not measured.
    """

    shares: Mapping[Owner, int] | None
    unexplained: Mapping[Unexplained, int]


def reported_time(window: Window, owners: Mapping[int, Owner]) -> Mapping[str, Mapping[Owner, int]]:
    """The busy ns of each engine by owner, summed over what the driver reports of processes."""
    found: dict[str, dict[Owner, int]] = {engine: {} for engine in QUANTITIES}
    columns = tuple(found.values())
    for pid, busy in window.processes:
        owner = owners.get(pid, Unattributed.UNKNOWN_CGROUP)
        for column, ns in zip(columns, busy, strict=True):
            if ns:
                column[owner] = column.get(owner, 0) + ns
    return found


def share_averages(
    busy_ns: int | None, named: Mapping[Owner, int], window: Window
) -> Mapping[Owner, int] | None:
    """Busy ns by owner, of an engine other than the core; None if it is not measured.

    Time that no process explains goes to NO_PID.
    """
    if busy_ns is None:
        return None
    if not named:  # as nearly always
        return {Unattributed.NO_PID: busy_ns} if busy_ns else {}
    shares = _explained(busy_ns, named, 1 if window.rejected else SCALE_CAP)
    return _with_no_process(shares, busy_ns - sum(shares.values()))


def share_core(window: Window, named: Mapping[Owner, int]) -> CoreShares:
    """Core time by owner: of the samples that name its processes, or by averages scaled up."""
    busy_ns, sampled = window.busy.core, window.per_sample
    if busy_ns is None:
        return CoreShares(None, {})
    # Samples are exact: what none of them names has no process. Averages lack up to a percent each,
    # and are scaled up; but not where rows were rejected, because the rest may be theirs.
    shares = _explained(busy_ns, named, 1 if sampled or window.rejected else SCALE_CAP)
    missing = busy_ns - sum(shares.values())
    if window.rejected:
        unexplained = {Unexplained.REJECTED_ROWS: missing}
    else:
        capped = missing if shares and not sampled else 0
        unexplained = {Unexplained.CAP: capped, Unexplained.NO_PROCESS: missing - capped}
    return CoreShares(_with_no_process(shares, missing), unexplained)


def _explained(busy_ns: int, named: Mapping[Owner, int], cap: int) -> dict[Owner, int]:
    """The part of the busy time that the driver's figures explain, at most ``cap`` times their sum.

    It is divided among the owners by these figures.
    """
    return apportion(min(busy_ns, sum(named.values()) * cap), named)


def _with_no_process(shares: dict[Owner, int], rest_ns: int) -> dict[Owner, int]:
    """The shares, with the rest as NO_PID's."""
    if rest_ns:
        shares[Unattributed.NO_PID] = shares.get(Unattributed.NO_PID, 0) + rest_ns
    return shares
