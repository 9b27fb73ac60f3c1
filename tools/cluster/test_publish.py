"""What a release publishes, installed from a registry: install, upgrade, rollback, twice."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from exporter import __version__
from tools.cluster.agent import CHART, NAME, Agent
from tools.cluster.board import Board
from tools.cluster.kubectl import Document, Kubectl, KubectlError
from tools.cluster.programs import eventually
from tools.cluster.registry import CHARTS, HOST, IMAGE, Registry
from tools.cluster.stage import EXPORTER, Stage
from tools.cluster.tools import program
from tools.cluster.workloads import pod

NEXT = "99.0.0"
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


class Published(Agent):
    """The exporter from the registry, in a namespace of its own."""

    def __init__(self, kubectl: Kubectl, board: Board) -> None:
        super().__init__(kubectl, board, "minimal", f"published-{NAME}", "published")

    def from_registry(self, command: str, version: str, *more: str) -> str:
        """Install or upgrade to a version; what Helm says."""
        chart = (f"{CHARTS}/{NAME}", f"--version={version}", "--plain-http")
        return self.helm(command, *more, *chart, "--wait", "--values=-")

    def helm(self, *command: str, with_values: bool = False) -> str:
        """A command about the release; the chart stands among the words, after its name."""
        assert not with_values, "the chart is the registry's"
        verb, *rest = command
        return self._helm(verb, self.name, *rest)

    def image(self) -> str:
        """The image of its pod's container, as the pod asks for it."""
        found: str = (self.pod() or {})["spec"]["containers"][0]["image"]
        return found

    def _values(self) -> Document:
        own = {"image": {"registry": HOST, "repository": IMAGE, "pullPolicy": "Always"}}
        return {**super()._values(), **own}


class Plain(Published):
    """It with the chart's defaults."""

    def _values(self) -> Document:
        return {"image": {"registry": HOST}}


@pytest.fixture(scope="module")
def registry(stage: Stage) -> Iterator[Registry]:
    """A registry with the image and the chart in two versions."""
    made = Registry(stage.state, stage.logs)
    made.start()
    try:
        made.push_image(stage.state / EXPORTER, __version__, NEXT)
        stage.notes += [f"pushed {NAME} {v} {made.push_chart(v)}" for v in (__version__, NEXT)]
        yield made
    finally:
        made.stop()


def test_the_registry_has_image_and_chart_in_both_versions(registry: Registry) -> None:
    for repository in (IMAGE, f"charts/{NAME}"):
        assert set(json.loads(registry.tags(repository))["tags"]) == {__version__, NEXT}


@pytest.mark.parametrize("time", ["once", "and again"])
def test_from_the_registry_it_is_installed_upgraded_and_rolled_back(
    stage: Stage, registry: Registry, time: str
) -> None:
    agent = Published(stage.kubectl, stage.board)
    agent.from_registry("install", __version__, "--create-namespace")
    assert agent.image() == f"{HOST}/{IMAGE}:{__version__}"
    worker = f"worker-{time.replace(' ', '-')}"
    running = stage.run(pod(worker))["main"]
    stage.attributed({running: 0}, agent.address())

    agent.from_registry("upgrade", NEXT, "--set-string=settings.log.level=debug")
    agent.wait()
    assert agent.image() == f"{HOST}/{IMAGE}:{NEXT}"
    stage.attributed({running: 1}, agent.address())

    agent.helm("rollback", "1", "--wait")
    agent.wait()
    assert agent.image() == f"{HOST}/{IMAGE}:{__version__}"
    stage.attributed({running: 2}, agent.address())
    history: list[dict[str, Any]] = json.loads(agent.helm("history", "--output=json"))
    assert [one["app_version"] for one in history] == [__version__, NEXT, __version__]
    assert [one["status"] for one in history] == ["superseded", "superseded", "deployed"]

    stage.delete(worker)
    agent.helm("uninstall", "--wait")
    eventually(lambda: left(stage, agent) == [], "nothing of it is left")


def test_the_default_install_starts_where_no_runtime_class_is(
    stage: Stage, registry: Registry
) -> None:
    """With no value but the registry: it runs, and says that it finds no driver."""
    agent = Plain(stage.kubectl, stage.board)
    agent.from_registry("install", __version__, "--create-namespace")
    assert "runtimeClassName" not in (agent.pod() or {})["spec"]
    assert agent.scrape().value("mgpu_exporter_source_up", source="nvml") == 0
    agent.helm("uninstall", "--wait")


def test_the_runtime_class_is_named_where_the_cluster_has_it(stage: Stage) -> None:
    with pytest.raises(KubectlError):
        stage.kubectl("get", "runtimeclass", "nvidia")
    assert _planned(stage).count("runtimeClassName") == 0
    stage.kubectl.apply(RUNTIME_CLASS)
    try:
        assert _planned(stage).count("runtimeClassName: nvidia") == 1
    finally:
        stage.kubectl("delete", "runtimeclass", "nvidia")


def left(stage: Stage, agent: Agent) -> list[Document]:
    """All objects of a release that are still there; a pod takes some seconds to end."""
    kinds = "all,configmaps,serviceaccounts,clusterroles,clusterrolebindings"
    own = f"app.kubernetes.io/instance={agent.name}"
    found: list[Document] = stage.kubectl.get(kinds, "--all-namespaces", "-l", own)["items"]
    return found


def _planned(stage: Stage) -> str:
    """What Helm would install by default, looking at this cluster."""
    command = ("template", "planned", str(CHART), "--dry-run=server")
    where = f"--kubeconfig={stage.kubectl.kubeconfig}"
    done = subprocess.run(
        [program("helm"), *command, where], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
