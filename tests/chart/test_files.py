"""Dashboards in the chart, its notes, and the manifests for people without Helm."""

import base64
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import generate, manifests
from tests.chart.matrix import MATRIX
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, Rendered, helm, template

pytestmark = pytest.mark.program("helm")

DASHBOARD = '{"title": "Use", "legendFormat": "{{pod}}"}\n'


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The chart, with one dashboard that the test knows."""
    copied = tmp_path / "mgpu-exporter"
    shutil.copytree(CHART, copied)
    shutil.rmtree(copied / "files" / "dashboards")
    (copied / "files" / "dashboards").mkdir()
    (copied / "files" / "dashboards" / "mgpu-use.json").write_text(DASHBOARD)
    return copied


def test_a_dashboard_is_a_config_map_that_the_sidecar_finds(chart: Path) -> None:
    values = {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "GPU"}}}
    rendered = Rendered(template(chart, json.dumps(values)))
    one = next(c for c in rendered.of("ConfigMap") if "mgpu-use.json" in c["data"])
    assert one["metadata"]["name"] == "gpus-mgpu-exporter-mgpu-use"
    assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert one["metadata"]["annotations"] == {"grafana_folder": "GPU"}
    assert json.loads(one["data"]["mgpu-use.json"]) == json.loads(DASHBOARD)
    assert not rendered.of("GrafanaDashboard")  # the operator's


def test_the_operator_is_told_of_each_config_map(chart: Path) -> None:
    operator = {"enabled": True, "instances": {"team": "gpu"}, "folder": ""}
    values = {"dashboards": {"enabled": True, "namespace": "grafana", "operator": operator}}
    found = Rendered(template(chart, json.dumps(values)))
    maps = {one["metadata"]["name"]: one for one in found.of("ConfigMap")}
    (one,) = found.of("GrafanaDashboard")
    assert one["metadata"]["namespace"] == "grafana"
    reference = one["spec"].pop("configMapRef")
    assert reference["key"] in maps[reference["name"]]["data"]
    assert maps[reference["name"]]["metadata"]["namespace"] == "grafana"
    assert one["spec"] == {
        "allowCrossNamespaceImport": True,
        "instanceSelector": {"matchLabels": {"team": "gpu"}},
    }


@pytest.mark.slow
def test_nothing_is_larger_than_a_cluster_takes() -> None:
    """``kubectl apply`` keeps an object in its annotations; Helm keeps a release in a Secret."""
    made = {
        "dashboards": {"enabled": True, "operator": {"enabled": True}},
        "prometheusRule": {"enabled": True},
        "podMonitor": {"enabled": True},
    }
    for one in Rendered(template(CHART, json.dumps(made))).objects:
        assert len(json.dumps(one, separators=(",", ":"))) < 250_000, one["metadata"]["name"]
    release = helm(
        *("install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--dry-run=client"),
        *("--values", "-", "--output", "json"),
        given=json.dumps(made),
    )
    assert 200_000 < len(base64.b64encode(gzip.compress(release.encode()))) < 700_000


# --- notes ----------------------------------------------------------------------------------------


def notes(values: dict[str, Any]) -> str:
    text = helm(
        *("install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--dry-run=client"),
        *("--values", "-"),
        given=json.dumps(values),
    )
    return text.partition("\nNOTES:\n")[2]


@pytest.mark.parametrize("name", ["everything", "proxied", "simulated"])
def test_the_notes_can_be_read_and_name_what_was_made(name: str) -> None:
    text = notes(MATRIX[name])
    assert f"-n {NAMESPACE} rollout status daemonset/gpus-mgpu-exporter" in text
    assert "<no value>" not in text
    assert "%!" not in text


def test_the_notes_say_what_to_do_next() -> None:
    text = notes({})
    assert "--set podMonitor.enabled=true" in text
    assert "--set prometheusRule.enabled=true" in text
    assert "pod-security.kubernetes.io/enforce=privileged" in text
    assert "gpuNodeLabels" in text


def test_the_notes_say_which_job_to_trust() -> None:
    text = notes({"podMonitor": {"enabled": True}})
    assert f"bill --job={NAMESPACE}-gpus-mgpu-exporter" in text
    assert "--job=" not in notes({})


def test_openshifts_own_prometheus_takes_labelled_namespaces_only() -> None:
    made = {"podMonitor": {"enabled": True}, "openshift": {"securityContextConstraints": True}}
    assert f"label namespace {NAMESPACE} openshift.io/cluster-monitoring=true" in notes(made)


def test_the_notes_are_loud_about_a_simulated_node() -> None:
    assert "It SIMULATES its nodes" in notes(MATRIX["simulated"])


# --- manifests ------------------------------------------------------------------------------------


def test_the_manifests_are_as_the_chart_renders_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--manifests", "--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", manifests.SETS)
def test_a_manifest_tells_nothing_of_helm(name: str) -> None:
    text = (generate.ROOT / "deploy" / name).read_text()
    assert "helm" not in text.lower()
    assert all(
        one["metadata"]["namespace"]
        for one in yaml.safe_load_all(text)
        if one["kind"] == "DaemonSet"
    )


def test_the_namespace_of_the_manifests_may_run_the_pods() -> None:
    text = (generate.ROOT / "deploy" / "mgpu-exporter.yaml").read_text()
    namespace = next(yaml.safe_load_all(text))
    assert namespace["kind"] == "Namespace"
    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
