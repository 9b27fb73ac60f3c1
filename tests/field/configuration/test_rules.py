"""What operators met with rules and alerts: limits, routing, joins with others' series."""

import re
from pathlib import Path

import pytest
import yaml

from tests.field.rendered import alerts
from tests.field.report import report
from tests.rules.run import ROOT

FILES = sorted((ROOT / "rules").glob("mgpu-*.yaml"))
LARGEST_GROUP = 20  # Mimir's and Cortex' default, and what Azure's and Amazon's services take


@report(
    source="grafana/mimir#1885, oskoperator/osko#86",
    seen="A rule group of more than 20 rules was refused as a whole, so that none of it was there.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_group_has_more_rules_than_a_ruler_takes(path: Path) -> None:
    groups = yaml.safe_load(path.read_text())["groups"]
    assert max(len(group["rules"]) for group in groups) <= LARGEST_GROUP


@report(
    source="samber/awesome-prometheus-alerts#385, kubernetes-sigs/kubernetes-mixin#1015",
    seen="With two replicas of kube-state-metrics each series is there twice: the alert's join "
    "failed, and so did the alert.",
    first="right",
    group="configuration",
)
@pytest.mark.program("promtool", "helm")
@pytest.mark.parametrize("label", ["node", "exported_node"])
def test_a_node_without_an_exporter_is_found_beside_two_kube_state_metrics(
    label: str, tmp_path: Path
) -> None:
    series = {'mgpu_exporter_build_info{job="mgpu-exporter",instance="a",node="a"}': "1x60"}
    for replica in "01":
        for node in "ab":
            labels = f'instance="10.0.0.{replica}:8080",{label}="{node}"'
            series |= {
                f'kube_node_status_capacity{{{labels},resource="nvidia_com_gpu"}}': "8x60",
                f"kube_node_info{{{labels}}}": "1x60",
                f'kube_node_status_condition{{{labels},condition="Ready",status="true"}}': "1x60",
            }
    found = alerts(series, tmp_path, "MgpuExporterMissing", minutes=[30])
    assert [alert.labels["node"] for alert in found] == ["b"]


@report(
    source="kubernetes/kubernetes#100683",
    seen="A DaemonSet whose pods are refused (a quota, a policy) says DESIRED 0 and counts as "
    "healthy: nobody was told that its nodes have no agent.",
    first="right",
    group="configuration",
)
@pytest.mark.program("promtool", "helm")
def test_nodes_without_any_exporter_are_told_although_the_daemonset_is_healthy(
    tmp_path: Path,
) -> None:
    node = 'instance="ksm",node="a"'
    series = {
        f'kube_node_status_capacity{{{node},resource="nvidia_com_gpu"}}': "8x60",
        f"kube_node_info{{{node}}}": "1x60",
        f'kube_node_status_condition{{{node},condition="Ready",status="true"}}': "1x60",
        'kube_daemonset_status_desired_number_scheduled{daemonset="mgpu-exporter"}': "0x60",
    }
    assert len(alerts(series, tmp_path, "MgpuExporterAbsent", minutes=[30])) == 1


@report(
    source="prometheus-operator/prometheus-operator#3737, #3900, kube-prometheus#1540",
    seen="An AlertmanagerConfig takes only alerts that have its own namespace: those of nodes and "
    "devices have none, and reached nobody.",
    first="wrong",
    group="configuration",
    kind="a silence that nothing foretells",
)
@pytest.mark.program("promtool", "helm")
def test_all_alerts_can_have_the_namespace_of_an_alertmanagerconfig(tmp_path: Path) -> None:
    """And the documents say so; whom an alert is about stays in its description."""
    device = 'job="mgpu-exporter",instance="a",gpu="0",uuid="GPU-1"'
    pod = 'job="mgpu-exporter",instance="a",namespace="ml",pod="p"'
    series = {
        f'mgpu_device_row_remapping{{{device},state="failed"}}': "1x60",
        f"mgpu_pod_memory_limit_utilization_ratio{{{pod}}}": "0.99x60",
    }
    names = ("MgpuRowRemappingFailed", "MgpuPodNearMemoryLimit")
    values = {"prometheusRule": {"alertLabels": {"namespace": "gpu-team"}}}
    found = alerts(series, tmp_path, *names, minutes=[40], values=values)
    assert {alert.labels["namespace"] for alert in found} == {"gpu-team"}
    assert "ml/p" in next(a.annotations for a in found if a.title == names[1])
    page = (ROOT / "docs" / "alerts.md").read_text()
    assert "AlertmanagerConfig" in page
    assert "alertmanagerConfigMatcherStrategy" in page


@report(
    source="openshift/configure-alertmanager-operator#75, prometheus-operator#6870",
    seen="Where Prometheus renamed the label, routes by namespace lost the alerts of workloads: "
    "both names have to be looked at.",
    first="right",
    group="configuration",
)
def test_the_example_groups_owners_alerts_by_either_name_of_the_namespace() -> None:
    text = (ROOT / "examples" / "alertmanager" / "alertmanager.yml").read_text()
    (route,) = yaml.safe_load(text)["route"]["routes"]
    of_owners = [one for one in route["routes"] if one["receiver"] == "gpu-owners"]
    assert of_owners
    for one in of_owners:
        assert {"namespace", "exported_namespace"} <= set(one["group_by"])


@report(
    source="prometheus/alertmanager#1727, prometheus/alertmanager#507",
    seen="A label that an inhibition wants equal was missing on both alerts, which counts as "
    "equal: one alert silenced all others.",
    first="right",
    group="configuration",
)
def test_an_alert_silences_none_that_only_lacks_the_same_labels() -> None:
    """By Alertmanager's rule, over alerts with the labels that their expressions leave."""
    text = (ROOT / "examples" / "alertmanager" / "alertmanager.yml").read_text()
    device = {"cluster": "", "job": "j", "instance": "a", "uuid": "G"}
    alerts = {
        "MgpuExporterDown": {"cluster": "", "job": "j", "instance": "a"},
        "MgpuExporterBlind": {"cluster": "", "job": "j", "instance": "b", "source": "nvml"},
        "MgpuGpuLost": device,
        "MgpuExporterAbsent": {},
        "MgpuExporterMissing": {"node": "c"},
        "MgpuNamespaceOverwritten": {"job": "j"},
        "MgpuXidHardware": {**device, "uuid": "H", "instance": "d"},
    }
    silenced = {
        (source, target)
        for rule in yaml.safe_load(text)["inhibit_rules"]
        for source in alerts
        for target in alerts
        if matches(rule["source_matchers"], source)
        and matches(rule["target_matchers"], target)
        and not matches(rule["source_matchers"], target)
        and all(
            alerts[source].get(name, "") == alerts[target].get(name, "") for name in rule["equal"]
        )
    }
    assert silenced == {("MgpuExporterDown", "MgpuGpuLost")}  # of the same instance


def matches(matchers: list[str], name: str) -> bool:
    """Whether all matchers, which are on names alone, take an alert of this name."""
    patterns = [one.partition("=")[2].strip('~"') for one in matchers]
    return all(re.fullmatch(pattern, name) for pattern in patterns)
