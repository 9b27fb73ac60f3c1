"""Counts the replicas of each device: the parts into which a plugin divides it.

That are time-slicing, MPS and Intel's plugin.

Sources: GPU feature discovery's node labels (NVIDIA/k8s-device-plugin, ``internal/lm/resource.go``:
``<resource>.replicas`` is for one device; 1 is "not shared", 0 that sharing does not apply) and
GKE's ``cloud.google.com/gke-max-shared-clients-per-gpu``. Without such a label the replicas are
counted: the amount of the resource that the node offers, divided by the devices that it can be. So
they are where the label says 1 and the plugin shows that it shares (a discovery without the
plugin's configuration, k8s-device-plugin#732): by the resource's suffix, or a replica's id.
Intel's plugin (``-shared-dev-num``) has no label, and is always counted.

Replicas are not counted if HAMi runs on the node: it offers as much ``nvidia.com/gpu`` as pods may
share the cards (``deviceSplitCount``), and those are not replicas. If devices of one resource are
divided differently, the labels do not distinguish them, and no replicas are returned.

A card that is lost stays in what its plugin offers (k8s-device-plugin#2038), and a plugin that
starts again offers nothing for a while. So what was last offered of devices that were all there
goes on to count.
"""

from collections.abc import Iterable, Iterator

from exporter.agent.allocations.quantities import parse_natural, parse_quantity
from exporter.model import Device, NodeFacts

_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_MIG = "nvidia.com/mig-"
_OF_CARDS = {"nvidia": ("nvidia.com/gpu",), "intel": ("gpu.intel.com/i915", "gpu.intel.com/xe")}
_OTHER_USE = ("hami.io/", "4pd.io/")
_MOST = 10_000  # of one device; more are rejected


def sharing_replicas(node: NodeFacts) -> dict[str, int]:
    """Return the number of replicas of each device that has some, by UUID. Never raises."""
    parents = {device.parent_uuid for device in node.devices}
    units = [device for device in node.devices if device.uuid not in parents]
    found = {}
    for device in units:
        keys = [f"{name}.replicas" for name in _resources(node, device)]
        if device.vendor.lower() == "nvidia":
            keys.append(_GKE_CLIENTS)
        stated = (parse_natural(node.labels.get(key, "")) for key in keys)
        count = next((number for number in stated if number), None)
        # A discovery without the plugin's configuration says 1 whatever the plugin does.
        if count is None or (count == 1 and _is_shared(node, device)):
            count = _by_offer(node, device, units)
        if count is not None and 1 < count <= _MOST:
            found[device.uuid] = count
    return found


def _resources(node: NodeFacts, device: Device) -> tuple[str, ...]:
    """Return the names under which a plugin may offer the device.

    An instance's name may have extras behind its profile, which NVML does not state: ``.gfx``.
    """
    cards = _OF_CARDS.get(device.vendor.lower(), ())
    if not device.parent_uuid:
        return cards
    own = _MIG + device.profile.replace("+", ".")
    offers = (name.removesuffix(".shared") for name in node.allocatable)
    extras = {name for name in offers if name.startswith((f"{own}.", f"{own}-"))}
    return (own, *sorted(extras), *cards)  # strategy mixed, or else single


def _is_shared(node: NodeFacts, device: Device) -> bool:
    """Whether the plugin itself shows that it shares the device, whatever a label says."""
    offers = (node.allocatable.get(f"{name}.shared", "") for name in _resources(node, device))
    if any(parse_quantity(offer) for offer in offers):
        return True
    ids = (i for grants in node.grants.values() for grant in grants for i in grant.device_ids)
    return any(each.startswith(f"{device.uuid}::") for each in ids)


def _by_offer(node: NodeFacts, device: Device, units: Iterable[Device]) -> int | None:
    """Return how often the node offers the device, with all others that have its resource."""
    # HAMi offers as much of the resource as pods may share the cards. Those are not replicas.
    if any(key.startswith(_OTHER_USE) for key in (*node.labels, *node.annotations)):
        return None
    for name in _resources(node, device):
        if name in node.replicas:
            return node.replicas[name]
        offered = _offered(node, name)
        # Where devices of one resource are divided differently, nothing distinguishes them.
        if offered is not None:
            alike = number_of_units(
                node, name, sum(name in _resources(node, other) for other in units)
            )
            return offered // alike if offered % alike == 0 else None
    return None


def _offered(node: NodeFacts, name: str) -> int | None:
    """Return how much a node offers of a resource, also where it is renamed; None if nothing."""
    offers = (node.allocatable.get(key, "") for key in (name, f"{name}.shared"))
    return next((number for offer in offers if (number := parse_quantity(offer))), None)


def number_of_units(node: NodeFacts, name: str, known: int) -> int:
    """Return how many devices a resource has: those that are known, or more by discovery's label.

    A card that is lost is not known any more, and the plugin goes on to offer it.
    """
    stated = parse_natural(node.labels.get(f"{name}.count", "")) or 0
    return max(known, stated if stated <= _MOST else 0)


class LastOffers:
    """What a node's offers say of replicas, kept while an offer and the devices do not agree.

    A lost card makes no shares of the others, nor does a plugin's start make whole cards of shares.
    """

    def __init__(self) -> None:
        self._good: dict[str, tuple[int, int]] = {}  # by resource: what was offered, of how many

    def replicas(self, node: NodeFacts) -> dict[str, int]:
        """Return the replicas of each device of a resource, by the last offer that fitted."""
        for name, offered, units in _offers(node):
            last_offered, last_units = self._good.get(name, (0, 0))
            is_lost = offered == last_offered and units < last_units
            if offered % units == 0 and not is_lost:
                self._good[name] = offered, units
        return {name: offered // units for name, (offered, units) in self._good.items()}


def _offers(node: NodeFacts) -> Iterator[tuple[str, int, int]]:
    """Yield each resource of the node's devices, how much is offered, and of how many devices."""
    parents = {device.parent_uuid for device in node.devices}
    names = [_resources(node, device) for device in node.devices if device.uuid not in parents]
    for name in dict.fromkeys(name for own in names for name in own):
        if offered := _offered(node, name):
            units = number_of_units(node, name, sum(name in own for own in names))
            yield name, offered, units
