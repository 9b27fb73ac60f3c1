"""Lists the NVIDIA devices, boards and MIG instances, with their constant properties."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from exporter.agent.sources.gpus.nvml.errors import HOLES, UUID, CallError, DeviceLostError
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.nvmlboard import memory_info
from exporter.model import GIB, MIB, Device

MIG = "mig"
WHOLE_GPU_PROFILES = (5, 4, 6, 3, 2, 1, 0)  # NVML_GPU_INSTANCE_PROFILE_*, of 8, 7, 6, 4 … slices
USUAL_SLICES = 7  # of A100 and all data centre boards since but A30, which has 4
MAX_DEVICES = 1024  # NVML knows up to 64 boards of up to 8 instances; more is garbage


class DeviceHandle(NamedTuple):
    """A device and its NVML handle, which is void after the driver was reopened.

    ``divided``: a board with MIG instances, which have its processes. ``board``: an instance's.
    """

    device: Device
    handle: Any
    divided: bool = False
    board: "MigBoard | None" = None


class MigBoard(NamedTuple):
    """A board that is divided into instances, its NVML handle, and its compute slices."""

    device: Device
    handle: Any
    slices: int


class BoardPlace(NamedTuple):
    """A number among the node's boards, or among the instances of the board ``parent_uuid``."""

    number: int
    parent_uuid: str = ""

    def __str__(self) -> str:
        """The place in words."""
        if self.parent_uuid:
            return f"MIG instance {self.number} of {self.parent_uuid}"
        return f"GPU {self.number}"


class DeviceList(NamedTuple):
    """All devices in NVML's order, and why others could not be opened."""

    found: Sequence[DeviceHandle]
    unreadable: Mapping[BoardPlace, str]


def discover(library: Library) -> DeviceList:
    """Enumerates the devices. One that fails costs only itself. No UUID is there twice.

    Raises:
        NvmlError: the driver does not return their number, or is gone.

    """
    found: dict[str, DeviceHandle] = {}
    unreadable: dict[BoardPlace, str] = {}
    for index in range(min(library.ask("nvmlDeviceGetCount"), MAX_DEVICES)):
        try:
            board, parts = _board(library, index)
        except (DeviceLostError, CallError) as error:
            unreadable[BoardPlace(index)] = str(error)
            continue
        unreadable |= parts.unreadable
        for each in (board, *parts.found):
            uuid, place = each.device.uuid, BoardPlace(index, each.device.parent_uuid)
            if uuid and uuid not in found:
                found[uuid] = each
            else:  # boards that are renumbered meanwhile are met twice
                unreadable[place] = f"its UUID, {uuid!r}, is no or another device's"
    return DeviceList(tuple(found.values()), unreadable)


def _board(library: Library, index: int) -> tuple[DeviceHandle, DeviceList]:
    """A board and its instances."""
    ask = library.ask
    handle = ask("nvmlDeviceGetHandleByIndex", index)
    memory = _optional(partial(memory_info, library, handle))
    mig = _optional(lambda: ask("nvmlDeviceGetMigMode", handle)[0] == 1)
    cuda = _optional(partial(ask, "nvmlSystemGetCudaDriverVersion_v2"))  # 12040 is 12.4
    # Of all these only the UUID is needed: what else a driver does not say costs that alone.
    board = Device(
        uuid=ask(UUID, handle),
        index=index,
        vendor="nvidia",
        model=_optional(lambda: ask("nvmlDeviceGetName", handle)) or "",
        minor=_optional(lambda: ask("nvmlDeviceGetMinorNumber", handle)),
        pci_bus_id=_optional(lambda: ask("nvmlDeviceGetPciInfo", handle).busId) or "",
        sharing=MIG if mig else "",
        driver_version=library.driver_version,
        memory_bytes=memory.total if memory else None,
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
    )
    parts = _instances(library, board, handle) if mig else DeviceList((), {})
    return DeviceHandle(board, handle, bool(parts.found or parts.unreadable)), parts


