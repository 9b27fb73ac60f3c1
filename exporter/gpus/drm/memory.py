"""Memory of one device and who holds it, by what its clients say. Pure."""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from exporter.gpus.drm.fdinfo import Client
from exporter.model import Device, DeviceMemory, ProcessMemory

_LOCAL = re.compile(r"(?:vram|local)[0-9]*", re.ASCII)  # amdgpu, xe and i915; others have none
_KINDS: frozenset[str] = frozenset()  # fdinfo does not tell who computes and who draws


def held_by(
    clients: Iterable[tuple[int, Client]],
    device: Device,
    used_bytes: int | None,
    cut: AbstractSet[int] = frozenset(),
) -> DeviceMemory:
    """Device memory by process; a buffer that clients share is counted with each.

    The sizes are None on a device without memory of its own. ``used_bytes`` of the whole device
    is what its driver says, None where it says nothing: what clients hold is not all of it.
    Processes that are ``cut`` may hold more than is seen.
    """
    held: dict[int, int | None] = {}
    for pid, client in clients:
        local = [size for region, size in client.held.items() if _LOCAL.fullmatch(region)]
        before = held.get(pid)
        held[pid] = sum(local) + (before or 0) if local else before
    held |= dict.fromkeys(held.keys() & cut, None)
    processes = tuple(ProcessMemory(pid, size, _KINDS) for pid, size in held.items())
    return DeviceMemory(device.memory_bytes, used_bytes, None, processes)
