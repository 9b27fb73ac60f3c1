"""Dynamic resource allocation (``resource.k8s.io/v1``) with NVIDIA's driver.

k8s-dra-driver-gpu ``cmd/gpu-kubelet-plugin/deviceinfo.go``: a slice's device is ``gpu-<minor>``, or
``gpu-<minor>-mig-<profile>-<profile id>-<start>``, with ``type``, ``uuid`` and the like as
attributes. A claim of several containers gives the same devices to each of them, and no share. A
share is what a claim has consumed of a device's capacity (KEP-5075). A container that asks for an
extended resource gets a claim for it (KEP-5004).
"""

from exporter.model import ClaimedDevice, ClaimRef, OfferedDevice
from exporter.simulation import identity
from exporter.simulation.description import DeviceSpec
from exporter.simulation.schemes.system import (
    MIB,
    Amount,
    ContainerRequest,
    Offer,
    PlacedPod,
    SchemeOutput,
    Site,
    System,
)

DRIVER = "gpu.nvidia.com"
PROFILE_IDS = {1: 19, 2: 14, 3: 9, 4: 5, 7: 0}  # by the profile's compute slices


def _write(order: PlacedPod) -> SchemeOutput:
    limits: dict[str, dict[str, Amount]] = {}
    refs, claims = {}, {}
    for ask in order.asks:
        extended = ask.container.resource
        request = f"container-{ask.place}-request-0" if extended else "gpu"
        claim = ask.container.claim or f"{order.name}-{ask.name}-gpu"
        refs[ask.name] = (ClaimRef(claim, request, extended),)
        if extended:
            limits[ask.name] = {extended: ask.count}
        if ask.allocation.placed:
            devices = (_claimed(d, ask, claim, request, order.site.node) for d in ask.devices)
            claims[claim] = tuple(devices)
    return SchemeOutput(limits, refs=refs, claims=claims)


def _claimed(
    device: DeviceSpec, ask: ContainerRequest, claim: str, request: str, pool: str
) -> ClaimedDevice:
    consumed = {} if ask.memory is None else {"memory": f"{ask.memory // MIB}Mi"}
    share = identity.uuid("share", claim, device.uuid) if consumed else ""
    return ClaimedDevice(request, DRIVER, pool, _name(device), share, consumed=consumed)


def _name(device: DeviceSpec) -> str:
    if not device.profile:
        return f"gpu-{device.minor}"
    slices = int(device.profile.partition("g.")[0])
    profile = device.profile.replace(".", "").replace("+", "-")  # a name is a DNS label
    number = PROFILE_IDS.get(slices, 0)
    return f"gpu-{device.minor}-mig-{profile}-{number}-{device.instance_id or 0}"


def _offer(site: Site) -> Offer:
    devices = {
        (DRIVER, site.node, _name(device)): OfferedDevice(
            _attributes(device), {"memory": f"{device.memory_bytes // MIB}Mi"}
        )
        for device in site.of("nvidia")
        if not device.divided
    }
    return Offer(devices=devices)


def _attributes(device: DeviceSpec) -> dict[str, str]:
    attributes = {
        "type": "mig" if device.profile else "gpu",
        "uuid": device.uuid,
        "productName": device.model,
        "driverVersion": device.driver_version,
    }
    if device.profile:
        attributes |= {"parentUUID": device.parent_uuid, "profile": device.profile}
    return attributes


SYSTEM = System(_write, _offer)
