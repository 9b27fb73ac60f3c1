"""Every published example of a scheme's pods decodes to the allotment that it states."""

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.allocations.registry import decode
from tests.allocations.context import device_of, node_of, pod_of

CASES = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))
SCHEME_NAMES = {"hami-4pd": "hami", "dra-nvidia": "dra"}


def case_id(case: dict[str, Any]) -> str:
    return f"{case['scheme']}: {case['case']}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_published_example_decodes_to_its_allotment(case: dict[str, Any]) -> None:
    expected = [
        (
            entry["container"],
            device_of(case, share["gpu"]),
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


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_shared_devices_count_the_replicas_granted(case: dict[str, Any]) -> None:
    expected = [e.get("replica_ids", 1) if e.get("shared") else None for e in case["expected"]]
    allocations = decode(pod_of(case), node_of(case)).allocations
    assert {a.replicas for a in allocations} == set(expected)
