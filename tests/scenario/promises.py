"""What each sharing system promises to a container, by that system's own arithmetic.

Written from the systems' documents, apart from the decoders, so that each checks the other.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.model import ContainerKey
from exporter.simulation.description import DeviceSpec, Scheme
from exporter.simulation.node import Node
from exporter.simulation.population import pod_key
from exporter.simulation.schemes import PlacedPod
from exporter.simulation.schemes.system import WHOLE, ContainerRequest

MONITORING = "monitoring"  # Intel's resource to look at all cards and use none


class Promise(NamedTuple):
    """The share of one device that a container may use, by its system's own arithmetic.

    ``core`` is a share of a whole GPU; None is no limit. ``replicas`` are those granted of a device
    that is divided without a promise. ``device_known``: the system names the device.
    """

    core: float | None
    memory_bytes: int | None
    replicas: int | None = None
    device_known: bool = True


def as_asked(ask: ContainerRequest, device: DeviceSpec) -> Promise:  # noqa: ARG001 - a System's promise
    """The shares that the scenario states."""
    return Promise(
        ask.core / WHOLE if ask.core else None, ask.memory, device_known=ask.allocation.placed
    )


def whole_or_asked(ask: ContainerRequest, device: DeviceSpec) -> Promise:
    """The same, but 100 % of the cores is a whole card, with its memory."""
    promise = as_asked(ask, device)
    return promise._replace(memory_bytes=device.memory_bytes) if ask.whole else promise


def _vgpu(ask: ContainerRequest, card: DeviceSpec) -> Promise:
    promise = as_asked(ask, card)
    return promise._replace(memory_bytes=promise.memory_bytes or card.memory_bytes)


def _nvidia(ask: ContainerRequest, device: DeviceSpec) -> Promise:
    """A device as a whole, an equal part of it by MPS, or by time-slicing nothing but replicas."""
    known = ask.allocation.placed
    if device.replicas == 1:
        return Promise(device.core_share, device.memory_bytes, device_known=known)
    count = ask.allocation.replicas
    if device.sharing == "mps":
        memory = device.memory_bytes // device.replicas * count
        return Promise(device.core_share * count / device.replicas, memory, count, known)
    return Promise(None, None, count, known)


def _dra(ask: ContainerRequest, device: DeviceSpec) -> Promise:
    """An instance's share of its card is its own; of a whole card's cores a claim says nothing.

    What containers have together is a replica for each; a claim of some memory is of that much.
    """
    known = ask.allocation.placed
    if ask.container.shares_claim:
        return Promise(None, None, 1, known)
    if ask.memory is not None:
        return Promise(None, ask.memory, device_known=known)
    return Promise(
        device.core_share if device.profile else None, device.memory_bytes, device_known=known
    )


def _amd(ask: ContainerRequest, device: DeviceSpec) -> Promise:
    """The plugin says nothing of a partition's share; it is its container's alone."""
    known = ask.allocation.placed and not device.instance_id
    return Promise(device.core_share, device.memory_bytes, device_known=known)


def _intel(ask: ContainerRequest, device: DeviceSpec) -> Promise | None:
    if ask.container.resource.endswith(MONITORING):
        return None
    known = ask.allocation.placed
    if device.replicas == 1:
        return Promise(1.0, device.memory_bytes or None, device_known=known)
    return Promise(None, None, ask.allocation.replicas, known)


PROMISES: Mapping[Scheme, Callable[[ContainerRequest, DeviceSpec], Promise | None]] = {
    Scheme.MGPU: whole_or_asked,
    Scheme.QGPU: whole_or_asked,
    Scheme.HAMI: _vgpu,
    Scheme.NVIDIA: _nvidia,
    Scheme.DRA: _dra,
    Scheme.AMD: _amd,
    Scheme.INTEL: _intel,
}
SERVED_AS: Mapping[Scheme, str] = {  # the label "scheme" of its pods
    Scheme.MGPU: "vke-mgpu",
    Scheme.QGPU: "tke-qgpu",
    Scheme.HAMI: "hami",
    Scheme.NVIDIA: "nvidia-device-plugin",
    Scheme.DRA: "dra",
    Scheme.AMD: "amd-device-plugin",
    Scheme.INTEL: "intel-device-plugin",
}
RESERVATIONS = "kai-resource-reservation"  # its pods hold devices for others


def promises(node: Node, begin_ns: int, end_ns: int) -> Mapping[tuple[ContainerKey, str], Promise]:
    """The promises to the pods that exist at some time in [begin, end), by device UUID.

    Times are nanoseconds since the scenario's start.
    """
    scenario, found = node.scenario, {}
    for spec in scenario.pods:
        key = pod_key(scenario.seed, spec)
        for occurrence in spec.span.occurrences(key, begin_ns, end_ns):
            order = node.lifecycle.placed_pod(spec, occurrence.number)
            for (container, number), promise in promised(order).items():
                owner = ContainerKey(spec.namespace, order.name, container)
                found[owner, scenario.devices[number].uuid] = promise
    return found


def promised(order: PlacedPod) -> dict[tuple[str, int], Promise]:
    """The promise to each container per device, by container name and device number."""
    if order.pod.scheme is None or order.pod.namespace == RESERVATIONS:
        return {}
    of = PROMISES[order.pod.scheme]
    promises = {(ask.name, d.number): of(ask, d) for ask in order.asks for d in ask.devices}
    return {key: promise for key, promise in promises.items() if promise is not None}
