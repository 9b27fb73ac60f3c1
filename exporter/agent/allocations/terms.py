"""The terms of all decoders, and the result of decoding a pod."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from exporter.model import Allocation

# The policy of an allocation of a part of a device, if its system has no other term for it.
SHARED = "shared"

# A part of the threads, by MPS: its clients run at once, so no share of time is promised.
MPS = "mps"

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
