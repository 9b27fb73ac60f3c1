"""Values as people write them: names of Secrets, null, anchors, and umbrella charts."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.table import SECTIONS
from tests.chart.rendering import CHART, NAMESPACE, Refused, Rendered, helm, render, template

pytestmark = pytest.mark.program("helm")

VALUES = [value for section in SECTIONS for value in section.values]
PARTS = sorted({value.path.rpartition(".")[0] for value in VALUES if "." in value.path})


def pods(rendered: Rendered) -> list[dict[str, Any]]:
    """The exporter's pod and that of ``helm test``."""
    return [rendered.pod, rendered.one("Pod")["spec"]]


# --- Secrets to pull with -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("both", [["a", {"name": "b"}], [{"name": "a"}, {"name": "b"}], ["a", "b"]])
def test_secrets_to_pull_with_are_names_or_objects(both: list[Any]) -> None:
    expected = [{"name": "a"}, {"name": "b"}]
    first, second = both
    for values in (
        {"imagePullSecrets": both},
        {"global": {"imagePullSecrets": both}},
        {"global": {"imagePullSecrets": [first]}, "imagePullSecrets": [second]},
        {"global": {"imagePullSecrets": both}, "imagePullSecrets": both},
    ):
        assert [pod["imagePullSecrets"] for pod in pods(render(values))] == [expected, expected]


@pytest.mark.parametrize("bad", ["", 5, {}, {"secret": "a"}, ["a"]])
def test_a_secret_without_a_name_is_refused(bad: object) -> None:
    for values in ({"imagePullSecrets": [bad]}, {"global": {"imagePullSecrets": [bad]}}):
        with pytest.raises(Refused, match="/imagePullSecrets/0"):
            render(values)


def test_the_registry_that_is_given_for_all_images_is_the_proxys_too() -> None:
    given = {"global": {"imageRegistry": "mirror:5000"}, "kubeRBACProxy": {"enabled": True}}
    images = [one["image"] for one in render(given).pod["containers"]]
    assert images[1] == "mirror:5000/brancz/kube-rbac-proxy:v0.20.0"
    assert all(image.startswith("mirror:5000/") for image in images)
    given["kubeRBACProxy"] = {"enabled": True, "image": "own/proxy@sha256:0"}
    assert render(given).pod["containers"][1]["image"] == "mirror:5000/own/proxy@sha256:0"


# --- null -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", PARTS)
def test_a_part_with_nothing_below_it_has_its_defaults(path: str) -> None:
    given: Any = None
    for step in reversed(path.split(".")):
        given = {step: given}
    assert render(given).objects == render().objects


OPTIONAL = [value.path for value in VALUES if value.optional]
WITHOUT = {  # what stands in the objects if it is not null
    "priorityClassName": "priorityClassName",
    "terminationGracePeriodSeconds": "terminationGracePeriodSeconds",
    "revisionHistoryLimit": "revisionHistoryLimit",
    "image.pullPolicy": "imagePullPolicy",
    "image.registry": "ghcr.io",
    "updateStrategy.maxUnavailable": "rollingUpdate",
    "prometheusRule.runbookUrl": "runbook_url",
    "dashboards.operator.folder": "folder: ",
    "accessControl.tokenFile": "bearerTokenFile",
}


