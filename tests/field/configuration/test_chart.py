"""What installers of charts met: Helm, Argo CD, platforms that select, quota, refuse."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.matrix import EVERYTHING, MATRIX, REVIEWED
from tests.chart.rendering import (
    CHART,
    KUBERNETES,
    NAMESPACE,
    RELEASE,
    Object,
    Refused,
    Rendered,
    helm,
    render,
)
from tests.chart.test_monitors import OF_OPERATOR
from tests.field.report import report

pytestmark = pytest.mark.program("helm")

INSTANCE = "app.kubernetes.io/instance"
LARGEST_ANNOTATION = (
    262_144  # bytes; kubectl's and Argo CD's client-side apply keep an object in one
)


def selected(rendered: Rendered) -> list[tuple[str, Object, list[Object]]]:
    """What selects by labels: its kind, the labels, and those of all that it may find."""
    pods = [rendered.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]]
    services = [one["metadata"]["labels"] for one in rendered.of("Service")]
    found = [("Service", one["spec"]["selector"], pods) for one in rendered.of("Service")]
    for kind, key, among in (
        ("DaemonSet", "selector", pods),
        ("NetworkPolicy", "podSelector", pods),
        ("PodMonitor", "selector", pods),
        ("ServiceMonitor", "selector", services),
    ):
        found += [(kind, one["spec"][key]["matchLabels"], among) for one in rendered.of(kind)]
    return found


def in_umbrella(folder: Path, dependency: dict[str, Any], values: dict[str, Any]) -> Rendered:
    """The chart as a dependency of another, as platform teams have it."""
    (folder / "charts").mkdir(parents=True)
    (folder / "charts" / CHART.name).symlink_to(CHART)
    own = {"name": CHART.name, "version": "0.1.0", **dependency}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [own]}
    (folder / "Chart.yaml").write_text(json.dumps(chart))
    said = helm(
        *("template", "platform", str(folder), "--namespace", "observing", "--values", "-"),
        *("--kube-version", KUBERNETES),
        given=json.dumps(values),
    )
    return Rendered(said)


# --- labels and selectors -------------------------------------------------------------------------


@report(
    source="prometheus-community/helm-charts#3375, #3128, kubernetes/ingress-nginx#5954",
    seen="Argo CD writes the application's name into app.kubernetes.io/instance of each object, so "
    "that a ServiceMonitor found no Service once the release was called otherwise.",
    first="wrong",
    group="configuration",
    kind="found by a label that others write",
)
@pytest.mark.parametrize(
    "values",
    [
        {"podMonitor": {"enabled": True}},
        {"serviceMonitor": {"enabled": True}},
        REVIEWED,
    ],
    ids=["pods", "services", "reviewed"],
)
def test_what_argo_cd_writes_over_hides_no_target(values: dict[str, Any]) -> None:
    rendered = render(values)
    for one in rendered.objects:
        one["metadata"]["labels"][INSTANCE] = "platform_team-gpu"
    for kind, by, among in selected(rendered):
        assert any(by.items() <= labels.items() for labels in among), kind


@report(
    source="aws/eks-node-monitoring-agent#92, kubeshark/kubeshark#1534",
    seen="The chart's version was one of the labels by which a DaemonSet selects, so that the next "
    "version could not be installed over it.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("values", [EVERYTHING, MATRIX["drop-in"]], ids=["everything", "drop-in"])
def test_nothing_selects_by_a_version(values: dict[str, Any]) -> None:
    for _, by, _ in selected(render(values)):
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & by.keys()


@report(
    source="deliveryhero/helm-charts#743, kubereboot/kured#610",
    seen="A value that was changed, or a new version, changed what a DaemonSet selects by, which "
    "Kubernetes never lets happen.",
    first="right",
    group="configuration",
)
def test_no_setting_changes_what_a_daemonset_selects_by() -> None:
    before = render().one("DaemonSet")
    for values in (EVERYTHING, {"settings": {"compat": "dcgm"}}, {"web": {"port": 9999}}):
        after = render(values).one("DaemonSet")
        assert after["metadata"]["name"] == before["metadata"]["name"]
        assert after["spec"]["selector"] == before["spec"]["selector"]


@report(
    source="NVIDIA/k8s-device-plugin#701",
    seen="A new version of a chart selected by other labels under the same name: the upgrade ended "
    "with «field is immutable».",
    first="wrong",
    group="configuration",
    kind="a name that stays where its selector does not",
)
def test_a_daemonset_that_selects_by_other_labels_has_another_name() -> None:
    named = {"fullnameOverride": "gpu-exporter"}
    before, after = (
        render({**named, **more}).one("DaemonSet") for more in ({}, {"compat": {"dropIn": "dcgm"}})
    )
    assert (
        before["spec"]["selector"] == after["spec"]["selector"]
        or before["metadata"]["name"] != after["metadata"]["name"]
    )


@report(
    source="kokuwaio/helm-charts#86, bitnami/charts#31989",
    seen="Alerts named the job of another release than the one installed, and never fired.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("alias", ["", "node-gpus"])
def test_under_any_name_the_alerts_know_the_job_of_the_monitor(alias: str, tmp_path: Path) -> None:
    own = {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
    values = {alias or CHART.name: own}
    rendered = in_umbrella(tmp_path, {"alias": alias} if alias else {}, values)
    (endpoint,) = rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    (job,) = (
        one["replacement"] for one in endpoint["relabelings"] if one.get("targetLabel") == "job"
    )
    rules = chain(*(one["rules"] for one in rendered.one("PrometheusRule")["spec"]["groups"]))
    (down,) = (one["expr"] for one in rules if one.get("alert") == "MgpuExporterDown")
    assert f'|{job}"' in down or "mgpu-exporter" in job


# --- values ---------------------------------------------------------------------------------------


@report(
    source="cert-manager/google-cas-issuer#361, traefik/traefik-helm-chart#1640, "
    "open-telemetry/opentelemetry-helm-charts#228",
    seen="A strict schema refused «enabled», by which an umbrella chart switches its dependency.",
    first="right",
    group="configuration",
)
def test_an_umbrella_chart_switches_it(tmp_path: Path) -> None:
    switched = {"condition": f"{CHART.name}.enabled"}
    for enabled in (True, False):
        values = {CHART.name: {"enabled": enabled}}
        rendered = in_umbrella(tmp_path / str(enabled), switched, values)
        assert bool(rendered.of("DaemonSet")) is enabled


@report(
    source="kubernetes-sigs/headlamp#1896, dadrus/heimdall#826, helm/helm#11562",
    seen="A number as a variable's value went through Helm, and ended the install with a message "
    "about a Go struct.",
    first="wrong",
    group="configuration",
    kind="a value of the wrong form that others refuse later",
)
@pytest.mark.parametrize(
    "values",
    [
        {"extraEnv": [{"name": "PORT", "value": 443}]},
        {"extraEnv": [{"name": "PULL", "value": True}]},
        {"tolerations": [{"key": "gpu", "operator": "Equal", "value": True}]},
        {"extraContainers": [{"name": "a", "env": [{"name": "PORT", "value": 443}]}]},
        {"dnsConfig": {"options": [{"name": "ndots", "value": 1}]}},
        {"extraArgs": [8080]},
        {"podLabels": {"sidecar.istio.io/inject": False}},
        {"service": {"annotations": {"prometheus.io/port": 10045}}},
        {"nodeSelector": {"gpu": True}},
    ],
    ids=str,
)
def test_what_kubernetes_wants_as_text_is_text_or_refused_by_name(values: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=next(iter(values))):
        render(values)


@report(
    source="argoproj/argo-cd#3263, twuni/docker-registry.helm#187",
    seen="A chart rendered something else each time (a time stamp, a random secret), so that Argo "
    "CD restarted all pods again and again.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("values", [EVERYTHING, REVIEWED], ids=["everything", "reviewed"])
def test_the_same_values_render_the_same_text(values: dict[str, Any]) -> None:
    arguments = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", "-")
    again = helm(*arguments, "--kube-version", KUBERNETES, given=json.dumps(values))
    assert again == render(values).text


@report(
    source="VictoriaMetrics/helm-charts#1409, argoproj/argo-cd#820, grafana/tanka#50",
    seen="A dashboard's ConfigMap was longer than an annotation may be, in which client-side apply "
    "keeps it.",
    first="right",
    group="configuration",
)
def test_every_object_fits_into_the_annotation_of_client_side_apply() -> None:
    everything = render(dashboards={"enabled": True}, prometheusRule={"enabled": True})
    for one in everything.objects:
        assert len(json.dumps(one, ensure_ascii=False).encode()) < LARGEST_ANNOTATION


@report(
    source="cilium/cilium#38051, prometheus-community/helm-charts#2708",
    seen="The API server adds the defaults of a custom resource, such as action: replace, and Argo "
    "CD took them away again, for ever.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("value", ["podMonitor", "serviceMonitor"])
def test_a_monitor_has_the_defaults_that_the_api_server_would_add(value: str) -> None:
    kind = f"{value[0].upper()}{value[1:]}"
    own = [{"targetLabel": "cluster", "replacement": "a"}]
    values = {"enabled": True, "relabelings": own, "metricRelabelings": own}
    made = render({value: values}).one(kind)
    schema = json.loads((OF_OPERATOR / f"{value.lower()}.json").read_text())
    assert with_defaults(made, schema) == made


def with_defaults(node: Any, schema: Any) -> Any:
    """An object as the API server keeps it: with what its definition gives by default."""
    if isinstance(node, list):
        return [with_defaults(each, schema.get("items", {})) for each in node]
    if not isinstance(node, dict):
        return node
    known = schema.get("properties", {})
    given = {name: form["default"] for name, form in known.items() if "default" in form}
    return {name: with_defaults(v, known.get(name, {})) for name, v in {**given, **node}.items()}


# --- platforms ------------------------------------------------------------------------------------


def kinds_of_volumes(pod: Object) -> set[str]:
    """The kinds of a pod's volumes."""
    return {key for volume in pod["volumes"] for key in volume if key != "name"}


