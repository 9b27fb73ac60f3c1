"""Every published example of a scheme's pods decodes to the allotment that it states.

NVIDIA's device plugin places devices by the kubelet's PodResources only, which is read in later
work: its cases are compared without their device.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.allocations.registry import SCHEMES, decode
from exporter.allocations.scheme import IndexBasis
from exporter.model import Container, Device, NodeFacts, Pod

CASES = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))
SCHEME_NAMES = {"hami-4pd": "hami"}
BASES = {scheme.name: scheme.index_basis for scheme in SCHEMES}
# No two bases agree on any of them. Their memory is not known.
CARDS = tuple(
    Device(f"GPU-{index}", index, "nvidia", minor=(index + 1) % 4, pci_bus_id=f"0000:{pci}0:00.0")
    for index, pci in enumerate((2, 3, 0, 1))
)
BY_MINOR = {str(card.minor): card.uuid for card in CARDS}
BY_PCI = {str(n): c.uuid for n, c in enumerate(sorted(CARDS, key=lambda c: c.pci_bus_id))}


def pod_of(case: dict[str, Any]) -> Pod:
    meta, spec = case["pod"]["metadata"], case["pod"]["spec"]
    return Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        phase="Running",
        annotations=meta.get("annotations", {}),
        containers=tuple(
            Container(
                name=entry["name"], kind=kind, limits=entry.get("resources", {}).get("limits", {})
            )
            for kind, key in (("init", "initContainers"), ("app", "containers"))
            for entry in spec.get(key, ())
        ),
    )


def node_of(case: dict[str, Any]) -> NodeFacts:
    """Return the four cards, and those that the case names by UUID."""
    context = case.get("context", {})
    named = {gpu for e in case["expected"] for gpu in e["gpu_indices_or_uuids"] if "GPU" in gpu}
    others = [Device(uuid, 4 + n, "nvidia", pci_bus_id="f") for n, uuid in enumerate(sorted(named))]
    return NodeFacts(
        devices=(*CARDS, *others),
        labels={"kubernetes.io/os": "linux", **context.get("node_labels", {})},
        allocatable=context.get("node_allocatable", {}),
    )


def device_of(gpu: str | None, basis: IndexBasis) -> str | None:
    if gpu is None or not gpu.isdigit():
        return gpu
    return {IndexBasis.MINOR: BY_MINOR, IndexBasis.PCI: BY_PCI}.get(basis, {}).get(
        gpu, f"GPU-{gpu}"
    )


def case_id(case: dict[str, Any]) -> str:
    return f"{case['scheme']}: {case['case']}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_published_example_decodes_to_its_allotment(case: dict[str, Any]) -> None:
    placed = case["scheme"] != "nvidia-device-plugin"
    scheme = SCHEME_NAMES.get(case["scheme"], case["scheme"])
    basis = BASES.get(scheme, IndexBasis.UUID)
    expected = [
        (
            entry["container"],
            device_of(share["gpu"], basis) if placed else None,
            None if share["core_percent"] is None else share["core_percent"] / 100,
            share["memory_bytes"],
        )
        for entry in case["expected"]
        for share in entry["per_gpu"]
    ]
    decoded = decode(pod_of(case), node_of(case))
    assert [
        (a.container, a.device, a.core, a.memory_bytes) for a in decoded.allocations
    ] == expected
    assert decoded.problems == ()


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_published_example_is_read_by_its_scheme(case: dict[str, Any]) -> None:
    allocations = decode(pod_of(case), node_of(case)).allocations
    scheme = SCHEME_NAMES.get(case["scheme"], case["scheme"])
    assert {a.scheme for a in allocations} == ({scheme} if case["expected"] else set())
    assert {a.priority for a in allocations} == {e.get("priority", "") for e in case["expected"]}
    assert {a.pod_uid for a in allocations} <= {case["pod"]["metadata"]["uid"]}


@pytest.mark.parametrize("case", [c for c in CASES if "mig_profile" not in c], ids=case_id)
def test_shared_devices_count_the_replicas_granted(case: dict[str, Any]) -> None:
    expected = [e.get("replica_ids", 1) if e.get("shared") else None for e in case["expected"]]
    allocations = decode(pod_of(case), node_of(case)).allocations
    assert {a.replicas for a in allocations} == set(expected)
