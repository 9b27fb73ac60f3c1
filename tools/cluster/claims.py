"""Claims of GPUs: what DRA drivers offer of the node's cards, and documents that claim it.

The driver is Kubernetes' own test driver (``dra-driver/main.go``). Its devices are written as
three drivers write theirs: kubernetes-sigs/dra-driver-nvidia-gpu (a whole card; a card whose memory
is consumed, ``consumableShares: memory``), Project-HAMi/k8s-dra-driver (per cent of a card's cores,
and its memory), and one that nobody knows, which tells only the PCI address. NVIDIA's driver offers
an instance that it would make as well, and a card that it has tainted.
"""

import json
from pathlib import Path

from tests.fakenvml.scenario import Gpu
from tools.cluster.board import CLAIMED, FIRST_SLICE, Board
from tools.cluster.controlplane import ControlPlane
from tools.cluster.kubectl import Document
from tools.cluster.programs import Program
from tools.cluster.sandbox import NODE
from tools.cluster.tools import program
from tools.cluster.workloads import NAMESPACE

WHOLE, MEMORY, PARTS, UNKNOWN, DIVIDED, TAINTED = CLAIMED
NVIDIA, HAMI, OTHER = "gpu.nvidia.com", "hami-core-gpu.project-hami.io", "gpu.example.com"
CLASS_OF = {
    WHOLE: "whole.gpu.nvidia.com",
    MEMORY: "memory.gpu.nvidia.com",
    PARTS: HAMI,
    UNKNOWN: OTHER,
    DIVIDED: "mig.nvidia.com",
    TAINTED: NVIDIA,
}
TAINT = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
HEALTH = "health.json"
EXTENDED = "example.com/claimed-gpu"  # a claim of a whole card stands for it
_SHAREABLE = "device.allowMultipleAllocations"
_OF_NVIDIA = f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type"
_SELECTED = {
    WHOLE: f"{_OF_NVIDIA} == 'gpu' && !{_SHAREABLE}",
    MEMORY: f"device.driver == '{NVIDIA}' && {_SHAREABLE}",
    PARTS: f"device.driver == '{HAMI}' && device.attributes['{HAMI}'].type == 'hami-gpu'",
    UNKNOWN: f"device.driver == '{OTHER}'",
    DIVIDED: f"{_OF_NVIDIA} == 'mig'",
    TAINTED: f"{_OF_NVIDIA} == 'gpu'",  # the class of NVIDIA's own driver: all cards
}


def driver(state: Path, logs: Path, plane: ControlPlane, board: Board) -> Program:
    """The drivers' program, not started."""
    offers = state / "offers.json"
    offers.write_text(json.dumps(_offers([board.gpus[index] for index in CLAIMED])))
    (state / HEALTH).write_text("{}")
    command = [
        program("dra-driver"),
        f"--kubeconfig={plane.admin}",
        f"--node={NODE}",
        f"--offers={offers}",
        f"--health={state / HEALTH}",
        f"--cdi={state / 'cdi'}",
    ]
    return Program("dra-driver", command, logs)


def classes() -> list[Document]:
    """A class of devices for each claimed card."""
    return [_class(gpu, name) for gpu, name in CLASS_OF.items()]


def claim(name: str, gpu: int, **capacity: str) -> Document:
    """A claim of a card, or of so much of it."""
    return _document("ResourceClaim", name, {"devices": _devices(gpu, capacity)})


def template(name: str, gpu: int, **capacity: str) -> Document:
    """A template of the same; each pod that refers to it has a claim of its own."""
    spec = {"spec": {"devices": _devices(gpu, capacity)}}
    return _document("ResourceClaimTemplate", name, spec)


def _document(kind: str, name: str, spec: Document) -> Document:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _devices(gpu: int, capacity: dict[str, str]) -> Document:
    exactly: Document = {"deviceClassName": CLASS_OF[gpu]}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {"requests": [{"name": "gpu", "exactly": exactly}]}


def _class(gpu: int, name: str) -> Document:
    spec: Document = {"selectors": [{"cel": {"expression": _SELECTED[gpu]}}]}
    if gpu == WHOLE:
        spec["extendedResourceName"] = EXTENDED
    metadata = {"name": name}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**kind, "metadata": metadata, "spec": spec}


def _offers(gpus: list[Gpu]) -> dict[str, list[Document]]:
    whole, memory, parts, unknown, divided, tainted = gpus
    shareable = {"allowMultipleAllocations": True}
    mib = {"min": "1Mi", "max": str(memory.memory), "step": "1Mi"}
    bytes_of_card = {"value": str(memory.memory)}
    some = {**bytes_of_card, "requestPolicy": {"default": str(memory.memory), "validRange": mib}}
    percent = {"default": "100", "validRange": {"min": "0", "max": "100", "step": "1"}}
    cores = {"value": "100", "requestPolicy": percent}
    return {
        NVIDIA: [
            {**_nvidia(whole), "capacity": {"memory": bytes_of_card}},
            {**_nvidia(memory), **shareable, "capacity": {"memory": some}},
            _instance(divided),
            {**_nvidia(tainted), "capacity": {"memory": bytes_of_card}, "taints": [TAINT]},
        ],
        HAMI: [{**_hami(parts), **shareable, "capacity": {"cores": cores, "memory": some}}],
        OTHER: [
            {
                "name": "card",
                "attributes": {"resource.kubernetes.io/pciBusID": {"string": _pci(unknown)}},
                **shareable,
                "capacity": {"cores": {"value": "132"}, "memory": bytes_of_card},
            }
        ],
    }


def _nvidia(gpu: Gpu) -> Document:
    own = {
        "type": "gpu",
        "uuid": gpu.uuid,
        "productName": gpu.name,
        "resource.kubernetes.io/pciBusID": _pci(gpu),
    }
    return {"name": f"gpu-{gpu.index}", "attributes": _texts(own)}


def _instance(gpu: Gpu) -> Document:
    """An instance that is made when it is claimed: it has no UUID yet."""
    own = {"type": "mig", "parentUUID": gpu.uuid, "profile": "1g.10gb"}
    capacity = {"memory": {"value": str(gpu.memory // 8)}}
    name = f"gpu-{gpu.index}-mig-1g10gb-19-{FIRST_SLICE}"
    return {"name": name, "attributes": _texts(own), "capacity": capacity}


def _hami(gpu: Gpu) -> Document:
    own = {"type": "hami-gpu", "uuid": gpu.uuid, "productName": gpu.name, "pcieBusID": _pci(gpu)}
    attributes = {**_texts(own), "minor": {"int": gpu.index}}
    return {"name": f"hami-gpu-{gpu.index}", "attributes": attributes}


def _texts(attributes: dict[str, str]) -> Document:
    return {name: {"string": text} for name, text in attributes.items()}


def _pci(gpu: Gpu) -> str:
    """The address as Linux writes it; NVML's has a domain of eight digits."""
    return gpu.pci.removeprefix("0000").lower()