@report(
    source="gremlin/helm#116, weka/csi-wekafs#661",
    seen="The chart's own SecurityContextConstraints lacked a kind of volume that its pods had: no "
    "pod came.",
    first="wrong",
    group="configuration",
    kind="a right counted from what the chart has, not from what it is given",
)
@pytest.mark.parametrize(
    "volume",
    [{"emptyDir": {}}, {"csi": {"driver": "secrets-store.csi.k8s.io"}}, {"downwardAPI": {}}],
    ids=lambda volume: next(iter(volume)),
)
def test_openshifts_constraints_allow_the_volumes_that_are_added(volume: dict[str, Any]) -> None:
    rendered = render(
        openshift={"securityContextConstraints": True},
        extraVolumes=[{"name": "more", **volume}],
    )
    allowed = set(rendered.one("SecurityContextConstraints")["volumes"])
    assert kinds_of_volumes(rendered.pod) <= allowed


@report(
    source="TykTechnologies/tyk-operator#359",
    seen="In a namespace with a ResourceQuota no pod was made: the chart gave its own container "
    "requests and limits, and kube-rbac-proxy none.",
    first="wrong",
    group="configuration",
    kind="a right counted from what the chart has, not from what it is given",
)
def test_every_container_has_what_a_quota_asks_for_once_the_own_one_has() -> None:
    rendered = render(
        kubeRBACProxy={"enabled": True}, resources={"limits": {"cpu": "1", "memory": "192Mi"}}
    )
    for container in rendered.pod["containers"]:
        given = container.get("resources", {})
        assert given.get("limits", {}).keys() >= {"memory"}, container["name"]
        assert given.get("requests", {}).keys() >= {"cpu", "memory"}, container["name"]


