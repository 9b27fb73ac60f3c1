"""No page or example of ours makes two exporters one target, or lets a stranger be one.

Rules, boards and bills tell exporters apart by their target's labels: two with the same ones are
read as one, whose counters jump.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PHASE, PORT = "__meta_kubernetes_pod_phase", "__meta_kubernetes_pod_container_port_name"


def jobs(node: Any) -> Iterator[dict[str, Any]]:
    """Every scrape job below, wherever it stands."""
    if isinstance(node, dict):
        yield from node.get("scrape_configs") or ()
        for inner in node.values():
            yield from jobs(inner)


def texts() -> Iterator[tuple[str, str]]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            yield page.name, block
    for path in sorted((ROOT / "examples").rglob("*.y*ml")):
        yield str(path.relative_to(ROOT)), path.read_text()


FOUND = [
    (name, job)
    for name, text in texts()
    if "scrape_configs" in text
    for document in yaml.safe_load_all(text)
    for job in jobs(document)
]
CLUSTER = [(name, job) for name, job in FOUND if "kubernetes_sd_configs" in job]
MACHINE = [(name, job) for name, job in FOUND if "static_configs" in job]


def rule(job: dict[str, Any], **given: object) -> dict[str, Any]:
    """The one relabeling that has these."""
    (found,) = (one for one in job["relabel_configs"] if given.items() <= one.items())
    result: dict[str, Any] = found
    return result


def test_every_page_with_a_job_is_looked_at() -> None:
    assert {name for name, _ in CLUSTER} == {"installation.md", "scaling.md"}
    assert {name for name, _ in MACHINE} == {
        *("off-kubernetes.md", "examples/compose/prometheus.yml"),
        "examples/opentelemetry/collector.yaml",
    }


@pytest.mark.parametrize(("name", "job"), CLUSTER)
def test_a_job_of_a_cluster_takes_the_exporters_own_running_pods(
    name: str, job: dict[str, Any]
) -> None:
    (where,) = job["kubernetes_sd_configs"]
    assert where["namespaces"] == {"names": ["mgpu-exporter"]}, name
    keep = rule(job, action="keep")
    parts = dict(zip(keep["source_labels"], keep["regex"].split(";"), strict=True))
    assert parts[PHASE] == "Running"  # one that was evicted keeps its address
    assert parts[PORT] == "metrics"


@pytest.mark.parametrize(("name", "job"), CLUSTER)
def test_a_job_of_a_cluster_tells_nodes_and_releases_apart(name: str, job: dict[str, Any]) -> None:
    node = rule(job, target_label="instance")["source_labels"]
    release = rule(job, target_label="job")["source_labels"]
    assert node == ["__meta_kubernetes_pod_node_name"], name
    assert release == ["__meta_kubernetes_pod_controller_name"], name


@pytest.mark.parametrize(("name", "job"), MACHINE)
def test_a_job_of_a_machine_names_the_machine(name: str, job: dict[str, Any]) -> None:
    for group in job["static_configs"]:
        (target,) = group["targets"]
        assert group["labels"]["instance"] not in {"", target}, name
