"""Whom the energy is charged to that a board uses without work: the operator's choice. Pure."""

from collections.abc import Iterable
from enum import StrEnum

from exporter.ledger import Allotted
from exporter.model import Owner, Unattributed

PARTS = 1_000_000  # of the whole device


class IdlePolicy(StrEnum):
    """The values of ``--energy.idle``."""

    UNATTRIBUTED = "unattributed"
    EQUAL = "equal"
    ALLOTMENT = "allotment"


def idle_weights(
    policy: IdlePolicy, uuid: str, residents: Iterable[Owner], allotted: Iterable[Allotted]
) -> dict[Owner, int]:
    """How the idle energy of the device ``uuid`` is shared out, for ``attribution.account``.

    Equal: each container and group among the residents, which hold a context on the device now,
    has the same part. Allotment: each container has the part of the core that it was allotted
    there, at work or not, and one without a core allotment has none; what is not allotted stays
    unattributed, and where more than the whole is allotted the parts are in proportion to it.
    """
    weights: dict[Owner, int] = {}
    if policy is IdlePolicy.EQUAL:
        weights = {owner: 1 for owner in residents if not isinstance(owner, Unattributed)}
    elif policy is IdlePolicy.ALLOTMENT:
        for key, allocation in allotted:
            if allocation.device == uuid:
                weights[key] = weights.get(key, 0) + round((allocation.core or 0.0) * PARTS)
        weights[Unattributed.IDLE] = max(PARTS - sum(weights.values()), 0)
    return weights
