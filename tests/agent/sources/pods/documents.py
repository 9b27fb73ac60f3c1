"""Pod and node documents as the API server writes them, small."""

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]


def container_id(seed: str) -> str:
    """64 hex digits made from ``seed``."""
    return hashlib.sha256(seed.encode()).hexdigest()


def pod_document(  # noqa: PLR0913 - each is a field of the document
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    node: str = "node-1",
    phase: str = "Running",
    containers: Mapping[str, str | None] | None = None,
    limits: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Document:
    """A pod with app ``containers`` (name → id, None while it has none), default one named main.

    The uid is made from namespace and name unless it is given; every container has ``limits``.
    """
    uid = uid or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace}/{name}"))
    if containers is None:
        containers = {"main": container_id(f"{uid}/main")}
    resources = {"limits": dict(limits or {}), "requests": dict(limits or {})}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": each, "resources": resources} for each in containers],
        },
        "status": {
            "phase": phase,
            "qosClass": "Burstable",
            "containerStatuses": [
                {
                    "name": each,
                    "containerID": f"containerd://{id_}" if id_ else "",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if id_ else {},
                }
                for each, id_ in containers.items()
            ],
        },
    }


def node_document(name: str, labels: Mapping[str, str], allocatable: Mapping[str, str]) -> Document:
    """A node."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {"allocatable": dict(allocatable)},
    }
