"""Who is charged for the energy that a board uses without work: the operator's choice."""

from collections.abc import Iterable
from enum import StrEnum

from exporter.ledger import Allocated
from exporter.model import Owner, Unattributed

PARTS = 1_000_000  # of the whole device


class IdlePolicy(StrEnum):
    """The values of ``--energy.idle``."""

    UNATTRIBUTED = "unattributed"
    EQUAL = "equal"
    ALLOCATION = "allocation"


def idle_weights(
    policy: IdlePolicy, uuid: str, residents: Iterable[Owner], allocated: Iterable[Allocated]
) -> dict[Owner, int]:
    """How the idle energy of the device ``uuid`` is divided, for ``join.account``.

    Equal: each container and group among the residents, which hold a context on the device now, has
    the same part. Allocation: each container has its allocated share of the core there, at work or
    not, and none without one. The part that is not allocated stays unattributed. Where more than
    the whole is allocated, the parts are in proportion.
    """
    weights: dict[Owner, int] = {}
    if policy is IdlePolicy.EQUAL:
        weights = {owner: 1 for owner in residents if not isinstance(owner, Unattributed)}
    elif policy is IdlePolicy.ALLOCATION:
        for key, allocation in allocated:
            if allocation.device == uuid:
                weights[key] = weights.get(key, 0) + round((allocation.core or 0.0) * PARTS)
        weights[Unattributed.IDLE] = max(PARTS - sum(weights.values()), 0)
    return weights
