"""Divides the busy time of a device's window among owners. Pure.

Where attribution is per sample, an owner's part is the samples that name its processes, and some
of the time that no sample claims, within its idle credit. Where the driver reports only averages,
cut to whole percents of samples that each name one process, their sum falls short of the busy
time: they are scaled up within a cap (facts: dcgm-exporter#107). Either way a device that is busy
without any process to show for it must not make an idle neighbour look busy.

Idle credit is the core time that an owner may have used beyond the samples that name it. A sample
names the process that the driver saw at an instant, with the busy share of the time since the
sample before. A turn that ends before that instant leaves its sample without a name; a turn that
begins late in a sample leaves that sample part idle. On average the two are equal: the whole
samples that name a process are what it used. So the idle time within its samples is its credit,
and unclaimed time is given out of it. Credit decays, so that it stays a measure of the last
minutes. Nothing beyond it is given: a device that is busy for another reason makes no owner busy.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import IdleCredit, Owner, Unattributed, Unexplained, Window

FADING_NS = 300 * 10**9  # in which a credit decays to about a third
SILENCE_NS = 15 * 10**9  # longer than any ring: an owner not named for so long has no credit left

NONE = IdleCredit(0)


class CreditShares(NamedTuple):
    """The parts of unclaimed time by owner, and the credit that is left."""

    parts: Mapping[Owner, int]
    credit: Mapping[Owner, IdleCredit]


def decay(
    credit: Mapping[Owner, IdleCredit], spare: Mapping[Owner, int], elapsed_ns: int
) -> dict[Owner, IdleCredit]:
    """The idle credit after a window of this length; ``spare``: idle time in samples, by owner."""
    decayed: dict[Owner, IdleCredit] = {}
    faded_ns = FADING_NS + elapsed_ns
    for owner in {**credit, **spare}:
        credit_ns, silent_ns = credit.get(owner, NONE)
        left_ns = credit_ns * FADING_NS // faded_ns + spare.get(owner, 0)
        silent_ns = 0 if owner in spare else silent_ns + elapsed_ns
        if left_ns > 0 and silent_ns <= SILENCE_NS:
            decayed[owner] = IdleCredit(left_ns, silent_ns)
    return decayed


def spend_credit(unclaimed_ns: int, credit: Mapping[Owner, IdleCredit]) -> CreditShares:
    """Divides unclaimed time in proportion to the credits; no owner gets more than its credit."""
    if not unclaimed_ns:
        return CreditShares({}, credit)
    spare = {owner: left.credit_ns for owner, left in credit.items()}
    parts = apportion(min(unclaimed_ns, sum(spare.values())), spare)
    rest = {
        owner: IdleCredit(credit_ns - parts.get(owner, 0), silent_ns)
        for owner, (credit_ns, silent_ns) in credit.items()
    }
    return CreditShares({owner: part for owner, part in parts.items() if part}, rest)


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


SCALE_CAP = 4


class ReportedTime(NamedTuple):
    """The busy time that the driver reports in one window: ns of each engine, by owner.

    ``spare`` is the idle time within the samples that name an owner's processes. It has all owners
    with core time.
    """

    core: Mapping[Owner, int]
    memory_active: Mapping[Owner, int]
    encoder: Mapping[Owner, int]
    decoder: Mapping[Owner, int]
    spare: Mapping[Owner, int]


class CoreShares(NamedTuple):
    """One window's core time by owner, the reasons for the rest, and the credit left.

    ``shares`` None: the core is not measured.
    """

    shares: Mapping[Owner, int] | None
    unexplained: Mapping[Unexplained, int]
    credit: Mapping[Owner, IdleCredit]


def reported_time(window: Window, owners: Mapping[int, Owner]) -> ReportedTime:
    """Sums the driver's figures over the processes of each owner."""
    core: dict[Owner, int] = {}
    memory_active: dict[Owner, int] = {}
    encoder: dict[Owner, int] = {}
    decoder: dict[Owner, int] = {}
    spare: dict[Owner, int] = {}
    unknown = Unattributed.UNKNOWN_CGROUP
    for pid, busy, idle_in_samples_ns in window.processes:
        core_ns, memory_active_ns, encoder_ns, decoder_ns = busy
        owner = owners.get(pid, unknown)
        if core_ns:
            core[owner] = core.get(owner, 0) + core_ns
            spare[owner] = spare.get(owner, 0) + idle_in_samples_ns
        if memory_active_ns:
            memory_active[owner] = memory_active.get(owner, 0) + memory_active_ns
        if encoder_ns:
            encoder[owner] = encoder.get(owner, 0) + encoder_ns
        if decoder_ns:
            decoder[owner] = decoder.get(owner, 0) + decoder_ns
    return ReportedTime(core, memory_active, encoder, decoder, spare)


def share_averages(
    busy_ns: int | None, named: Mapping[Owner, int], window: Window
) -> Mapping[Owner, int] | None:
    """Busy ns by owner, of any engine but the core. What no process explains goes to NO_PID."""
    if busy_ns is None:
        return None
    if not named:
        return {Unattributed.NO_PID: busy_ns} if busy_ns else {}
    shares = _explained(busy_ns, named, 1 if window.rejected else SCALE_CAP)
    return _with_no_process(shares, busy_ns - sum(shares.values()))


def share_core(
    window: Window, reported: ReportedTime, credit: Mapping[Owner, IdleCredit]
) -> CoreShares:
    """Core time by owner, with what is given out of idle credit."""
    busy_ns, sampled = window.busy.core, window.per_sample
    if busy_ns is None:
        return CoreShares(None, {}, credit)
    shares = _explained(busy_ns, reported.core, 1 if sampled or window.rejected else SCALE_CAP)
    missing = busy_ns - sum(shares.values())
    unclaimed = min(window.unclaimed_ns, missing) if sampled and not window.rejected else 0
    credit = decay(credit, reported.spare, window.end_unix_ns - window.start_unix_ns)
    anyone = bool(shares or credit)
    parts, credit = spend_credit(unclaimed, credit)
    for owner, part in parts.items():
        shares[owner] = shares.get(owner, 0) + part
        missing, unclaimed = missing - part, unclaimed - part
    if window.rejected:
        unexplained = {Unexplained.REJECTED_ROWS: missing}
    else:
        capped = (unclaimed if sampled else missing) if anyone else 0
        unexplained = {Unexplained.CAP: capped, Unexplained.NO_PROCESS: missing - capped}
    return CoreShares(_with_no_process(shares, missing), unexplained, credit)


def _explained(busy_ns: int, named: Mapping[Owner, int], cap: int) -> dict[Owner, int]:
    """The part of a busy time that the driver's figures explain, by owner, scaled up to ``cap``."""
    return apportion(min(busy_ns, sum(named.values()) * cap), named)


def _with_no_process(shares: dict[Owner, int], rest_ns: int) -> dict[Owner, int]:
    """The shares with what no process explains, as NO_PID."""
    if rest_ns:
        shares[Unattributed.NO_PID] = shares.get(Unattributed.NO_PID, 0) + rest_ns
    return shares
