"""A card or an instance leaves a node: what its neighbours' pods were allocated stays."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakenvml.scenario import GIB, Gpu, Instance
from tests.field.nodes import FieldNode, field_node
from tests.field.pods import FieldPod, by, gpus, memory_limits
from tests.field.report import report

GPU, PROFILE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
POLICY = "container_allocation_info"
LABELS = {f"{GPU}.count": "3", f"{GPU}.replicas": "1", f"{GPU}.product": "NVIDIA-H100-80GB-HBM3"}


def lose_first(node: FieldNode) -> None:
    """Let the first board leave: the driver lists the others, numbered anew."""
    driver = node.driver
    left = [replace(g, index=g.index - 1, minor=g.index, pci=g.pci) for g in driver.gpus[1:]]
    driver.gpus = left
    driver.processes = [replace(p, gpu=p.gpu - 1) for p in driver.processes if p.gpu]
    driver.works = [replace(w, gpu=w.gpu - 1) for w in driver.works if w.gpu]


def cards(count: int) -> list[Gpu]:
    """Boards that keep their UUIDs and addresses whatever their numbers are."""
    pci = "00000000:{:02X}:00.0"
    return [Gpu(n, uuid=f"GPU-{n}", minor=n, pci=pci.format(n + 1)) for n in range(count)]


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(
            {},
            id="without labels",
            marks=report(
                source="k8s-device-plugin#2038",
                seen="A card is lost, and the plugin goes on to offer it.",
                first="wrong",
                group="kubernetes",
                kind="a part is taken for the whole",
            ),
        ),
        pytest.param(
            LABELS,
            id="with discovery's labels",
            marks=report(
                source="k8s-device-plugin#2038 (labels)",
                seen="A card is lost where feature discovery says that none is shared.",
                first="wrong",
                group="kubernetes",
                kind="a part is taken for the whole",
            ),
        ),
    ],
)
def test_a_lost_card_makes_no_shares_of_the_others(tmp_path: Path, labels: dict[str, str]) -> None:
    pods = [FieldPod(f"job-{n}", {"main": {GPU: "1"}}) for n in range(2)]
    with field_node(tmp_path, *cards(3), labels=labels) as node:
        node.document["status"] = {"allocatable": {GPU: "3"}}
        for number, each in enumerate(pods, 1):
            node.pod(each.document())
            node.start(each.cgroup(), number, duty=0.5, period=0.4)
        before = node.run(5)
        lose_first(node)
        page = node.run(45)
    expected = {("job-0", "GPU-1"): 1, ("job-1", "GPU-2"): 1}
    for found in (before, page):
        assert by(found, "container_core_limit_ratio", "pod", "uuid") == expected
        assert set(by(found, POLICY, "pod", "policy")) == {(p.name, "enforced") for p in pods}
    assert memory_limits(page) == memory_limits(before) != {}
    assert {uuid for _, _, uuid in gpus(page)} == {"GPU-1", "GPU-2"}


@report(
    source="k8s-device-plugin#2038 (MIG)",
    seen="One of three instances is gone, and the plugin goes on to offer three.",
    first="wrong",
    group="kubernetes",
    kind="a part is taken for the whole",
)
def test_a_lost_instance_makes_no_shares_of_the_others(tmp_path: Path) -> None:
    pods = [FieldPod(f"job-{n}", {"main": {PROFILE: "1"}}) for n in range(2)]
    with field_node(tmp_path, Gpu(0, mig=True)) as node:
        node.driver.instances = [Instance(0, n, uuid=f"MIG-{n}", gi=7 + n) for n in range(3)]
        node.document["status"] = {"allocatable": {PROFILE: "3"}}
        for number, each in enumerate(pods):
            node.pod(each.document())
            node.start(each.cgroup(), 0, instance=number, duty=0.5, period=0.4)
        before = node.run(5)
        node.driver.instances = node.driver.instances[:2]
        page = node.run(45)
    for found in (before, page):
        assert set(by(found, POLICY, "pod", "policy")) == {(p.name, "enforced") for p in pods}
    assert memory_limits(page) == memory_limits(before) != {}


INDEX, MGPU = "vke.volcengine.com/gpu-index-container-main", "vke.volcengine.com/mgpu"


@pytest.mark.parametrize(
    ("annotations", "limits"),
    [
        pytest.param(
            {INDEX: "1"},
            {f"{MGPU}-core": "50", f"{MGPU}-memory": "8192"},
            marks=report(
                source="dcgm-exporter#348",
                seen="A card leaves, the driver numbers anew, and pods go by number.",
                first="wrong",
                group="kubernetes",
                kind="identity by what others may change",
            ),
            id="mGPU",
        ),
        pytest.param(
            {"ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_DEV": "80"},
            {"aliyun.com/gpu-mem": "8"},
            marks=report(
                source="NVSentinel#155 (gpushare)",
                seen="After a card is taken out, faults are filed under its neighbour's number.",
                first="wrong",
                group="kubernetes",
                kind="identity by what others may change",
            ),
            id="gpushare",
        ),
    ],
)
def test_a_limit_by_number_stays_with_the_first_card_of_that_number(
    tmp_path: Path, annotations: dict[str, str], limits: dict[str, str]
) -> None:
    own = FieldPod("own", {"main": limits}, annotations=annotations)
    with field_node(tmp_path, *cards(3)) as node:
        node.pod(own.document())
        node.start(own.cgroup(), 1, duty=0.5, period=0.4)
        before = node.run(5)
        lose_first(node)
        page = node.run(45)
        late = FieldPod("late", {"main": limits}, annotations=annotations)
        node.pod(late.document())
        later = node.run(3)
    assert memory_limits(before) == memory_limits(page) == {("own", "main", "GPU-1"): 8 * GIB}
    assert memory_limits(later)["late", "main", "GPU-2"] == 8 * GIB  # the number's card by now
    assert memory_limits(later)["own", "main", "GPU-1"] == 8 * GIB
