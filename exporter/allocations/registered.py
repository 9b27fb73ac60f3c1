"""What the device plugins of HAMi and Volcano register about a node, in the node's annotations.

Their schedulers count in these figures: a percentage of a card's memory is a percentage of the
registered memory. That may differ from the driver's (HAMi's ``deviceMemoryScaling``, Volcano's
memory factor). A tenant cannot write a node's annotations.

Source: HAMi's ``pkg/device/devices.go`` (EncodeNodeDevices): ``UUID,count,memory,...:`` for each
card, or since 2.6 a JSON list of objects with ``id`` and ``devmem``.
"""

import json

from exporter.allocations.quantities import natural_of, parse_natural
from exporter.model import NodeFacts

HAMI_REGISTERS = ("hami.io/node-nvidia-register", "4pd.io/node-nvidia-register")
VOLCANO_REGISTERS = ("volcano.sh/node-vgpu-register",)

_MAX_LENGTH = 64 * 1024
_MEMORY_FIELD = 2


def is_registered(node: NodeFacts, keys: tuple[str, ...]) -> bool:
    """Whether a device plugin has registered the node's cards under one of the keys."""
    return any(node.annotations.get(key) for key in keys)


def registered_memory(node: NodeFacts, keys: tuple[str, ...], uuid: str) -> int | None:
    """Return a card's registered memory, in the scheduler's units; None if there is none."""
    text = next((found for key in keys if (found := node.annotations.get(key))), "")
    if len(text) > _MAX_LENGTH:
        return None
    cards = _of_json(text) if text.startswith("[") else _of_list(text)
    return cards.get(uuid) or None


def _of_list(text: str) -> dict[str, int | None]:
    entries = (entry.split(",") for entry in text.split(":"))
    return {e[0]: parse_natural(e[_MEMORY_FIELD]) for e in entries if len(e) > _MEMORY_FIELD}


def _of_json(text: str) -> dict[str, int | None]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    entries = [e for e in document if isinstance(e, dict)] if isinstance(document, list) else []
    return {str(e.get("id")): natural_of(e.get("devmem")) for e in entries}
