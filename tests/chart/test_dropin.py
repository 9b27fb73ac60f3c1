"""``compat.dropIn: dcgm``: found by what dcgm-exporter is found by, and by each finder once.

The selectors are those of the finders' own sources: NVIDIA/gpu-operator a22dbf6
(``assets/state-dcgm-exporter``), NVIDIA/dcgm-exporter d5e5f51 (``deployment/templates``),
castai/gpu-metrics-exporter 8513bb3 (``internal/config/config.go``: the label ``component``, in
later versions ``name``), DataDog/integrations-core (``dcgm``: the image's name, else annotations).
"""

import json
from typing import Any

import pytest

from tests.chart.rendering import NAMESPACE, Object, Refused, Rendered, render

pytestmark = pytest.mark.program("helm")

DROPPED: dict[str, Any] = {"compat": {"dropIn": "dcgm"}}


def endpoints(rendered: Rendered, selector: dict[str, str], port: str) -> list[tuple[str, int]]:
    """The pod ports, with numbers, that a ServiceMonitor of this selector and port scrapes."""
    labels = rendered.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    found = []
    for service in rendered.of("Service"):
        chosen = selector.items() <= service["metadata"]["labels"].items()
        if chosen and service["spec"]["selector"].items() <= labels.items():
            ports = service["spec"]["ports"]
            found += [(p["targetPort"], p["port"]) for p in ports if p["name"] == port]
    return found


FINDERS = {
    "the GPU operator's ServiceMonitor": ({"app": "nvidia-dcgm-exporter"}, "gpu-metrics"),
    "the chart of dcgm-exporter": (
        {
            "app.kubernetes.io/name": "dcgm-exporter",
            "app.kubernetes.io/component": "dcgm-exporter",
        },
        "metrics",
    ),
}


@pytest.mark.parametrize("finder", FINDERS)
def test_a_service_monitor_for_dcgm_exporter_finds_each_pod_once(finder: str) -> None:
    rendered = render(DROPPED)
    assert endpoints(rendered, *FINDERS[finder]) == [("metrics", 9400)]
    assert rendered.container["ports"] == [
        {"name": "metrics", "containerPort": 9400, "protocol": "TCP"}
    ]
    assert "--web.listen-address=:9400" in rendered.args


def test_neither_service_has_the_other_ones_labels() -> None:
    services = {
        s["metadata"]["name"]: s["metadata"]["labels"] for s in render(DROPPED).of("Service")
    }
    assert services.keys() == {"nvidia-dcgm-exporter", "dcgm-exporter"}
    assert "app.kubernetes.io/name" not in services["nvidia-dcgm-exporter"]
    assert "app" not in services["dcgm-exporter"]


def test_one_service_alone_is_scraped_by_annotations() -> None:
    rendered = render(DROPPED)
    annotated: list[Object] = [
        one["metadata"]["annotations"]
        for one in rendered.of("Service")
        if "prometheus.io/scrape" in one["metadata"].get("annotations", {})
    ]
    assert annotated == [
        {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9400",
            "prometheus.io/path": "/metrics",
            "prometheus.io/scheme": "http",
        }
    ]
    # Prometheus' usual jobs read those of Services and of pods: both would count every card twice.
    assert "prometheus.io/scrape" not in rendered.annotations


def test_the_pods_have_the_labels_that_agents_look_for() -> None:
    labels = render(DROPPED).one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    expected = {
        "app": "nvidia-dcgm-exporter",
        "app.kubernetes.io/name": "dcgm-exporter",
        "app.kubernetes.io/component": "dcgm-exporter",
    }
    assert expected.items() <= labels.items()


def test_datadog_is_told_by_an_annotation_of_the_container() -> None:
    rendered = render(DROPPED, podAnnotations={"prometheus.io/scrape": "true"})
    text = rendered.annotations[f"ad.datadoghq.com/{rendered.container['name']}.checks"]
    (instance,) = json.loads(text)["dcgm"]["instances"]
    assert instance == {"openmetrics_endpoint": "http://%%host%%:9400/metrics"}
    assert rendered.annotations["prometheus.io/scrape"] == "true"  # Netdata's, by the user's wish


