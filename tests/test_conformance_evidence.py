"""The evidence for AI conformance, out of the pages of the simulated node."""

import subprocess
import sys
from pathlib import Path

import pytest

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.text import Format, Renderer
from tests.agent.simulation.clock import ManualClock
from tools import conformance


@pytest.fixture(scope="module")
def page() -> str:
    clock = ManualClock()
    settings = load({"simulate": ["demo"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(30):
        clock.move(1)
        collector.cycle()
    return Renderer().render(collector.snapshot, Format.TEXT).decode()


def test_every_claim_holds_on_the_simulated_node(page: str) -> None:
    during = conformance.samples(page)
    claims = [*conformance.metrics_evidence([], during), *conformance.sharing_evidence(during)]
    assert [text for is_met, text in claims if not is_met] == []
    assert (True, "memory: `mgpu_device_memory_used_bytes` of 4 of 4 cards") in claims


def test_a_claim_that_does_not_hold_is_said(page: str) -> None:
    during = conformance.samples(page)
    assert [is_met for is_met, _ in conformance.metrics_evidence(during, during)][-1] is False
    alone = [one for one in during if "container" not in one.labels]
    assert [is_met for is_met, _ in conformance.sharing_evidence(alone)] == [False]
    unread = [one for one in during if one.name != "mgpu_device_memory_used_bytes"]
    assert [is_met for is_met, _ in conformance.metrics_evidence([], unread)][1] is False


@pytest.mark.parametrize("script", [None, "#!/bin/sh\necho no cluster >&2\nexit 1\n"])
def test_without_a_cluster_no_claim_is_tried_and_it_says_which_command_failed(
    script: str | None, tmp_path: Path
) -> None:
    if script:
        (tmp_path / "kubectl").write_text(script)
        (tmp_path / "kubectl").chmod(0o755)
    command = [sys.executable, conformance.__file__, "--namespace=a", "--workload=b.yaml"]
    done = subprocess.run(
        command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "conformance: kubectl get pods -n a " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


# kubernetes-sigs/ai-conformance 2100de29, test/accelerator_metrics_test.go: a series whose name has
# one of these words and that has a label of a device. The last three are looked for, not required.
UPSTREAM = {
    "utilization": ("util",),
    "memory": ("mem", "fb", "vram", "hbm"),
    "temperature": ("temp",),
    "power": ("power", "watt", "energy"),
    "interconnect bandwidth": ("nvlink", "pcie_tx", "pcie_rx", "bandwidth", "xgmi"),
}


@pytest.mark.parametrize("kind", UPSTREAM)
def test_the_automated_test_of_the_conformance_suite_finds_what_it_looks_for(
    kind: str, page: str
) -> None:
    names = {one.name for one in conformance.samples(page) if {"gpu", "uuid"} & one.labels.keys()}
    assert [name for name in names if any(word in name for word in UPSTREAM[kind])]
