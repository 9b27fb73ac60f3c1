"""How the exporter is reached, scraped, placed and updated."""

from typing import Any

import pytest
import yaml

from exporter.agent.web import WebConfig
from tests.chart.matrix import EVERYTHING
from tests.chart.rendering import NAMESPACE, Object, Refused, Rendered, render

pytestmark = pytest.mark.program("helm")

MONITORS = {
    "podMonitor": ("PodMonitor", "podMetricsEndpoints"),
    "serviceMonitor": ("ServiceMonitor", "endpoints"),
}
monitors = pytest.mark.parametrize("value", MONITORS)


def endpoint(rendered: Rendered, value: str) -> Object:
    kind, endpoints = MONITORS[value]
    (found,) = rendered.one(kind)["spec"][endpoints]
    result: Object = found
    return result


# --- what is off by default -----------------------------------------------------------------------


def test_nothing_by_default_needs_anybody_elses_custom_resources() -> None:
    kinds = {one["kind"] for one in render().objects}
    assert kinds == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap"),
        *("Service", "DaemonSet", "Pod"),
    }


def test_an_agent_has_no_disruption_budget() -> None:
    assert not render(EVERYTHING).of("PodDisruptionBudget")


# --- monitors -------------------------------------------------------------------------------------


@monitors
def test_a_series_keeps_its_own_pod_and_the_exporters_is_dropped(value: str) -> None:
    found = endpoint(render({value: {"enabled": True}}), value)
    assert found["honorLabels"] is True
    assert {"action": "labeldrop", "regex": "pod|container|namespace"} in found["relabelings"]


@monitors
def test_a_restarted_exporter_keeps_its_series_because_the_node_is_the_instance(value: str) -> None:
    found = endpoint(render({value: {"enabled": True}}), value)
    from_node = {
        rule["targetLabel"]
        for rule in found["relabelings"]
        if rule.get("sourceLabels") == ["__meta_kubernetes_pod_node_name"]
    }
    assert from_node == {"node", "instance"}


@monitors
def test_a_monitor_selects_what_the_chart_made(value: str) -> None:
    rendered = render({value: {"enabled": True}})
    spec = rendered.one(MONITORS[value][0])["spec"]
    labels = (
        rendered.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
        if value == "podMonitor"
        else rendered.one("Service")["metadata"]["labels"]
    )
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert spec["namespaceSelector"] == {"matchNames": [NAMESPACE]}


@monitors
def test_a_monitors_own_relabeling_comes_after_the_charts(value: str) -> None:
    own = {"action": "replace", "targetLabel": "cluster", "replacement": "a"}
    found = endpoint(render({value: {"enabled": True, "relabelings": [own]}}), value)
    assert found["relabelings"][-1] == own


@monitors
def test_without_honoured_labels_the_exporters_own_are_kept(value: str) -> None:
    rendered = render({value: {"enabled": True, "honorLabels": False}})
    found = endpoint(rendered, value)
    assert found["honorLabels"] is False
    assert not [rule for rule in found["relabelings"] if rule["action"] == "labeldrop"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"serviceMonitor": {"enabled": True}, "service": {"enabled": False}}, "service.enabled"),
        ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "twice"),
        ({"kubeRBACProxy": {"enabled": True}, "web": {"config": {"a": 1}}}, "web.config"),
        ({"kubeRBACProxy": {"enabled": True}, "hostNetwork": True}, "hostNetwork"),
        ({"web": {"config": {"a": 1}, "existingSecret": "x"}}, "web.existingSecret"),
        ({"settings": {"log": {"level": "info"}}, "existingConfigMap": "x"}, "existingConfigMap"),
        (
            {"podAnnotations": {"nvidia.com/container.mgpu-exporter.gpu-memory.limit": "1Gi"}},
            "own GPU memory",
        ),
        ({"extraEnv": [{"name": "NVIDIA_GPU_MEMORY_LIMIT", "value": "1024"}]}, "own GPU memory"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        render(values)


# --- the Service, probes, TLS ---------------------------------------------------------------------


def test_the_service_is_headless_and_finds_the_pods() -> None:
    rendered = render()
    service = rendered.one("Service")["spec"]
    labels = rendered.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert service["clusterIP"] == "None"
    assert service["selector"].items() <= labels.items()
    assert service["ports"][0]["targetPort"] == rendered.container["ports"][0]["name"]


def test_the_daemonset_selects_its_pods_by_what_no_release_changes() -> None:
    spec = render(EVERYTHING).one("DaemonSet")["spec"]
    assert set(spec["selector"]["matchLabels"]) == {
        f"app.kubernetes.io/{name}" for name in ("name", "instance", "component")
    }
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("web", "scheme", "kind"),
    [
        ({}, "HTTP", "httpGet"),
        ({"config": {"tls_server_config": {"cert_file": "x"}}}, "HTTPS", "httpGet"),
        ({"existingSecret": "mine", "scheme": "https"}, "HTTPS", "httpGet"),
        (
            {"config": {"tls_server_config": {"client_auth_type": "RequireAndVerifyClientCert"}}},
            None,
            "tcpSocket",
        ),
        ({"existingSecret": "mine", "probe": "tcp"}, None, "tcpSocket"),
    ],
)
def test_probes_speak_as_the_listener_does(
    web: dict[str, Any], scheme: str | None, kind: str
) -> None:
    container = render(web=web).container
    paths = {"livenessProbe": "/-/healthy", "readinessProbe": "/-/ready"}
    for probe, path in paths.items():
        assert container[probe][kind]["port"] == "metrics"
        if scheme:
            assert container[probe][kind]["path"] == path
            assert container[probe][kind]["scheme"] == scheme


