"""What a device plugin says of a device's health reaches its pod and the GPU (KEP-4680)."""

from functools import partial

import pytest

from tests.e2e.programs import Page
from tools.cluster.device_plugin import UNHEALTHY
from tools.cluster.stage import Running, Stage
from tools.cluster.workloads import NAMESPACE, container, gpu_of, pod

pytestmark = pytest.mark.quick
GPU = "nvidia.com/gpu"
FAMILY = "mgpu_pod_unhealthy_devices"


def test_a_gpu_that_its_plugin_withdraws_is_marked_and_counted_at_its_pod(stage: Stage) -> None:
    running = stage.run(pod("sick", container(resources={"limits": {GPU: "1"}})))["main"]
    page = stage.agent.when(partial(devices_of, running), "its device is known")
    (uuid,) = devices_of(running, page)
    of_pod = {"namespace": NAMESPACE, "pod": "sick"}
    stage.agent.when(lambda page: page.value(FAMILY, **of_pod) == 0, "it is healthy")
    says(stage, uuid)
    try:
        stage.agent.when(lambda page: page.value(FAMILY, **of_pod) == 1, "it is unhealthy")
        own = stage.agent.pod()
        assert own is not None
        where = (own["metadata"]["name"], "-n", stage.agent.namespace)
        said = stage.kubectl("exec", *where, "--", "mgpu-exporter", "top", "--once").splitlines()
        marked = [line for line in said if "! " in line]
        assert any(f"! {gpu_of(uuid)} " in line for line in marked), said
        assert any(f"! {NAMESPACE}/sick" in line for line in marked), said
    finally:
        says(stage)
    stage.agent.when(lambda page: page.value(FAMILY, **of_pod) == 0, "it is healthy again")
    stage.delete("sick")


def devices_of(running: Running, page: Page) -> set[str]:
    """The devices on which a container has an allocation, as far as they are known."""
    found = page.all("mgpu_container_allocation_info", **running.labels)
    return {info["uuid"] for info, _ in found} - {""}


def says(stage: Stage, *unhealthy: str) -> None:
    """Let the plugin say that these devices are unhealthy, and no others."""
    (stage.state / UNHEALTHY).write_text("\n".join(unhealthy))
    stage.plugin.reload()