@report(
    source="operator-framework/operator-sdk#6364, redhat-cop/global-load-balancer-operator#45",
    seen="OpenShift's monitoring of user workloads leaves out a ServiceMonitor that names a file "
    "of Prometheus' pod, and nobody is told.",
    first="wrong",
    group="configuration",
    kind="a silence that nothing foretells",
)
def test_a_token_file_that_an_operator_may_refuse_is_foretold() -> None:
    values: dict[str, Any] = {
        "accessControl": {"enabled": True},
        "serviceMonitor": {"enabled": True},
    }
    (endpoint,) = render(values).one("ServiceMonitor")["spec"]["endpoints"]
    assert "bearerTokenFile" in endpoint
    assert "arbitraryFSAccessThroughSMs" in notes(values)
    own = {"credentials": {"name": "scraper", "key": "token"}}
    values["serviceMonitor"]["authorization"] = own
    (endpoint,) = render(values).one("ServiceMonitor")["spec"]["endpoints"]
    assert "bearerTokenFile" not in endpoint
    assert "arbitraryFSAccessThroughSMs" not in notes(values)


def notes(values: dict[str, Any]) -> str:
    """What Helm says after the install."""
    said = helm(
        *("install", "gpus", str(CHART), "--dry-run=client", "--values", "-"),
        given=json.dumps(values),
    )
    return said.partition("\nNOTES:\n")[2]


