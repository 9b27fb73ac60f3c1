"""Rules and dashboards in the chart, its notes, and the manifests for people without Helm."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import alerts, generate, manifests
from tests.chart.matrix import MATRIX
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, Rendered, helm, template

pytestmark = pytest.mark.program("helm")

RULES = """\
groups:
  - name: recording
    interval: 30s
    rules:
      - {record: a:b, expr: sum(b)}
  - name: alerts
    rules:
      - alert: First
        expr: up == 0
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.pod }} is gone"}
      - {alert: Second, expr: up == 1, labels: {severity: info}}
"""

DASHBOARD = '{"title": "Use", "legendFormat": "{{pod}}"}\n'


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The chart, with rules and a dashboard that the test knows."""
    copied = tmp_path / "mgpu-exporter"
    shutil.copytree(CHART, copied)
    for folder in ("rules", "dashboards"):
        shutil.rmtree(copied / "files" / folder, ignore_errors=True)
    for name, text in {
        "rules/few.yaml": RULES,
        "rules/exported/few.yaml": RULES.replace("alerts", "exported"),
        "dashboards/mgpu-use.json": DASHBOARD,
    }.items():
        (copied / "files" / name).parent.mkdir(exist_ok=True)
        (copied / "files" / name).write_text(text)
    return copied


def rules_of(chart: Path, **values: Any) -> list[dict[str, Any]]:
    given = json.dumps({"prometheusRule": {"enabled": True, **values}})
    groups: list[dict[str, Any]] = Rendered(template(chart, given)).one("PrometheusRule")["spec"][
        "groups"
    ]
    return groups


def test_rules_are_as_in_their_source_templates_and_all(chart: Path) -> None:
    assert rules_of(chart) == yaml.safe_load(RULES)["groups"]


def test_alerts_can_be_left_out_one_by_one(chart: Path) -> None:
    groups = rules_of(chart, disabled=["First"])
    assert [rule.get("alert") for group in groups for rule in group["rules"]] == [None, "Second"]


def test_alerts_can_be_left_out_all_and_their_group_with_them(chart: Path) -> None:
    assert [group["name"] for group in rules_of(chart, alerts=False)] == ["recording"]


def test_labels_are_added_to_alerts_only(chart: Path) -> None:
    recording, alerts = rules_of(chart, alertLabels={"team": "gpu", "severity": "page"})
    assert "labels" not in recording["rules"][0]
    assert alerts["rules"][0]["labels"] == {"severity": "page", "team": "gpu"}


@pytest.mark.parametrize("honoured", [True, False])
@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_rules_are_those_of_the_monitors_label_world(
    chart: Path,
    monitor: str,
    honoured: bool,  # noqa: FBT001 - a parameter
) -> None:
    values = {
        "prometheusRule": {"enabled": True},
        monitor: {"enabled": True, "honorLabels": honoured},
    }
    groups = Rendered(template(chart, json.dumps(values))).one("PrometheusRule")["spec"]["groups"]
    assert groups[1]["name"] == ("alerts" if honoured else "exported")


def test_a_dashboard_is_a_config_map_that_the_sidecar_finds(chart: Path) -> None:
    values = {"dashboards": {"enabled": True, "annotations": {"grafana_folder": "GPU"}}}
    found = Rendered(template(chart, json.dumps(values))).of("ConfigMap")
    one = next(c for c in found if "mgpu-use.json" in c["data"])
    assert one["metadata"]["name"] == "gpus-mgpu-exporter-mgpu-use"
    assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert one["metadata"]["annotations"] == {"grafana_folder": "GPU"}
    assert json.loads(one["data"]["mgpu-use.json"]) == json.loads(DASHBOARD)


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


def test_without_the_operator_there_is_no_resource_of_its(chart: Path) -> None:
    found = Rendered(template(chart, json.dumps({"dashboards": {"enabled": True}})))
    assert not found.of("GrafanaDashboard")


def test_a_setting_that_is_taken_up_at_run_time_brings_no_restart(chart: Path) -> None:
    listed = chart / "files" / "restarting.txt"
    listed.write_text(listed.read_text().replace("log.level\n", ""))
    first, second = (
        Rendered(template(chart, json.dumps({"settings": {"log": {"level": level}}})))
        for level in ("info", "debug")
    )
    assert first.settings != second.settings
    assert first.one("DaemonSet") == second.one("DaemonSet")


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


def test_the_chart_as_it_lies_in_the_repository_has_the_rules_and_the_boards() -> None:
    """No step makes them: they are links, which Helm follows into an archive too."""
    values = {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}
    rendered = Rendered(template(CHART, json.dumps(values)))
    shown = {name for one in rendered.of("ConfigMap") for name in one["data"]}
    assert shown >= {path.name for path in (CHART.parents[1] / "dashboards").glob("*.json")}
    groups = rendered.one("PrometheusRule")["spec"]["groups"]
    assert {rule.get("alert") for group in groups for rule in group["rules"]} >= {*alerts.names()}


def test_an_archive_of_the_chart_has_what_its_templates_need_and_no_more(tmp_path: Path) -> None:
    helm("package", str(CHART), "--destination", str(tmp_path))
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as made:
        names = [name.partition("/files/")[2] for name in made.getnames()]
    linked = [name for name in names if name.startswith(("rules/", "dashboards/"))]
    assert len(linked) == 10
    assert {Path(name).suffix for name in linked} == {".yaml", ".json"}
