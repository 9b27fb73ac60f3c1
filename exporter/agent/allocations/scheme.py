"""The declaration of a sharing system."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from exporter.agent.allocations.reader import PodReader
from exporter.agent.allocations.terms import ENFORCED, SHARED, Evidence, IndexBasis
from exporter.model import Allocation, Grant, Pod, Said, Tie


def no_ties(_: Pod, __: Sequence[Grant]) -> Iterable[tuple[Tie, Said]]:
    """Return nothing: the pods of most systems depend on no other."""
    return ()


@dataclass(frozen=True, slots=True)
class Scheme:
    """A sharing system.

    ``name`` is the label value. ``resources`` are the extended resources that it reads; two schemes
    with a common resource never both count the same pod. ``annotations`` and ``labels`` are the
    keys, or beginnings of keys, of pods that its decoder needs. ``index_basis`` is None if it names
    no devices. ``read`` returns the allocations of a pod, none for one of another scheme.
    ``ties`` returns what a pod with these grants has in common with others, and what it says of
    that. The decoders of all pods with this tie read it. ``amounts`` and
    ``placement`` are the sources of amounts and devices. The first has priority; the others are
    used only for what it leaves open. ``placement`` is empty if no source names a device.
    ``enforcement`` says whether its own software holds a container to a part of a card, "" if that
    is not known; a decoder with better evidence states the policy itself. ``beginnings`` are the
    domains of all its keys, or keys without one: a pod that it knows has a limit, grant, annotation
    or label that begins so. A scheme without any may know every pod.
    """

    name: str
    resources: tuple[str, ...]
    annotations: tuple[str, ...]
    index_basis: IndexBasis | None
    read: Callable[[PodReader], Iterable[Allocation]]
    labels: tuple[str, ...] = ()
    ties: Callable[[Pod, Sequence[Grant]], Iterable[tuple[Tie, Said]]] = no_ties
    amounts: tuple[Evidence, ...] = (Evidence.LIMITS,)
    placement: tuple[Evidence, ...] = (Evidence.ANNOTATION,)
    enforcement: str = ENFORCED
    beginnings: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = (*self.resources, *self.annotations, *self.labels)
        domains = {domain + slash for domain, slash, _ in (key.partition("/") for key in keys)}
        object.__setattr__(self, "beginnings", tuple(sorted(domains)))

    def policy(self, allocation: Allocation) -> str:
        """Return the policy of an allocation of this system, by what it promises.

        The driver and the container's devices hold a container to a whole card or an instance.
        """
        if allocation.policy:
            return allocation.policy
        if allocation.core is None and allocation.memory_bytes is None:
            return SHARED if allocation.replicas is not None else ""
        return ENFORCED if allocation.core == 1 else self.enforcement
