"""Alerts that lied to others: resolved though nothing was, raised where nothing can be."""

import re
from pathlib import Path

import pytest
import yaml

from tests.field.configuration.test_rules import FILES as RULES
from tests.field.report import report
from tests.field.series.test_alerts import raised

GPU = 'job="mgpu-exporter",instance="gpu-node-1",node="gpu-node-1",gpu="0",uuid="GPU-a"'


@report(
    round=3,
    source="giantswarm/prometheus-rules#2154, openshift/machine-api-operator#913",
    seen="Whenever an exporter's pod was replaced, each alert was resolved and came again later: "
    "thirty messages of one outage.",
    first="wrong",
    kind="Silence is taken for an end",
    taught="A gauge that says what a card is, and not what it does, has to outlive a scrape: each "
    "upgrade of the exporter resolved all alerts on broken cards.",
    group="configuration",
)
@pytest.mark.program("promtool")
@pytest.mark.parametrize(
    ("alert", "series"),
    [
        ("MgpuRowRemappingFailed", f'mgpu_device_row_remapping{{{GPU},state="failed"}}'),
        ("MgpuRetiredPagesPending", f"mgpu_device_retired_pages_pending{{{GPU}}}"),
        ("MgpuGpuRecoveryAction", f"mgpu_device_recovery_action{{{GPU}}}"),
    ],
)
def test_an_alert_about_a_card_outlives_its_exporters_pod(
    alert: str, series: str, tmp_path: Path
) -> None:
    """The exporter is away in minute 20, and its series are stale then."""
    found = raised(tmp_path, alert, {series: "1x19 stale 1x38"}, every=1)
    assert [one.minute for one in found] == list(range(5, 60))


@report(
    round=3,
    source="ionfury/homelab#489, giantswarm/prometheus-rules#185, eks-node-monitoring-agent#20",
    seen="An alert on the absence of a GPU exporter was raised in clusters without a GPU node, and "
    "each night when the node pool was scaled to zero.",
    first="wrong",
    kind="Absent for a reason is taken for lost",
    taught="Whoever misses something has to know first whether it has a place to be.",
    group="configuration",
)
@pytest.mark.program("promtool")
def test_no_exporter_is_missed_where_there_is_no_gpu_node(tmp_path: Path) -> None:
    """In minute 20 the last GPU node is gone; kube-state-metrics still knows the others."""
    ksm = 'job="kube-state-metrics",instance="10.0.0.9:8080"'
    series = {
        f"mgpu_exporter_build_info{{{GPU.partition(',gpu=')[0]}}}": "1x20 stale _x38",
        f'kube_node_info{{{ksm},node="gpu-node-1"}}': "1x20 stale _x38",
        f'kube_node_status_capacity{{{ksm},node="gpu-node-1",resource="nvidia_com_gpu"}}': (
            "8x20 stale _x38"
        ),
        f'kube_node_info{{{ksm},node="cpu-node-1"}}': "1x60",
        f'kube_node_status_capacity{{{ksm},node="cpu-node-1",resource="cpu"}}': "8x60",
        f'kube_daemonset_status_desired_number_scheduled{{{ksm},daemonset="mgpu-exporter"}}': (
            "1x20 0x39"
        ),
    }
    assert raised(tmp_path, "MgpuExporterAbsent", series) == []
    gone = {key: "1x20 stale _x38" if "build_info" in key else "8x60" for key in series}
    found = raised(tmp_path, "MgpuExporterAbsent", gone)
    assert [one.minute for one in found] == list(range(40, 60, 5))


@report(
    round=3,
    source="prometheus-operator/prometheus-operator#1661",
    seen="Alerts on nodes went on about nodes that were deleted long before.",
    first="right",
    group="configuration",
)
@pytest.mark.program("promtool")
@pytest.mark.parametrize("alert", ["MgpuExporterMissing", "MgpuExporterDown", "MgpuGpuMissing"])
def test_a_node_that_is_deleted_is_missed_by_no_alert(alert: str, tmp_path: Path) -> None:
    """It has 8 GPUs, its exporter is gone from minute 12 on and the node from minute 14 on."""
    own = GPU.partition(",gpu=")[0]
    ksm = 'job="kube-state-metrics",instance="10.0.0.9:8080",node='
    series = {
        f"mgpu_exporter_build_info{{{own}}}": "1x12 stale _x46",
        f"up{{{own}}}": "1x12 0 stale _x45",
        f"mgpu_device_info{{{GPU}}}": "1x12 stale _x46",
        f"mgpu_device_up{{{GPU}}}": "1x12 stale _x46",
        f"mgpu_exporter_build_info{{{own.replace('-1', '-2')}}}": "1x60",
        f"up{{{own.replace('-1', '-2')}}}": "1x60",
    }
    for node, values in (("gpu-node-1", "x14 stale _x44"), ("gpu-node-2", "x60")):
        of = f'{ksm}"{node}"'
        series |= {
            f"kube_node_info{{{of}}}": f"1{values}",
            f'kube_node_status_capacity{{{of},resource="nvidia_com_gpu"}}': f"8{values}",
            f'kube_node_status_condition{{{of},condition="Ready",status="true"}}': f"1{values}",
        }
    assert raised(tmp_path, alert, series, every=1) == []


@report(
    round=3,
    source="grafana/grafana#122721, grafana/mimir#6938",
    seen="Recorded series had lost the label of the cluster: one alert of all, and nobody knew "
    "where.",
    first="right",
    group="configuration",
)
def test_no_rule_adds_up_several_clusters() -> None:
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]):
                    if not labels:  # whether there is anything at all
                        assert rule.get("alert") == "MgpuExporterAbsent"
                        continue
                    names = {one.strip() for one in labels.split(",")}
                    # a card is known by its UUID wherever it is
                    assert names & {"cluster", "card"}, (
                        rule.get("record", rule.get("alert")),
                        labels,
                    )
