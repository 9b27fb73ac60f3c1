"""The script that collects evidence for AI conformance, with two pods that share a card."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tools.cluster.agent import NAMESPACE as AGENTS
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.tools import program
from tools.cluster.workloads import container, pod, with_mgpu

pytestmark = pytest.mark.quick
SCRIPT = Path(__file__).parents[1] / "conformance.py"
GPU, PODS = 2, ("shares-a", "shares-b")


def test_the_evidence_is_met_on_this_node(stage: Stage, tmp_path: Path) -> None:
    pods = [with_mgpu(pod(name, container()), GPU, core=40, memory_mib=1024) for name in PODS]
    manifest = tmp_path / "pods.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    path = f"{Path(program('kubectl')).parent}:{os.environ['PATH']}"
    collecting = subprocess.Popen(
        [sys.executable, str(SCRIPT), f"--namespace={AGENTS}", f"--workload={manifest}"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path, "KUBECONFIG": str(stage.kubectl.kubeconfig)},
    )
    for name in PODS:
        eventually(partial(_runs, stage, name), f"{name} runs")
    pids = [stage.running(name)["main"].pid for name in PODS]
    for pid in pids:
        stage.board.work(pid, GPU, 0.4)
    said, _ = collecting.communicate(timeout=300)
    for pid in pids:
        stage.board.end(pid)
    print(said)  # the evidence, shown with the case
    assert collecting.returncode == 0
    assert "not met" not in said
    assert all(f"ml/{name}/main" in said for name in PODS)


def _runs(stage: Stage, name: str) -> bool:
    found = stage.kubectl("get", "pod", name, "-n", "ml", "--ignore-not-found", "-o", "name")
    return bool(found.strip()) and "main" in stage.running(name)
