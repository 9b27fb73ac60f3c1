"""What the API server and the kubelet say: pods, allocations, the node's facts, and clients."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.model.devices import Device

MEMORY_REQUEST, MEMORY_LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"
"""The variables of a container's environment that NVIDIA's toolkit sets memory limits by."""


class ClaimRef(NamedTuple):
    """The part of a ResourceClaim of its pod's namespace that a container takes.

    ``request`` "" is all of the claim. ``resource``: the extended resource that the claim stands
    for (``status.extendedResourceClaimStatus``), "" where the pod names the claim itself.
    """

    claim: str
    request: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod. ``kind`` is one of app, init, sidecar, ephemeral.

    ``container_ids`` holds the bare 64-hex ids without their runtime: the current one first, then
    the one before the last restart. ``memory_hook``: a library of the host is loaded into each of
    its processes, and a ConfigMap sets the memory limit that HAMi-core enforces. ``uncontrolled``:
    its environment asks that HAMi-core is not loaded into it. ``environment`` has those of the two
    variables above that are written in the pod itself.
    """

    name: str
    kind: str = "app"
    container_ids: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)  # extended resources only
    claims: tuple[ClaimRef, ...] = ()
    memory_hook: bool = False
    uncontrolled: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pod:
    """The part of a pod that is kept. ``uid`` is the API's, ``static_hash`` the kubelet's own.

    ``acknowledged``: the kubelet has accepted it (``status.startTime``), with its devices.
    ``unhealthy_devices``: how many of them, GPUs or not, the kubelet says are unhealthy; None if it
    says of none how it is. ``unhealthy``: their ids; a device plugin's are mostly UUIDs.
    """

    uid: str
    namespace: str
    name: str
    phase: str = ""
    qos: str = ""
    static_hash: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    deleted: bool = False
    containers: tuple[Container, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    acknowledged: bool = False
    unhealthy_devices: int | None = None
    unhealthy: tuple[str, ...] = ()

    @property
    def terminal(self) -> bool:
        """Whether all containers have ended for good: such a pod holds no device any more."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class PodTable:
    """The pods of this node, as last read. ``version`` rises with each change."""

    version: int = 0
    pods: Mapping[str, Pod] = field(default_factory=dict)  # by API uid
    by_kubelet_uid: Mapping[str, str] = field(default_factory=dict)  # uid or static hash → API uid
    by_container_id: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # → uid, container


class Grant(NamedTuple):
    """Device ids that the kubelet says a container holds (PodResources)."""

    container: str
    resource: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """One device of an allocated ResourceClaim (``status.allocation.devices.results``).

    ``consumed`` is the part of its capacity that this claim has, in Kubernetes quantities.
    ``sharing`` is how its driver divides it among the claim's users: ``strategy``, and MPS's limits
    of each user, ``core`` (per cent) and ``memory`` (``memory/<device>`` for one device).
    """

    request: str
    driver: str
    pool: str
    device: str
    share_id: str = ""
    admin_access: bool = False
    consumed: Mapping[str, str] = field(default_factory=dict)
    sharing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """A device of a ResourceSlice: attributes as texts, capacity as Kubernetes quantities.

    ``taints`` are as kubectl writes those of a node: ``key=value:effect``.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()


Tie = tuple[str, str]
"""What pods have in common: a ResourceClaim by namespace and name, or another thing by its kind."""

Said = tuple[str, ...]
"""One thing that a pod says of a tie; each sharing system has its own words."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts about the node that an allocation decoder may use besides the pod it reads.

    ``grants`` are by the API uid of the pod that holds them, ``claims`` by namespace and name,
    ``offered`` by driver, pool and device. ``card_policies`` are the node's own, by the number that
    the sharing system gives each card. ``ties`` are what the node's living pods say of what they
    have in common, each with how often it is said. ``index_bases`` overrides, by scheme, what its
    device numbers mean. ``allocatable`` is the node's capacity of a resource where it states one:
    it counts what is unhealthy. ``replicas`` are those of each device of a resource by the last
    offer that fitted the devices. ``numbered``: the devices with the numbers that they had when the
    pod's were first found; empty: as now.
    """

    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    grants: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], tuple[ClaimedDevice, ...]] = field(default_factory=dict)
    offered: Mapping[tuple[str, str, str], OfferedDevice] = field(default_factory=dict)
    card_policies: Mapping[int, str] = field(default_factory=dict)
    ties: Mapping[Tie, Mapping[Said, int]] = field(default_factory=dict)
    index_bases: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    numbered: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The allocation of one container on one device.

    ``device`` is a UUID, None while the placement is unknown. ``core`` is a share of one GPU (0-1),
    ``memory_bytes`` device memory; None means that no limit was promised. ``replicas`` counts the
    time-sliced replicas of the device that were granted to it. ``gpus`` is the part of a GPU that
    it keeps from others; None until the device is known. ``among``: the UUIDs of the devices of
    which it is one while ``device`` is None; None: any, empty: none that is known yet.
    ``kept_bytes``: the memory that is kept for it, where that is less than the most that it may
    have; None: all of it.
    """

    pod_uid: str
    container: str
    device: str | None
    core: float | None
    memory_bytes: int | None
    scheme: str
    policy: str = ""
    priority: str = ""
    replicas: int | None = None
    gpus: float | None = None
    among: tuple[str, ...] | None = None
    kept_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeDescription:
    """A simple sharing system: what its resources count, and where it writes the placement.

    Resources, annotations and labels are keys, "" for those that the system does not have.
    ``core_units`` of the core resource are one whole card, ``memory_unit`` is bytes. ``amounts`` is
    "total" where they are divided over the container's cards, "each" where every card has them.
    ``count_alone`` says what a card is that is requested by number alone: "whole-cards" or
    "no-limit". ``placement_annotation`` may hold ``{container}`` or ``{index}``, which stand for a
    container's name and for its place in ``spec.containers``. ``core_key``, ``memory_key`` and
    ``count_key`` are annotations or labels of the pod that state amounts, ``container_key`` one
    that names the containers that have them; ``evidence_resource`` is a resource, or the beginning
    of some, that a container must ask for before they count. ``replaces`` names schemes that it
    stands for.
    """

    name: str
    core_resource: str = ""
    core_units: int = 100
    memory_resource: str = ""
    memory_unit: int = 1 << 20
    count_resource: str = ""
    amounts: str = "total"
    count_alone: str = "no-limit"
    core_key: str = ""
    memory_key: str = ""
    count_key: str = ""
    container_key: str = ""
    evidence_resource: str = ""
    placement_annotation: str = ""
    index_basis: str = "nvml_index"
    policy_annotation: str = ""
    policy_node_label: str = ""
    replaces: tuple[str, ...] = ()

    @property
    def resources(self) -> tuple[str, ...]:
        """The extended resources that it reads."""
        named = (self.core_resource, self.memory_resource, self.count_resource)
        return tuple(name for name in named if name)

    @property
    def amount_keys(self) -> tuple[str, ...]:
        """The annotations or labels that state amounts."""
        return tuple(key for key in (self.core_key, self.memory_key, self.count_key) if key)


@dataclass(frozen=True, slots=True)
class Subject:
    """A user or ServiceAccount, as a TokenReview names it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a non-resource URL (``path``), or on a resource in a namespace.

    With a resource, the namespace "" stands for all namespaces.
    """

    verb: str
    path: str = ""
    resource: str = ""
    namespace: str = ""


class ReviewError(Exception):
    """The API server gave no answer that can be used; the message says why."""
