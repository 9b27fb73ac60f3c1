"""The API server and the kubelet, over real HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.doctor import CheckResult, CheckVerdict, privileges
from exporter.agent.doctor.exporterchecks import clock
from exporter.agent.doctor.podchecks import pods
from exporter.model import SourceStatus
from tests.agent.doctor.looking import by_subject, evidence, settings
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.devices import slice_document
from tests.agent.sources.pods.documents import node_document, pod_document

USER = 'pods is forbidden: User "system:serviceaccount:gpu:exporter" cannot list resource "pods"'


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.set_node(node_document("node-1", {}, {}))
        server.add_pod(pod_document("worker"))
        yield server


@pytest.fixture
def flags(api: ApiServer, tmp_path: Path) -> dict[str, str]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    return {"kubeconfig": str(kubeconfig), "node_name": "node-1", "pods_source": "api"}


def found(flags: dict[str, str]) -> dict[str, CheckResult]:
    return by_subject(pods(evidence(settings(**flags))))


def test_every_rule_is_tried(api: ApiServer, flags: dict[str, str]) -> None:
    api.serve_devices("v1")

    findings = found(flags)

    assert set(findings) == {
        *("node name", "pods: list", "pods: watch", "nodes: get"),
        *("resourceclaims: get", "resourceslices: list"),
    }
    assert {finding.verdict for finding in findings.values()} == {CheckVerdict.OK}


@pytest.mark.parametrize(
    ("kind", "subject", "privilege"),
    [
        ("list", "pods: list", privileges.PODS),
        ("watch", "pods: watch", privileges.PODS),
        ("node", "nodes: get", privileges.NODES),
    ],
)
def test_a_rule_that_is_missing_is_named(
    kind: str, subject: str, privilege: str, api: ApiServer, flags: dict[str, str]
) -> None:
    api.fail(kind, 403, USER)

    findings = found(flags)

    assert findings[subject].verdict is CheckVerdict.PROBLEM
    assert findings[subject].privilege == privilege
    assert "system:serviceaccount:gpu:exporter" in findings[subject].found
    assert [f.verdict for f in findings.values()].count(CheckVerdict.PROBLEM) == 1


@pytest.mark.parametrize("kind", ["claim", "slices"])
def test_claims_may_be_forbidden_where_no_pod_has_any(
    kind: str, api: ApiServer, flags: dict[str, str]
) -> None:
    api.serve_devices("v1")
    api.fail(kind, 403, "no")

    refused = [f for f in found(flags).values() if f.verdict is not CheckVerdict.OK]

    assert [(f.verdict, f.privilege) for f in refused] == [(CheckVerdict.NOTE, privileges.CLAIMS)]


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(404, CheckVerdict.OK), (403, CheckVerdict.NOTE), (503, CheckVerdict.NOTE)],
)
def test_a_server_that_does_not_say_what_it_serves_does_not_pass_for_one_without_claims(
    status: int, verdict: CheckVerdict, api: ApiServer, flags: dict[str, str]
) -> None:
    api.serve_devices("v1")
    api.fail("versions", status)

    assert found(flags)["resource claims"].verdict is verdict


def test_tainted_devices_are_named(api: ApiServer, flags: dict[str, str]) -> None:
    offer = slice_document({"gpu-0": "GPU-a", "gpu-1": "GPU-b"})
    lost = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    offer["spec"]["devices"][1]["taints"] = [lost, {"key": "spare", "effect": "None"}]
    api.set_slices(offer)
    for version in ("v1", "v1beta1"):
        api.serve_devices(version)

        note = found(flags)["tainted devices"]

        assert note.verdict is CheckVerdict.NOTE
        assert note.found == "gpu-1 of gpu.nvidia.com (gpu.nvidia.com/xid=79:NoExecute, spare:None)"


SPARE = {"key": "spare", "effect": "None"}


def rule(selector: object) -> dict[str, object]:
    return {"spec": {"deviceSelector": selector, "taint": SPARE}}


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, "gpu-0 of gpu.nvidia.com (spare:None), gpu-1 of gpu.nvidia.com (spare:None)"),
        ({"device": "gpu-1"}, "gpu-1 of gpu.nvidia.com (spare:None)"),
        (
            {"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0"},
            "gpu-0 of gpu.nvidia.com (spare:None)",
        ),
        ({"pool": "node-2"}, ""),
        ({"driver": "gpu.amd.com", "device": "gpu-0"}, ""),
        ({"deviceClassName": "gpu"}, ""),
        (None, ""),
        ("gpu-0", ""),
    ],
)
def test_devices_that_a_rule_taints_are_named(
    selector: object, tainted: str, api: ApiServer, flags: dict[str, str]
) -> None:
    api.set_slices(slice_document({"gpu-0": "GPU-a", "gpu-1": "GPU-b"}))
    api.serve_devices("v1", "v1beta2")
    api.set_taint_rules(rule(selector), {"spec": "odd"}, {})

    findings = found(flags)

    note = findings.get("tainted devices")
    assert (note.found if note else "") == tainted


def test_taint_rules_that_may_not_be_listed_cost_only_themselves(
    api: ApiServer, flags: dict[str, str]
) -> None:
    offer = slice_document({"gpu-0": "GPU-a"})
    offer["spec"]["devices"][0]["taints"] = [SPARE]
    api.set_slices(offer)
    api.serve_devices("v1")
    api.set_taint_rules()
    api.fail("rules", 403, "no")

    findings = found(flags)

    refused = findings["device taint rules"]
    assert (refused.verdict, refused.privilege) == (CheckVerdict.NOTE, privileges.TAINT_RULES)
    assert findings["tainted devices"].found == "gpu-0 of gpu.nvidia.com (spare:None)"


def test_a_node_of_another_name_is_a_problem(flags: dict[str, str]) -> None:
    finding = found(flags | {"node_name": "elsewhere"})["nodes: get"]

    assert (finding.verdict, finding.privilege) == (CheckVerdict.PROBLEM, privileges.NODE_NAME)


def test_no_pods_on_the_node_says_what_the_source_says(flags: dict[str, str]) -> None:
    status = SourceStatus("pods_api", up=True, detail="no pods on node 'node-1'")

    [finding, *_] = pods(evidence(settings(**flags), sources=(status,)))

    assert (finding.subject, finding.verdict) == ("node name", CheckVerdict.PROBLEM)


def test_a_server_that_cannot_be_asked_is_said_once(api: ApiServer, flags: dict[str, str]) -> None:
    nowhere = found(flags | {"kubeconfig": "/nonexistent"})
    api.require_tokens("another")
    refused = found(flags)
    api.stop()
    away = found(flags)

    for findings, words in (
        (nowhere, "no such file"),
        (refused, "does not accept the credentials"),
        (away, "no connection to the API server"),
    ):
        assert set(findings) == {"node name", "API server"}
        assert findings["API server"].verdict is CheckVerdict.PROBLEM
        assert words in findings["API server"].found
        assert "[Errno" not in findings["API server"].found


def test_pods_that_are_off_are_a_note(flags: dict[str, str]) -> None:
    assert found(flags | {"pods_source": "none"})["pods"].verdict is CheckVerdict.NOTE


def test_a_kubelet_counts_for_as_much_as_it_is_asked_for(
    api: ApiServer, flags: dict[str, str]
) -> None:
    wrong = flags | {"kubelet_address": "http://127.0.0.1:1"}
    asked = {"pods_source": "kubelet"}

    meanwhile = found(wrong | {"pods_source": "auto"})["kubelet"]
    assert meanwhile.verdict is CheckVerdict.NOTE
    assert "lets this pod reach it" in meanwhile.remedy
    assert "grant" not in meanwhile.remedy
    assert found(wrong | asked)["kubelet"].verdict is CheckVerdict.PROBLEM
    assert found(wrong | asked | {"kubelet_address": api.url})["kubelet"].verdict is CheckVerdict.OK


def test_folders_of_logs_are_counted_or_missed(flags: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pods" / "default_worker_0").mkdir(parents=True)

    there = found(flags | {"pods_source": "files", "path_logs": str(tmp_path)})["log files"]
    away = found(flags | {"pods_source": "files", "path_logs": "/nonexistent"})["log files"]

    assert (there.verdict, there.found.partition(" in ")[0]) == (CheckVerdict.OK, "1 name of a pod")
    assert (away.verdict, away.privilege) == (CheckVerdict.PROBLEM, privileges.LOGS)


def test_the_servers_clock_is_held_against_ours(api: ApiServer, flags: dict[str, str]) -> None:
    finding = by_subject(clock(evidence(settings(**flags))))["API server's time"]

    assert api.requests("version")
    assert finding.verdict is CheckVerdict.OK
