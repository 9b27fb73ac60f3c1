"""How far an annotation is trusted: one rule for all schemes that state amounts in an annotation.

A user who may change a pod may change its annotations. A container's limits cannot be changed once
the pod exists, and the scheduler counted them. So:

* An annotation counts only for containers whose limits hold a resource of its scheme.
* Where both state an amount and the amounts differ, the limits have priority and a problem is
  counted. The annotation still names the devices.
* Where only the limits state an amount, they are used.
* Where only the annotation states it (a default of the scheduler), the annotation is used.

A scheduler may divide an amount over several devices and leave a remainder, and it rounds when it
converts a percentage into bytes. Such differences are accepted.
"""

from collections.abc import Collection, Sequence

from exporter.agent.allocations.quantities import parse_quantity
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.terms import Reason
from exporter.model import Container

_WHOLE = 100  # per cent


def is_backed(reader: PodReader, container: Container, resources: Sequence[str], key: str) -> bool:
    """Whether a container's limits hold one of a scheme's resources.

    If not, the annotation ``key`` is rejected for it.
    """
    if asks_for(container, resources):
        return True
    detail = f"{container.name}: {key} without a limit on {resources[0]}"
    reader.reject(Reason.NOT_REQUESTED, detail)
    return False


def asks_for(container: Container, resources: Collection[str]) -> bool:
    """Whether a container's limits hold one of the resources, or beginnings of resources.

    A limit of 0 asks for nothing: a pod with it runs on every node.
    """
    beginnings = tuple(name for name in resources if name.endswith("/"))
    return any(
        (name in resources or name.startswith(beginnings)) and parse_quantity(text) != 0
        for name, text in container.limits.items()
    )


def agreed(
    reader: PodReader, stated: Sequence[Share], asked: Share, *, unit: int = 1, slack: int = 0
) -> list[Share]:
    """Return an annotation's shares, with the amounts of the limits where the two differ.

    ``stated`` has one share per device of one owner. ``asked`` is the total of its limits over all
    these devices: 0 if they ask for none, None if they do not state it. Memory is divided in units
    of ``unit`` bytes, and may differ by ``slack`` bytes.
    """
    shares, count = list(stated), len(stated)
    if asked.core is not None:
        core = sum(round(_WHOLE * (share.core or 0)) for share in shares)
        wanted = round(_WHOLE * asked.core)
        if not _agree(core, wanted, count):
            if core:
                detail = f"{core} % of core in the annotation, {wanted} % in the limits"
                reader.reject(Reason.LIMITS_DIFFER, detail)
            part = reader.core(wanted or None, count)
            shares = [share._replace(core=part) for share in shares]
    if asked.memory_bytes is not None:
        memory, wanted = sum(share.memory_bytes or 0 for share in shares), asked.memory_bytes
        if abs(memory - wanted) > slack and not _agree(memory // unit, wanted // unit, count):
            if memory:
                detail = f"{memory} bytes in the annotation, {wanted} in the limits"
                reader.reject(Reason.LIMITS_DIFFER, detail)
            size = reader.memory(wanted or None, 1, count)
            shares = [share._replace(memory_bytes=size) for share in shares]
    return shares


def _agree(total: int, asked: int, count: int) -> bool:
    """Whether a sum is the amount asked for, or that amount after an even division."""
    return total == asked or 0 < total == asked // count * count
