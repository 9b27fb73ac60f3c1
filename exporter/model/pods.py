"""Pods, containers and what they were allotted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.model.devices import Device


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod. ``kind`` is one of app, init, sidecar, ephemeral.

    ``container_ids`` holds the bare 64-hex ids without their runtime: the current one first, then
    the one before the last restart.
    """

    name: str
    kind: str = "app"
    container_ids: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)  # extended resources only


@dataclass(frozen=True, slots=True)
class Pod:
    """What is kept of a pod. ``uid`` is the API's, ``static_hash`` the kubelet's own for it.

    ``mirror``: it is marked as what the kubelet shows of the static pod with that hash.
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
    mirror: bool = False

    @property
    def terminal(self) -> bool:
        """Whether all containers have ended for good: such a pod holds no device any more."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class PodTable:
    """The pods of this node, as last heard. ``version`` rises with each change."""

    version: int = 0
    pods: Mapping[str, Pod] = field(default_factory=dict)  # by API uid
    by_kubelet_uid: Mapping[str, str] = field(default_factory=dict)  # uid or static hash → API uid
    by_container_id: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # → uid, container


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What an allocation decoder may know of the node: its devices and its labels."""

    devices: tuple[Device, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container was allotted on one device.

    ``device`` is a UUID, None while the placement is unknown. ``core`` is a share of one GPU
    (0-1), ``memory_bytes`` device memory; None means that no limit was promised. ``replicas``
    counts the time-sliced replicas of the device that were granted to it.
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
