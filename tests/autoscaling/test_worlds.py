"""The adapter's queries under each way in which a Prometheus may label what it scrapes.

Scraped for real. What the operator makes of ``honorLabels`` and ``enforcedNamespaceLabel`` is here
as it writes it: the enforced namespace is the last of a job's relabelings of samples
(prometheus-operator, pkg/prometheus/promcfg.go).
"""

from collections.abc import Iterator

import pytest

from tests.autoscaling.adapter import rules
from tests.e2e.programs import Exporter, Prometheus, eventually

SHARE = "mgpu_pod_core_limit_utilization"
EXPORTER = (
    "namespace: monitoring, pod: mgpu-exporter-x7k2p, container: exporter, instance: gpu-node-1"
)

JOB = """\
  - job_name: {name}
    honor_labels: {honors}
    static_configs: [{{targets: ['{target}'], labels: {{{labels}}}}}]
    metric_relabel_configs: [{relabelings}]
"""
ENFORCED = "{target_label: namespace, replacement: inference}"
KEEP = "{source_labels: [%s], regex: inference, action: keep}"
WORLDS = {  # name → whether labels are honoured, relabelings, the adapter's file
    "honored": ("true", "", "prometheus-adapter.yaml"),
    "exported": ("false", "", "prometheus-adapter-exported.yaml"),
    # a tenant's monitor keeps its own pods' series, so that what is enforced is what they have
    "tenant": ("true", f"{KEEP % 'namespace'}, {ENFORCED}", "prometheus-adapter.yaml"),
    # overrideHonorLabels, which goes with enforcedNamespaceLabel where tenants are not trusted
    "overridden": (
        "false",
        f"{KEEP % 'exported_namespace'}, {ENFORCED}",
        "prometheus-adapter-exported.yaml",
    ),
}

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with Exporter("--simulate=single") as exporter:
        target = exporter.ready().url.partition("://")[2]
        jobs = "".join(
            JOB.format(
                name=name, honors=honors, target=target, labels=EXPORTER, relabelings=relabelings
            )
            for name, (honors, relabelings, _) in WORLDS.items()
        )
        folder = tmp_path_factory.mktemp("prometheus")
        with Prometheus(exporter.url, folder, "1s", job=jobs) as prometheus:
            yield prometheus


@pytest.mark.parametrize("world", WORLDS)
def test_a_pod_is_told_by_its_own_name(prometheus: Prometheus, world: str) -> None:
    _, _, file = WORLDS[world]
    rule = rules(file)[SHARE]
    query = _of(world, rule.of_pods("inference", ["chat-0", "embed-0"]))
    label = rule.labels["pod"]

    found = eventually(
        lambda: {key for (key,) in prometheus.values(query, [label])}, f"an answer to {query}"
    )

    assert found == {"chat-0", "embed-0"}


@pytest.mark.parametrize("world", ["tenant", "overridden"])
def test_a_tenant_has_no_series_of_other_namespaces(prometheus: Prometheus, world: str) -> None:
    label = rules(WORLDS[world][2])[SHARE].labels["namespace"]
    query = f'count by ({label}) (mgpu_pod_info{{job="{world}"}})'
    eventually(lambda: prometheus.query(query), "the job's first scrape")
    assert prometheus.values(query, [label]).keys() == {("inference",)}


def test_without_honored_labels_the_other_file_would_name_the_exporters_pod(
    prometheus: Prometheus,
) -> None:
    query = 'count by (pod) (mgpu_pod_info{job="exported"})'
    eventually(lambda: prometheus.query(query), "the job's first scrape")
    assert prometheus.values(query, ["pod"]).keys() == {("mgpu-exporter-x7k2p",)}


def _of(world: str, query: str) -> str:
    """The query as it is where only this world's job is."""
    return query.replace("{", f'{{job="{world}",')
