"""The parts of a card's time, and who has them: pure.

The parts of one step add up to the time that the exporter counted in it, by either method:

- by allocation, an owner pays for what was kept for it, whether or not it used that. The rest of
  the card is nobody's. What was borrowed is not charged.
- by use, an owner pays for what it used and for its own idle part. What was borrowed is taken from
  what nobody had, then from the idle parts of the others.

Where allocations pass the whole card they are scaled to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

K = TypeVar("K")

ALLOCATION, USE = METHODS = ("allocation", "use")
BY = ("namespace", "pod", "owner", "label", "user", "account", "kind")  # who pays


class Part(StrEnum):
    """What became of a part of a card's time. A closed list."""

    __hash__ = str.__hash__  # an Enum's own is a step of Python in each look-up

    USED = "used"
    ALLOCATED_IDLE = "allocated_idle"
    UNALLOCATED = "unallocated"
    UNATTRIBUTED = "unattributed"
    UNOBSERVED = "unobserved"


class Payer(NamedTuple):
    """Who a part belongs to: a pod, or all of its owner or namespace; or a group, or all of a kind.

    A group has no namespace. Its kind stands as the owner's, its name as the owner, its id as the
    pod; what is not known is "". ``labels``: a pod's, by their names in Prometheus.
    """

    namespace: str = ""
    owner_kind: str = ""
    owner: str = ""
    pod: str = ""
    user: str = ""
    account: str = ""
    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def of(self, by: str) -> "Payer":
        """Who it is in a bill by ``by``: one of ``BY``, "label" as ``label:name``; all of it by "".

        A pod's owner is not shown by pod. A pod has no user and no account: its namespace pays. Of
        a group without one its kind does.
        """
        if not by:
            return self
        by, _, name = by.partition(":")
        if self.namespace:
            return self._of_pod(by, name)
        if by in {"owner", "label", "pod"}:
            return self._replace(user="", account="")
        charged = {"user": self.user, "account": self.account}.get(by, "")
        return Payer("", by, charged) if charged else Payer("", self.owner_kind)

    def _of_pod(self, by: str, name: str) -> "Payer":
        match by:
            case "kind":
                return PODS
            case "pod":
                return Payer(self.namespace, pod=self.pod)
            case "owner":
                return Payer(self.namespace, self.owner_kind, self.owner)
            case "label":
                value = dict(self.labels).get(name, "")
                return Payer(self.namespace, "label" if value else "", value)
            case _:
                return Payer(self.namespace)

    @property
    def kind(self) -> str:
        """What pays: a namespace, a pod, an owner or group by its kind, a user, nobody."""
        if self.namespace:
            return self.owner_kind or ("pod" if self.pod else "namespace")
        return self.owner_kind or "nobody"

    @property
    def name(self) -> str:
        """How people know it: of a group its name, if it has one."""
        if self == NOBODY:
            return "(nobody)"
        pod = self.pod if self.namespace or not self.owner else ""
        return "/".join(filter(None, (self.namespace, self.owner_kind, self.owner, pod)))


NOBODY, PODS = Payer(), Payer("", "pods")


@dataclass(slots=True)
class Had:
    """What one payer had of a card in one step, in seconds of the card.

    ``allocated`` is what was kept for it. ``used`` is None where it could not be measured.
    ``borrowed`` is the use beyond its share. ``allocatable``: whether it can have an allocation, as
    a namespace can and a kind of groups cannot.
    """

    allocated: float = 0.0
    used: float | None = None
    borrowed: float = 0.0
    allocatable: bool = True


@dataclass(slots=True)
class CardStep:
    """What the exporter counted of a card in one step, in seconds of the card."""

    had: dict[Payer, Had] = field(default_factory=dict)
    unallocated: float = 0.0
    overcommitted: float = 0.0
    unattributed: float = 0.0
    unobserved: float = 0.0

    @property
    def kept(self) -> float:
        """The time that was kept for somebody: allocations, no more than the card."""
        return max(0.0, sum(had.allocated for had in self.had.values()) - self.overcommitted)

    @property
    def total(self) -> float:
        """The time that was counted: it was allocated, or nobody had it."""
        return self.kept + self.unallocated

    @property
    def watched(self) -> float:
        """The part of that time in which use was known, 0 to 1."""
        total = self.total
        return max(0.0, 1 - self.unobserved / total) if total else 0.0


