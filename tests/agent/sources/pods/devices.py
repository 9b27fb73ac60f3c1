"""ResourceClaims and ResourceSlices as the API server serves them, in each version."""

import json
from collections.abc import Mapping
from typing import Any

from tests.agent.sources.pods.apistate import DEVICES, Request, State
from tests.agent.sources.pods.documents import Document

DRIVER = "gpu.nvidia.com"


def answer(request: Request, state: State) -> bytes | None:
    """What is asked for, None where it is not there or its version is not served."""
    rest = [part for part in request.path.removeprefix(DEVICES).split("/") if part]
    if not rest:
        versions = [{"groupVersion": f"{DEVICES[6:]}/{v}", "version": v} for v in state.versions]
        return json.dumps({"kind": "APIGroup", "versions": versions}).encode() if versions else None
    if rest[0] not in state.versions:
        return None
    if rest == [rest[0]]:
        kinds = ["resourceclaims", "resourceslices"]
        kinds += ["devicetaintrules"] if state.taint_rules is not None else []
        resources = [{"name": kind} for kind in kinds]
        return json.dumps({"kind": "APIResourceList", "resources": resources}).encode()
    if rest[1:] == ["devicetaintrules"]:
        return json.dumps({"kind": "DeviceTaintRuleList", "items": state.taint_rules}).encode()
    if rest[1:] == ["resourceslices"]:
        node = request.query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        items = [as_in(rest[0], s) for s in state.slices if node in ("", s["spec"]["nodeName"])]
        return json.dumps({"kind": "ResourceSliceList", "metadata": {}, "items": items}).encode()
    claim = state.claims.get(f"{rest[2]}/{rest[4]}")
    return None if claim is None else json.dumps(claim).encode()


def as_in(version: str, document: Document) -> Document:
    """A slice as this version has it: v1beta1 nests what a device is in ``basic``."""
    if version != "v1beta1":
        return document
    devices = [
        {"name": device["name"], "basic": {k: v for k, v in device.items() if k != "name"}}
        for device in document["spec"]["devices"]
    ]
    return {**document, "spec": {**document["spec"], "devices": devices}}


def claim_document(*results: Mapping[str, Any]) -> Document:
    """A ResourceClaim that was allocated these devices; of none it is not allocated yet."""
    allocation = {"allocation": {"devices": {"results": list(results)}}} if results else {}
    return {"kind": "ResourceClaim", "metadata": {"name": "c"}, "status": allocation}


def result(device: str, request: str = "gpu", **more: Any) -> Document:
    """One device of an allocation."""
    named = {"request": request, "driver": DRIVER, "pool": "node-1", "device": device}
    return {**named, **more}


def slice_document(
    devices: Mapping[str, str], *, node: str = "node-1", generation: int = 1
) -> Document:
    """A ResourceSlice of devices (name → UUID) of 80 GiB."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-slice"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": name,
                    "attributes": {
                        "type": {"string": "gpu"},
                        "uuid": {"string": uuid},
                        "driverVersion": {"version": "580.65.6"},
                        f"{DRIVER}/index": {"int": 0},
                        "example.com/spare": {"bool": True},
                    },
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for name, uuid in devices.items()
            ],
        },
    }
