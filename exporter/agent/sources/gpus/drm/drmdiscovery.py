"""Lists the DRM devices with their properties in sysfs, and the engine names of each driver.

Every device has a directory ``/sys/class/drm/cardN``; its other nodes are in ``device/drm``. No
device is opened, so none is woken. Engine classes are from the kernel's documentation and sources:
``core`` shades and computes; Intel's ``video`` (``vcs``) decodes and encodes without a difference
and counts as the decoder; scaling (``video-enhance``, ``vpe``) is neither.
"""

import errno
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.sources.door import Failed, UnreadError
from exporter.agent.sources.gpus.sysfs import NotedReads, label
from exporter.model import FIRST_INDEX, Device

CORE, ENCODER, DECODER, COPY = "core", "encoder", "decoder", "copy"


@dataclass(frozen=True, slots=True)
class DriverTraits:
    """The properties of one driver. ``roles``: engine class → quantity.

    ``omits_unused``: engines that a client has not used are not listed. ``wakes``: reading clients
    wakes the device and keeps it awake. ``profiling``: bits of the device's file of that name, one
    of which must be set for engines to be counted. ``vendor``: for devices without a PCI id.
    ``since``: the version of Linux whose fdinfo has engines, of drivers that are older.
    """

    roles: Mapping[str, str]
    omits_unused: bool = False
    wakes: bool = False
    profiling: int = 0
    vendor: str = ""
    since: tuple[int, int] = (0, 0)


DRIVERS: Mapping[str, DriverTraits] = MappingProxyType(
    {
        "i915": DriverTraits(
            {"render": CORE, "compute": CORE, "video": DECODER, "copy": COPY}, since=(5, 19)
        ),
        "xe": DriverTraits(
            {"rcs": CORE, "ccs": CORE, "vcs": DECODER, "bcs": COPY}, wakes=True, since=(6, 11)
        ),
        "amdgpu": DriverTraits(
            {
                "gfx": CORE,
                "compute": CORE,
                "dec": DECODER,
                "jpeg": DECODER,
                "enc": ENCODER,
                "enc_1": ENCODER,
                "dma": COPY,
            },
            omits_unused=True,
            since=(5, 19),
        ),
        "nouveau": DriverTraits({}),
        "panfrost": DriverTraits(
            {"fragment": CORE, "vertex-tiler": CORE}, profiling=1, vendor="arm"
        ),
        "panthor": DriverTraits({"panthor": CORE}, profiling=2, vendor="arm"),
        "lima": DriverTraits({"gp": CORE, "pp": CORE}, vendor="arm"),
        "msm": DriverTraits({"gpu": CORE}, vendor="qualcomm"),
        "v3d": DriverTraits({"bin": CORE, "render": CORE, "csd": CORE}, vendor="broadcom"),
        "etnaviv": DriverTraits({"2D": CORE, "3D": CORE}, vendor="vivante"),
    }
)
"""The drivers that are used by default: those known to implement the specification."""

NO_ENGINE = frozenset({"video-enhance", "vecs", "vpe", "tfu", "cache_clean", "cpu", "other"})
_ANY = {
    "copy": COPY,
    "bcs": COPY,
    "dma": COPY,
    "video": DECODER,
    "vcs": DECODER,
    "dec": DECODER,
    "jpeg": DECODER,
    "enc": ENCODER,
}


def role_of(driver: str, engine: str) -> str | None:
    """The quantity of an engine class; None if it has none.

    For an unknown driver, an unknown class is the core.
    """
    known = DRIVERS.get(driver)
    if known is not None and known.roles:
        return known.roles.get(engine)
    return None if engine in NO_ENGINE else _ANY.get(engine, CORE)


