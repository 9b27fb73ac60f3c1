"""The part of a GPU that an allocation keeps from others. Pure.

What others can get is what is left of the core and of the memory alike. So it is the larger of both
shares: a container with a tenth of the core and half of the memory keeps half of the card.
"""

from collections.abc import Mapping
from dataclasses import replace

from exporter.model import Allocation, Device


def kept(
    allocation: Allocation,
    devices: Mapping[str, Device],
    replicas: Mapping[str, int],
    sharers: int,
) -> float | None:
    """The part of its GPU that an allocation keeps; None if that is not known. A whole card is 1.

    ``devices`` and ``replicas`` are by UUID. ``sharers``: the allocations on the device.
    """
    device = devices.get(allocation.device or "")
    if device is None:
        # It is on one of some devices. If it would keep as much of each of them, it keeps that.
        found = {
            _alone(allocation, devices[uuid], devices, replicas)
            for uuid in allocation.among or ()
            if uuid in devices
        }
        return found.pop() if len(found) == 1 else allocation.core
    of_gpu = _part_of_gpu(device, devices)
    # Replicas promise nothing by themselves. They divide the device, and an allocation may have
    # some.
    if allocation.replicas is not None and allocation.kept_bytes is None:
        divided = max(replicas.get(device.uuid) or sharers, allocation.replicas, 1)
        return of_gpu * allocation.replicas / divided
    if device.parent_uuid:
        return of_gpu / max(sharers, 1)
    memory = allocation.memory_bytes if allocation.kept_bytes is None else allocation.kept_bytes
    # The larger of the core's and the memory's share: nobody else can use what is left of the
    # other.
    promised = [share for share in (allocation.core, _of(memory, device)) if share]
    if promised:
        return min(max(promised), 1.0)
    # Memory is promised, and the device's size is not known: so the part is not, either. Where
    # nothing is promised, those on the device share it alike.
    return None if memory else of_gpu / max(sharers, 1)


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


def _part_of_gpu(device: Device, devices: Mapping[str, Device]) -> float:
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
