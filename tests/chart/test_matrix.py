"""Every rendering of the matrix is of the schemas of old and new Kubernetes, and can be run."""

import json
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from exporter.agent.settings import TABLE, load
from exporter.cli import _parser
from tests.chart.matrix import MATRIX, PAIRS
from tests.chart.rendering import CHART, Object, Rendered, helm, render
from tests.chart.test_privileges import harmless
from tests.chart.test_writers import Strict

pytestmark = [pytest.mark.program("helm"), pytest.mark.slow]

OLDEST, NEWEST = "1.25", "1.37"
OPERATOR = Path(__file__).parent / "crds"
FOREIGN = ("monitoring.coreos.com/v1", "security.openshift.io/v1", "autoscaling.k8s.io/v1")


def every() -> Iterator[Rendered]:
    for values in MATRIX.values():
        yield render(values)


def objects() -> list[Object]:
    """All different objects of the matrix."""
    texts = {json.dumps(o, sort_keys=True) for r in every() for o in r.objects}
    return [json.loads(text) for text in sorted(texts)]


def test_no_profile_is_privileged_or_writes_or_escalates_with_any_way_to_the_driver() -> None:
    assert [name for name, values in PAIRS.items() if not harmless(render(values))] == []
    for name, values in PAIRS.items():
        if values["profile"] in {"minimal", "podresources"}:
            context = render(values).container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}, name


def test_helm_finds_nothing_to_blame() -> None:
    helm("lint", "--strict", str(CHART), "--kube-version", NEWEST)


def test_every_object_is_of_kubernetes_strict_schemas() -> None:
    for one in objects():
        if one["apiVersion"] not in FOREIGN:
            kubernetes_validate.validate(one, NEWEST, strict=True)


def test_the_pod_of_old_clusters_has_nothing_that_they_do_not_know() -> None:
    for values in (MATRIX["everything"], MATRIX["podresources-mig-hostPath-auto"]):
        text = helm(
            *("template", "old", str(CHART), "--kube-version", OLDEST, "--values", "-"),
            given=json.dumps(values),
        )
        for one in yaml.safe_load_all(text):
            if one and one["apiVersion"] not in FOREIGN:
                kubernetes_validate.validate(one, OLDEST, strict=True)


def test_every_object_of_an_operator_is_of_its_schemas() -> None:
    """The schemas are those of prometheus-operator 0.85.0 and openshift/api 2a3d739, closed."""
    seen = set()
    for one in objects():
        if one["apiVersion"] in FOREIGN[:2]:
            schema = json.loads((OPERATOR / f"{one['kind'].lower()}.json").read_text())
            jsonschema.validate(one, schema)
            seen.add(one["kind"])
    assert seen == {
        *("PodMonitor", "ServiceMonitor", "PrometheusRule"),
        "SecurityContextConstraints",
    }


@pytest.mark.program("kubeconform")
def test_kubeconform_finds_the_matrix_valid(tmp_path: Path) -> None:
    """It reads the schemas that kubernetes-validate ships, with their references made relative."""
    shipped = Path(str(resources.files(kubernetes_validate))) / "kubernetes-json-schema"
    kinds = {o["kind"].lower() for r in every() for o in r.objects}
    for path in (shipped / f"v{NEWEST}.0-local-strict").glob("*.json"):
        if path.name.partition("-")[0] in kinds or path.name == "_definitions.json":
            text = path.read_text().replace("/api/_definitions.json", "_definitions.json")
            schema = json.loads(text)
            schema.pop("$id", None)  # a reference would be relative to it
            (tmp_path / path.name).write_text(json.dumps(schema))
    command = ["kubeconform", "-strict", "-summary", "-kubernetes-version", f"{NEWEST}.0"]
    command += ["-schema-location", f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"]
    command += ["-schema-location", f"{OPERATOR}/{{{{.ResourceKind}}}}.json"]
    command += ["-skip", "VerticalPodAutoscaler"]
    given = "\n---\n".join(map(json.dumps, objects()))
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid: 0, Errors: 0, Skipped: 1" in done.stdout


@pytest.mark.parametrize("name", MATRIX)
def test_the_exporter_takes_its_flags_and_settings(name: str, tmp_path: Path) -> None:
    rendered = render(MATRIX[name])
    file = tmp_path / "settings.yaml"
    file.write_text(rendered.settings)
    args = [
        f"--config.file={file}" if arg.startswith("--config.file=") else arg
        for arg in rendered.args
    ]
    given = vars(_parser().parse_args(args))
    names = {setting.name for setting in TABLE.values()}
    settings = load({key: value for key, value in given.items() if key in names}, {})
    assert given["command"] == "serve"
    assert settings.config_file == str(file)
    assert settings.web_listen_address[0].port == (9400 if name == "drop-in" else 10045)


def test_a_setting_of_the_values_reaches_the_exporter(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(render(MATRIX["everything"]).settings)
    settings = load({"config.file": [str(file)]}, {})
    assert settings.collection_interval_ns == 500_000_000
    assert settings.web_max_requests == 20
    assert settings.compat == ("dcgm", "hami")
    assert settings.metrics_disable == ("pcie", "mgpu_container_processes")


def test_nothing_stands_twice_in_any_of_them() -> None:
    """Post-renderers, and server-side apply of lists with a key, refuse that."""
    for rendered in every():
        assert list(yaml.load_all(rendered.text, Strict))
        keyed = [("volumes", "name", rendered.pod), ("imagePullSecrets", "name", rendered.pod)]
        for container in rendered.pod["containers"]:
            keyed += [("env", "name", container), ("ports", "containerPort", container)]
            keyed += [("volumeMounts", "mountPath", container)]
        for name, key, node in keyed:
            keys = [one[key] for one in node.get(name, [])]
            assert len(set(keys)) == len(keys), (name, keys)


def test_every_mount_has_its_volume_and_every_volume_its_mount() -> None:
    for rendered in every():
        containers = rendered.pod["containers"] + rendered.pod.get("initContainers", [])
        mounted = {m["name"] for c in containers for m in c.get("volumeMounts", [])}
        assert mounted == {volume["name"] for volume in rendered.pod["volumes"]}