MAX_DEVICES = 128
UNLIMITED = 1 << 64
_CARD = re.compile(r"card([0-9]{1,4})", re.ASCII)
_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})", re.ASCII)
_NODE = re.compile(r"(?:card|renderD)([0-9]{1,4})", re.ASCII)
FIRST_RENDER = 128  # the minor number of the first render node
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_INTEL_NAMES = {
    0x0BD5: "Data Center GPU Max 1550",
    0x0BDA: "Data Center GPU Max 1100",
    0x56A0: "Arc A770",
    0x56A1: "Arc A750",
    0x56A2: "Arc A580",
    0x56A5: "Arc A380",
    0x56A6: "Arc A310",
    0x56C0: "Data Center GPU Flex 170",
    0x56C1: "Data Center GPU Flex 140",
    0xE20B: "Arc B580",
    0xE20C: "Arc B570",
    0xE211: "Arc Pro B60",
    0xE212: "Arc Pro B50",
}
"""Intel's driver has no names of cards. Source: the PCI ID database."""
_VENDORS = {0x8086: "intel", 0x1002: "amd", 0x10DE: "nvidia", 0x1AF4: "virtio"}
_FIRST_OF_OTHERS = 300  # no vendor has this hundred in ``FIRST_INDEX``
_OTHERS = {"nvidia", "nvidia-drm"}  # read by NVML: its driver has no show_fdinfo
_TOTALS = ("device/mem_info_vram_total", "lmem_total_bytes")  # amdgpu; i915 as Intel ships it
_IDENTITY = ("", "/driver", "/drm", "/vendor", "/device", "/physfn")
_TILE = re.compile(r"tile[0-9]{1,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DrmCard:
    """A device, its directory in sysfs (``card``) and the minor numbers of its nodes.

    ``is_early``: the kernel is older than the first whose driver names engines in fdinfo.
    ``functions``: PCI addresses of its virtual functions (SR-IOV) that this machine uses itself.
    ``shares_host``: its memory is its host's, so that GTT is a part of it (amdgpu's APUs).
    """

    device: Device
    driver: str
    card: str
    minors: frozenset[int]
    shares_host: bool = False
    is_early: bool = False
    functions: frozenset[str] = frozenset()


class DrmCards(NamedTuple):
    """What a look found. ``unsure``: what could not be read of a card, by its directory."""

    cards: tuple[DrmCard, ...]
    unsure: Mapping[str, str]


def discover(
    sys_root: str, proc_root: str, *, taken: Collection[str] = (), any_driver: bool = False
) -> DrmCards:
    """Every device whose driver is known to report its clients, or of any driver.

    ``taken``: PCI addresses of the devices that another source reads. A virtual function is no GPU
    of its own but a part of the one that it is of, in whose time its clients work.

    Raises:
        UnreadError: the devices could not be listed.

    """
    listing = NotedReads()
    listed = listing.names(f"{sys_root}/class/drm")
    if listing.unread:  # also by a refusal: no card has gone
        raise UnreadError(listing.said)
    kernel = listing.text(f"{proc_root}/sys/kernel/osrelease")
    listing.require()
    found: list[DrmCard] = []
    functions: dict[str, str] = {}  # the card that a card is a virtual function of, by its folder
    unsure: dict[str, str] = {}
    for name in listed:
        card = f"{sys_root}/class/drm/{name}"
        if not _CARD.fullmatch(name) or len(found) >= MAX_DEVICES:
            continue
        reads = NotedReads()
        driver = reads.link(f"{card}/device/driver")
        nodes = minors_in(f"{card}/device/drm", reads)
        minors = nodes | {int(name.removeprefix("card"))}
        # A card without a render node only displays (VGA of a BMC).
        renders = any(minor >= FIRST_RENDER for minor in minors)
        wanted = driver in DRIVERS or (any_driver and driver not in _OTHERS and renders)
        place = reads.link(f"{card}/device")  # on other buses a name of another form
        pci = place.lower() if PCI_ADDRESS.fullmatch(place.lower()) else ""
        if wanted and not (pci and pci in taken):
            shares = is_apu(f"{card}/device", reads)
            host = (reads.host_memory(proc_root) or UNLIMITED) if shares else 0
            functions[card] = reads.link(f"{card}/device/physfn").lower()
            device = _device(card, driver, place, pci, kernel, host, reads)
            # Half of what says which card it is would make another card of it.
            if reads.unread.keys().isdisjoint(f"{card}/device{each}" for each in _IDENTITY):
                early = _is_early(kernel, DRIVERS.get(driver))
                found.append(DrmCard(device, driver, card, minors, shares, early))
        if reads.unread or not nodes:
            unsure[card] = reads.said if reads.unread else f"{card}/device/drm has no node"
    return DrmCards(tuple(_with_functions(found, functions)), unsure)


def _is_early(kernel: str, known: DriverTraits | None) -> bool:
    version = _VERSION.match(kernel)
    if known is None or version is None:
        return False
    return (int(version[1]), int(version[2])) < known.since


def _with_functions(cards: Collection[DrmCard], of: Mapping[str, str]) -> Iterator[DrmCard]:
    """The cards, each with its virtual functions. One whose card is not here stays a card.

    ``of``: the PCI address of the card that each is a function of, "" of none, by its directory.
    """
    # A function has no memory, energy or sensors of its own. As a card it would count the same use
    # twice: its clients work in the time of the card that it is of.
    known = {card.device.pci_bus_id for card in cards} - {""}
    for card in cards:
        own = [one for one in cards if of[one.card] == card.device.pci_bus_id != ""]
        if of[card.card] not in known:
            minors = card.minors.union(*(one.minors for one in own))
            functions = frozenset(one.device.pci_bus_id for one in own)
            yield replace(card, minors=minors, functions=functions)


def _device(
    card: str, driver: str, place: str, pci: str, kernel: str, host: int, reads: NotedReads
) -> Device:
    number_of = int(card.rpartition("/card")[2])
    vendor_id, device_id = (reads.hexadecimal(f"{card}/device/{n}") for n in ("vendor", "device"))
    if not place or (pci and None in {vendor_id, device_id}):  # all on this bus have both
        reads.unread.setdefault(f"{card}/device/vendor", Failed(errno.ENODEV))
    # Devices that are on no PCI bus have no id: there the driver says who made them.
    known = DRIVERS.get(driver)
    vendor = (known.vendor if known else "") or driver
    if vendor_id is not None:
        vendor = _VENDORS.get(vendor_id, f"{vendor_id:04x}")
    # The name that the driver has, or else the one under which Intel sells it, or else the ids.
    model = label(reads.text(f"{card}/device/product_name"))
    if not model and vendor == "intel" and device_id in _INTEL_NAMES:
        model = f"Intel {_INTEL_NAMES[device_id]}"
    if not model and None not in {vendor_id, device_id}:
        model = f"{vendor_id:04x}:{device_id:04x}"
    # Beside its own memory it can have some of its host's (GTT), however much it may no more than
    # ``host``. Of a device without any, and of a driver that reports none, it is not known.
    total = max((reads.number(f"{card}/{name}") or 0 for name in _TOTALS), default=0)
    if total:
        total += min(reads.number(f"{card}/device/mem_info_gtt_total") or 0, host)
    tiles = [name for name in reads.names(f"{card}/device") if _TILE.fullmatch(name)]  # xe's
    of_tiles = (reads.number(f"{card}/device/{t}/physical_vram_size_bytes") or 0 for t in tiles)
    return Device(
        uuid=f"DRM-{pci or place}",
        index=(FIRST_INDEX.get(vendor) or _FIRST_OF_OTHERS) + number_of,  # NVML's begin at 0
        vendor=vendor,
        model=model,
        minor=number_of,
        pci_bus_id=pci,
        driver_version=label(f"{driver} {kernel}".strip()),
        memory_bytes=total or sum(of_tiles) or None,
    )


def is_apu(folder: str | Path, reads: NotedReads) -> bool:
    """Whether amdgpu's device is an APU, which has what it wants of its host's memory.

    Only an APU has the voltage of a north bridge (amdgpu_pm.c: "only APUs have vddnb").
    """
    above = f"{folder}/hwmon"
    return any(reads.text(f"{above}/{n}/in1_label") == "vddnb" for n in reads.names(above))


def minors_in(folder: str | Path, reads: NotedReads) -> frozenset[int]:
    """The minor numbers of the nodes in a device's folder ``drm``."""
    found = reads.names(str(folder))
    return frozenset(int(match[1]) for match in map(_NODE.fullmatch, found) if match)