def alone(path: str, value: object) -> dict[str, Any]:
    for step in reversed(path.split(".")):
        value = {step: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.slow
@pytest.mark.parametrize("path", OPTIONAL)
def test_null_unsets_what_may_be_without_a_value(path: str) -> None:
    switched = ["prometheusRule.enabled=true", "dashboards.enabled=true"]
    switched.append("dashboards.operator.enabled=true")
    if path == "accessControl.tokenFile":
        switched.append("accessControl.enabled=true,serviceMonitor.enabled=true")
    sets = [word for one in switched for word in ("--set", one)]
    before = template(CHART, "{}", *sets)
    text = template(CHART, json.dumps(alone(path, None)), *sets)
    assert "nil" not in text
    assert "%!" not in text
    if word := WITHOUT.get(path):
        assert word in before
        objects = [o for o in Rendered(text).objects if o["kind"] != "ConfigMap"]
        assert word not in yaml.safe_dump(objects)


def test_what_is_null_within_a_value_is_not_there() -> None:
    """As where one values file takes away what another, or a parent, has set."""
    given = {
        "podAnnotations": {"a": None, "b": "x"},
        "commonLabels": {"c": None},
        "nodeSelector": {"kubernetes.io/os": None, "pool": "gpu"},
        "settings": {"collection": {"interval": None, "window": "30s"}, "log": None},
        "resources": {"limits": None, "requests": {"cpu": None}},
        "securityContext": {"seLinuxOptions": None},
        "podMonitor": {"enabled": True, "labels": {"release": None}, "interval": None},
        "serviceMonitor": {"enabled": None},
        "prometheusRule": {"enabled": True, "rules": {"MgpuGpuLost": None}},
    }
    rendered = render(given)
    assert "null" not in rendered.text
    assert rendered.annotations["b"] == "x"
    assert "a" not in rendered.annotations
    assert rendered.pod["nodeSelector"] == {"pool": "gpu"}
    assert yaml.safe_load(rendered.settings) == {"collection": {"window": "30s"}}
    assert rendered.container["resources"] == {"requests": {"memory": "96Mi"}}
    assert "MgpuGpuLost" in rendered.text


def test_an_upgrade_may_reuse_the_values_of_an_older_chart(tmp_path: Path) -> None:
    """With ``--reuse-values`` Helm takes the defaults of the chart as it was installed."""
    older = tmp_path / "mgpu-exporter"
    shutil.copytree(CHART, older)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in ("bodySizeLimit", "extraSpec", "extraEndpoint", "annotations", "limits"):
        del values["podMonitor"][name]
    for name in ("claim", "verticalPodAutoscaler", "hostPID", "simulate", "envFrom"):
        del values[name]
    (older / "values.yaml").write_text(yaml.safe_dump(values))
    given = json.dumps({"podMonitor": {"enabled": True}})
    assert Rendered(template(older, given)).objects == Rendered(template(CHART, given)).objects


# --- numbers --------------------------------------------------------------------------------------


def test_a_number_may_be_text_as_variables_and_set_string_have_it() -> None:
    monitor: dict[str, Any] = {"enabled": True, "interval": "30s"}
    numbers: dict[str, Any] = {
        "web": {"port": 10050},
        "minReadySeconds": 1_000_000,
        "revisionHistoryLimit": 3,
        "terminationGracePeriodSeconds": 20,
        "podMonitor": {**monitor, "keepDroppedTargets": 7, "limits": {"sampleLimit": 5_000_000}},
        "prometheusRule": {"enabled": True, "xids": {"critical": [79]}},
    }
    texts = json.loads(json.dumps(numbers), parse_int=str)
    assert texts["web"] == {"port": "10050"}
    found = render(texts)
    assert found.objects == render(numbers).objects
    assert found.one("PodMonitor")["spec"]["sampleLimit"] == 5_000_000
    assert found.one("DaemonSet")["spec"]["minReadySeconds"] == 1_000_000


@pytest.mark.parametrize("bad", ["", "1e3", "-1", "0x10", "1.5", "010", "123456"])
def test_text_that_is_no_number_is_refused(bad: str) -> None:
    with pytest.raises(Refused, match="/web/port"):
        render(web={"port": bad})


# --- given twice ---------------------------------------------------------------------------------


class Strict(yaml.SafeLoader):
    """Refuses a key that is there twice, as post-renderers do: Flux always runs one."""


def once(loader: Strict, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_scalar(key) for key, _ in node.value]
    assert len(set(keys)) == len(keys), keys
    return loader.construct_mapping(node, deep=True)


Strict.add_constructor("tag:yaml.org,2002:map", once)


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"podAnnotations": {"kubectl.kubernetes.io/default-container": "other"}},
        {"tests": {"annotations": {"helm.sh/hook-delete-policy": "before-hook-creation"}}},
        {"commonLabels": {"app.kubernetes.io/managed-by": "argocd", "app": "gpus"}},
        {"service": {"labels": {"app.kubernetes.io/part-of": "gpus"}}},
        {"extraEnv": [{"name": "NODE_NAME", "value": "other"}]},
    ],
    ids=lambda values: next(iter(values)),
)
@pytest.mark.parametrize("more", [{}, {"compat": {"dropIn": "dcgm"}}], ids=["own", "drop-in"])
def test_what_the_user_gives_stands_once_and_in_place_of_the_charts(
    values: dict[str, Any], more: dict[str, Any]
) -> None:
    rendered = render({**values, **more})
    assert list(yaml.load_all(rendered.text, Strict))
    names = [one["name"] for one in rendered.container["env"]]
    assert len(set(names)) == len(names)  # server-side apply refuses lists with a key twice
    ((path, given),) = values.items()
    if path == "extraEnv":
        assert rendered.env["NODE_NAME"] == "other"
    if path == "podAnnotations":
        assert rendered.annotations.items() >= given.items()


# --- anchors, and charts that have this one as a part ---------------------------------------------


def test_a_values_file_may_have_its_anchors_in_keys_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(
        "x-labels: &labels {release: stack}\n"
        "podMonitor: {enabled: true, labels: *labels}\n"
        "prometheusRule: {enabled: true, labels: {<<: *labels, team: gpu}}\n"
    )
    rendered = Rendered(template(CHART, "{}", "--values", str(file)))
    assert rendered.one("PodMonitor")["metadata"]["labels"]["release"] == "stack"
    assert rendered.one("PrometheusRule")["metadata"]["labels"].items() >= {
        ("release", "stack"),
        ("team", "gpu"),
    }


@pytest.fixture
def umbrella(tmp_path: Path) -> Path:
    """A platform's chart with this one in it twice, once by another name."""
    of = {"name": "mgpu-exporter", "version": "0.1.0"}
    chart = {
        "apiVersion": "v2",
        "name": "platform",
        "version": "1.0.0",
        "dependencies": [
            {**of, "condition": "mgpu-exporter.enabled"},
            {**of, "alias": "accelerators", "condition": "accelerators.enabled"},
        ],
    }
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "mgpu-exporter").symlink_to(CHART)
    (tmp_path / "values.yaml").write_text(
        "global: {imagePullSecrets: [regcred], imageRegistry: mirror, storageClass: fast}\n"
        "mgpu-exporter: {enabled: true, priorityClassName: null, podMonitor: }\n"
        "accelerators: {enabled: false}\n"
    )
    return tmp_path


def platform(chart: Path, *arguments: str) -> Rendered:
    return Rendered(helm("template", "p", str(chart), "--namespace", NAMESPACE, *arguments))


def test_as_a_part_it_takes_what_the_parent_hands_down(umbrella: Path) -> None:
    rendered = platform(umbrella)
    assert rendered.pod["imagePullSecrets"] == [{"name": "regcred"}]
    assert rendered.container["image"].startswith("mirror/")
    assert "priorityClassName" not in rendered.pod
