"""Cases of allocation: pods of every sharing system, and what they decode to.

``upstream/`` has what each system writes, by its own source: a case names the repository, commit
and file (or the document) that it is from. ``examples/`` has what systems' documents show, and the
edges between versions. One file a system. ``pod`` is a pod of the API, ``node`` what is known of
its node, ``expected`` has container, device, per cent of core and bytes of memory of each
allocation. Cases are read by the decoders of the real sources, so that a case fails too where a
source drops what a sharing system's decoder needs.
"""

import json
from pathlib import Path
from typing import Any

from exporter.agent.allocations.registry import NODE_ANNOTATION_PREFIXES
from exporter.agent.allocations.rules import Rules, make
from exporter.agent.settings.schemes import SCHEMES
from exporter.agent.sources.pods.claims import Slice, decode_claim, decode_slice, offered
from exporter.agent.sources.pods.decode import KeyPrefixes, decode_node, decode_pod
from exporter.model import Device, Grant, NodeFacts, Pod

Json = dict[str, Any]


def _in(folder: str) -> list[tuple[str, Json]]:
    return [
        (path.stem, case)
        for path in sorted(Path(__file__).with_name(folder).iterdir())
        for case in json.loads(path.read_text(encoding="utf-8"))
    ]


EXAMPLES, UPSTREAM = _in("examples"), _in("upstream")
CASES = [*EXAMPLES, *UPSTREAM]


def case_id(entry: object) -> str:
    """Return how pytest names a case."""
    return str(entry["case"]) if isinstance(entry, dict) else str(entry)


def rules_of(case: Json) -> Rules:
    """Return the rules, with the settings that the case needs."""
    settings = case.get("settings", {})
    described = SCHEMES.read(settings["schemes"]) if "schemes" in settings else ()
    return make(
        described,
        hami_names=settings.get("hami", {}),
        volcano_factor=settings.get("volcano_memory_factor", 0),
        kai_namespaces=tuple(settings.get("kai_namespaces", ())),
    )


def pod_of(document: Json, rules: Rules) -> Pod:
    """Return a pod as the exporter keeps it."""
    return decode_pod(document, _keep(rules)).pod


def _keep(rules: Rules) -> KeyPrefixes:
    return KeyPrefixes(rules.annotations, rules.labels, NODE_ANNOTATION_PREFIXES)


def node_of(case: Json, rules: Rules) -> NodeFacts:
    """Return what is known of a case's node."""
    known = case["node"]
    document = {
        "metadata": {
            "labels": {"kubernetes.io/os": "linux", **known.get("node_labels", {})},
            "annotations": known.get("node_annotations", {}),
        },
        "status": {"allocatable": known.get("node_allocatable", {})},
    }
    facts = decode_node(document, _keep(rules))
    claims = known.get("resource_claims", ())
    slices: list[Slice] = [
        s for each in known.get("resource_slices", ()) if (s := decode_slice(each)) is not None
    ]
    known_alone = NodeFacts(
        devices=tuple(map(_device, known["gpus"])),
        labels=facts.labels,
        annotations=facts.annotations,
        allocatable=facts.allocatable,
        grants=_grants(case),
        claims={
            (c["metadata"]["namespace"], c["metadata"]["name"]): decode_claim(c) for c in claims
        },
        offered=offered(slices),
    )
    return rules.tied(known_alone, pods_of(case, rules))


def pods_of(case: Json, rules: Rules) -> list[Pod]:
    """Return the pods of a case's node."""
    documents = (case["pod"], *case["node"].get("other_pods", ()))
    return [pod_of(each, rules) for each in documents]


def _device(gpu: Json) -> Device:
    return Device(
        uuid=gpu["uuid"],
        index=gpu["index"],
        vendor=gpu.get("vendor", "nvidia"),
        minor=gpu["minor"],
        pci_bus_id=gpu["pci"],
        memory_bytes=gpu["memory_bytes"],
        parent_uuid=gpu.get("parent_uuid", ""),
        profile=gpu.get("profile", ""),
        gpu_instance=gpu.get("gpu_instance"),
    )


def _grants(case: Json) -> dict[str, tuple[Grant, ...]]:
    own = case["pod"]["metadata"]
    grants = tuple(
        Grant(container["name"], device["resource_name"], tuple(device["device_ids"]))
        for pod in case["node"].get("pod_resources", ())
        if (pod["namespace"], pod["name"]) == (own["namespace"], own["name"])
        for container in pod["containers"]
        for device in container["devices"]
    )
    return {own["uid"]: grants} if grants else {}
