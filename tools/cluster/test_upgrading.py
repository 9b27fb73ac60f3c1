"""What docs/upgrading.md has people type on a cluster, typed there line by line."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from exporter import __version__
from tools.cluster.agent import CHART, NAME, Agent
from tools.cluster.board import Board
from tools.cluster.kubectl import Document, Kubectl
from tools.cluster.programs import eventually
from tools.cluster.stage import KINDS, Stage
from tools.cluster.test_install import names
from tools.cluster.tools import program
from tools.image.build import NAME as IMAGE

ROOT = CHART.parent.parent
PAGE = ROOT / "docs" / "upgrading.md"
INSTALLATION = PAGE.with_name("installation.md")
OLD, REGISTRY = "0.0.9", "registry.example"
OFF = "mgpu-exporter/off"
OWN = f"app.kubernetes.io/instance={NAME}"


def section(page: Path, title: str = "") -> list[str]:
    """The commands for a cluster of a section; without a title those before any section."""
    parts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    (part,) = (one for one in parts if one.startswith(title or "# "))
    typed = "\n".join(re.findall(r"^```console\n(.*?)^```", part, re.DOTALL | re.MULTILINE))
    lines = re.findall(r"^\$ (.*)$", typed.replace("\\\n", " "), re.MULTILINE)
    return [line for line in lines if line.startswith(("kubectl ", "helm "))]


class Typist(NamedTuple):
    """Types commands as an administrator does, with the programs of this run."""

    folder: Path
    kubectl: Kubectl

    def __call__(self, line: str, where: Path = ROOT) -> str:
        """What a line prints, typed in a folder.

        Raises:
            AssertionError: its exit status is not 0.

        """
        own = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubectl.kubeconfig),
        }
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=where,
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"$ {line}\n{done.stdout}{done.stderr}")  # shown with a failure
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def values(self) -> Document:
        """What the release was given."""
        found: Document = json.loads(self(f"helm -n {NAME} get values {NAME} --output=json"))
        return found

    def versions(self) -> set[str]:
        """The versions that the objects of the release say, those of the cluster too."""
        kinds = "all,cm,sa,clusterrole,clusterrolebinding,podmonitor,prometheusrule"
        objects = self.kubectl.get(kinds, "-A", "-l", OWN)["items"]
        label = "app.kubernetes.io/version"
        made = ("Pod", "ControllerRevision")  # Kubernetes makes them, and removes them later
        return {one["metadata"]["labels"][label] for one in objects if one["kind"] not in made}

    def left(self) -> list[str]:
        """All objects of the release that are still there, of whichever kind."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        return self.kubectl("get", ",".join(kinds), "-A", "-l", OWN, "-o", "name").split()


class Shown(Agent):
    """The release as the pages name it."""

    def __init__(self, kubectl: Kubectl, board: Board) -> None:
        super().__init__(kubectl, board, "minimal", NAME, NAME)

    def values_file(self, folder: Path) -> Path:
        """This node's values, and one that is no default."""
        path = folder / "node.json"
        path.write_text(json.dumps({**self._values(), "settings": {"log": {"level": "debug"}}}))
        return path


@pytest.fixture(scope="module")
def typed(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typist]:
    """A cluster with the kinds of the Prometheus Operator, and without any other release."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("helm", "kubectl"):
        (folder / name).symlink_to(shutil.which(program(name)) or name)
    for version in (OLD, __version__):
        image = IMAGE.replace("ghcr.io", REGISTRY).rpartition(":")[0]
        stage.node.ctr("images", "tag", IMAGE, f"{image}:{version}")
    kinds = str(stage.state / KINDS)
    stage.agent.remove()
    stage.kubectl("apply", "--server-side", "-f", kinds)
    stage.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    yield Typist(folder, stage.kubectl)
    stage.kubectl("delete", "-f", kinds)
    stage.agent.install()


def old_copy(folder: Path) -> Path:
    """A copy of the repository with the chart of an older version."""
    chart = folder / "charts" / NAME
    shutil.copytree(CHART, chart)
    told = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**told, "version": OLD, "appVersion": OLD}))
    return folder


def test_installed_upgraded_rolled_back_and_removed_as_the_pages_show(
    stage: Stage, typed: Typist, tmp_path: Path
) -> None:
    agent = Shown(stage.kubectl, stage.board)
    old = old_copy(tmp_path / "old")
    for line in section(INSTALLATION):
        if line.startswith("helm install"):
            typed(f"{line} -f {agent.values_file(tmp_path)}", old)
            agent.wait()
        elif line.startswith("helm test"):
            with names(stage, agent):
                typed(line)
        else:
            typed(line)
    given = typed.values()
    assert given["image"]["registry"] == REGISTRY
    assert typed.versions() == {OLD}

    upgrade = section(PAGE, "Upgrade")
    typed(f"{upgrade[0]} --dry-run=server")
    assert typed.versions() == {OLD}
    for line in (*section(PAGE, "Before"), *upgrade, *section(PAGE, "Look after it")):
        typed(line)
    assert (typed.values(), typed.versions()) == (given, {__version__})

    for line in section(PAGE, "Back"):
        typed(line)
    agent.wait()
    assert (typed.values(), typed.versions()) == (given, {OLD})

    stage.kubectl("label", "node", stage.node.name, f"{OFF}=")
    for line in section(PAGE, "Remove it"):
        typed(line)
        if line.startswith("helm "):
            eventually(lambda: typed.left() == [], "nothing of it is left")
    eventually(lambda: typed.left() == [], "nothing of it is left")
    assert OFF not in stage.kubectl.get("node", stage.node.name)["metadata"]["labels"]
    assert "podmonitors.monitoring.coreos.com" in stage.kubectl("get", "crd")


def test_the_plain_manifests_are_removed_as_the_page_shows(stage: Stage, typed: Typist) -> None:
    for name in ("mgpu-exporter", "podmonitor", "prometheusrule"):
        typed(f"kubectl apply --server-side -f deploy/{name}.yaml")
    assert typed.left() != []
    (line,) = re.findall(r"`(kubectl delete .*? deploy/)`", PAGE.read_text())
    typed(line)
    eventually(lambda: typed.left() == [], "nothing of it is left")
