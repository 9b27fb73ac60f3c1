"""Reports of Intel's newer driver: kernels without its figures, meters, a change of drivers."""

import shutil

import pytest

from tests.agent.sources.gpus.drm.machine import i915
from tests.field.report import report
from tests.field.vendors.boards import BUSY, CORE, GIB, JOULES, MEMORY, VendorNode

PCI, SECOND = "0000:03:00.0", 10**9
B60, B570, A770, METEOR_LAKE = ((0x8086, each) for each in (0xE211, 0xE20C, 0x56A0, 0x7D45))
HWMON = "hwmon/hwmon7"
WHY = "mgpu_container_unmeasured"


def client(number: int, *, used: int | None = None, total: int = 0, pdev: str = PCI) -> str:
    """A client of xe that holds 2 GiB; ``used`` None: of a kernel that counts no cycles."""
    cycles = "" if used is None else f"drm-cycles-ccs:\t{used}\ndrm-total-cycles-ccs:\t{total}\n"
    return (
        f"drm-driver:\txe\ndrm-client-id:\t{number}\ndrm-pdev:\t{pdev}\n"
        f"drm-resident-vram0:\t2048 MiB\n{cycles}"
    )


@report(
    source="intel/xpumanager#106",
    seen="The use of a B60 is N/A with a kernel whose driver does not count it yet.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_kernel_that_counts_no_cycles_says_nothing_of_use(node: VendorNode) -> None:
    node.machine.card(0, "xe", PCI, B60)
    pid = node.tenant("llm")
    node.machine.open(pid, 5, client(1))
    page = node.run(10)
    assert page.value(MEMORY, pod="llm") == 2 * GIB
    assert page.all(CORE, pod="llm") == page.all(BUSY) == []
    reasons = {own["quantity"]: own["reason"] for own, _ in page.all(WHY, pod="llm")}
    assert reasons["core"] == "not_supported"


@report(
    source="henrygd/beszel#2020",
    seen="A B570 has two counters of energy: its own, and that of its package, a part of it.",
    first="right",
    group="vendors",
    round=3,
)
def test_of_a_cards_meters_its_own_counts(node: VendorNode) -> None:
    names = {f"{HWMON}/energy1_label": "card", f"{HWMON}/energy2_label": "pkg"}
    device = node.machine.card(0, "xe", PCI, B570, {f"{HWMON}/name": "xe", **names})
    for second in range(31):
        told = {1: 100 * second, 2: 60 * second}
        node.machine.write(
            device, {f"{HWMON}/energy{n}_input": str(v * 1_000_000) for n, v in told.items()}
        )
        node.cycle()
    page = node.page()
    assert page.value(JOULES) == pytest.approx(3000, abs=250)
    assert page.value("mgpu_device_power_watts") == pytest.approx(100, rel=0.1)


@report(
    source="pop-os/cosmic-monitor#95",
    seen="After a change of its driver from i915 to xe a GPU was shown no more.",
    first="right",
    group="vendors",
    round=3,
)
def test_a_gpu_whose_driver_is_changed_goes_on_counting(node: VendorNode) -> None:
    node.machine.card(0, "i915", PCI, METEOR_LAKE)
    pid = node.tenant("desk")
    for second in range(11):
        node.machine.open(pid, 5, i915(1, render=second * SECOND // 2))
        node.cycle()
    before = node.page()
    node.machine.close(pid, 5)
    shutil.rmtree(node.sys / "class/drm")
    shutil.rmtree(node.sys / f"devices/pci0000:00/{PCI}")
    (node.sys / "class/drm").mkdir()
    node.run(10)
    node.machine.card(0, "xe", PCI, METEOR_LAKE)
    for second in range(41):
        node.machine.open(pid, 5, client(1, used=second * 9_600_000, total=second * 19_200_000))
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="desk") == pytest.approx(
        (before.value(CORE, pod="desk") or 0) + 20, rel=0.25
    )
    assert len(page.all("mgpu_device_info")) == 1
