"""The declaration of a sharing system, and the result of decoding a pod."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import Allocation, Grant, Pod, Said, Tie

if TYPE_CHECKING:
    from exporter.agent.allocations.reader import PodReader

# The policy of an allocation of a part of a device, if its system has no other term for it.
SHARED = "shared"

# Whether anything holds a container to its allocation, as its policy if its system has no term for
# it. The third answer is SHARED: nothing is promised that could be held.
ENFORCED, UNENFORCED = "enforced", "unenforced"


class IndexBasis(StrEnum):
    """What names a scheme's device. NVML index, minor and PCI order differ on some nodes."""

    NVML_INDEX = "nvml_index"
    MINOR = "minor"  # the N of /dev/nvidiaN
    PCI = "pci"  # the place in the order of PCI addresses
    UUID = "uuid"  # or another id of its own, such as its PCI address


class Reason(StrEnum):
    """Why a part of a pod could not be read. A closed list: it becomes a label value."""

    BAD_QUANTITY = "bad_quantity"
    BAD_ANNOTATION = "bad_annotation"
    CORE_OUT_OF_RANGE = "core_out_of_range"
    MEMORY_OUT_OF_RANGE = "memory_out_of_range"
    TOO_MANY_DEVICES = "too_many_devices"
    TOO_MANY_ALLOCATIONS = "too_many_allocations"
    DUPLICATE_DEVICE = "duplicate_device"
    UNKNOWN_DEVICE = "unknown_device"
    PLACEMENT_MISMATCH = "placement_mismatch"
    CONTAINER_MISMATCH = "container_mismatch"
    UNKNOWN_REPLICAS = "unknown_replicas"
    UNKNOWN_POLICY = "unknown_policy"
    UNKNOWN_CLAIM = "unknown_claim"
    UNKNOWN_DRIVER = "unknown_driver"  # a claimed device that may be a GPU, and is none of these
    NOT_REQUESTED = "not_requested"  # an annotation without its scheme's resource in the limits
    GRANT_DIFFERS = "grant_differs"  # the kubelet granted another device than an annotation names
    LIMITS_DIFFER = "limits_differ"  # an annotation states other amounts than the limits
    UNPROVEN = "unproven"  # only the pod's owner says so
    NODE_UNKNOWN = "node_unknown"  # one cause for all pods: nothing is known of the node
    DECODER_ERROR = "decoder_error"


# Reasons for which an annotation counts as forged. Other schemes may then read the pod.
FORGED = frozenset({Reason.NOT_REQUESTED, Reason.UNPROVEN})


class Evidence(StrEnum):
    """Where a scheme reads amounts or devices from. The text is for the documents."""

    LIMITS = "the container's limits"
    ANNOTATION = "a pod annotation"
    GRANT = "the kubelet's PodResources"
    CLAIM = "the allocated ResourceClaim"
    RESERVATION = "the reservation pod in KAI's namespace"


class DecodeProblem(NamedTuple):
    """One thing that could not be read. ``pod`` is the API uid; ``detail`` is for the log only.

    With ``devices`` it is only suspected: it counts once ``container`` is seen on these alone.
    """

    pod: str
    scheme: str
    reason: Reason
    detail: str = ""
    container: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoded:
    """A pod's allocations, and the problems found while reading them.

    ``consumer`` is False for a scheme's own pod that holds devices for others. Then no other scheme
    may count them either.
    """

    allocations: tuple[Allocation, ...] = ()
    problems: tuple[DecodeProblem, ...] = ()
    consumer: bool = True


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
    read: Callable[["PodReader"], Iterable[Allocation]]
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
