"""Energy and power: what a driver reports of a board that it cannot be, or not of the board."""

from pathlib import Path

import pytest

from tests.agent.sources.node.messages import holding
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Fault, Gpu
from tests.field.nodes import field_node
from tests.field.report import report

WHOLE = {"nvidia.com/gpu": "1"}
ENERGY = "mgpu_device_energy_joules_total"
TENANTS = "mgpu_container_energy_joules_total"


@report(
    source="open-gpu-kernel-modules#1236",
    seen="A board of 35 W reports 588 W, the same for ever, busy or not.",
    first="wrong",
    group="nvidia",
    kind="believed because it is there",
)
def test_power_far_beyond_its_boards_limit_is_charged_to_nobody(tmp_path: Path) -> None:
    tenant = Tenant("train")
    board = Gpu(0, power_mw=588_000, idle_mw=588_000, limit_mw=35_000)
    with field_node(tmp_path, board) as node:
        node.pod(tenant.document(limits=WHOLE))
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(tenant.cgroup, 0)
        page = node.run(20)
    assert (page.value(TENANTS, **tenant.labels) or 0) <= 35 * 20
    assert page.value("mgpu_device_power_watts", uuid="GPU-0") is None
    for quantity in ("energy", "power"):
        told = {"quantity": quantity, "reason": "rejected_samples"}
        assert page.value("mgpu_device_unmeasured", uuid="GPU-0", **told) == 1


@report(
    source="zeus#172",
    seen="On Grace Hopper the energy counter is the whole module's, its processor's part too.",
    first="wrong",
    group="nvidia",
    kind="one member's property stated of the whole",
)
def test_the_energy_of_a_grace_hopper_board_is_not_its_modules(tmp_path: Path) -> None:
    tenant = Tenant("train")
    board = Gpu(0, name="NVIDIA GH200 480GB", module_mw=300_000)
    with field_node(tmp_path, board) as node:
        node.pod(tenant.document(limits=WHOLE))
        node.kubelet.answer = holding("train", "GPU-0")
        node.start(tenant.cgroup, 0)
        before = node.run(5).value(ENERGY, uuid="GPU-0") or 0
        page = node.run(10)
    watts = ((page.value(ENERGY, uuid="GPU-0") or 0) - before) / 10
    assert watts == pytest.approx(350, rel=0.02)  # the board's power, not 650 W
    assert page.all("mgpu_device_method_info", energy="power")


@report(
    source="codecarbon#1316",
    seen="Boards before Volta have no energy counter, and their energy was reported as 0.",
    first="right",
    group="nvidia",
)
def test_without_a_counter_power_is_integrated(tmp_path: Path) -> None:
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0, name="Tesla P100-PCIE-16GB", energy=False, gpm=False)) as node:
        node.pod(tenant.document(limits=WHOLE))
        node.kubelet.answer = holding("train", "GPU-0")
        node.run(10)
        node.start(tenant.cgroup, 0)
        page = node.run(10)
    used = (page.value(TENANTS, **tenant.labels) or 0) / 10
    assert used == pytest.approx(350 - 70, rel=0.1)  # what it takes beyond its idle power
    assert page.all("mgpu_device_method_info", energy="power")


@report(
    source="excavator#137",
    seen="A GeForce GTX 1050 Ti reports no power, which was shown as -2 W.",
    first="right",
    group="nvidia",
)
def test_a_board_without_power_and_counter_has_no_energy(tmp_path: Path) -> None:
    tenant = Tenant("train")
    with field_node(tmp_path, Gpu(0, energy=False, gpm=False)) as node:
        node.driver.faults = [Fault("error", "nvmlDeviceGetPowerUsage", code=3)]
        node.pod(tenant.document(limits=WHOLE))
        node.start(tenant.cgroup, 0)
        page = node.run(10)
    for name in (ENERGY, TENANTS, "mgpu_device_power_watts"):
        assert page.all(name) == []
    for quantity in ("energy", "power"):
        told = {"quantity": quantity, "reason": "not_supported"}
        assert page.value("mgpu_device_unmeasured", uuid="GPU-0", **told) == 1