@pytest.mark.parametrize(
    ("own", "served"),
    [
        ([], "dcgm,dcgm-4.9"),
        (["hami"], "hami,dcgm,dcgm-4.9"),
        ("hami", "hami,dcgm,dcgm-4.9"),
        (["hami", "dcgm"], "hami,dcgm"),
        ("dcgm-4.9", "dcgm-4.9"),
    ],
)
def test_both_its_name_sets_are_served_beside_the_settings_unless_one_is_chosen(
    own: object, served: str
) -> None:
    assert f"--compat={served}" in render(DROPPED, settings={"compat": own}).args


@pytest.mark.parametrize("value", ["serviceMonitor", "podMonitor"])
def test_the_job_is_the_one_of_the_operators_monitor(value: str) -> None:
    rendered = render(DROPPED, **{value: {"enabled": True}})
    kind = "ServiceMonitor" if value == "serviceMonitor" else "PodMonitor"
    spec = rendered.one(kind)["spec"]
    found = (
        rendered.of("Service")
        if value == "serviceMonitor"
        else [rendered.one("DaemonSet")["spec"]["template"]]
    )
    selected = spec["selector"]["matchLabels"].items()
    assert len([one for one in found if selected <= one["metadata"]["labels"].items()]) == 1
    (endpoint,) = spec["endpoints" if value == "serviceMonitor" else "podMetricsEndpoints"]
    assert {
        "action": "replace",
        "targetLabel": "job",
        "replacement": "nvidia-dcgm-exporter",
    } in endpoint["relabelings"]
    assert spec["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    if value == "serviceMonitor":
        (port,) = (endpoint["port"] for endpoint in spec["endpoints"])
        assert endpoints(rendered, spec["selector"]["matchLabels"], port) == [("metrics", 9400)]


@pytest.mark.parametrize("labels", [[], None])
def test_the_pods_leave_a_node_whose_gpus_are_to_have_no_users(labels: list[Any] | None) -> None:
    """The MIG manager waits for them: it would give up after its time-out."""
    values = {} if labels is None else {"gpuNodeLabels": labels}
    affinity = render(DROPPED, **values).pod["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    paused = {
        "key": "nvidia.com/gpu.deploy.dcgm-exporter",
        "operator": "NotIn",
        "values": ["false", "paused-for-mig-change", "paused-for-driver-upgrade"],
    }
    assert terms
    assert all(paused in term["matchExpressions"] for term in terms)


def test_the_daemon_set_has_another_name_so_that_an_upgrade_replaces_it() -> None:
    """The selector differs, and Kubernetes refuses to change that of a DaemonSet."""
    before, after = render().one("DaemonSet"), render(DROPPED).one("DaemonSet")
    assert before["spec"]["selector"] != after["spec"]["selector"]
    assert before["metadata"]["name"] != after["metadata"]["name"]


def test_without_it_nothing_is_named_after_dcgm_exporter() -> None:
    text = render().text
    assert "dcgm" not in text.replace("kubectl", "")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kubeRBACProxy": {"enabled": True}}, "shows no token"),
        ({"service": {"enabled": False}}, "needs service.enabled"),
    ],
)
def test_what_would_not_be_found_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        render(DROPPED, **values)


def test_another_program_is_refused() -> None:
    with pytest.raises(Refused, match=r"compat.dropIn|/compat/dropIn"):
        render({"compat": {"dropIn": "hami"}})


@pytest.mark.parametrize(
    ("own", "jobs"), [({}, ".*mgpu-exporter.*|nvidia-dcgm-exporter"), ({"jobs": "x"}, "x")]
)
def test_the_alerts_of_exporters_know_its_job(own: dict[str, str], jobs: str) -> None:
    rules = dict.fromkeys(("MgpuExporterDown", "MgpuExporterMissing"), own)
    given = {"enabled": True, "rules": rules if own else {}}
    rendered = render({"compat": {"dropIn": "dcgm"}, "prometheusRule": given})
    found = [
        rule["expr"]
        for group in rendered.one("PrometheusRule")["spec"]["groups"]
        for rule in group["rules"]
        if rule.get("alert") in rules
    ]
    assert len(found) == 2
    assert all(f'job=~"{jobs}"' in expr for expr in found)
