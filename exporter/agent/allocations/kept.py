"""The part of a GPU that an allocation keeps from others. Pure.

What others can get is what is left of the core and of the memory alike. So it is the larger of both
shares: a container with a tenth of the core and half of the memory keeps half of the card.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.model import Allocation, Device


def kept(
    allocation: Allocation,
    devices: Mapping[str, Device],
    replicas: Mapping[str, int],
    sharers: int,
) -> float | None:
    """The part of its GPU that an allocation keeps; None if that is not known.

    A whole card is 1. An instance is the larger of its compute and memory slices. Where nothing is
    promised, the device is divided by its replicas, else by the allocations on it, ``sharers``.
    An amount of a memory of unknown size is an unknown part. ``devices`` and ``replicas`` are by
    UUID. Of one of some devices it is what it would be of each.
    """
    device = devices.get(allocation.device or "")
    if device is None:
        found = {
            _alone(allocation, devices[u], devices, replicas) for u in _among(allocation, devices)
        }
        return found.pop() if len(found) == 1 else allocation.core
    whole = _whole(device, devices)
    if allocation.replicas is not None and allocation.kept_bytes is None:
        divided = max(replicas.get(device.uuid) or sharers, allocation.replicas, 1)
        return whole * allocation.replicas / divided
    if device.parent_uuid:
        return whole / max(sharers, 1)
    memory = allocation.memory_bytes if allocation.kept_bytes is None else allocation.kept_bytes
    promised = [share for share in (allocation.core, _of(memory, device)) if share]
    if promised:
        return min(max(promised), 1.0)
    return None if memory else whole / max(sharers, 1)


def _among(allocation: Allocation, devices: Mapping[str, Device]) -> Iterable[str]:
    return filter(devices.__contains__, allocation.among or ())


def _alone(
    allocation: Allocation,
    device: Device,
    devices: Mapping[str, Device],
    replicas: Mapping[str, int],
) -> float | None:
    """The part if it were of this device alone; None where that depends on others there."""
    promises = allocation.core or allocation.memory_bytes or device.parent_uuid
    is_replica = allocation.replicas is not None and device.uuid in replicas
    if not (promises or is_replica):
        return None
    return kept(replace(allocation, device=device.uuid), devices, replicas, 1)


def _whole(device: Device, devices: Mapping[str, Device]) -> float:
    """The part of its GPU that a device is.

    Compute instances of one GPU instance have its memory together, so each has a part of it.
    """
    if not device.parent_uuid:
        return 1.0
    board = devices.get(device.parent_uuid)
    memory = _of(device.memory_bytes, board) if board else None
    place = device.parent_uuid, device.gpu_instance
    beside = [d for d in devices.values() if (d.parent_uuid, d.gpu_instance) == place]
    core = sum(each.core_share for each in beside)
    if device.gpu_instance is not None and memory and core:
        memory *= device.core_share / core
    return min(max(device.core_share, memory or 0.0), 1.0)


def _of(memory_bytes: int | None, device: Device) -> float | None:
    return memory_bytes / device.memory_bytes if memory_bytes and device.memory_bytes else None
