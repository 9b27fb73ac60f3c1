"""Pods to watch: documents of small pods that sleep until they are told what to use."""

from typing import Any

from tools.cluster.board import uuid
from tools.cluster.images import BUSYBOX
from tools.cluster.kubectl import Document

NAMESPACE = "ml"
SLEEP = "trap 'exit 0' TERM; while :; do sleep 1; done"
_LITTLE = {"cpu": "1m", "memory": "16Mi"}
QOS: dict[str, dict[str, dict[str, str]]] = {
    "guaranteed": {
        "requests": {"cpu": "10m", "memory": "32Mi"},
        "limits": {"cpu": "10m", "memory": "32Mi"},
    },
    "burstable": {"requests": _LITTLE},
    "besteffort": {},
}


def container(name: str = "main", script: str = SLEEP, **more: Any) -> Document:
    """A container of the busybox image that runs a script."""
    command = ["/bin/sh", "-c", script]
    return {"name": name, "image": BUSYBOX, "imagePullPolicy": "Never", "command": command, **more}


def pod(name: str, *containers: Document, **spec: Any) -> Document:
    """A pod of these containers that ends quickly when it is deleted."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "containers": list(containers) or [container()],
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def with_mgpu(document: Document, gpu: int, core: int, memory_mib: int) -> Document:
    """Give the first container a part of a GPU, as mGPU's scheduler writes it down."""
    first = document["spec"]["containers"][0]
    wanted = {"vke.volcengine.com/mgpu-core": core, "vke.volcengine.com/mgpu-memory": memory_mib}
    resources = first.setdefault("resources", {})
    resources["limits"] = {**resources.get("limits", {}), **{k: str(v) for k, v in wanted.items()}}
    notes = document["metadata"].setdefault("annotations", {})
    notes[f"vke.volcengine.com/gpu-index-container-{first['name']}"] = str(gpu)
    return document


def gpu_of(device_id: str) -> int:
    """The index of the GPU that a device id of the plugin names."""
    return next(index for index in range(64) if uuid(index) == device_id)
