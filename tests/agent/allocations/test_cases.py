"""What pods of sharing systems say decodes to what their systems promise."""

import re

import pytest

from exporter.model.policies import LENDS
from tests.agent.allocations.cases import CASES, UPSTREAM, Json, case_id, node_of, pod_of, rules_of


@pytest.mark.parametrize(("system", "case"), CASES, ids=case_id)
def test_pod_decodes_to_what_its_system_promises(system: str, case: Json) -> None:
    rules = rules_of(case)
    decoded = rules.decode(pod_of(case["pod"], rules), node_of(case, rules))
    assert [
        [a.container, a.device, None if a.core is None else round(100 * a.core, 6), a.memory_bytes]
        for a in decoded.allocations
    ] == case["expected"]
    assert sorted(problem.reason for problem in decoded.problems) == case.get("problems", [])
    assert {a.scheme for a in decoded.allocations} <= {case.get("scheme", system)}
    assert {a.pod_uid for a in decoded.allocations} <= {case["pod"]["metadata"]["uid"]}
    assert {a.policy for a in decoded.allocations} <= {
        "",
        *LENDS,
    }  # so it is known whether it lends
    for name in {"policy", "priority", "replicas"} & case.keys():
        assert {getattr(a, name) for a in decoded.allocations} == {case[name]}


def test_a_case_says_where_it_is_from() -> None:
    for system, case in UPSTREAM:
        sourced = re.fullmatch(r"[\w.-]+/[\w.-]+", case.get("repository", "")) and re.fullmatch(
            r"[0-9a-f]{7,40}", case.get("commit", "")
        )
        assert (sourced and case["file"]) or case["document"], (system, case["case"])