def _instances(library: Library, board: Device, parent: Any) -> DeviceList:  # noqa: ANN401 - pynvml's pointer
    # The compute slices of the board are those of its largest possible instance. NVML has no
    # number of its own for them.
    slices = USUAL_SLICES
    for profile in WHOLE_GPU_PROFILES:
        ask = partial(library.ask, "nvmlDeviceGetGpuInstanceProfileInfo", parent, profile, 1)
        largest = _optional(ask)
        if largest is not None and largest.sliceCount:
            slices = int(largest.sliceCount)
            break
    divided = MigBoard(board, parent, slices)
    found: list[DeviceHandle] = []
    unreadable: dict[BoardPlace, str] = {}
    try:
        places = library.ask("nvmlDeviceGetMaxMigDeviceCount", parent)
    except CallError as error:  # it has any number of them
        return DeviceList((), {BoardPlace(0, board.uuid): str(error)})
    for index in range(min(places, MAX_DEVICES)):
        try:
            handle = library.ask("nvmlDeviceGetMigDeviceHandleByIndex", parent, index)
            found.append(instance(library, divided, handle))
        except CallError as error:
            if error.code not in HOLES:  # instances come and go
                unreadable[BoardPlace(index, board.uuid)] = str(error)
    return DeviceList(found, unreadable)


def instance(library: Library, of: MigBoard, handle: Any) -> DeviceHandle:  # noqa: ANN401 - pynvml's pointer
    """An instance of a board as it is now.

    Raises:
        NvmlError: it has no UUID or no attributes.

    """
    board = of.device
    uuid = library.ask(UUID, handle)
    attributes = library.ask("nvmlDeviceGetAttributes", handle)
    memory = _optional(partial(memory_info, library, handle))
    number = _optional(partial(library.ask, "nvmlDeviceGetGpuInstanceId", handle))
    profile, core_share = made_of(attributes, of)
    found = Device(
        uuid=uuid,
        index=board.index,
        vendor=board.vendor,
        model=board.model,
        minor=board.minor,
        pci_bus_id=board.pci_bus_id,
        parent_uuid=board.uuid,
        profile=profile,
        driver_version=board.driver_version,
        cuda_version=board.cuda_version,
        memory_bytes=memory.total if memory else attributes.memorySizeMB * MIB,
        core_share=core_share,
        gpu_instance=number,
        placement_start=_optional(partial(_placement_start, library, of.handle, number)),
    )
    return DeviceHandle(found, handle, board=of)


def made_of(attributes: Any, of: MigBoard) -> tuple[str, float]:  # noqa: ANN401 - c_nvmlDeviceAttributes
    """The profile of an instance with these attributes, and its share of the board's core."""
    core_share = min(attributes.computeInstanceSliceCount / of.slices, 1.0)
    return profile_of(attributes, of.device.memory_bytes), core_share


def _placement_start(library: Library, parent: Any, number: int | None) -> int | None:  # noqa: ANN401 - pynvml's pointer
    """The first memory slice of a GPU instance. Some drivers answer this only to root."""
    if number is None:
        return None
    found = library.ask("nvmlDeviceGetGpuInstanceById", parent, number)
    return int(library.ask("nvmlGpuInstanceGetInfo", found).placement.start)


def is_part(profile: str) -> bool:
    """Whether a device is one of several compute instances in its GPU instance (``1c.2g.20gb``)."""
    return "c." in profile


def profile_of(attributes: Any, board_memory_bytes: int | None) -> str:  # noqa: ANN401 - c_nvmlDeviceAttributes
    """The name of an instance as in ``nvidia-smi``: ``1g.10gb``, or ``1c.2g.20gb`` for a part.

    The name's memory is the instance's share of the board in eighths, of the board's nominal size.
    """
    slices, memory = attributes.gpuInstanceSliceCount, attributes.memorySizeMB * MIB
    if board_memory_bytes:
        eighths = math.ceil(8 * memory / board_memory_bytes)
        gigabytes = (eighths * math.ceil(board_memory_bytes / GIB) + 4) // 8
    else:
        gigabytes = math.ceil(memory / GIB)
    part = attributes.computeInstanceSliceCount
    prefix = "" if part == slices else f"{part}c."
    return f"{prefix}{slices}g.{gigabytes}gb"


def _optional(ask: Any) -> Any:  # noqa: ANN401 - whatever the question answers
    """The answer, or None if this device has none, or one that is no text."""
    try:
        return ask()
    except (CallError, UnicodeDecodeError):
        return None
