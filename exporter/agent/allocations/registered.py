"""What the device plugins of HAMi and Volcano register about a node, in the node's annotations.

Their schedulers count in these figures: a percentage of a card's memory is a percentage of the
registered memory. That may differ from the driver's (HAMi's ``deviceMemoryScaling``, Volcano's
memory factor). A tenant cannot write a node's annotations.

Source: HAMi's ``pkg/device/devices.go`` (EncodeNodeDevices): ``UUID,count,memory,...:`` for each
card, or since 2.6 a JSON list of objects with ``id`` and ``devmem``.

Volcano's plugins count memory in units of a factor that is theirs alone: they register a card's MiB
divided by it, rounded down (Project-HAMi/volcano-vgpu-device-plugin ``pkg/plugin/register.go``),
and offer one device for each unit (volcano-sh/devices ``pkg/plugin/nvidia/utils.go``). HAMi applies
its own factor before it writes anything.
"""

import json
from collections.abc import Iterable
from math import gcd

from exporter.agent.allocations.devicenames import cards, common_memory
from exporter.agent.allocations.quantities import natural_of, parse_natural, parse_quantity
from exporter.agent.allocations.replicas import number_of_units
from exporter.model import MIB, NodeFacts

HAMI_REGISTERS = ("hami.io/node-nvidia-register", "4pd.io/node-nvidia-register")
AMD_REGISTERS = ("hami.io/node-amd-register",)  # HAMi's pkg/device/amd/device.go
VOLCANO_REGISTERS = ("volcano.sh/node-vgpu-register",)

_CARDS = "volcano.sh/gpu-number"  # how many of them Volcano's plugin offers
_MAX_LENGTH = 64 * 1024
_MEMORY_FIELD = 2
_ROUND = 10**6 << 10  # a number is rounder, the more it has in common with this
_MAX_FACTORS = 10_000


def is_registered(node: NodeFacts, keys: tuple[str, ...]) -> bool:
    """Whether a device plugin has registered the node's cards under one of the keys."""
    return any(node.annotations.get(key) for key in keys)


def registered_memory(node: NodeFacts, keys: tuple[str, ...], uuid: str) -> int | None:
    """Return a card's registered memory, in the scheduler's units; None if there is none."""
    return _registered(node, keys).get(uuid) or None


def memory_factor(node: NodeFacts, resource: str, keys: tuple[str, ...], stated: int) -> int:
    """Return the MiB in one unit of memory of a plugin of Volcano's on this node.

    It follows from the node's own figures: what is registered under ``keys``, else how many units
    of ``resource`` the node offers, against the cards' memory. Where several numbers fit them,
    ``stated``, the user's, is taken if it is one of these, else the roundest. Without such figures
    it is ``stated``, or 1 if that is 0.
    """
    found = cards(node)
    sizes = {card.uuid: (card.memory_bytes or 0) // MIB for card in found}
    units = _registered(node, keys)
    offered = parse_quantity(node.allocatable.get(resource, ""))
    # What a node offers is the sum of all cards. It is divided only where they are alike. One that
    # is lost is still offered.
    counted = parse_quantity(node.allocatable.get(_CARDS, "")) or 0
    count = max(counted, number_of_units(node, "nvidia.com/gpu", len(found)))
    is_divisible = common_memory(found) is not None and offered and offered % count == 0
    if not units and offered and is_divisible:
        units = dict.fromkeys(sizes, offered // count)
    known = [(size, units[uuid] or 0) for uuid, size in sizes.items() if size and units.get(uuid)]
    if not known:
        return stated or 1
    possible = _factors(known)
    if stated in possible:
        return stated
    return max(possible, key=lambda factor: gcd(factor, _ROUND))


def _factors(known: Iterable[tuple[int, int]]) -> range:
    """Return the factors by which each number of MiB becomes its number of units."""
    # A card's MiB were divided by the factor and rounded down, so each card leaves a range of
    # factors. The one that was used is in all of them.
    sizes, units = zip(*known, strict=True)
    least = max(size // (count + 1) + 1 for size, count in zip(sizes, units, strict=True))
    most = min(size // count for size, count in zip(sizes, units, strict=True))
    if least <= most:
        return range(least, min(most, least + _MAX_FACTORS) + 1)
    nearest = max(1, round(sum(sizes) / sum(units)))  # other figures of memory than the driver's
    return range(nearest, nearest + 1)


def _registered(node: NodeFacts, keys: tuple[str, ...]) -> dict[str, int | None]:
    text = next((found for key in keys if (found := node.annotations.get(key))), "")
    if len(text) > _MAX_LENGTH:
        return {}
    if not text.startswith("["):
        lists = (entry.split(",") for entry in text.split(":"))
        return {e[0]: parse_natural(e[_MEMORY_FIELD]) for e in lists if len(e) > _MEMORY_FIELD}
    # HAMi writes JSON since 2.6.
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    entries = [e for e in document if isinstance(e, dict)] if isinstance(document, list) else []
    return {str(e.get("id")): natural_of(e.get("devmem")) for e in entries}
