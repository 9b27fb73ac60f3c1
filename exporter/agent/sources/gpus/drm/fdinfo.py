"""Parses ``/proc/PID/fdinfo/FD`` of a DRM device, and adds up the memory of its clients. Pure.

Source: Documentation/gpu/drm-usage-stats.rst of the kernel. Lines outside the specification or the
bounds are left out; nothing is guessed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.agent.sources.gpus.drm.drmdiscovery import PCI_ADDRESS
from exporter.model import Device, DeviceMemory, ProcessMemory

LONGEST = 64 * 1024  # of the text, in bytes
MAX_LINES = 512
MAX_ENGINES = 32
MAX_REGIONS = 32

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,32}", re.ASCII)
_NUMBER = re.compile(r"([0-9]{1,20})(?:[ \t]+([A-Za-z]{1,3}))?", re.ASCII)
_SIZES = {None: 1, "KiB": 1024, "MiB": 1024**2}
# The longer prefixes come first: an engine's capacity is no engine of that name.
_ENGINE_KEYS = (
    ("drm-engine-capacity-", "capacity", None),
    ("drm-engine-", "busy_ns", "ns"),
    ("drm-total-cycles-", "total_cycles", None),
    ("drm-cycles-", "cycles", None),
)
_REGION_KEYS = ("drm-resident-", "drm-memory-", "drm-total-")  # the most exact first
_SHARED_KEYS = ("drm-shared-",)


class EngineUsage(NamedTuple):
    """The use of one class of engines by a client. None: not reported.

    ``busy_ns`` and ``cycles`` are counters, summed over the ``capacity`` engines of the class.
    ``total_cycles`` is the device's clock in the unit of ``cycles``.
    """

    busy_ns: int | None = None
    cycles: int | None = None
    total_cycles: int | None = None
    capacity: int = 1


@dataclass(frozen=True, slots=True)
class DrmClient:
    """The ``fdinfo`` of one open DRM file.

    ``pdev``: the PCI address in lower case, "" for other buses. ``held``: bytes by memory region,
    resident ones if the driver reports them, or else the nearest figure. ``shared``: those of
    buffers that another client has as well.
    """

    driver: str
    client_id: int
    pdev: str = ""
    engines: Mapping[str, EngineUsage] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    shared: Mapping[str, int] = field(default_factory=dict)


def parse(content: bytes) -> DrmClient | None:
    """The client; None if the text is not that of a DRM client with an id. Never raises.

    Without an id, two descriptors of one client look like two clients.
    """
    texts: dict[str, str] = {}
    lines = content[:LONGEST].decode("ascii", errors="replace").split("\n", MAX_LINES)
    for line in lines[:MAX_LINES]:
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            texts[key] = value.strip(" \t\r")
    driver = texts.get("drm-driver", "")
    client_id = _number(texts.get("drm-client-id", ""))
    if client_id is None or not _NAME.fullmatch(driver):
        return None
    pdev = texts.get("drm-pdev", "").lower()
    return DrmClient(
        driver,
        client_id,
        pdev if PCI_ADDRESS.fullmatch(pdev) else "",
        _engines(texts),
        _regions(texts, _REGION_KEYS),
        _regions(texts, _SHARED_KEYS),
    )


_OLD_FORM = re.compile(rb"^pasid:.*\n(?:.*\n)*?vram mem:", re.MULTILINE)


def is_old_form(content: bytes) -> bool:
    """Whether it is what amdgpu said before Linux 5.19: sizes and percentages, and no client."""
    return b"drm-driver:" not in content and _OLD_FORM.search(content) is not None


def _engines(texts: Mapping[str, str]) -> dict[str, EngineUsage]:
    found: dict[str, EngineUsage] = {}
    for key, text in texts.items():
        for prefix, what, unit in _ENGINE_KEYS:
            if key.startswith(prefix):
                name, number = key.removeprefix(prefix), _number(text, unit)
                room = name in found or len(found) < MAX_ENGINES
                if number is not None and room and _NAME.fullmatch(name):
                    found[name] = found.get(name, EngineUsage())._replace(**{what: number})
                break
    # Cycles alone are no time: the clock of an engine changes, so they need the device's own cycles
    # beside them.
    return {
        name: engine._replace(capacity=engine.capacity or 1)
        for name, engine in found.items()
        if engine.busy_ns is not None or None not in {engine.cycles, engine.total_cycles}
    }


def _regions(texts: Mapping[str, str], prefixes: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for prefix in prefixes:
        for key, text in texts.items():
            name, match = key.removeprefix(prefix), _NUMBER.fullmatch(text)
            unit = _SIZES.get(match[2]) if match else None
            is_region = key.startswith(prefix) and not key.startswith("drm-total-cycles-")
            if is_region and match and unit and _NAME.fullmatch(name):
                found.setdefault(name, int(match[1]) * unit)
    return dict(list(found.items())[:MAX_REGIONS])


def _number(text: str, unit: str | None = None) -> int | None:
    match = _NUMBER.fullmatch(text)
    return int(match[1]) if match and match[2] == unit else None


LOCAL = re.compile(r"(?:vram|local)[0-9]*", re.ASCII)  # amdgpu, xe and i915; others have none
OF_AN_APU = re.compile(r"vram|gtt", re.ASCII)  # whose memory is its host's
_KINDS: frozenset[str] = frozenset()  # fdinfo does not say who computes and who draws


def held_by(
    clients: Iterable[tuple[int, DrmClient]],
    device: Device,
    used_bytes: int | None,
    cut: AbstractSet[int] = frozenset(),
    regions: re.Pattern[str] = LOCAL,
) -> DeviceMemory:
    """Device memory by process: what is in its ``regions``.

    Clients of one process share buffers with each other, as a browser's do: of what they share the
    largest counts once, so that a process holds at least as much. Sizes are None on a device
    without its own memory. ``used_bytes`` of the whole device is its driver's figure, None without
    one: the clients' sum is not all of it. Processes that are ``cut`` may hold more, so that their
    sizes are None.
    """
    held: dict[int, int | None] = {}
    shared: dict[tuple[int, str], int] = {}
    for pid, client in clients:
        before = held.setdefault(pid, None)
        # Every client reports a shared buffer as its own. Which of them share which is not known,
        # so the largest shared part counts once: a process holds at least that much.
        for region, size in client.held.items():
            if regions.fullmatch(region):
                common = min(client.shared.get(region, 0), size)
                counted = shared.get((pid, region), 0)
                shared[pid, region] = max(common, counted)
                before = (before or 0) + size - min(common, counted)
        held[pid] = before
    held |= dict.fromkeys(held.keys() & cut, None)
    processes = tuple(ProcessMemory(pid, size, _KINDS) for pid, size in held.items())
    return DeviceMemory(device.memory_bytes, used_bytes, None, processes)
