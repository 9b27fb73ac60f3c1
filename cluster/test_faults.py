"""Parts of the cluster fail, and come back; use stays with its containers."""

import json
import signal

from cluster.programs import eventually
from cluster.stage import BURST_S, Stage
from cluster.test_lifecycle import running_if_there
from cluster.workloads import container, pod
from tests.e2e.programs import Page

GROUP = "mgpu_group_core_seconds_total"
PODS = {"source": "pods_api"}


def test_use_is_named_on_while_the_api_server_is_away(stage: Stage) -> None:
    running = stage.run(pod("steady"))["main"]
    stage.attributed({running: 0})
    address = stage.agent.address()
    stage.plane.server.stop()
    stage.attributed({running: 1}, address)
    stage.plane.server.start()
    stage.plane.wait()
    stage.node.wait()
    fresh = stage.run(pod("fresh"))["main"]
    stage.attributed({running: 2, fresh: 3}, address)
    for name in ("steady", "fresh"):
        stage.delete(name)


def test_what_starts_while_the_api_server_is_away_is_named_when_it_is_back(stage: Stage) -> None:
    """A static pod, for the kubelet starts no other meanwhile."""
    address = stage.agent.address()
    name = f"alone-{stage.node.name}"
    stage.plane.server.stop()
    file = stage.node.static_pods / "alone.json"
    file.write_text(json.dumps(pod("alone")))
    pid = eventually(lambda: stage.node.pid_of(name, "main"), "the static pod runs")
    before = grouped(stage.agent.scrape(address))
    stage.board.burst(pid, 0, BURST_S)
    eventually(
        lambda: grouped(stage.agent.scrape(address)) > before + BURST_S - 0.5,
        "its use stands under a group",
    )
    stage.plane.server.start()
    stage.plane.wait()
    running = eventually(lambda: running_if_there(stage, name), "it has a name")["main"]
    eventually(lambda: stage.core(running) > BURST_S - 0.5, "its use stands under its name", 180)
    file.unlink()
    eventually(lambda: not running_if_there(stage, name), "the static pod is gone")


def test_use_is_named_on_over_a_restart_of_the_kubelet(stage: Stage) -> None:
    wanted = {"limits": {"nvidia.com/gpu": "1"}}
    running = stage.run(pod("lasting", container(resources=wanted)))["main"]
    stage.node.kubelet.stop(signal.SIGKILL)
    stage.attributed({running: 0})
    stage.node.kubelet.start()
    stage.node.wait()
    eventually(lambda: stage.allocatable("nvidia.com/gpu"), "devices are offered again")
    stage.attributed({running: 1})
    fresh = stage.run(pod("later", container(resources=wanted)))["main"]
    stage.agent.when(
        lambda page: page.all("mgpu_container_core_limit_ratio", **fresh.labels),
        "the kubelet tells of the new pod's device",
        120,
    )
    stage.attributed({fresh: 2})
    for name in ("lasting", "later"):
        stage.delete(name)


def test_use_is_kept_without_names_while_permissions_are_missing(stage: Stage) -> None:
    running = stage.run(pod("nameless"))["main"]
    stage.agent.forbid()
    stage.agent.restart()
    stage.agent.when(
        lambda page: page.value("mgpu_exporter_source_up", **PODS) == 0, "pods are not read"
    )
    stage.board.burst(running.pid, 0, BURST_S)
    stage.agent.when(lambda page: grouped(page) > BURST_S - 0.5, "its use stands under a group")
    stage.agent.allow()
    stage.agent.when(lambda page: page.value("mgpu_exporter_source_up", **PODS) == 1, "again", 180)
    eventually(lambda: stage.core(running) > BURST_S - 0.5, "its use stands under its name")
    stage.attributed({running: 1})
    stage.delete("nameless")


def test_use_is_named_after_a_restart_of_the_exporter(stage: Stage) -> None:
    running = stage.run(pod("patient"))["main"]
    stage.agent.restart()
    stage.attributed({running: 0})
    stage.delete("patient")


def grouped(page: Page) -> float:
    """What stands under pods without a name."""
    return sum(value for _, value in page.all(GROUP, kind="pod"))
