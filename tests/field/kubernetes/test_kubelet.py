"""The kubelet: what it says containers hold, pods without an API, restarts, other containers."""

from pathlib import Path

from tests.agent.node.messages import holding
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Gpu
from tests.field.nodes import field_node
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
ALLOCATED = "mgpu_container_allocated_gpus"


@report(
    source="kubernetes#119423",
    seen="PodResources lists the devices of an ended pod, which the next one holds already.",
    first="right",
    group="kubernetes",
)
def test_a_device_that_an_ended_pod_still_holds_by_the_kubelet_is_the_next_pods(
    tmp_path: Path,
) -> None:
    ended, runs = Tenant("ended"), Tenant("runs")
    with field_node(tmp_path, Gpu(0)) as node:
        node.pod(ended.document(limits=WHOLE, phase="Succeeded"))
        node.pod(runs.document(limits=WHOLE))
        node.kubelet.answer = holding("ended", "GPU-0") + holding("runs", "GPU-0")
        node.start(runs.cgroup, 0, duty=0.5, period=0.5)
        page = node.run(10)
    assert page.value(ALLOCATED, **runs.labels, uuid="GPU-0") == 1
    assert page.all(ALLOCATED, pod="ended") == []
    assert page.value("mgpu_device_overcommitted_gpu_seconds_total", uuid="GPU-0") == 0
