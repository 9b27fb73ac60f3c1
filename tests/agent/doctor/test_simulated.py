"""A simulated node whose GPU cannot be read, and a machine without Kubernetes."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.collector.wiring import open_sources
from exporter.agent.doctor import CheckVerdict, gather
from exporter.agent.doctor.podchecks import node, pods
from exporter.agent.sources.pods.podreader import NOT_YET
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.model import PodTable, SourceStatus
from tests.agent.doctor.looking import by_subject, check, evidence, settings

LOST = """\
devices:
  - {model: NVIDIA A10, memory: 24GiB}
  - {model: NVIDIA A10, memory: 24GiB}
faults:
  - {device: 1, state: lost, from: 0s, to: 10h}
"""


@pytest.fixture
def lost(tmp_path: Path) -> str:
    file = tmp_path / "lost.yaml"
    file.write_text(LOST)
    return f"--simulate={file}"


def test_a_simulated_gpu_that_is_lost_is_a_problem(lost: str) -> None:
    report = check(lost)

    assert report.problems() == [("gpus", "GPU 1")]
    assert report.of("gpus", "GPU 1")["found"].startswith("NVIDIA A10: gpu_lost")
    assert report.status == 1


@pytest.mark.parametrize("form", ["table", "json", "metrics"])
def test_a_snapshot_of_a_node_with_a_lost_gpu_ends_with_1(lost: str, form: str) -> None:
    command = [sys.executable, "-m", "exporter", "top", lost, "--duration=1s"]
    done = subprocess.run(
        [*command, f"--format={form}"], capture_output=True, timeout=60, check=False
    )

    assert done.stdout
    assert done.returncode == 1


class LatePods(SimulatedPods):
    """Its first list comes while somebody waits for the third time; ``detail`` until then."""

    waits = 0

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002 - it does not come by time
        """Whether it has come."""
        self.waits += 1
        return self.waits >= 3

    def status(self) -> SourceStatus:
        """Up once it has come."""
        return super().status()._replace(up=self.waits >= 3)


@pytest.mark.parametrize(("detail", "waits"), [(NOT_YET, 3), ("HTTP 403: forbidden", 1)])
def test_a_list_of_pods_that_is_late_is_waited_for_unless_it_fails(detail: str, waits: int) -> None:
    given = settings(simulate="demo")
    late = LatePods(PodTable, detail=detail)

    gather(given, replace(open_sources(given), pods=late), time, every_s=0)

    assert late.waits == waits


def test_a_machine_without_kubernetes_is_asked_for_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    given = evidence(settings(path_logs=str(tmp_path / "none")))
    kubelet = str(tmp_path / "pod-resources" / "kubelet.sock")

    found = by_subject([*pods(given, kubelet), *node(given, kubelet)])

    assert found["Kubernetes"].verdict is CheckVerdict.NOTE
    assert "--kubeconfig" in found["Kubernetes"].remedy
    assert set(found) == {"node name", "Kubernetes"}
    assert not any(finding.privilege for finding in found.values())


@pytest.mark.parametrize("sign", ["pod", "logs", "kubelet"])
def test_a_sign_of_kubernetes_brings_its_checks_back(
    sign: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    logs, kubelet = tmp_path / "logs", tmp_path / "pod-resources" / "kubelet.sock"
    if sign == "pod":
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    if sign == "logs":
        (logs / "pods").mkdir(parents=True)
    if sign == "kubelet":
        kubelet.parent.mkdir()
    given = evidence(settings(path_logs=str(logs)))

    found = by_subject([*pods(given, str(kubelet)), *node(given, str(kubelet))])

    assert {"API server", "log files", "PodResources"} <= set(found)