def test_the_web_configuration_is_a_secret_that_the_exporter_takes(tmp_path: Any) -> None:
    config = {
        "basic_auth_users": {
            "prometheus": "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
        }
    }
    rendered = render(web={"config": config})
    text = rendered.one("Secret")["stringData"]["web.yaml"]
    (tmp_path / "web.yaml").write_text(text)
    WebConfig(str(tmp_path / "web.yaml"))
    assert "--web.config.file=/etc/mgpu-exporter/web/web.yaml" in rendered.args
    assert yaml.safe_load(text) == config


def test_behind_the_proxy_the_exporter_listens_on_loopback_only() -> None:
    rendered = render(kubeRBACProxy={"enabled": True}, podMonitor={"enabled": True})
    proxy = rendered.pod["containers"][1]
    assert "--web.listen-address=127.0.0.1:10045" in rendered.args
    assert "--web.metrics-only" in rendered.args  # system:discovery gives everybody /api/*
    assert "--upstream=http://127.0.0.1:10045/" in proxy["args"]
    assert rendered.container["readinessProbe"]["httpGet"] == {
        "path": "/-/ready",
        "port": "proxy",
        "scheme": "HTTPS",
    }
    assert endpoint(rendered, "podMonitor")["port"] == "proxy"
    assert endpoint(rendered, "podMonitor")["scheme"] == "https"
    assert ("authentication.k8s.io", "tokenreviews", "create") in rendered.rules
    reader = next(
        r for r in rendered.of("ClusterRole") if r["metadata"]["name"].endswith("-reader")
    )
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


def test_the_network_policy_lets_in_who_is_named_and_helms_test() -> None:
    scraper = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    policy = render(networkPolicy={"enabled": True, "from": [scraper]}).one("NetworkPolicy")["spec"]
    (rule,) = policy["ingress"]
    assert policy["policyTypes"] == ["Ingress"]
    assert rule["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert rule["from"][0] == scraper
    assert rule["from"][1]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"


@pytest.mark.parametrize("more", [{}, {"from": []}, {"egress": [{"ports": [{"port": 6443}]}]}])
def test_a_network_policy_that_lets_everybody_in_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"enabled needs networkPolicy\.from") as refused:
        render(networkPolicy={"enabled": True, **more})
    assert "0.0.0.0/0" in str(refused.value)  # how to say that everybody is meant


def test_no_label_stands_twice() -> None:
    own = {"app.kubernetes.io/part-of": "platform", "team": "gpu"}
    rendered = render({**EVERYTHING, "commonLabels": own, "podLabels": {"team": "one"}})
    assert rendered.text.count("app.kubernetes.io/part-of: mgpu-exporter") == 0
    template = rendered.one("DaemonSet")["spec"]["template"]["metadata"]
    assert template["labels"].items() >= {**own, "team": "one"}.items()
    assert "team: gpu" not in rendered.text.partition("template:")[2].partition("spec:")[0]


def test_the_pod_of_helms_test_is_taken_where_the_exporters_are() -> None:
    """Linux nodes, a quota that asks for resources, a policy that asks for a label."""
    pod = render(commonLabels={"team": "gpu"}, nodeSelector={"pool": "a"}).one("Pod")
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "a"}
    assert pod["metadata"]["labels"]["team"] == "gpu"
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "test"
    (container,) = pod["spec"]["containers"]
    for kind in ("requests", "limits"):
        assert set(container["resources"][kind]) == {"cpu", "memory"}


