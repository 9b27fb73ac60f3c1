"""The Prometheus Operator's objects: what they can be told, and whose targets have which labels."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.chart.matrix import MONITOR
from tests.chart.rendering import CHART, KUBERNETES, Object, Rendered, helm, render

pytestmark = pytest.mark.program("helm")

KINDS = {
    "podMonitor": ("PodMonitor", "podMetricsEndpoints"),
    "serviceMonitor": ("ServiceMonitor", "endpoints"),
}
kinds = pytest.mark.parametrize("value", KINDS)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())["properties"]
OF_OPERATOR = Path(__file__).parent / "crds"


def parts(rendered: Rendered, value: str) -> tuple[Object, Object]:
    """The monitor and its endpoint."""
    kind, endpoints = KINDS[value]
    found = rendered.one(kind)
    (endpoint,) = found["spec"][endpoints]
    return found, endpoint


# --- what the Operator offers ---------------------------------------------------------------------


@kinds
def test_a_monitor_has_what_it_is_told(value: str) -> None:
    rendered = render({value: {"enabled": True, **MONITOR}})
    found, endpoint = parts(rendered, value)
    jsonschema.validate(found, json.loads((OF_OPERATOR / f"{value.lower()}.json").read_text()))
    given = {**MONITOR}
    assert found["metadata"]["annotations"] == given.pop("annotations")
    assert endpoint.items() >= given.pop("extraEndpoint").items()
    assert found["spec"].items() >= {**given.pop("extraSpec"), **given}.items()


@kinds
def test_a_monitor_has_nothing_of_it_that_it_is_not_told(value: str) -> None:
    found, endpoint = parts(render({value: {"enabled": True}}), value)
    assert "annotations" not in found["metadata"]
    assert set(found["spec"]) == {"selector", "namespaceSelector", KINDS[value][1]}
    assert set(endpoint) == {"port", "path", "scheme", "honorLabels", "relabelings"}


@kinds
def test_every_field_of_the_operator_is_a_value_or_taken_with_the_further_ones(value: str) -> None:
    spec = json.loads((OF_OPERATOR / f"{value.lower()}.json").read_text())["properties"]["spec"]
    endpoint = spec["properties"][KINDS[value][1]]["items"]["properties"]
    own = set(SCHEMA[value]["properties"]) | set(
        SCHEMA[value]["properties"]["limits"]["properties"]
    )
    for place, fields in (("extraSpec", spec["properties"]), ("extraEndpoint", endpoint)):
        written = {
            name
            for name, form in SCHEMA[value]["properties"][place]["properties"].items()
            if not form
        }
        # The chart decides these by values of another name.
        by_others = {"port", "portNumber", "targetPort", "path", "scheme", "selector", "jobLabel"}
        by_others |= {"namespaceSelector", "attachMetadata", KINDS[value][1]}
        assert written & set(fields) <= own | by_others
        assert own & set(fields) <= written


def test_a_rule_has_the_annotations_that_it_is_given() -> None:
    given = {"enabled": True, "annotations": {"a": "b"}}
    assert render(prometheusRule=given).one("PrometheusRule")["metadata"]["annotations"] == {
        "a": "b"
    }
    assert (
        "annotations"
        not in render(prometheusRule={"enabled": True}).one("PrometheusRule")["metadata"]
    )


@pytest.mark.parametrize(
    "other",
    [
        {"authorization": {"credentials": {"name": "s", "key": "t"}}},
        {"extraEndpoint": {"oauth2": {"tokenUrl": "https://issuer"}}},
        {"extraEndpoint": {"bearerTokenFile": "/token"}},
    ],
)
def test_prometheus_own_token_makes_way_for_another_credential(other: dict[str, Any]) -> None:
    access = {"accessControl": {"enabled": True}, "service": {"enabled": True}}
    own = parts(render({**access, "serviceMonitor": {"enabled": True}}), "serviceMonitor")[1]
    assert own["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    given = parts(
        render({**access, "serviceMonitor": {"enabled": True, **other}}), "serviceMonitor"
    )[1]
    assert given.get("bearerTokenFile") != own["bearerTokenFile"]


# --- one set of labels, one exporter --------------------------------------------------------------


def target(release: str, namespace: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The labels that a monitor itself gives the target of a pod on node-7."""
    (value,) = values.keys() & KINDS.keys()
    text = helm(
        *("template", release, str(CHART), "--namespace", namespace, "--values", "-"),
        *("--kube-version", KUBERNETES),
        given=json.dumps(values),
    )
    labels = {}
    for rule in parts(Rendered(text), value)[1]["relabelings"]:
        if rule["action"] == "replace":
            source = "node-7" if "sourceLabels" in rule else rule["replacement"]
            labels[rule["targetLabel"]] = source
    return labels


@pytest.mark.slow
@kinds
@pytest.mark.parametrize(
    "others",
    [
        ("amd", "mgpu-exporter", {}),
        ("mgpu-exporter", "team", {}),
        ("demo", "mgpu-exporter", {"simulate": "demo"}),
        ("second", "mgpu-exporter", {"hostNetwork": True, "web": {"port": 10046}}),
        ("gpus", "gpu-operator", {"compat": {"dropIn": "dcgm"}}),
    ],
    ids=["vendor", "namespace", "simulated", "host-network", "drop-in"],
)
def test_no_two_releases_with_pods_on_one_node_have_the_same_target(
    value: str, others: tuple[str, str, dict[str, Any]]
) -> None:
    monitor = {value: {"enabled": True}}
    first = target("mgpu-exporter", "mgpu-exporter", monitor)
    release, namespace, values = others
    second = target(release, namespace, {**values, **monitor})
    assert first == {"job": "mgpu-exporter", "node": "node-7", "instance": "node-7"}
    assert second == {**first, "job": second["job"]}
    assert second["job"] != first["job"]


@pytest.mark.parametrize(
    ("values", "job"),
    [
        ({"nameOverride": "cards"}, "observing-gpus-cards"),
        ({"fullnameOverride": "cards"}, "observing-cards"),
        ({"nameOverride": "cards", "namespaceOverride": "gpus-cards"}, "gpus-cards"),
    ],
)
def test_the_alerts_of_exporters_know_a_job_of_another_name(
    values: dict[str, Any], job: str
) -> None:
    more = {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
    rendered = render({**more, **values})
    assert {"action": "replace", "targetLabel": "job", "replacement": job} in parts(
        rendered, "podMonitor"
    )[1]["relabelings"]
    groups = rendered.one("PrometheusRule")["spec"]["groups"]
    found = {r.get("alert"): r["expr"] for group in groups for r in group["rules"]}
    for alert in ("MgpuExporterDown", "MgpuExporterMissing"):
        assert f'up{{job=~".*mgpu-exporter.*|{job}"' in found[alert]
    usual = render(more).one("PrometheusRule")["spec"]["groups"]
    exprs = [rule["expr"] for group in usual for rule in group["rules"]]
    assert any('up{job=~".*mgpu-exporter.*"}' in expr for expr in exprs)
