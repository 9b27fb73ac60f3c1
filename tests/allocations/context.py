"""What a case of ``vectors.json`` says, as the pods room and its sources hand it to decoders."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from exporter.allocations.registry import SCHEMES
from exporter.allocations.scheme import IndexBasis
from exporter.model import (
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
)
from tests.allocations.build import card, instance

Json = dict[str, Any]
# No two bases agree on any of them. Their memory is not known.
CARDS = tuple(
    Device(f"GPU-{index}", index, "nvidia", minor=(index + 1) % 4, pci_bus_id=f"0000:{pci}0:00.0")
    for index, pci in enumerate((2, 3, 0, 1))
)
BY_MINOR = {str(card.minor): card.uuid for card in CARDS}
BY_PCI = {str(n): c.uuid for n, c in enumerate(sorted(CARDS, key=lambda c: c.pci_bus_id))}
BASES = {scheme.name: scheme.index_basis for scheme in SCHEMES}
GKE_INSTANCE = replace(instance(3, 0), gpu_instance=0)  # GPU-3 has the minor 0
AMD_CARD = replace(card(0, memory=None, vendor="amd"), pci_bus_id="0000:19:00.0")


def pod_of(case: Json) -> Pod:
    return _pod(case["pod"], phase="Running")


def _pod(document: Json, phase: str = "") -> Pod:
    meta, spec = document["metadata"], document["spec"]
    return Pod(
        uid=meta.get("uid", meta["name"]),
        namespace=meta["namespace"],
        name=meta["name"],
        phase=phase,
        annotations=meta.get("annotations", {}),
        labels=meta.get("labels", {}),
        containers=tuple(
            Container(
                name=entry["name"],
                kind=kind,
                limits=entry.get("resources", {}).get("limits", {}),
                claims=tuple(_claims(entry, document.get("status", {}))),
            )
            for kind, key in (("init", "initContainers"), ("app", "containers"))
            for entry in spec.get(key, ())
        ),
    )


def _claims(container: Json, status: Json) -> Iterator[ClaimRef]:
    names = {s["name"]: s["resourceClaimName"] for s in status.get("resourceClaimStatuses", ())}
    for claim in container.get("resources", {}).get("claims", ()):
        yield ClaimRef(names[claim["name"]], claim.get("request", ""))
    extended = status.get("extendedResourceClaimStatus", {})
    for mapping in extended.get("requestMappings", ()):
        if mapping["containerName"] == container["name"]:
            request, resource = mapping["requestName"], mapping["resourceName"]
            yield ClaimRef(extended["resourceClaimName"], request, resource)


def node_of(case: Json) -> NodeFacts:
    """Return the four cards, and the devices that the case names."""
    context = case.get("context", {})
    named = sorted({gpu for e in case["expected"] for gpu in e["gpu_indices_or_uuids"]})
    others = [
        Device(uuid, 4 + n, "nvidia", pci_bus_id="f", parent_uuid=_parent(uuid))
        for n, uuid in enumerate(u for u in named if u.startswith(("GPU-", "MIG-")))
    ]
    return NodeFacts(
        devices=(*CARDS, *others, GKE_INSTANCE, AMD_CARD),
        labels={"kubernetes.io/os": "linux", **context.get("node_labels", {})},
        allocatable=context.get("node_allocatable", {}),
        grants=_grants(case),
        claims={
            (c["metadata"]["namespace"], c["metadata"]["name"]): tuple(_claimed(c))
            for c in context.get("resource_claims", ())
        },
        offered=dict(_offered(context)),
        pods={p.uid: p for p in map(_pod, context.get("other_pods", ()))},
    )


def _parent(uuid: str) -> str:
    return CARDS[0].uuid if uuid.startswith("MIG-") else ""


def _grants(case: Json) -> dict[str, tuple[Grant, ...]]:
    meta = case["pod"]["metadata"]
    grants = (
        Grant(container["name"], device["resource_name"], tuple(device["device_ids"]))
        for pod in case.get("context", {}).get("pod_resources", ())
        if (pod["namespace"], pod["name"]) == (meta["namespace"], meta["name"])
        for container in pod["containers"]
        for device in container["devices"]
    )
    return {meta["uid"]: tuple(grants)}


def _claimed(claim: Json) -> Iterator[ClaimedDevice]:
    for result in claim["status"]["allocation"]["devices"]["results"]:
        yield ClaimedDevice(
            request=result["request"],
            driver=result["driver"],
            pool=result["pool"],
            device=result["device"],
            share_id=result.get("shareID", ""),
            consumed=result.get("consumedCapacity", {}),
        )


def _offered(context: Json) -> Iterator[tuple[tuple[str, str, str], OfferedDevice]]:
    for item in context.get("resource_slices", ()):
        spec = item["spec"]
        for device in spec["devices"]:
            attributes = {name: a["string"] for name, a in device["attributes"].items()}
            capacity = {name: entry["value"] for name, entry in device["capacity"].items()}
            offered = OfferedDevice(attributes, capacity)
            yield (spec["driver"], spec["pool"]["name"], device["name"]), offered


def device_of(case: Json, gpu: str | None) -> str | None:
    """Return the UUID of what a case calls a device; None for what no device here is."""
    if case["scheme"] == "gke":
        return GKE_INSTANCE.uuid
    if gpu == AMD_CARD.pci_bus_id:
        return AMD_CARD.uuid
    if gpu and gpu.startswith("amdgpu_xcp"):
        return None
    if gpu is None or not gpu.isdigit():
        return gpu
    numbers = {IndexBasis.MINOR: BY_MINOR, IndexBasis.PCI: BY_PCI}
    return numbers.get(BASES[case["scheme"]], {}).get(gpu, f"GPU-{gpu}")
