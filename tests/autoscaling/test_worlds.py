"""The adapter's queries under each way in which a Prometheus may label what it scrapes.

Scraped for real. What the operator makes of ``honorLabels`` and ``enforcedNamespaceLabel`` is here
as it writes it: the enforced namespace is the last of a job's relabelings of samples
(prometheus-operator, pkg/prometheus/promcfg.go). OpenShift's monitoring of user workloads overrides
``honorLabels`` as well (overrideHonorLabels).
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus as Asked
from exporter.answers.why.seriescase import SeriesCase
from tests.autoscaling.adapter import Rule, discovered, rules
from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.worlds import EXPORTER, WORLDS

ALERTS = Path(__file__).parents[2] / "rules" / "mgpu-alerts.yaml"
SHARE = "mgpu_pod_core_limit_utilization"

JOB = """\
  - job_name: {name}
    honor_labels: {honors}
    static_configs: [{{targets: ['{target}'], labels: {labels}}}]
    metric_relabel_configs: [{relabelings}]
"""
ENFORCED = "{target_label: namespace, replacement: inference}"
KEEP = "{source_labels: [%s], regex: inference, action: keep}"


class World(NamedTuple):
    """How a job labels what it scrapes."""

    target: Mapping[str, str]
    honors: bool = False
    relabelings: str = ""


SCRAPES = {
    **{name: World(world.exporter) for name, world in WORLDS.items() if "node" not in name},
    "honored beside labels of the target": World(EXPORTER, honors=True),
    # the chart's PodMonitor drops the target's labels, and its namespace is enforced behind that
    "openshift": World(
        {"namespace": "gpu-monitoring"},
        relabelings="{target_label: namespace, replacement: gpu-monitoring}",
    ),
    # a tenant's monitor keeps its own pods' series, so that what is enforced is what they have
    "tenant": World(EXPORTER, honors=True, relabelings=f"{KEEP % 'namespace'}, {ENFORCED}"),
    "tenant on openshift": World(
        EXPORTER, relabelings=f"{KEEP % 'exported_namespace'}, {ENFORCED}"
    ),
}

# where honoured labels are not overridden as well, ours is lost
OVERWRITTEN = World(
    {**EXPORTER, "namespace": "gpu-monitoring"},
    honors=True,
    relabelings="{target_label: namespace, replacement: gpu-monitoring}",
)

pytestmark = [pytest.mark.program("prometheus", "prometheus3"), pytest.mark.slow]


@pytest.fixture(scope="module", params=["prometheus", "prometheus3"])
def prometheus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    with Exporter("--simulate=single") as exporter:
        target = exporter.ready().url.partition("://")[2]
        jobs = "".join(
            JOB.format(
                name=name,
                honors=str(world.honors).lower(),
                target=target,
                labels=json.dumps({"instance": "gpu-node-1", "cluster": name, **world.target}),
                relabelings=world.relabelings,
            )
            for name, world in {**SCRAPES, "overwritten": OVERWRITTEN}.items()
        )
        folder = tmp_path_factory.mktemp("prometheus")
        program = [request.param]
        with Prometheus(exporter.url, folder, "1s", job=jobs, program=program) as prometheus:
            yield prometheus


def rule_of(prometheus: Prometheus, world: str) -> Rule:
    """The rule that the adapter takes where only this world's job is."""
    alone = {SHARE: rules(world)[SHARE]}
    eventually(lambda: prometheus.query(f'mgpu_pod_info{{job="{world}"}}'), "the first scrape")
    return discovered(
        alone, lambda series: prometheus.query(series.replace("{", f'{{job="{world}",'))
    )[SHARE]


@pytest.mark.parametrize("world", SCRAPES)
def test_a_pod_is_told_by_its_own_name(prometheus: Prometheus, world: str) -> None:
    rule = rule_of(prometheus, world)
    query = rule.of_pods("inference", ["chat-0", "embed-0"])
    label = rule.labels["pod"]

    found = eventually(
        lambda: {key for (key,) in prometheus.values(query, [label])}, f"an answer to {query}"
    )

    assert found == {"chat-0", "embed-0"}


@pytest.mark.parametrize("world", SCRAPES)
def test_why_finds_a_pod_of_one_of_the_clusters_that_a_store_has(
    prometheus: Prometheus, world: str
) -> None:
    rule_of(prometheus, world)
    http = HttpClient(f"http://{prometheus.address}")
    asks = Asked(http, targets={"cluster": re.escape(world)})

    assert SeriesCase(asks, time.time(), 60).read("inference", "chat-0").parts
    assert not SeriesCase(asks, time.time(), 60).read("research", "chat-0").parts


@pytest.mark.parametrize("world", ["tenant", "tenant on openshift"])
def test_a_tenant_has_no_series_of_other_namespaces(prometheus: Prometheus, world: str) -> None:
    label = rule_of(prometheus, world).labels["namespace"]
    query = f'count by ({label}) (mgpu_pod_info{{job="{world}"}})'
    assert prometheus.values(query, [label]).keys() == {("inference",)}


def test_the_one_world_in_which_a_namespace_is_lost_raises_an_alert(prometheus: Prometheus) -> None:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    (alert,) = (
        rule
        for group in groups
        for rule in group["rules"]
        if rule.get("alert") == "MgpuNamespaceOverwritten"
    )
    jobs = "count(count by (job) (mgpu_pod_info))"
    every = f"{jobs} == {len(SCRAPES) + 2}"  # and the fixture's own
    eventually(lambda: prometheus.query(every), "the first scrape of each")
    raised = {one["metric"]["job"] for one in prometheus.query(alert["expr"])}
    assert raised == {"overwritten"}