# --- settings -------------------------------------------------------------------------------------


def test_settings_are_mounted_as_a_folder_so_that_a_change_arrives() -> None:
    rendered = render()
    mount = next(m for m in rendered.container["volumeMounts"] if m["name"] == "settings")
    assert mount == {
        "name": "settings",
        "mountPath": "/etc/mgpu-exporter/settings",
        "readOnly": True,
    }


def test_a_setting_that_needs_a_restart_brings_one() -> None:
    first = render(settings={"energy": {"idle": "equal"}})
    second = render(settings={"energy": {"idle": "allocation"}})
    assert first.annotations["checksum/settings"] != second.annotations["checksum/settings"]


def test_a_setting_that_is_taken_up_while_it_runs_brings_none() -> None:
    first = render(settings={"collection": {"interval": "1s"}})
    second = render(settings={"collection": {"interval": "2s"}})
    assert first.annotations["checksum/settings"] == second.annotations["checksum/settings"]


def test_what_is_read_again_by_itself_brings_no_restart() -> None:
    def pod(user: str) -> Object:
        config = {"basic_auth_users": {user: "x"}}
        template: Object = render(web={"config": config}).one("DaemonSet")["spec"]["template"]
        return template

    assert pod("one") == pod("two")


def test_a_config_map_of_ones_own_is_taken_instead() -> None:
    rendered = render(existingConfigMap="mine")
    assert not rendered.of("ConfigMap")
    assert rendered.pod["volumes"][0]["configMap"] == {"name": "mine"}


# --- where it runs --------------------------------------------------------------------------------


OFF = {"key": "mgpu-exporter/off", "operator": "DoesNotExist"}  # of a runbook, before a reset


def terms(rendered: Rendered) -> list[Object]:
    affinity = rendered.pod["affinity"]["nodeAffinity"]
    found: list[Object] = affinity["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return found


def test_any_one_of_the_labels_makes_a_gpu_node() -> None:
    labels = [{"key": "a", "values": ["1", "2"]}, {"key": "b"}]
    assert terms(render(gpuNodeLabels=labels)) == [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}, OFF]},
        {"matchExpressions": [{"key": "b", "operator": "Exists"}, OFF]},
    ]


def test_no_label_is_every_machine_from_which_it_was_not_sent_away() -> None:
    [term] = terms(render(gpuNodeLabels=[]))
    *others, last = term["matchExpressions"]
    assert last == OFF
    assert {one["operator"] for one in others} == {"NotIn"}


def test_taints_do_not_keep_it_off_a_node() -> None:
    assert render().pod["tolerations"] == [{"effect": "NoSchedule", "operator": "Exists"}]


def test_pods_are_replaced_a_tenth_at_a_time() -> None:
    assert render().one("DaemonSet")["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "10%"},
    }


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({}, "ghcr.io/mgpu-exporter/mgpu-exporter:0.1.0"),
        ({"image": {"tag": "1.2"}}, "ghcr.io/mgpu-exporter/mgpu-exporter:1.2"),
        (
            {"image": {"tag": "1.2", "digest": "sha256:0"}},
            "ghcr.io/mgpu-exporter/mgpu-exporter@sha256:0",
        ),
        ({"global": {"imageRegistry": "here:5000"}}, "here:5000/mgpu-exporter/mgpu-exporter:0.1.0"),
        ({"image": {"registry": ""}}, "mgpu-exporter/mgpu-exporter:0.1.0"),
    ],
)
def test_the_image_is_named_in_parts(values: dict[str, Any], image: str) -> None:
    assert render(values).container["image"] == image


def test_what_is_added_is_added() -> None:
    rendered = render(EVERYTHING)
    names = [container["name"] for container in rendered.pod["containers"]]
    assert names == ["mgpu-exporter", "beside"]
    assert rendered.args[-1] == "--log.level=debug"
    assert rendered.env["TZ"] == "UTC"
    assert {"name": "scratch", "emptyDir": {}} in rendered.pod["volumes"]
    assert rendered.pod["imagePullSecrets"] == [{"name": "all"}, {"name": "registry"}]
    assert any(one["metadata"]["name"] == "gpus-more" for one in rendered.of("ConfigMap"))
    for one in rendered.objects:
        if one["metadata"]["name"] not in ("gpus-more", "text", "gpus-mgpu-exporter-test"):
            assert one["metadata"]["labels"]["team"] == "gpu", one["kind"]
            assert one["metadata"]["annotations"]["example.com/owner"] == "gpu", one["kind"]
