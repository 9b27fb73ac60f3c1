"""What pods go through, and that their use stays theirs."""

import json
from typing import Any

from tools.cluster.board import SHARED, WHOLE
from tools.cluster.programs import eventually
from tools.cluster.stage import Running, Stage
from tools.cluster.workloads import NAMESPACE, SLEEP, container, gpu_of, pod, with_mgpu

CORE = "mgpu_container_core_seconds_total"


def test_each_of_several_containers_has_its_own_use(stage: Stage) -> None:
    """One of them as a sidecar: an init container that goes on."""
    sidecar = container("sidecar", restartPolicy="Always")
    several = pod("several", container("one"), container("two"), initContainers=[sidecar])
    running = stage.run(several)
    stage.attributed({running["one"]: 0, running["two"]: 1, running["sidecar"]: 2})
    stage.delete("several")


def test_an_init_container_has_its_own_use(stage: Stage) -> None:
    wait = "until [ -e /tmp/go ]; do sleep 1; done"
    stage.kubectl.apply(pod("starting", initContainers=[container("first", wait)]))
    running = eventually(lambda: stage.running("starting"), "the init container runs")
    stage.attributed({running["first"]: 0})
    stage.kubectl("exec", "starting", "-n", NAMESPACE, "-c", "first", "--", "touch", "/tmp/go")  # noqa: S108 - in the container
    main = eventually(lambda: stage.running("starting").get("main"), "the main container runs")
    stage.attributed({main: 0})
    stage.delete("starting")


def test_a_static_pod_has_its_use(stage: Stage) -> None:
    """Its cgroup is named by the hash of its manifest, not by the uid that the API server has."""
    file = stage.node.static_pods / "static.json"
    file.write_text(json.dumps(pod("static")))
    name = f"static-{stage.node.name}"
    running = eventually(lambda: running_if_there(stage, name), "the static pod runs")
    stage.attributed({running["main"]: 0})
    file.unlink()
    eventually(lambda: not running_if_there(stage, name), "the static pod is gone")


def test_a_container_that_crashes_again_and_again_keeps_one_account(stage: Stage) -> None:
    stage.kubectl.apply(pod("crashing", container(script="sleep 15; exit 1")))
    first = eventually(lambda: stage.running("crashing").get("main"), "it runs")
    stage.attributed({first: 0})
    again = eventually(lambda: other_than(stage, first), "it runs again")
    before = stage.core(first)
    stage.attributed({again: 0})
    assert stage.core(again) > before > 0
    stage.delete("crashing")


def test_the_use_of_a_job_that_ends_is_not_lost(stage: Stage) -> None:
    wait = "until [ -e /tmp/go ]; do sleep 1; done"
    stage.kubectl.apply(job("brief", container(script=wait)))
    name = eventually(lambda: pod_of_job(stage, "brief"), "the job has a pod")
    running = eventually(lambda: stage.running(name).get("main"), "it runs")
    stage.attributed({running: 0})
    used = stage.core(running)
    stage.kubectl("exec", name, "-n", NAMESPACE, "--", "touch", "/tmp/go")  # noqa: S108 - in the container
    stage.kubectl.wait(NAMESPACE, "job/brief", "Complete")
    stage.board.end(running.pid)
    stage.agent.when(
        lambda page: page.value("mgpu_container_processes", **running.labels, gpu="0") is None,
        "the container's gauges are gone",
    )
    assert stage.core(running) >= used  # the account stays for a time
    stage.kubectl("delete", "job/brief", "-n", NAMESPACE)


def test_a_pod_recreated_under_its_name_has_use_of_its_own(stage: Stage) -> None:
    stage.kubectl.apply(stateful_set("db"))
    first = eventually(lambda: running_if_there(stage, "db-0"), "db-0 runs")["main"]
    stage.attributed({first: 0})
    uid = stage.kubectl.get("pod", "db-0", "-n", NAMESPACE)["metadata"]["uid"]
    stage.kubectl("delete", "pod", "db-0", "-n", NAMESPACE, "--wait=true")
    stage.board.end(first.pid)
    second = eventually(lambda: running_if_there(stage, "db-0"), "db-0 runs again")["main"]
    stage.attributed({second: 1})
    page = stage.agent.scrape()
    fresh = stage.kubectl.get("pod", "db-0", "-n", NAMESPACE)["metadata"]["uid"]
    assert fresh != uid
    assert [labels["uid"] for labels, _ in page.all("mgpu_pod_info", pod="db-0")] == [fresh]
    stage.kubectl("delete", "statefulset/db", "-n", NAMESPACE)