@report(
    source="prometheus-operator/prometheus-operator#5419, "
    "prometheus-community/helm-charts#1883, falcosecurity/falco-exporter#50",
    seen="Probes by HTTPS failed where clients must show a certificate, which the kubelet has not.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("wanted", ["RequireAndVerifyClientCert", "NoClientCert"])
def test_a_probe_does_not_need_a_certificate(wanted: str) -> None:
    tls = {
        "cert_file": "/etc/mgpu-exporter/tls/tls.crt",
        "key_file": "/etc/mgpu-exporter/tls/tls.key",
        **(
            {"client_auth_type": wanted, "client_ca_file": "/etc/mgpu-exporter/tls/ca.crt"}
            if wanted != "NoClientCert"
            else {}
        ),
    }
    container = render(web={"tlsSecret": "tls", "config": {"tls_server_config": tls}}).container
    for probe in ("livenessProbe", "readinessProbe"):
        assert ("tcpSocket" in container[probe]) is (wanted != "NoClientCert")


@report(
    source="NVIDIA/dcgm-exporter#214",
    seen="On GKE's full nodes the exporter's pods were Pending for days: they had no priority, and "
    "GKE lets the usual class be used with a quota for it only.",
    first="wrong",
    group="configuration",
    kind="a silence that nothing foretells",
)
def test_on_gke_a_full_node_makes_room_for_the_agent() -> None:
    values = yaml.safe_load((CHART / "presets" / "gke.yaml").read_text())
    rendered = render(values)
    assert rendered.pod["priorityClassName"] == "system-node-critical"
    spec = rendered.one("ResourceQuota")["spec"]
    (scope,) = spec["scopeSelector"]["matchExpressions"]
    assert scope == {
        "scopeName": "PriorityClass",
        "operator": "In",
        "values": ["system-node-critical"],
    }
    assert int(spec["hard"]["pods"]) >= 15_000  # nodes of GKE's largest clusters


@report(
    source="cloudnative-pg/charts#456, danielqsj/kafka_exporter#430",
    seen="Azure's managed Prometheus has PodMonitor and ServiceMonitor in an API group of its own, "
    "and charts name the Operator's only: the install ends, or nothing is scraped.",
    first="wrong",
    group="configuration",
    kind="one platform's name for all",
)
@pytest.mark.parametrize("value", ["podMonitor", "serviceMonitor"])
def test_a_monitor_may_be_of_azures_group(value: str) -> None:
    azure = "azmonitoring.coreos.com/v1"
    rendered = render({value: {"enabled": True, "apiVersion": azure}})
    assert rendered.one(f"{value[0].upper()}{value[1:]}")["apiVersion"] == azure


@report(
    source="openshift/route-monitor-operator#270, infrawatch/documentation#523",
    seen="OpenShift's Cluster Observability Operator has monitors and rules in a group of its own, "
    "and it does not see what names the Prometheus Operator's.",
    first="wrong",
    group="configuration",
    kind="one platform's name for all",
)
@pytest.mark.parametrize("value", ["podMonitor", "serviceMonitor", "prometheusRule"])
def test_monitors_and_rules_may_be_of_any_group(value: str) -> None:
    group = "monitoring.rhobs/v1"
    rendered = render({value: {"enabled": True, "apiVersion": group}})
    assert rendered.one(f"{value[0].upper()}{value[1:]}")["apiVersion"] == group
    with pytest.raises(Refused):
        render({value: {"enabled": True, "apiVersion": "monitoring.rhobs"}})


# --- Grafana --------------------------------------------------------------------------------------


@report(
    source="fluent/helm-charts#465, VictoriaMetrics/helm-charts#2143",
    seen="Two releases brought the same dashboard: Grafana says that a UID is used twice, and "
    "saves neither any more.",
    first="right",
    group="configuration",
)
def test_the_second_release_that_the_documents_name_brings_no_dashboard_again() -> None:
    for preset in ("amd", "intel"):
        values = yaml.safe_load((CHART / "presets" / f"{preset}.yaml").read_text())
        assert not any("grafana_dashboard" in str(o) for o in render(values).of("ConfigMap"))


@report(
    source="grafana/grafana#93971, grafana-cold-storage/oncall#5417",
    seen="Amazon's and Azure's Prometheus are data sources of types of their own, which a variable "
    "of type prometheus does not offer.",
    first="unknown",
    group="configuration",
    settled="A Grafana that has such a data source: a variable names one type. A data source of "
    "type prometheus with SigV4 shows the same series.",
)
def test_no_panel_names_a_data_source_but_by_the_variable() -> None:
    for path in sorted((CHART / "files" / "dashboards").glob("*.json")):
        found = set(sources(json.loads(path.read_text())))
        assert found <= {"$datasource", "${datasource}", "-- Grafana --"}, path.name


def sources(node: Any) -> Any:
    """The ids of all data sources in a dashboard."""
    if isinstance(node, dict):
        if isinstance(node.get("datasource"), dict):
            yield node["datasource"].get("uid")
        for each in node.values():
            yield from sources(each)
    elif isinstance(node, list):
        for each in node:
            yield from sources(each)
