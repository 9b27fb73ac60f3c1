"""Alibaba Cloud ACK's GPU sharing: cGPU and its other modes.

Units of memory are as in ``aliyun-gpushare-v1``, core is per cent. The policy is the node's label
``ack.node.gpu.schedule``, or the older ``cgpu`` and ``gpushare``.

Unconfirmed: ``gpushare.alibabacloud.com/gpumemory`` and ``device-resource``, which are not read;
that core is divided over several cards as memory is; whether a card's number is its NVML index
(assumed) or its minor.

Sources: kubeflow/arena (``pkg/apis/types/const.go``, ``pkg/apis/utils/pods.go``) and ACK's document
on the labels of GPU nodes. ``scheduler.framework.gpushare.allocation`` holds, as JSON, units of
``aliyun.com/gpu-mem`` by the container's position in ``spec.containers`` and by card.
``gpushare.alibabacloud.com/core-percentage`` holds per cent of core in the same shape. Without them
the card is the one in ``ALIYUN_COM_GPU_MEM_IDX``, and the amounts are those of the containers'
limits, divided evenly over the number of cards in the pod's label ``aliyun.com/gpu-count``. The
tables count only for containers that ask for these resources (``evidence``).
"""

from collections.abc import Mapping

from exporter.agent.allocations.quantities import natural_of, parse_natural
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.schemes.aliyun_gpushare import (
    CARD_MEMORY,
    COUNT,
    INDEX,
    MEMORY,
    unit_of,
)
from exporter.agent.allocations.terms import IndexBasis, Reason
from exporter.agent.allocations.trust import agreed, asks_for, is_backed
from exporter.model import Allocation
from exporter.model.policies import policies

_CORE = "aliyun.com/gpu-core.percentage"
_MEMORY_TABLE = "scheduler.framework.gpushare.allocation"
_CORE_TABLE = "gpushare.alibabacloud.com/core-percentage"
_POLICY = "ack.node.gpu.schedule"  # a node label
_POLICIES = policies("cgpu", "core_mem", "share", "mps", "topology", "default", "mig")
_OLDER_POLICIES = {"cgpu": "cgpu", "gpushare": "share"}  # node labels that say "true"

Amounts = Mapping[int, int]  # by card number
Table = Mapping[int, Amounts]  # by the container's position


def read(reader: PodReader) -> list[Allocation]:
    """Return the allocations of each container, one per card."""
    users = [each for each in reader.lasting if asks_for(each, (MEMORY, _CORE))]
    # Version 1 of the open system has the same resource. What it has not shows that a pod is ACK's.
    has_table = not reader.pod.annotations.keys().isdisjoint((_MEMORY_TABLE, _CORE_TABLE))
    has_core = any(_CORE in user.limits for user in users)
    is_newer = has_core or COUNT in reader.pod.labels or _POLICY in reader.node.labels
    if not has_table and not (users and is_newer):
        return []
    memory, core = _table(reader, _MEMORY_TABLE), _table(reader, _CORE_TABLE)
    labels = reader.node.labels
    older = (name for label, name in _OLDER_POLICIES.items() if labels.get(label) == "true")
    policy = reader.one_of(_POLICIES, labels.get(_POLICY) or next(older, ""))
    listed = _by_tables(reader, memory, core, policy)
    named = {allocation.container for allocation in listed}
    rest = [user for user in users if user.name not in named]
    allocations = [*listed]
    for user in rest:
        amount, percent = reader.quantity(user, MEMORY), reader.quantity(user, _CORE)
        if amount is not None or percent is not None:
            count = reader.spread(COUNT)
            size = reader.memory(amount, unit_of(reader), count)
            share = Share(reader.core(percent, count), size, policy)
            allocations += reader.allocate(user, reader.placement(INDEX, count), share)
    return allocations


def _table(reader: PodReader, key: str) -> Table:
    """Return an annotation's amounts by container and card; malformed ones are rejected."""
    document = reader.document(key)
    if document is None:
        return {}
    table: dict[int, dict[int, int]] = {}
    listed = 0
    for position, amounts in document.items() if isinstance(document, dict) else ():
        listed += len(amounts) if isinstance(amounts, dict) else 1
        for number, amount in amounts.items() if isinstance(amounts, dict) else ():
            row, card, size = parse_natural(position), parse_natural(number), natural_of(amount)
            if row is not None and card is not None and size is not None:
                table.setdefault(row, {})[card] = size
    # An entry that cannot be read is not in the table. It costs only itself, and is counted.
    if not table or sum(map(len, table.values())) != listed:
        reader.reject(Reason.BAD_ANNOTATION, f"{key}={reader.annotation(key)}")
    return table


def _by_tables(reader: PodReader, memory: Table, core: Table, policy: str) -> list[Allocation]:
    apps, unit = reader.apps, unit_of(reader)
    allocations: list[Allocation] = []
    positions = memory.keys() | core.keys()
    if any(position >= len(apps) for position in positions):
        reader.reject(Reason.CONTAINER_MISMATCH, f"position {max(positions)} of {len(apps)}")
    for position in sorted(positions & set(range(len(apps)))):
        amounts, shares = memory.get(position, {}), core.get(position, {})
        numbers = sorted(amounts.keys() | shares.keys())
        user = apps[position]
        if not reader.allows(user, len(numbers)) or not is_backed(
            reader, user, (MEMORY, _CORE), _MEMORY_TABLE
        ):
            continue
        stated = [
            Share(
                reader.core(shares.get(number) or None),
                reader.memory(amounts.get(number) or None, unit),
                policy,
            )
            for number in numbers
        ]
        asked = Share(
            (reader.quantity(user, _CORE) or 0) / 100, (reader.quantity(user, MEMORY) or 0) * unit
        )
        agreeing = agreed(reader, stated, asked, unit=unit)
        for number, share in zip(numbers, agreeing, strict=True):
            card = reader.card(number)
            allocations += reader.allocate(user, (card,), share)
    return allocations


SCHEME = Scheme(
    name="aliyun-ack",
    resources=(MEMORY, _CORE, COUNT),
    annotations=(_MEMORY_TABLE, _CORE_TABLE, INDEX, CARD_MEMORY),
    index_basis=IndexBasis.NVML_INDEX,
    read=read,
    labels=(COUNT,),
)
