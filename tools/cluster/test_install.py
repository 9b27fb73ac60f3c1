"""Ways to install it, other than that of all other cases (kubectl applies what Helm renders)."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tools.cluster.agent import CHART, NAME, Agent
from tools.cluster.node import DOMAIN
from tools.cluster.programs import Program
from tools.cluster.sandbox import NODE_IP
from tools.cluster.stage import Stage
from tools.cluster.workloads import pod

DEPLOY = CHART.parent.parent / "deploy"


@pytest.fixture(scope="module")
def second(stage: Stage) -> Iterator[Agent]:
    """Another exporter on the node: by Helm's own command, without root or any capability."""
    made = Agent(stage.kubectl, stage.board, "minimal", f"second-{NAME}", "by-helm")
    made.install_by_helm()
    yield made
    made.helm("uninstall", "--wait")


def test_without_root_and_capabilities_use_lands_as_well(stage: Stage, second: Agent) -> None:
    spec = (second.pod() or {})["spec"]
    context = spec["containers"][0]["securityContext"]
    assert (context["runAsUser"], context["capabilities"]) == (61045, {"drop": ["ALL"]})
    running = stage.run(pod("watched"))["main"]
    stage.attributed({running: 0}, second.address())
    stage.delete("watched")


def test_helm_test_succeeds(stage: Stage, second: Agent) -> None:
    with names(stage, second):
        assert "Succeeded" in second.helm("test", "--logs")


@pytest.mark.parametrize("file", ["mgpu-exporter.yaml", "mgpu-exporter-podresources.yaml"])
def test_the_api_server_takes_the_plain_manifests(stage: Stage, file: str) -> None:
    strict = ("--dry-run=client", "--validate=strict")
    taken = stage.kubectl("apply", *strict, "-f", str(DEPLOY / file))
    assert f"daemonset.apps/{NAME}" in taken


@contextmanager
def names(stage: Stage, agent: Agent) -> Iterator[None]:
    """A name server that knows one name: that of the exporter's service."""
    address = (agent.pod() or {})["status"]["podIP"]
    name = f"{agent.name}.{agent.namespace}.svc.{DOMAIN}"
    command = [sys.executable, "-m", "tools.cluster.names", NODE_IP, f"{name}={address}"]
    server = Program("names", command, stage.logs)
    server.start()
    try:
        yield
    finally:
        server.stop()
