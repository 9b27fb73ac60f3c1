"""Whose pod a series names in a real Prometheus, by the chart's monitors and by the document."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, KUBERNETES, NAMESPACE, RELEASE, ROOT, Rendered, helm
from tests.e2e.programs import Exporter, Prometheus, eventually

pytestmark = pytest.mark.slow

DOCUMENT = ROOT / "docs" / "installation.md"

# What service discovery knows of the exporter's pod, and the labels that the operator makes of it
# before a monitor's own relabeling.
DISCOVERED = {
    "__meta_kubernetes_pod_node_name": "node-7",
    "__meta_kubernetes_pod_label_app_kubernetes_io_name": "mgpu-exporter",
    "__meta_kubernetes_pod_container_port_name": "metrics",
    "__meta_kubernetes_pod_controller_name": "mgpu-exporter",
    "__meta_kubernetes_pod_phase": "Running",
}
OPERATOR = {"namespace": "observing", "pod": "mgpu-exporter-x2lqz", "container": "mgpu-exporter"}


def snake(key: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", key)


def of_monitor(
    value: str, kind: str, endpoints: str, *, release: str = RELEASE
) -> list[dict[str, Any]]:
    text = helm(
        *("template", release, str(CHART), "--namespace", NAMESPACE, "--kube-version", KUBERNETES),
        *("--set", f"{value}.enabled=true"),
    )
    spec = Rendered(text).one(kind)["spec"]
    rules = spec[endpoints][0]["relabelings"]
    return [{snake(key): setting for key, setting in rule.items()} for rule in rules]


def documented() -> dict[str, Any]:
    text = re.search(r"```yaml\n(scrape_configs:.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert text is not None
    (job,) = yaml.safe_load(text[1])["scrape_configs"]
    found: dict[str, Any] = job
    return found


def job(labels: dict[str, str], rules: list[dict[str, Any]]) -> str:
    made = [{"target_label": name, "replacement": text} for name, text in labels.items()]
    dumped: str = yaml.safe_dump({"relabel_configs": [*made, *rules]}, default_flow_style=True)
    return "    " + dumped.strip().removeprefix("{").removesuffix("}").replace("\n", " ") + "\n"


class Renamed(Prometheus):
    """One whose jobs have their names by relabeling."""

    def up(self) -> bool:
        """Whether its targets were scraped."""
        try:
            return bool(self.query("mgpu_exporter_build_info"))
        except OSError:
            return False


def check(labels: dict[str, str], rules: list[dict[str, Any]], folder: Path, own: str) -> None:
    with (
        Exporter("--simulate=single") as exporter,
        Renamed(exporter.ready().url, folder, "1s", job(labels, rules)) as prometheus,
    ):
        pods = prometheus.query("mgpu_pod_core_usage_gpus")
        devices = prometheus.query("mgpu_device_up")
        (up,) = prometheus.query("up")
    assert pods
    assert devices
    for one in (*pods, *devices):
        metric = one["metric"]
        assert metric["instance"] == metric["node"] == "node-7"
        assert metric["job"] == own
        assert not [label for label in metric if label.startswith("exported_")]
    assert all(one["metric"]["pod"] != OPERATOR["pod"] for one in pods)
    for one in (*devices, up):
        assert not {"pod", "container", "namespace"} & set(one["metric"])


@pytest.mark.program("helm")
@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    "monitor",
    [
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
    ],
    ids=lambda monitor: monitor[0],
)
def test_a_monitors_series_name_who_used_the_gpu_and_nothing_of_the_exporters_pod(
    monitor: tuple[str, str, str], tmp_path: Path
) -> None:
    check(
        {**DISCOVERED, **OPERATOR}, of_monitor(*monitor), tmp_path, "observing-gpus-mgpu-exporter"
    )


@pytest.mark.program("prometheus")
def test_so_do_those_of_the_documented_scrape_configuration(tmp_path: Path) -> None:
    documented_job = documented()
    assert documented_job["honor_labels"] is True
    assert documented_job["kubernetes_sd_configs"][0]["role"] == "pod"
    check(DISCOVERED, documented_job["relabel_configs"], tmp_path, "mgpu-exporter")


@pytest.mark.program("helm")
@pytest.mark.program("prometheus")
def test_pods_of_two_releases_on_one_node_are_two_targets(tmp_path: Path) -> None:
    """As of NVIDIA's GPUs and AMD's: with one set of labels each series would jump between both."""
    monitor = ("podMonitor", "PodMonitor", "podMetricsEndpoints")
    labels = {**DISCOVERED, **OPERATOR}
    with (
        Exporter("--simulate=single") as nvidia,
        Exporter("--simulate=mixed") as amd,
    ):
        address = amd.ready().url.partition("://")[2]
        second = (
            "  - job_name: second\n    honor_labels: true\n"
            f"    static_configs: [{{targets: [{address}]}}]\n"
        )
        jobs = (job(labels, of_monitor(*monitor, release=name)) for name in ("gpus", "amd"))
        text = second.join(jobs)
        with Renamed(nvidia.ready().url, tmp_path, "1s", text) as prometheus:
            eventually(lambda: len(prometheus.query("mgpu_exporter_build_info")) == 2, "both")
            found = [one["metric"] for one in prometheus.query("process_start_time_seconds")]
    assert {one["instance"] for one in found} == {"node-7"}
    assert {one["job"] for one in found} == {
        "observing-gpus-mgpu-exporter",
        "observing-amd-mgpu-exporter",
    }
