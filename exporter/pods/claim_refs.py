"""Which ResourceClaims a pod's containers take, from the pod itself. Pure.

Stands on core/v1: ``spec.resourceClaims``, ``status.resourceClaimStatuses`` (the claims that were
made from templates), ``containers[].resources.claims``, and of KEP-5004
``status.extendedResourceClaimStatus`` (the claim that stands for extended resources).
"""

from collections.abc import Iterator, Mapping

from exporter.model import ClaimRef
from exporter.pods.shapes import Json, mapping, mappings, text

MAX_REFERENCES = 256  # of one container
_OF_STATUS = ("resourceClaimStatuses", "extendedResourceClaimStatus")


def claim_references(spec: Json, status: Json) -> Mapping[str, tuple[ClaimRef, ...]]:
    """The references of each container that has any, by its name.

    A claim that is still to be made from its template is not there yet.
    """
    if "resourceClaims" not in spec and status.keys().isdisjoint(_OF_STATUS):
        return {}
    found: dict[str, dict[ClaimRef, None]] = {}
    for container, reference in (*_named(spec, status), *_for_extended_resources(status)):
        own = found.setdefault(container, {})
        if container and reference.claim and len(own) < MAX_REFERENCES:
            own[reference] = None
    return {container: tuple(own) for container, own in found.items() if own}


def _named(spec: Json, status: Json) -> Iterator[tuple[str, ClaimRef]]:
    claims = {
        text(claim.get("name")): text(claim.get("resourceClaimName"))
        for claim in (*mappings(spec, "resourceClaims"), *mappings(status, "resourceClaimStatuses"))
        if text(claim.get("resourceClaimName"))
    }
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in mappings(spec, kind):
            for taken in mappings(mapping(container, "resources"), "claims"):
                claim = claims.get(text(taken.get("name")), "")
                yield text(container.get("name")), ClaimRef(claim, text(taken.get("request")))


def _for_extended_resources(status: Json) -> Iterator[tuple[str, ClaimRef]]:
    made = mapping(status, "extendedResourceClaimStatus")
    claim = text(made.get("resourceClaimName"))
    for use in mappings(made, "requestMappings"):
        request, resource = text(use.get("requestName")), text(use.get("resourceName"))
        yield text(use.get("containerName")), ClaimRef(claim, request, resource)