def test_a_pod_deleted_while_busy_takes_no_others_use(stage: Stage) -> None:
    busy = stage.run(pod("busy"))["main"]
    other = stage.run(pod("other"))["main"]
    stage.board.work(busy.pid, 0, 1.0)
    stage.agent.when(lambda page: (page.value(CORE, **busy.labels, gpu="0") or 0) > 3, "it is busy")
    stage.delete("busy")
    stage.board.end(busy.pid)
    used = stage.core(busy)
    stage.attributed({other: 0})
    assert stage.core(busy) <= used + 1
    stage.delete("other")


def test_the_devices_that_the_kubelet_granted_are_the_containers_allocation(stage: Stage) -> None:
    """By the kubelet's PodResources, which names the device ids of its device plugin."""
    wanted = {"limits": {"nvidia.com/gpu": "1"}}
    running = stage.run(pod("whole", container(resources=wanted)))["main"]
    page = stage.agent.when(
        lambda page: page.all("mgpu_container_core_limit_ratio", **running.labels),
        "the container has a limit on a device",
    )
    (labels, limit), *more = page.all("mgpu_container_core_limit_ratio", **running.labels)
    assert not more
    assert limit == 1
    assert gpu_of(labels["uuid"]) in WHOLE
    stage.attributed({running: gpu_of(labels["uuid"])})
    stage.delete("whole")


def test_a_part_of_a_gpu_is_the_containers_limit(stage: Stage) -> None:
    gpu = SHARED[-1]
    document = with_mgpu(pod("part", container()), gpu, core=40, memory_mib=1024)
    running = stage.run(document)["main"]
    labels = {**running.labels, "gpu": str(gpu)}
    page = stage.agent.when(
        lambda page: page.value("mgpu_container_core_limit_ratio", **labels), "it has a limit"
    )
    assert page.value("mgpu_container_core_limit_ratio", **labels) == 0.4
    assert page.value("mgpu_container_memory_limit_bytes", **labels) == 1024 << 20
    stage.attributed({running: gpu})
    stage.delete("part")


def test_two_pods_of_one_gpu_share_its_time(stage: Stage) -> None:
    one, two = (stage.run(pod(name))["main"] for name in ("left", "right"))
    before = stage.agent.scrape()
    for each in (one, two):
        stage.board.work(each.pid, 0, 1.0)
    page = stage.agent.when(
        lambda page: all((page.value(CORE, **e.labels, gpu="0") or 0) > 8 for e in (one, two)),
        "both have used 8 s",
    )
    for each in (one, two):
        stage.board.end(each.pid)
    parts = [page.value(CORE, **each.labels, gpu="0") or 0 for each in (one, two)]
    busy = "mgpu_device_busy_seconds_total"
    device = (page.value(busy, gpu="0") or 0) - (before.value(busy, gpu="0") or 0)
    assert sum(parts) <= device + 0.01
    assert sum(parts) > 0.9 * device
    for name in ("left", "right"):
        stage.delete(name)


def running_if_there(stage: Stage, name: str) -> dict[str, Running]:
    """The running containers of a pod that may not be there."""
    found = stage.kubectl.get("pods", "-n", NAMESPACE)["items"]
    there = any(
        each["metadata"]["name"] == name and "deletionTimestamp" not in each["metadata"]
        for each in found
    )
    return stage.running(name) if there else {}


def other_than(stage: Stage, first: Running) -> Running | None:
    """The container's next run; the driver forgets the first one's process."""
    stage.board.end(first.pid)
    now = stage.running(first.pod).get(first.container)
    return now if now is not None and now.pid != first.pid else None


def pod_of_job(stage: Stage, job: str) -> str | None:
    """The name of a job's pod."""
    found = stage.kubectl.get("pods", "-n", NAMESPACE, "-l", f"job-name={job}")["items"]
    return str(found[0]["metadata"]["name"]) if found else None


def job(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """A job of one pod."""
    template = pod(name, *containers, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": template["metadata"],
        "spec": {"template": {"spec": template["spec"]}, "backoffLimit": 0},
    }


def stateful_set(name: str) -> dict[str, Any]:
    """A stateful set of one pod."""
    labels = {"app": name}
    template = pod(name, container(script=SLEEP))
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": template["metadata"],
        "spec": {
            "selector": {"matchLabels": labels},
            "serviceName": name,
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }
