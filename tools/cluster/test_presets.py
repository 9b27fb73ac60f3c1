"""Every preset installed on the node by Helm: its objects are taken, and its pods start.

What a platform has and this node does not is put there under its name: the RuntimeClass, and the
kinds of OpenShift and of the Prometheus Operator. Whether the driver gets in on the platform is not
seen here.
"""

import subprocess
from collections.abc import Iterator

import pytest

from charts.table.presets import PRESETS, Preset
from tools.cluster.agent import CHART, NAME, PORT
from tools.cluster.kubectl import Document
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.tools import program

SPACE = "presets"
KINDS = (
    ("security.openshift.io", "SecurityContextConstraints", "Cluster"),
    ("monitoring.coreos.com", "PodMonitor", "Namespaced"),
    ("monitoring.coreos.com", "PrometheusRule", "Namespaced"),
)


def kind(group: str, name: str, scope: str) -> Document:
    """A kind of somebody else's, with any content; tests/chart holds the content to its schema."""
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
    known = [kind(*one) for one in KINDS]
    stage.kubectl.apply(runtime_class, *known)
    for one in known:
        what = f"customresourcedefinition/{one['metadata']['name']}"
        stage.kubectl.wait("default", what, "Established")
    yield stage
    stage.kubectl("delete", "runtimeclass", "nvidia")
    for one in known:
        stage.kubectl("delete", "customresourcedefinition", one["metadata"]["name"])


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
    page = platform.agent.scrape(f"http://{pod['status']['podIP']}:{PORT}/metrics")
    assert page.value("mgpu_exporter_source_up", source="cgroups") == 1
    helm(platform, "uninstall", NAME, "--wait")
    eventually(lambda: not pods(platform), "its pods are gone")
