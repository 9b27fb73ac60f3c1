"""Claims and slices of dynamic resource allocation, as a report's node has them."""

from collections.abc import Mapping
from typing import Any

from tests.agent.sources.pods.devices import DRIVER, claim_document
from tests.agent.sources.pods.documents import Document
from tests.field.nodes import FieldNode
from tests.field.pods import FieldPod


def claim(node: FieldNode, name: str, *results: dict[str, Any]) -> None:
    """Let a claim of the pods' namespace be allocated these devices."""
    node.claims["ml", name] = claim_document(*results)


def extended(*requests: tuple[str, str]) -> dict[str, Any]:
    """The claim that the scheduler makes of ``nvidia.com/gpu``: (container, request)."""
    return {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "extended",
            "requestMappings": [
                {"containerName": c, "resourceName": "nvidia.com/gpu", "requestName": r}
                for c, r in requests
            ],
        }
    }


def offers(
    *devices: Mapping[str, Any], driver: str = DRIVER, name: str = "node-1", generation: int = 1
) -> Document:
    """A slice of devices that are written out by ``device``."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": "node-1",
            "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def device(name: str, capacity: Mapping[str, str], **attributes: str) -> Document:
    """A device with attributes that are texts and capacities that are quantities."""
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in attributes.items()},
        "capacity": {key: {"value": value} for key, value in capacity.items()},
    }


def claimed(name: str, *claims: str, phase: str = "Running") -> FieldPod:
    """A pod whose container has these claims."""
    return FieldPod(name, {"main": {}}, claims={"main": claims}, phase=phase)
