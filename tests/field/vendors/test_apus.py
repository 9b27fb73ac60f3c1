"""Reports of AMD's chips of one memory, of its partitions, and of its cards by claims."""

from dataclasses import replace

import pytest

from tests.agent.sources.gpus.amd.trees import (
    MI210,
    MI300X,
    PERCENT,
    RADEON,
    STRIX_HALO,
    attribute,
    attributes,
    put,
    v1_9,
)
from tests.agent.sources.pods.devices import result
from tests.field.kubernetes.claims import claim, device, offers
from tests.field.pods import FieldPod, gpus
from tests.field.report import report
from tests.field.vendors.boards import BUSY, CORE, GIB, MEMORY, VendorNode

MIB = 1 << 20
USED, TOTAL = "mgpu_device_memory_used_bytes", "mgpu_device_memory_total_bytes"
AMD = "gpu.amd.com"


@report(
    source="Syllo/nvtop#492",
    seen="On a chip's own GPU a model of 24 GiB is in GTT, and its process seems to hold 5 MiB.",
    first="right",
    group="vendors",
    round=3,
)
def test_what_a_process_holds_of_its_hosts_memory_is_its_gpus(node: VendorNode) -> None:
    board = node.tree.add(STRIX_HALO)
    board.set(mem_info_vram_used=100 * MIB, mem_info_gtt_used=25 * GIB)
    node.client(node.tenant("llama"), board, vram=5348 << 10, gtt=25_258_000 << 10)
    page = node.run(5)
    assert page.value(MEMORY, pod="llama") == (5348 + 25_258_000) << 10
    assert page.value(USED) == 25 * GIB + 100 * MIB


@report(
    source="ROCm/legacy-rocm-build#5444",
    seen="With 52 GiB of a model loaded the kernel's count of GTT in use stays near 0.",
    first="wrong",
    group="vendors",
    kind="believed because it is there",
    round=3,
)
def test_a_chip_has_no_less_in_use_than_its_processes_hold(node: VendorNode) -> None:
    board = node.tree.add(STRIX_HALO)
    board.set(mem_info_vram_used=40 * MIB, mem_info_gtt_used=21 * MIB)
    pid = node.tenant("llama")
    node.tree.run(pid)
    node.tree.use(pid, board.gpu_ids[0], vram=52 * GIB)
    page = node.run(5)
    assert page.value(MEMORY, pod="llama") == 52 * GIB
    assert page.value(USED) is None or (page.value(USED) or 0) >= 52 * GIB


