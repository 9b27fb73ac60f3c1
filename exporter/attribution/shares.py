"""The parts of a device's busy time in one window, by owner. Pure.

Core time: the samples that name its processes are an owner's part, and some of what no sample
claims is added within its credit. Where there are only the driver's averages, cut to whole percents
of samples that each name one process, their sum falls short of the busy time, and they are shares
of it within a cap (facts: dcgm-exporter#107). Either way a device that reports itself busy without
any process to show for it must not make an idle neighbour look busy.

Credit: the core time that an owner may have used beyond what the samples that name it say.

Pure. A driver's sample names the process that it saw at an instant and tells how busy the device
was. A turn that ends before that instant leaves its sample without a name, and one that began late
in a sample leaves it part idle. On average the two are alike: as many whole samples as name a
process are just what it used. So the idle time within its samples is its credit, out of which it
is given a part of the time that no sample claims. The credit fades, so that it stays a measure of
lately, and it is all that can be given: a device that is busy for another reason makes nobody busy.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import IdleCredit, Owner, Unattributed, Unexplained, Window

FADING_NS = 300 * 10**9  # in which a credit fades to about a third
SILENCE_NS = 15 * 10**9  # who was not named for so long, which no ring lasts, has no credit left

NONE = IdleCredit(0)


class Grant(NamedTuple):
    """The parts of some unclaimed time by owner, and the credit that is left."""

    parts: Mapping[Owner, int]
    credit: Mapping[Owner, IdleCredit]


def carry(
    credit: Mapping[Owner, IdleCredit], spare: Mapping[Owner, int], elapsed_ns: int
) -> dict[Owner, IdleCredit]:
    """The credit after a window of this length in which these owners were named."""
    carried: dict[Owner, IdleCredit] = {}
    faded_ns = FADING_NS + elapsed_ns
    for owner in {**credit, **spare}:
        credit_ns, silent_ns = credit.get(owner, NONE)
        left_ns = credit_ns * FADING_NS // faded_ns + spare.get(owner, 0)
        silent_ns = 0 if owner in spare else silent_ns + elapsed_ns
        if left_ns > 0 and silent_ns <= SILENCE_NS:
            carried[owner] = IdleCredit(left_ns, silent_ns)
    return carried


def grant(unclaimed_ns: int, credit: Mapping[Owner, IdleCredit]) -> Grant:
    """Give unclaimed time in proportion to the credits, to none more than it has."""
    if not unclaimed_ns:
        return Grant({}, credit)
    spare = {owner: left.credit_ns for owner, left in credit.items()}
    parts = apportion(min(unclaimed_ns, sum(spare.values())), spare)
    rest = {
        owner: IdleCredit(credit_ns - parts.get(owner, 0), silent_ns)
        for owner, (credit_ns, silent_ns) in credit.items()
    }
    return Grant({owner: part for owner, part in parts.items() if part}, rest)


def apportion(total: int, weights: Mapping[Owner, int]) -> dict[Owner, int]:
    """Split ``total`` by weight into integers that add up to it exactly; {} without weights."""
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


class Named(NamedTuple):
    """What the driver credits owners with in one window: ns of each engine, of those who have any.

    ``spare`` is the idle time within the samples that name an owner's processes, of all who have
    core time.
    """

    core: Mapping[Owner, int]
    memory_active: Mapping[Owner, int]
    encoder: Mapping[Owner, int]
    decoder: Mapping[Owner, int]
    spare: Mapping[Owner, int]


class CoreShares(NamedTuple):
    """One window's core time by owner, why some has none, and the credit that is left.

    ``shares`` None: the core is not measured.
    """

    shares: Mapping[Owner, int] | None
    unexplained: Mapping[Unexplained, int]
    credit: Mapping[Owner, IdleCredit]


def named_in(window: Window, owners: Mapping[int, Owner]) -> Named:
    """Add up what the driver credits each owner's processes with."""
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
    return Named(core, memory_active, encoder, decoder, spare)


def share_averages(
    busy_ns: int | None, named: Mapping[Owner, int], window: Window
) -> Mapping[Owner, int] | None:
    """Busy ns of any engine but the core per owner; what no process explains goes to NO_PID."""
    if busy_ns is None:
        return None
    if not named:
        return {Unattributed.NO_PID: busy_ns} if busy_ns else {}
    shares = _explained(busy_ns, named, 1 if window.rejected else SCALE_CAP)
    return _with_nobody(shares, busy_ns - sum(shares.values()))


def share_core(window: Window, named: Named, credit: Mapping[Owner, IdleCredit]) -> CoreShares:
    """Core time by owner, with what is granted out of the credits."""
    busy_ns, sampled = window.busy.core, window.per_sample
    if busy_ns is None:
        return CoreShares(None, {}, credit)
    shares = _explained(busy_ns, named.core, 1 if sampled or window.rejected else SCALE_CAP)
    missing = busy_ns - sum(shares.values())
    unclaimed = min(window.unclaimed_ns, missing) if sampled and not window.rejected else 0
    credit = carry(credit, named.spare, window.end_unix_ns - window.start_unix_ns)
    anyone = bool(shares or credit)
    parts, credit = grant(unclaimed, credit)
    for owner, part in parts.items():
        shares[owner] = shares.get(owner, 0) + part
        missing, unclaimed = missing - part, unclaimed - part
    if window.rejected:
        unexplained = {Unexplained.REJECTED_ROWS: missing}
    else:
        capped = (unclaimed if sampled else missing) if anyone else 0
        unexplained = {Unexplained.CAP: capped, Unexplained.NO_PROCESS: missing - capped}
    return CoreShares(_with_nobody(shares, missing), unexplained, credit)


def _explained(busy_ns: int, named: Mapping[Owner, int], cap: int) -> dict[Owner, int]:
    """What the driver's figures explain of a busy time: averages are scaled up, samples are not."""
    return apportion(min(busy_ns, sum(named.values()) * cap), named)


def _with_nobody(shares: dict[Owner, int], rest_ns: int) -> dict[Owner, int]:
    """The shares with what no process explains, as NO_PID."""
    if rest_ns:
        shares[Unattributed.NO_PID] = shares.get(Unattributed.NO_PID, 0) + rest_ns
    return shares
