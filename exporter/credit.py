"""Credit: the core time that an owner may have used beyond what the samples that name it say.

Pure. A driver's sample names the process that it saw at an instant and tells how busy the device
was. A turn that ends before that instant leaves its sample without a name, and one that began late
in a sample leaves it part idle. On average the two are alike: as many whole samples as name a
process are just what it used. So the idle time within its samples is its credit, out of which it
is given a part of the time that no sample claims. The credit fades, so that it stays a measure of
lately, and it is all that can be given: a device that is busy for another reason makes nobody busy.
"""

from collections.abc import Mapping
from typing import NamedTuple

from exporter.model import Credit, Owner

FADING_NS = 300 * 10**9  # in which a credit fades to about a third
SILENCE_NS = 15 * 10**9  # who was not named for so long, which no ring lasts, has no credit left

NONE = Credit(0)


class Grant(NamedTuple):
    """The parts of some unclaimed time by owner, and the credit that is left."""

    parts: Mapping[Owner, int]
    credit: Mapping[Owner, Credit]


def carry(
    credit: Mapping[Owner, Credit], spare: Mapping[Owner, int], elapsed_ns: int
) -> dict[Owner, Credit]:
    """The credit after a window of this length in which these owners were named."""
    carried: dict[Owner, Credit] = {}
    faded_ns = FADING_NS + elapsed_ns
    for owner in {**credit, **spare}:
        spare_ns, silent_ns = credit.get(owner, NONE)
        left_ns = spare_ns * FADING_NS // faded_ns + spare.get(owner, 0)
        silent_ns = 0 if owner in spare else silent_ns + elapsed_ns
        if left_ns > 0 and silent_ns <= SILENCE_NS:
            carried[owner] = Credit(left_ns, silent_ns)
    return carried


def grant(unclaimed_ns: int, credit: Mapping[Owner, Credit]) -> Grant:
    """Give unclaimed time in proportion to the credits, to none more than it has."""
    if not unclaimed_ns:
        return Grant({}, credit)
    spare = {owner: left.spare_ns for owner, left in credit.items()}
    parts = apportion(min(unclaimed_ns, sum(spare.values())), spare)
    rest = {
        owner: Credit(spare_ns - parts.get(owner, 0), silent_ns)
        for owner, (spare_ns, silent_ns) in credit.items()
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