@report(
    source="clbr/radeontop#114",
    seen="By the kernel's own count a card of 1 GB has 98 GB in use.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_card_has_no_more_in_use_than_it_has(node: VendorNode) -> None:
    board = node.tree.add(RADEON)
    board.set(mem_info_vram_used=1568 * GIB)
    node.client(node.tenant("desk"), board, vram=GIB)
    page = node.run(5)
    assert page.value(TOTAL) == 16 * GIB
    assert (page.value(USED) or 0) <= 16 * GIB
    lost = page.all("mgpu_device_unattributed_memory_bytes")
    assert sum(value for _, value in lost) <= 16 * GIB
    assert page.value(MEMORY, pod="desk") == GIB


@report(
    source="ROCm/rocm-systems#8475",
    seen="The total of a chip with 110 GiB for its GPU is said to be its carve-out of 512 MiB.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_chips_total_is_what_its_gpu_can_have(node: VendorNode) -> None:
    node.tree.add(replace(STRIX_HALO, gtt=110 * GIB, bank=110 * GIB))
    page = node.run(3)
    assert page.value(TOTAL) == 110 * GIB + GIB // 2  # with the carve-out, which it has as well


@report(
    source="ROCm/k8s-device-plugin#157",
    seen="The devices of partitions have a dot in their name instead of an underscore.",
    first="wrong",
    group="vendors",
    kind="one platform's name is taken for all",
    round=3,
)
def test_partitions_are_there_whatever_the_driver_calls_their_devices(node: VendorNode) -> None:
    board = node.tree.add(MI300X, parts=2)
    board.metrics(v1_9(0))  # of the board, which does not state its dies
    for part, busy in enumerate([[40] * 4, [80] * 4]):
        content = attributes((1, 1), attribute(40, "I", busy, PERCENT))
        put(node.tree.partition(board, part) / "xcp/xcp_metrics", content)
    own = node.tree.partition(board, 1)
    own.rename(own.with_name(own.name.replace("xcp_", "xcp.")))
    pid = node.tenant("part")
    node.tree.use(pid, board.gpu_ids[1], vram=3 * GIB, cus=152)
    node.cycle()
    page = node.run(10)
    assert {labels["uuid"] for labels, _ in page.all(MEMORY, pod="part")} == {f"{board.uuid}-1"}
    seen = [page.value(BUSY, uuid=f"{board.uuid}-{part}") for part in range(2)]
    assert seen == [pytest.approx(2.0, rel=0.1), pytest.approx(4.0, rel=0.1)]


@report(
    source="ROCm/device-metrics-exporter#171",
    seen="On a virtual machine's MI300X the label of the model is empty.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_virtual_card_without_a_product_name_has_a_model(node: VendorNode) -> None:
    board = node.tree.add(replace(MI300X, device="0x74b5", partitionable=False))
    (board.folder / "product_name").unlink()
    page = node.run(3)
    ((own, _),) = page.all("mgpu_device_info", uuid=board.uuid)
    assert own["model"]


def amd_device(
    name: str, pci: str, kind: str = "amdgpu", memory: str = "64Gi"
) -> dict[str, object]:
    """A device as AMD's driver for claims publishes it."""
    return device(
        name, {"memory": memory}, **{"type": kind, "resource.kubernetes.io/pciBusID": pci}
    )


def result_of(name: str) -> dict[str, object]:
    """A device of AMD's driver in a claim."""
    return {**result(name), "driver": AMD}


@report(
    source="joryirving/home-ops#7699",
    seen="Two pods of models share the GPU of one chip by a claim, once its driver lists it.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_chips_gpu_that_two_pods_claim_is_halved(node: VendorNode) -> None:
    board = node.tree.add(STRIX_HALO)
    node.slices = [offers(amd_device("gpu-1-128", board.pci), driver=AMD)]
    claim(node, "strix", result_of("gpu-1-128"))
    for name in ("a", "b"):
        node.pod(FieldPod(name, {"main": {}}, claims={"main": ["strix"]}).document())
    page = node.run(5)
    assert gpus(page) == {(name, "main", board.uuid): 0.5 for name in ("a", "b")}


@report(
    source="ROCm/k8s-gpu-dra-driver#49",
    seen="Virtual functions that virtual machines have are to be claimed like cards.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_virtual_function_that_is_passed_on_is_no_card_of_the_host(node: VendorNode) -> None:
    board = node.tree.add(MI210)
    function = board.pci[:-1] + "2"
    node.slices = [offers(amd_device("vf-0", function, "vfio"), driver=AMD)]
    claim(node, "vf", result_of("vf-0"))
    node.pod(FieldPod("vm", {"main": {}}, claims={"main": ["vf"]}).document())
    node.client(node.tenant("other"), board, gfx=1)
    page = node.run(5)
    assert {uuid for _, _, uuid in gpus(page)} <= {""}


@report(
    source="ROCm/amdgpu#186",
    seen="Under pressure of the page cache a process's memory is on the next module's GPU.",
    first="right",
    group="vendors",
    round=3,
)
def test_memory_on_a_module_that_a_process_does_not_work_on_is_there(node: VendorNode) -> None:
    first, second = node.tree.add(MI210), node.tree.add(MI210)
    pid = node.tenant("torch")
    node.tree.run(pid)
    node.tree.use(pid, first.gpu_ids[0], vram=10 * GIB, cus=104)
    node.tree.use(pid, second.gpu_ids[0], vram=40 * GIB, cus=0)
    first.set(gpu_busy_percent=100)
    node.cycle()
    page = node.run(10)
    held = {own["uuid"]: value for own, value in page.all(MEMORY, pod="torch")}
    assert held == {first.uuid: 10 * GIB, second.uuid: 40 * GIB}
    used = {own["uuid"]: value for own, value in page.all(CORE, pod="torch") if value}
    assert used == {first.uuid: pytest.approx(10, rel=0.05)}