Parts = dict[tuple[Payer, Part], float]


def divide(step: CardStep, method: str) -> Parts:
    """The parts of one step, which add up to ``step.total``."""
    # A card is not sold twice: where more than all of it is allocated, all get less in proportion.
    allocated = sum([had.allocated for had in step.had.values()])
    scale = step.kept / allocated if step.overcommitted and allocated else 1.0
    kept = {payer: had.allocated * scale for payer, had in step.had.items()}
    return _by_allocation(step, kept) if method == ALLOCATION else _by_use(step, kept)


def _by_allocation(step: CardStep, kept: Mapping[Payer, float]) -> Parts:
    """Each owner pays for what was kept for it, used or not."""
    parts: Parts = {}
    others = {NOBODY: step.unattributed}
    watched = step.watched if step.unobserved else 1.0  # a sum over all of them
    for payer, had in step.had.items():
        mine, used = kept[payer], had.used
        # What is kept divides into use, idle time, and time in which use was not known. Use beyond
        # the share is not charged: somebody else's part, or nobody's, has it.
        within = idle = 0.0
        if used is not None:
            within = min(mine, max(0.0, used - had.borrowed))
            idle = max(0.0, mine * watched - within)
            if not had.allocatable:
                others[payer] = used
        if within:
            parts[payer, Part.USED] = within
        if idle:
            parts[payer, Part.ALLOCATED_IDLE] = idle
        _add(parts, payer, Part.UNOBSERVED, mine - within - idle)
    # Who cannot have an allocation pays for use of what nobody had.
    taken = _at_most(others, step.unallocated)
    for payer, seconds in taken.items():
        _add(parts, payer, Part.USED if payer != NOBODY else Part.UNATTRIBUTED, seconds)
    _add(parts, NOBODY, Part.UNALLOCATED, step.unallocated - sum(taken.values()))
    return parts


def _by_use(step: CardStep, kept: Mapping[Payer, float]) -> Parts:
    """Each owner pays for what it used, and for its own idle part as far as that is left."""
    parts: Parts = {}
    watched = step.watched
    observed = step.total * watched
    uses = {payer: had.used for payer, had in step.had.items() if had.used is not None}
    used = _at_most({**uses, NOBODY: step.unattributed}, observed)
    # Use comes first. What is left of the card is idle time: that of owners, and nobody's. Where
    # somebody borrowed, less is left than the owners' idle time, and all of them pay for less.
    rest = observed - sum(used.values())
    idle = {
        payer: max(0.0, kept[payer] * watched - max(0.0, uses[payer] - step.had[payer].borrowed))
        for payer in uses
    }
    # Of these it is not known whether they used or idled. What was kept for them is paid for all
    # the same, as time that was not observed.
    unknown = {payer: kept[payer] * watched for payer in step.had if payer not in uses}
    waste = _at_most(
        {
            (payer, known): seconds
            for known, many in ((True, idle), (False, unknown))
            for payer, seconds in many.items()
        },
        rest,
    )
    for payer, seconds in used.items():
        _add(parts, payer, Part.USED if payer != NOBODY else Part.UNATTRIBUTED, seconds)
    for (payer, known), seconds in waste.items():
        _add(parts, payer, Part.ALLOCATED_IDLE if known else Part.UNOBSERVED, seconds)
    _add(parts, NOBODY, Part.UNALLOCATED, rest - sum(waste.values()))
    _add(parts, NOBODY, Part.UNOBSERVED, step.total - observed)
    return parts


def _add(parts: Parts, payer: Payer, part: Part, seconds: float) -> None:
    if seconds > 0:
        parts[payer, part] = parts.get((payer, part), 0.0) + seconds


def _at_most(many: Mapping[K, float], most: float) -> dict[K, float]:
    """The same, scaled down where they add up to more than there is."""
    total, most = sum(many.values()), max(0.0, most)  # a rest of floats may be just below 0
    scale = most / total if total > most else 1.0
    return {key: value * scale for key, value in many.items()}
