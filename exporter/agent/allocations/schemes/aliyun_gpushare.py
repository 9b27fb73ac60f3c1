"""Aliyun's open GPU sharing (version 1).

``aliyun.com/gpu-mem`` is memory on one card; core is not divided. The unit, GiB or MiB, follows
from the node's amounts and the card's memory. If neither is known it is GiB.

Unconfirmed: whether the card's number is its NVML index (assumed) or its minor.

Sources: ``pkg/gpu/nvidia/const.go`` of AliyunContainerService/gpushare-device-plugin, and
gpushare-scheduler-extender. The pod's annotation ``ALIYUN_COM_GPU_MEM_IDX`` names the card of all
its containers. The plugin's ``--memory-unit`` is inferred: the amount per card that the node states
(its own ``gpu-mem`` by ``gpu-count``, else the pod's ``ALIYUN_COM_GPU_MEM_DEV``) is compared with
NVML's.
"""

from exporter.agent.allocations.devicenames import cards
from exporter.agent.allocations.quantities import MAX_MEMORY_BYTES, parse_quantity
from exporter.agent.allocations.reader import PodReader, Share, each_container
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import UNENFORCED, IndexBasis, Reason
from exporter.model import GIB, MIB, Allocation, Container

MEMORY = "aliyun.com/gpu-mem"
INDEX = "ALIYUN_COM_GPU_MEM_IDX"
CARD_MEMORY = "ALIYUN_COM_GPU_MEM_DEV"
COUNT = "aliyun.com/gpu-count"  # of the node's cards; as a pod's label of those it is spread over

_AMBIGUITY = 32  # the units are 1024 apart: half way on a scale of factors


def read(reader: PodReader, container: Container) -> list[Allocation]:
    """Return the memory allocated to a container, on the pod's only card."""
    amount = reader.quantity(container, MEMORY)
    if amount is None:
        return []
    share = Share(None, reader.memory(amount, unit_of(reader)))
    return reader.allocate(container, reader.placement(INDEX, 1), share)


def unit_of(reader: PodReader) -> int:
    """Return the size of one unit of ``gpu-mem`` on this node, in bytes."""
    # The amount of one card, by the node's own figures, or else as the scheduler wrote it down.
    node = reader.node
    memory, count = (parse_quantity(node.allocatable.get(key, "")) or 0 for key in (MEMORY, COUNT))
    per_card: int | None = memory // count if count else 0
    if not per_card and (text := reader.annotation(CARD_MEMORY)):
        per_card = parse_quantity(text)
        if per_card is None:
            reader.reject(Reason.BAD_ANNOTATION, f"{CARD_MEMORY}={text}")
    per_card = per_card or 0
    known = (card.memory_bytes for card in cards(reader.node) if card.memory_bytes)
    real = max(known, default=0)
    most = _AMBIGUITY * real or MAX_MEMORY_BYTES
    return MIB if per_card * GIB > most else GIB


SCHEME = Scheme(
    name="aliyun-gpushare-v1",
    resources=(MEMORY, COUNT),
    annotations=(INDEX, CARD_MEMORY),
    index_basis=IndexBasis.NVML_INDEX,
    read=each_container(read),
    enforcement=UNENFORCED,
)
