"""GKE's device plugin: whole cards, MIG partitions, time-sharing and MPS.

Time-sharing promises nothing. With MPS each client has an equal part of the card's threads and
memory.

Unconfirmed: whether a node with another form of sharing has none of GKE's labels.

Sources: GoogleCloudPlatform/container-engine-accelerators (``pkg/gpu/nvidia``: device ids, and
``Envs`` for what MPS enforces) and GKE's node labels. A pod asks for ``nvidia.com/gpu``. The
kubelet's PodResources names a card ``nvidia0``, a MIG partition ``nvidia0/gi3``, and a client of
either ``.../vgpu1``. The first number is the N of ``/dev/nvidiaN``, the second the GPU instance. A
card has ``gke-max-shared-clients-per-gpu`` clients.

A pod whose ids have this form belongs to GKE. Before the ids are known, a pod on a node with GKE's
accelerator label belongs to GKE, unless NVIDIA's feature discovery has labelled the node too: then
NVIDIA's own plugin runs there.
"""

import re
from collections import Counter
from collections.abc import Iterator

from exporter.agent.allocations.devicenames import card_by_number, cards, common_memory, instances
from exporter.agent.allocations.quantities import parse_natural
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import MPS, SHARED, Evidence, IndexBasis, Reason
from exporter.model import Allocation, Container, Device
from exporter.model.policies import policies

_GPU = "nvidia.com/gpu"
_ACCELERATOR = "cloud.google.com/gke-accelerator"
_STRATEGY = "cloud.google.com/gke-gpu-sharing-strategy"
_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_DISCOVERY = "nvidia.com/gpu.count"
_STRATEGIES = policies("time-sharing", MPS)
_DEVICE_ID = re.compile(r"nvidia(\d{1,3})(?:/gi(\d{1,3}))?(/vgpu\d{1,4})?", re.ASCII)
_Place = tuple[int, int | None]  # the card's number, and that of its GPU instance


def read(reader: PodReader) -> Iterator[Allocation]:
    """Return the devices, or clients of devices, allocated to each container."""
    grants = [(each, reader.granted(each, _GPU)) for each in reader.lasting]
    ids = [device_id for _, held in grants for device_id in held]
    ours = all(map(_DEVICE_ID.fullmatch, ids))
    if not ids:
        labels = reader.node.labels
        ours = _ACCELERATOR in labels and _DISCOVERY not in labels
    for container, held in grants if ours else ():
        matches = [match for match in map(_DEVICE_ID.fullmatch, held) if match]
        if matches:
            yield from _placed(reader, container, matches)
        else:
            yield from _unplaced(reader, container)


def _placed(reader: PodReader, container: Container, ids: list[re.Match[str]]) -> list[Allocation]:
    places = [(int(each[1]), None if each[2] is None else int(each[2])) for each in ids]
    clients = Counter(p for p, each in zip(places, ids, strict=True) if each[3])
    if not reader.allows(container, len(set(places))):
        return []
    allocations: list[Allocation] = []
    for place in dict.fromkeys(places):
        number, gpu_instance = place
        partition = gpu_instance is not None
        device = card_by_number(reader.node, reader.basis, number)
        if device is not None and partition:
            parts = [part for part in instances(reader.node) if part.parent_uuid == device.uuid]
            device = next((part for part in parts if part.gpu_instance == gpu_instance), None)
        if device is None and reader.node.devices:
            reader.reject(Reason.UNKNOWN_DEVICE, f"nvidia{number}, instance {gpu_instance}")
        share = _share(reader, device, partition=partition, clients=clients[place])
        allocations += reader.allocate(container, (device,), share, among=())
    return allocations


def _unplaced(reader: PodReader, container: Container) -> list[Allocation]:
    count = reader.quantity(container, _GPU)
    if count is None:
        return []
    # On a node that shares, the amount counts clients, and nobody knows of how many cards.
    shared = _STRATEGY in reader.node.labels
    if not shared and not reader.allows(container, count):
        return []
    partition = _PARTITION in reader.node.labels
    share = _share(reader, None, partition=partition, clients=count if shared else 0)
    cards = (None,) * (1 if shared else count)
    among = instances(reader.node) if partition else None
    return reader.allocate(container, cards, share, among=among)


def _share(reader: PodReader, device: Device | None, *, partition: bool, clients: int) -> Share:
    """Return the share of a card or partition; ``clients`` is 0 if it is not shared."""
    alike = (device,) if device else instances(reader.node) if partition else cards(reader.node)
    core, memory = None if partition else 1.0, common_memory(alike)
    if not clients:
        return Share(core, memory)
    policy = reader.one_of(_STRATEGIES, reader.node.labels.get(_STRATEGY, "")) or SHARED
    if policy != MPS:  # time-sharing promises nothing
        return Share(None, None, policy, replicas=clients)
    # MPS gives each client an equal part. How many parts there are stands in a label alone: the
    # clients that a node offers may be those of several cards.
    most = parse_natural(reader.node.labels.get(_CLIENTS, ""))
    if not most:
        reader.reject(Reason.UNKNOWN_REPLICAS, f"no label {_CLIENTS}")
        return Share(None, None, policy, replicas=clients)
    own = min(clients, most)
    return Share(
        None if core is None else core * own / most,
        None if memory is None else memory * own // most or None,
        policy,
        replicas=clients,
    )


SCHEME = Scheme(
    name="gke",
    resources=(_GPU,),
    annotations=(),
    index_basis=IndexBasis.MINOR,
    read=read,
    amounts=(Evidence.LIMITS, Evidence.GRANT),
    placement=(Evidence.GRANT,),
)
