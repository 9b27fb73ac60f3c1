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

from exporter.model import Owner, Unattributed, Unexplained, Window

SCALE_CAP = 4


def apportion(total: int, weights: Mapping[Owner, int]) -> dict[Owner, int]:
    """Splits ``total`` by weight into integers that add up to it exactly; {} without weights."""
    whole = sum(weights.values())
    if not whole:
        return {}
    if total == whole:
        return dict(weights)
    shares: dict[Owner, int] = {}
    upto = begin = 0
    for owner, weight in weights.items():
        upto += weight
        end = total * upto // whole
        shares[owner] = end - begin
        begin = end
    return shares


class ReportedTime(NamedTuple):
    """What the driver reports of the processes in one window: busy ns of each engine, by owner."""

    core: Mapping[Owner, int]
    memory_active: Mapping[Owner, int]
    encoder: Mapping[Owner, int]
    decoder: Mapping[Owner, int]


class CoreShares(NamedTuple):
    """One window's core time by owner, and the reasons for the rest.

    ``shares`` None: the core is not measured.
    """

    shares: Mapping[Owner, int] | None
    unexplained: Mapping[Unexplained, int]


def reported_time(window: Window, owners: Mapping[int, Owner]) -> ReportedTime:
    """Sums the driver's figures over the processes of each owner."""
    core: dict[Owner, int] = {}
    memory_active: dict[Owner, int] = {}
    encoder: dict[Owner, int] = {}
    decoder: dict[Owner, int] = {}
    unknown = Unattributed.UNKNOWN_CGROUP
    for pid, (core_ns, memory_active_ns, encoder_ns, decoder_ns) in window.processes:
        owner = owners.get(pid, unknown)
        if core_ns:
            core[owner] = core.get(owner, 0) + core_ns
        if memory_active_ns:
            memory_active[owner] = memory_active.get(owner, 0) + memory_active_ns
        if encoder_ns:
            encoder[owner] = encoder.get(owner, 0) + encoder_ns
        if decoder_ns:
            decoder[owner] = decoder.get(owner, 0) + decoder_ns
    return ReportedTime(core, memory_active, encoder, decoder)


def share_averages(
    busy_ns: int | None, named: Mapping[Owner, int], window: Window
) -> Mapping[Owner, int] | None:
    """Busy ns by owner, of an engine other than the core; None if it is not measured.

    Time that no process explains goes to NO_PID.
    """
    if busy_ns is None:
        return None
    if not named:
        return {Unattributed.NO_PID: busy_ns} if busy_ns else {}
    shares = _explained(busy_ns, named, 1 if window.rejected else SCALE_CAP)
    return _with_no_process(shares, busy_ns - sum(shares.values()))


def share_core(window: Window, reported: ReportedTime) -> CoreShares:
    """Core time by owner: of the samples that name its processes, or by averages scaled up."""
    busy_ns, sampled = window.busy.core, window.per_sample
    if busy_ns is None:
        return CoreShares(None, {})
    shares = _explained(busy_ns, reported.core, 1 if sampled or window.rejected else SCALE_CAP)
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
