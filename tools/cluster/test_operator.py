"""The real Prometheus Operator takes up what the chart gives it, and one of its alerts fires."""

from collections.abc import Iterator

import pytest

from tools.cluster.agent import Agent
from tools.cluster.kubectl import Document
from tools.cluster.monitoring import Operator
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.workloads import NAMESPACE, container, pod, with_mgpu

SPACE = "operated-gpus"
ALERT, RECORD = "MgpuAllocatedGpuIdle", "namespace_pod:mgpu_core_limit_utilization:ratio_rate5m"


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[Operator]:
    made = Operator(stage)
    made.start()
    yield made
    made.stop()


def values(monitor: str) -> Document:
    """The chart's: one of its monitors, and its rules with an alert of hours cut to seconds."""
    idle = {"window": "20s", "for": "0s"}
    return {
        monitor: {"enabled": True, "interval": "2s"},
        "prometheusRule": {"enabled": True, "rules": {ALERT: idle}},
    }


@pytest.mark.parametrize(
    ("monitor", "kind"), [("serviceMonitor", "ServiceMonitor"), ("podMonitor", "PodMonitor")]
)
def test_monitor_and_rules_are_taken_up_and_an_alert_fires(
    stage: Stage, operator: Operator, monitor: str, kind: str
) -> None:
    agent = Agent(stage.kubectl, stage.board, "podresources", namespace=SPACE, more=values(monitor))
    stage.run(with_mgpu(pod("idle", container("main")), gpu=0, core=10, memory_mib=256))
    agent.install_by_helm()
    pool = f"{kind[0].lower()}{kind[1:]}/{SPACE}/{agent.name}"
    eventually(lambda: operator.pools() == {pool: ["up"]}, f"{pool} is scraped")
    eventually(lambda: {ALERT, RECORD} <= operator.rules(), "its rules are loaded")
    firing = eventually(lambda: operator.firing(ALERT), "the alert of the idle pod fires")
    assert ("idle", NAMESPACE) in {(one["pod"], one["namespace"]) for one in firing}
    agent.helm("uninstall", "--wait")
    stage.delete("idle")
    eventually(lambda: operator.pools() == {}, "its target is gone")
