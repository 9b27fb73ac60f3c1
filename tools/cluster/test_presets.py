"""Every preset installed on the node by Helm: its objects are taken, and its pods start.

What a platform has and this node does not is put there: the Prometheus Operator's own kinds, and
under its name the RuntimeClass and the kind of OpenShift. Whether the driver gets in on the
platform is not seen here.
"""

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from charts.table.presets import PRESETS, Preset
from tools.cluster.agent import CHART, NAME, PORT
from tools.cluster.kubectl import Document, KubectlError
from tools.cluster.programs import eventually
from tools.cluster.stage import KINDS, Stage
from tools.cluster.tools import program

SPACE = "presets"
MONITORING = "monitoring"  # the namespace whose accounts the preset `page` lets scrape


def kind(group: str, name: str, scope: str) -> Document:
    """A kind of somebody else's, with any content."""
    plural = name.lower() if name.endswith("s") else f"{name.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    one = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": name, "plural": plural, "singular": name.lower()},
            "scope": scope,
            "versions": [one],
        },
    }


@pytest.fixture(scope="module")
def platform(stage: Stage) -> Iterator[Stage]:
    """The node with what platforms have: kinds, a RuntimeClass whose runtime is the node's own."""
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "runc",
    }
    own = kind("security.openshift.io", "SecurityContextConstraints", "Cluster")
    monitoring = str(stage.state / KINDS)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MONITORING}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    scraper = {**account, "metadata": {"name": "scraper", "namespace": MONITORING}}
    stage.kubectl.apply(runtime_class, own, space, scraper)
    stage.kubectl("apply", "--server-side", "-f", monitoring)
    stage.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    yield stage
    stage.kubectl("delete", "namespace", MONITORING)
    stage.kubectl("delete", "runtimeclass", "nvidia")
    stage.kubectl("delete", "customresourcedefinition", own["metadata"]["name"])
    stage.kubectl("delete", "-f", monitoring)


def helm(stage: Stage, *arguments: str) -> str:
    """What a command of Helm prints."""
    where = (f"--namespace={SPACE}", f"--kubeconfig={stage.kubectl.kubeconfig}")
    done = subprocess.run(
        [program("helm"), *arguments, *where], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pods(stage: Stage) -> list[Document]:
    """The pods of the release."""
    found: list[Document] = stage.kubectl.get("pods", "-n", SPACE)["items"]
    return found


MONITORS = ("serviceMonitor", "podMonitor")
TAKEN = [  # a preset that switches a monitor off cannot work with it, and the chart refuses it
    pytest.param(preset, monitor, id=f"{preset.name}-{monitor}")
    for preset in PRESETS
    for monitor in MONITORS
    if preset.values.get(monitor) != {"enabled": False}
]


@pytest.mark.parametrize(("preset", "monitor"), TAKEN)
def test_the_operators_kinds_take_what_a_preset_makes(
    platform: Stage, preset: Preset, monitor: str
) -> None:
    file = CHART / "presets" / f"{preset.name}.yaml"
    off = (f"--set={other}.enabled={str(other == monitor).lower()}" for other in MONITORS)
    made = helm(
        platform,
        *("template", NAME, str(CHART), f"--values={file}", "--skip-tests"),
        *("--set=prometheusRule.enabled=true", *off),
        "--api-versions=monitoring.coreos.com/v1",
    )
    wanted = {f"{monitor[0].upper()}{monitor[1:]}", "PrometheusRule"}
    objects = [one for one in yaml.safe_load_all(made) if one and one["kind"] in wanted]
    assert {one["kind"] for one in objects} == wanted
    platform.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", "default"),
        *("-f", "-"),
        given=yaml.safe_dump_all(one | {"metadata": _elsewhere(one)} for one in objects),
    )


def _elsewhere(one: Document) -> Document:
    """Its metadata in a namespace that is there."""
    return {**one["metadata"], "namespace": "default"}


def test_the_operators_kinds_refuse_two_groups_of_one_name(platform: Stage) -> None:
    group = {"name": "twice", "rules": [{"record": "a:b:sum", "expr": "sum(up)"}]}
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "twice", "namespace": "default"},
        "spec": {"groups": [group, group]},
    }
    with pytest.raises(KubectlError, match="twice"):
        platform.kubectl(
            *("apply", "--server-side", "--dry-run=server", "-f", "-"), given=yaml.safe_dump(rule)
        )


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_is_installed_and_its_pods_start(platform: Stage, preset: Preset) -> None:
    file = CHART / "presets" / f"{preset.name}.yaml"
    of_this_node = (  # its driver's folder, and the label that it has
        f"--set=driverLibraries={platform.board.driver}",
        '--set-json=gpuNodeLabels=[{"key": "nvidia.com/gpu.present"}]',
    )
    helm(
        platform,
        *("install", NAME, str(CHART), f"--values={file}", *of_this_node),
        *("--create-namespace", "--wait", "--timeout=3m"),
    )
    (pod,) = pods(platform)
    token = platform.kubectl("create", "token", "scraper", "-n", MONITORING).strip()
    page = platform.agent.scrape(f"http://{pod['status']['podIP']}:{PORT}/metrics", token)
    assert page.value("mgpu_exporter_source_up", source="cgroups") == 1
    helm(platform, "uninstall", NAME, "--wait")
    eventually(lambda: not pods(platform), "its pods are gone")
