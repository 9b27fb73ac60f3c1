"""What sharing systems write, by their own sources, decodes to what they promise."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.allocations.upstream_cases import CASES, FOLDER, node_of, pod_of, rules_of

Json = dict[str, Any]


def case_id(entry: object) -> str:
    return str(entry["case"]) if isinstance(entry, dict) else str(entry)


@pytest.mark.parametrize(("system", "case"), CASES, ids=case_id)
def test_pod_decodes_to_what_its_system_promises(system: str, case: Json) -> None:
    rules = rules_of(case)
    decoded = rules.decode(pod_of(case["pod"], rules), node_of(case, rules))
    told = [
        [a.container, a.device, None if a.core is None else round(100 * a.core, 6), a.memory_bytes]
        for a in decoded.allocations
    ]
    assert told == case["expected"]
    assert sorted(problem.reason for problem in decoded.problems) == case.get("problems", [])
    assert {a.scheme for a in decoded.allocations} <= {case.get("scheme", system)}
    if "policy" in case:
        assert {a.policy for a in decoded.allocations} == {case["policy"]}


@pytest.mark.parametrize(("system", "case"), CASES, ids=case_id)
def test_case_says_where_it_is_from(system: str, case: Json) -> None:
    sourced = re.fullmatch(r"[\w.-]+/[\w.-]+", case.get("repository", "")) and re.fullmatch(
        r"[0-9a-f]{7,40}", case.get("commit", "")
    )
    assert (sourced and case["file"]) or case["document"], system


def test_folder_holds_one_file_a_system() -> None:
    assert {path.suffix for path in Path(FOLDER).iterdir()} == {".json"}
    assert {system for system, _ in CASES} == {path.stem for path in FOLDER.iterdir()}
