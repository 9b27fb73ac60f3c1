"""Parts of the cluster fail, and come back; use stays with its containers."""

import json

from tools.cluster.programs import eventually
from tools.cluster.stage import Running, Stage
from tools.cluster.test_lifecycle import running_if_there
from tools.cluster.workloads import container, pod


def test_use_is_named_on_while_the_api_server_is_away(stage: Stage) -> None:
    running = stage.run(pod("steady"))["main"]
    stage.attributed({running: 0})
    address = stage.agent.address()
    with stage.plane.away():
        stage.attributed({running: 1}, address)
    stage.node.wait()
    fresh = stage.run(pod("fresh"))["main"]
    stage.attributed({running: 2, fresh: 3}, address)
    for name in ("steady", "fresh"):
        stage.delete(name)


def test_what_starts_while_the_api_server_is_away_has_its_name(stage: Stage) -> None:
    """By the names of its log files. A static pod, for the kubelet starts no other meanwhile."""
    address = stage.agent.address()
    name = f"alone-{stage.node.name}"
    file = stage.node.static_pods / "alone.json"
    with stage.plane.away():
        file.write_text(json.dumps(pod("alone")))
        pid = eventually(lambda: stage.node.pid_of(name, "main"), "the static pod runs")
        alone = Running(name, "main", pid)
        stage.board.work(pid, 0, 1.0)
        eventually(lambda: stage.core(alone, address) > 0, "its use has its name")
        stage.board.rest(pid)
        stage.attributed({alone: 1}, address)
    eventually(lambda: running_if_there(stage, name) == {"main": alone}, "it is known of")
    stage.attributed({alone: 2}, address)
    file.unlink()
    eventually(lambda: not running_if_there(stage, name), "the static pod is gone")


def test_use_is_named_on_over_a_restart_of_the_kubelet(stage: Stage) -> None:
    wanted = {"limits": {"nvidia.com/gpu": "1"}}
    running = stage.run(pod("lasting", container(resources=wanted)))["main"]
    with stage.node.without_kubelet():
        stage.attributed({running: 0})
    eventually(lambda: stage.allocatable("nvidia.com/gpu"), "devices are offered again")
    stage.attributed({running: 1})
    fresh = stage.run(pod("later", container(resources=wanted)))["main"]
    stage.agent.when(
        lambda page: page.all("mgpu_container_core_limit_ratio", **fresh.labels),
        "the kubelet tells of the new pod's device",
    )
    stage.attributed({fresh: 2})
    for name in ("lasting", "later"):
        stage.delete(name)


def test_use_is_named_while_permissions_are_missing(stage: Stage) -> None:
    """By the names of log files, for an exporter that never saw the pods' list."""
    running = stage.run(pod("forbidden"))["main"]
    with stage.agent.forbidden():
        stage.agent.restart()
        stage.attributed({running: 0})
        up = stage.agent.scrape().value("mgpu_exporter_source_up", source="pods_api")
        assert up == 0
    stage.agent.when(
        lambda page: page.value("mgpu_exporter_source_up", source="pods_api") == 1, "again"
    )
    stage.attributed({running: 1})
    stage.delete("forbidden")


def test_use_is_named_after_a_restart_of_the_exporter(stage: Stage) -> None:
    running = stage.run(pod("patient"))["main"]
    stage.agent.restart()
    stage.attributed({running: 0})
    stage.delete("patient")
