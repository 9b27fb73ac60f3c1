"""Into how many replicas each device of the node is divided: time-sliced, MPS's or of its users.

Stands on GPU feature discovery's node labels (NVIDIA/k8s-device-plugin,
``internal/lm/resource.go``: ``<resource>.replicas`` is for one device; 1 is "not shared", 0 that
sharing does not apply) and on GKE's ``cloud.google.com/gke-max-shared-clients-per-gpu``. Without
such a label the replicas are counted: what the node offers of the resource, over the devices that
it can mean. Intel's plugin (``-shared-dev-num``) has no label, and is always counted.

Not counted where HAMi is at work: it offers as many ``nvidia.com/gpu`` as pods may share the cards
(``deviceSplitCount``), which are no replicas. Devices of one resource that are divided differently
cannot be told apart, and nothing is said of them where the numbers show it.
"""

from collections.abc import Iterable

from exporter.allocations.quantities import parse_natural, parse_quantity
from exporter.model import Device, NodeFacts

_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
_MIG = "nvidia.com/mig-"
_OF_CARDS = {"nvidia": ("nvidia.com/gpu",), "intel": ("gpu.intel.com/i915", "gpu.intel.com/xe")}
_OTHER_USE = ("hami.io/", "4pd.io/")
_MOST = 10_000  # of one device; more are not believed


def sharing_replicas(node: NodeFacts) -> dict[str, int]:
    """Return the replicas of each device that is shared by them, by UUID. Never raises."""
    parents = {device.parent_uuid for device in node.devices}
    units = [device for device in node.devices if device.uuid not in parents]
    found = {}
    for device in units:
        count = _stated(node, device)
        if count is None:
            count = _counted(node, device, units)
        if count is not None and 1 < count <= _MOST:
            found[device.uuid] = count
    return found


def _resources(device: Device) -> tuple[str, ...]:
    """Return the names under which a plugin may offer the device."""
    cards = _OF_CARDS.get(device.vendor.lower(), ())
    if not device.parent_uuid:
        return cards
    return (_MIG + device.profile.replace("+", "."), *cards)  # strategy mixed, or else single


def _stated(node: NodeFacts, device: Device) -> int | None:
    labels = (f"{name}.replicas" for name in _resources(device))
    keys = (*labels, _GKE_CLIENTS) if device.vendor.lower() == "nvidia" else tuple(labels)
    stated = (parse_natural(node.labels.get(key, "")) for key in keys)
    return next((count for count in stated if count), None)


def _counted(node: NodeFacts, device: Device, units: Iterable[Device]) -> int | None:
    if any(key.startswith(_OTHER_USE) for key in (*node.labels, *node.annotations)):
        return None
    for name in _resources(device):
        alike = sum(name in _resources(other) for other in units)
        offers = (node.allocatable.get(key, "") for key in (name, f"{name}.shared"))
        offered = next((n for offer in offers if (n := parse_quantity(offer))), None)
        if offered is not None:
            return offered // alike if offered % alike == 0 else None
    return None
