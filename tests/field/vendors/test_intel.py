"""Reports of Intel's cards: i915, xe, their device plugin and the tools over them."""

from pathlib import Path

import pytest

from tests.agent.sources.gpus.drm.machine import I915, i915
from tests.agent.sources.node.messages import container, devices
from tests.agent.sources.node.messages import pod as pod_of
from tests.field.report import report
from tests.field.vendors.boards import BUSY, CORE, GIB, JOULES, MEMORY, VendorNode

PCI, SECOND = "0000:03:00.0", 10**9
B580, A770, A750, A380, FLEX_140 = (
    (0x8086, each) for each in (0xE20B, 0x56A0, 0x56A1, 0x56A5, 0x56C1)
)
MAX_1550, LUNAR_LAKE, ALDER_LAKE_N = ((0x8086, each) for each in (0x0BD5, 0x64A0, 0x46D0))
HWMON = "hwmon/hwmon7"
ENERGY = f"{HWMON}/energy1_input"


def xe(client: int, total: int, pdev: str = PCI, **figures: int | str) -> str:
    """What xe says of a client: cycles by class, and other lines by their name."""
    cycles = {name: used for name, used in figures.items() if isinstance(used, int)}
    lines = [
        "drm-driver:\txe",
        f"drm-client-id:\t{client}",
        f"drm-pdev:\t{pdev}",
        *(f"drm-cycles-{name}:\t{used}" for name, used in cycles.items()),
        *(f"drm-total-cycles-{name}:\t{total}" for name in cycles),
        *(f"drm-{n.replace('_', '-')}:\t{t}" for n, t in figures.items() if isinstance(t, str)),
    ]
    return "".join(f"{line}\n" for line in lines)


def card(
    node: VendorNode, driver: str, ids: tuple[int, int], *, limit: int = 190, counter: int = 0
) -> Path:
    """A discrete card with a counter of energy and 12 GiB."""
    files = {
        f"{HWMON}/name": driver,
        ENERGY: str(counter),
        f"{HWMON}/power1_max": str(limit * 1_000_000),
        "tile0/physical_vram_size_bytes": str(12 * GIB),
    }
    return node.machine.card(0, driver, PCI, ids, files)


@report(
    source="intel/xpumanager#145",
    seen="Firefox is said to hold 7,692 MiB of an Arc A770 of which 3,642 MiB are in use.",
    first="wrong",
    group="vendors",
    kind="a part counts once for each of its holders",
)
def test_what_the_clients_of_one_process_share_counts_once(node: VendorNode) -> None:
    card(node, "xe", A770)
    pid = node.tenant("firefox")
    for number in range(1, 4):
        shown = {"resident_vram0": "2564 MiB", "shared_vram0": "2461 MiB"}
        node.machine.open(pid, 4 + number, xe(number, 1, rcs=0, **shown))
    page = node.run(10)
    assert page.value(MEMORY, pod="firefox") == (3 * 103 + 2461) << 20


@report(
    source="intel/compute-runtime#938",
    seen=(
        "On an idle Arc Pro B70 the counter of energy falls to some 200 J now and then, and comes "
        "back."
    ),
    first="right",
    group="vendors",
)
def test_a_counter_that_dips_and_comes_back_adds_nothing(node: VendorNode) -> None:
    device = card(node, "xe", (0x8086, 0xE223), limit=275)
    most = 0.0
    for second in range(40):
        told = 200 if second == 20 else 22_543_283 + 25 * second
        node.machine.write(device, {ENERGY: str(told * 1_000_000)})
        node.cycle()
        most = max(most, node.page().value("mgpu_device_power_watts") or 0)
    page = node.page()
    assert page.value(JOULES) == pytest.approx(975, abs=60)
    assert most < 300


@report(
    source="Syllo/nvtop#409",
    seen=(
        "An Arc B570 whose critical power is 328 W shows 300 to 4,000 W by its counter, with Linux "
        "6.16."
    ),
    first="wrong",
    group="vendors",
    kind="a bound that the board states is not asked",
)
def test_more_energy_than_the_board_can_take_is_none(node: VendorNode) -> None:
    device = card(node, "xe", (0x8086, 0xE20C), limit=0)
    node.machine.write(device, {f"{HWMON}/power1_crit": "328000000"})
    for second in range(40):
        node.machine.write(device, {ENERGY: str(3868 * second * 1_000_000)})
        node.cycle()
    page = node.page()
    assert not page.value(JOULES)
    assert page.value("mgpu_device_power_watts") is None
    assert page.value("mgpu_device_unmeasured", quantity="energy") == 1


@report(
    source="nokyan/resources#458",
    seen=(
        "With the xe driver a card that computes at full load shows 50 %, the mean of two engines."
    ),
    first="right",
    group="vendors",
)
def test_a_full_compute_engine_is_a_full_core(node: VendorNode) -> None:
    card(node, "xe", B580)
    pid = node.tenant("fluid")
    for second in range(21):
        cycles = second * 19_200_000
        node.machine.open(pid, 5, xe(1, cycles, rcs=0, ccs=cycles, bcs=0, vcs=0))
        node.cycle()
    assert node.page().value(CORE, pod="fluid") == pytest.approx(20, rel=0.1)


@report(
    source="ulissesf/qmassa#20",
    seen="Of an Arc A380 with two video engines the use of one of them is shown.",
    first="right",
    group="vendors",
)
def test_two_video_engines_are_one_decoder(node: VendorNode) -> None:
    card(node, "i915", A380)
    pid = node.tenant("transcode")
    for second in range(21):
        node.machine.open(pid, 5, i915(1, video=second * (SECOND + SECOND // 2)))
        node.cycle()
    decoded = node.page().value("mgpu_container_decoder_seconds_total", pod="transcode")
    assert decoded == pytest.approx(15, rel=0.01)


@report(
    source="htop-dev/htop#2069",
    seen="On Lunar Lake the meter stays at 0 %: xe has cycles, and the tool reads nanoseconds.",
    first="right",
    group="vendors",
)
def test_cycles_are_time(node: VendorNode) -> None:
    node.machine.card(0, "xe", "0000:00:02.0", LUNAR_LAKE)
    pid = node.tenant("desk")
    for second in range(21):
        used, total = second * 6_400_000, second * 19_200_000
        node.machine.open(pid, 5, xe(607, total, "0000:00:02.0", rcs=used, ccs=0))
        node.cycle()
    assert node.page().value(CORE, pod="desk") == pytest.approx(20 / 3, rel=0.1)


@report(
    source="lablup/all-smi#246",
    seen=(
        "Of Intel's cards the use is always 0.0, because its source needs a right that is missing."
    ),
    first="right",
    group="vendors",
)
def test_without_the_right_to_see_clients_nobody_is_idle(tmp_path: Path) -> None:
    node = VendorNode(tmp_path)
    node.proc.put_self("1", "Name:\tx\nNSpid:\t1\n", "pid:[4026532900]")
    card(node, "i915", A770)
    page = node.run(10)
    node.close()
    assert page.value("mgpu_device_utilization_ratio") is None
    assert page.value("mgpu_device_unmeasured", quantity="core", reason="no_hostpid") == 1


@report(
    source="intel/compute-runtime#925",
    seen="Of the GPU in a chip there is no power: the driver has counters for cards only.",
    first="right",
    group="vendors",
)
def test_a_gpu_in_a_chip_has_no_energy_of_its_own(node: VendorNode) -> None:
    node.machine.card(0, "i915", "0000:00:02.0", ALDER_LAKE_N)
    page = node.run(10)
    assert page.value(JOULES) is None
    assert page.value("mgpu_device_unmeasured", quantity="energy", reason="not_supported") == 1
    assert page.value("mgpu_device_memory_total_bytes") is None


@report(
    source="aristocratos/btop#1457",
    seen="A B70 has no file of power, but a counter of energy and a cap; 0.00 W are shown.",
    first="right",
    group="vendors",
)
def test_power_is_what_the_counter_moves_by(node: VendorNode) -> None:
    device = card(node, "xe", (0x8086, 0xE223), limit=0)
    node.machine.write(device, {f"{HWMON}/power1_cap": "275000000"})
    for second in range(11):
        node.machine.write(device, {ENERGY: str(206_330_000 * second)})
        node.cycle()
    page = node.page()
    assert page.value("mgpu_device_power_watts") == pytest.approx(206.33)
    assert page.value("mgpu_device_power_limit_watts") == 275
    assert page.value(JOULES) == pytest.approx(2063.3)


@report(
    source="Syllo/nvtop#414",
    seen="The counter of a B580 cannot be read at first, and is there after an update.",
    first="right",
    group="vendors",
)
def test_a_counter_that_comes_later_is_not_all_spent_at_once(node: VendorNode) -> None:
    device = card(node, "xe", B580)
    (device / ENERGY).unlink()
    (device / ENERGY).mkdir()
    node.run(10)
    (device / ENERGY).rmdir()
    for second in range(11):
        node.machine.write(device, {ENERGY: str((710_520_000 + 40 * second) * 1_000_000)})
        node.cycle()
    assert node.page().value(JOULES) == pytest.approx(400, abs=1)


@report(
    source="strongtz/i915-sriov-dkms#271",
    seen=(
        "On a host with virtual functions each of them is a card, and none has a meter of its own."
    ),
    first="wrong",
    group="vendors",
    kind="a part is counted as a whole",
)
def test_virtual_functions_are_no_further_cards(node: VendorNode) -> None:
    physical = node.machine.card(0, "i915", "0000:00:02.0", ALDER_LAKE_N)
    for number in (1, 2):
        virtual = node.machine.card(number, "i915", f"0000:00:02.{number}", ALDER_LAKE_N)
        (virtual / "physfn").symlink_to(physical)
        (physical / f"virtfn{number - 1}").symlink_to(virtual)
    page = node.run(20)
    free = sum(value for _, value in page.all("mgpu_device_unallocated_gpu_seconds_total"))
    assert free == pytest.approx(20, rel=0.1)


@report(
    source="amd/xdna-driver#324",
    seen="A neural processor has a file like a GPU's, with its engine and its memory at 0.",
    first="right",
    group="vendors",
)
def test_a_neural_processor_is_no_gpu(node: VendorNode) -> None:
    card(node, "xe", B580)
    pid = node.tenant("npu")
    text = "drm-driver:\tamdxdna_accel_driver\ndrm-client-id:\t76\ndrm-pdev:\t0000:c5:00.1\n"
    node.machine.open(pid, 5, f"{text}drm-engine-npu-amdxdna:\t900000000 ns\n", "../accel/accel0")
    page = node.run(10)
    assert len(page.all("mgpu_device_info")) == 1
    assert not page.all(CORE, pod="npu")


@report(
    source="flightlessmango/MangoHud#1936",
    seen="The memory in use of an Arc A750 is always 0.0 GiB.",
    first="right",
    group="vendors",
)
def test_memory_in_use_that_no_file_has_is_absent(node: VendorNode) -> None:
    card(node, "xe", A750)
    pid = node.tenant("game")
    node.machine.open(pid, 5, xe(1, 1, rcs=0, resident_vram0="3 GiB", total_vram0="3072 MiB"))
    page = node.run(10)
    assert page.value("mgpu_device_memory_used_bytes") is None
    assert page.value("mgpu_device_memory_total_bytes") == 12 * GIB
    assert page.value(MEMORY, pod="game") == 3 * GIB


@report(
    source="flightlessmango/MangoHud#877",
    seen=(
        "At full load a client's busy time in i915's fdinfo is now and then behind that of the "
        "read before."
    ),
    first="wrong",
    group="vendors",
    kind="what is told late is cut off",
)
def test_time_that_steps_back_is_counted_once(node: VendorNode) -> None:
    card(node, "i915", A770)
    pid = node.tenant("game")
    for second in range(22):
        back = SECOND + 50_000_000 if second % 3 == 2 else 0
        node.machine.open(pid, 5, i915(1, render=second * SECOND - back))
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="game") == pytest.approx(20, abs=1.1)
    assert (page.value(BUSY) or 0) <= 21


@report(
    source="intel/intel-device-plugins-for-kubernetes#1377",
    seen=(
        "A container that asks for i915: 2 has both GPUs of a Flex 140, although one was meant to "
        "do."
    ),
    first="right",
    group="vendors",
)
def test_two_devices_of_two_cards_are_two_cards(node: VendorNode) -> None:
    for number, pci in enumerate(("0000:03:00.0", "0000:07:00.0")):
        node.machine.card(number, "i915", pci, FLEX_140)
    node.document["status"] = {"allocatable": {"gpu.intel.com/i915": "2"}}
    node.tenant("two", limits={"gpu.intel.com/i915": "2"})
    held = devices("gpu.intel.com/i915", "card0-0", "card1-0")
    node.kubelet.answer = pod_of("two", container("main", held), namespace="default")
    page = node.run(20)
    allocated = page.all("mgpu_container_allocated_gpus", pod="two")
    assert [value for _, value in allocated] == [1, 1]


@report(
    source="intel/intel-device-plugins-for-kubernetes#651",
    seen="A monitor asks for i915_monitoring, which gives it all GPUs and reserves none.",
    first="right",
    group="vendors",
)
def test_a_monitor_holds_no_card(node: VendorNode) -> None:
    node.machine.card(0, "i915", PCI, FLEX_140)
    node.tenant("monitor", limits={"gpu.intel.com/i915_monitoring": "1"})
    held = devices("gpu.intel.com/i915_monitoring", "all")
    node.kubelet.answer = pod_of("monitor", container("main", held), namespace="default")
    page = node.run(20)
    assert not any(value for _, value in page.all("mgpu_container_allocated_gpus"))
    assert page.value("mgpu_device_unallocated_gpu_seconds_total") == pytest.approx(19)


@report(
    source="intel/xpumanager#98",
    seen="Of a Max 1550 at work the utilisation is N/A; its memory is in two tiles.",
    first="right",
    group="vendors",
)
def test_a_card_of_two_tiles_is_measured_by_its_clients(node: VendorNode) -> None:
    files = {"drm/card0/lmem_total_bytes": str(128 * GIB)}
    node.machine.card(0, "i915", PCI, MAX_1550, files)
    pid = node.tenant("train")
    for second in range(21):
        text = I915.format(
            client=1,
            pdev=PCI,
            local_mib=20 * 1024,
            render=0,
            video=0,
            copy=0,
            compute=second * 8 * SECOND,
        )
        text = text.replace("capacity-compute:\t4", "capacity-compute:\t8")
        text += "drm-total-local1:\t10240 MiB\ndrm-resident-local1:\t10240 MiB\n"
        node.machine.open(pid, 5, text)
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="train") == pytest.approx(20, rel=0.02)
    assert page.value(MEMORY, pod="train") == 30 * GIB
    assert page.value("mgpu_device_memory_total_bytes") == 128 * GIB


@report(
    source="Syllo/nvtop#493",
    seen="A B60 with a cap of 200 W and a critical power of 400 W is shown with 400 W.",
    first="right",
    group="vendors",
)
def test_the_limit_of_a_card_is_its_cap(node: VendorNode) -> None:
    device = card(node, "xe", (0x8086, 0xE211))
    (device / f"{HWMON}/power1_max").unlink()
    watts = {f"{HWMON}/power1_cap": "200000000", f"{HWMON}/power1_crit": "400000000"}
    node.machine.write(device, watts)
    page = node.run(3)
    assert page.value("mgpu_device_power_limit_watts") == 200


@report(
    source="Syllo/nvtop#347",
    seen="Of a GPU in a chip the first counter of energy is 0, and its package's moves.",
    first="unknown",
    group="vendors",
    settled="both counters of a Lunar Lake under load: a card's that stays 0 says nothing",
)
def test_a_counter_that_stays_0_is_no_energy(node: VendorNode) -> None:
    device = card(node, "xe", LUNAR_LAKE)
    for second in range(30):
        node.machine.write(device, {f"{HWMON}/energy2_input": str(second * 20_000_000)})
        node.cycle()
    page = node.page()
    assert not page.value(JOULES)
    assert page.value("mgpu_device_unmeasured", quantity="energy") == 1


@report(
    source="SikamikanikoBG/homelab-monitor#247",
    seen="A container that has the device as /dev/gpu0 has neither memory nor use.",
    first="wrong",
    group="vendors",
    kind="identity by a name that others may change",
)
def test_a_device_under_another_name_is_the_same(
    node: VendorNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporter.agent.sources.gpus.drm.descriptors.DRM_MAJOR", 1)
    files = {"tile0/physical_vram_size_bytes": str(12 * GIB)}
    node.machine.card(3, "xe", PCI, B580, files)  # of the number of /dev/null, which is everywhere
    pid = node.tenant("train")
    (node.proc.root / str(pid) / "fd/5").symlink_to("/dev/null")
    for second in range(21):
        cycles = second * 19_200_000
        node.machine.open(pid, 5, xe(1, cycles, ccs=cycles, resident_vram0=str(3 * GIB)))
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="train") == pytest.approx(20, rel=0.1)
    assert page.value(MEMORY, pod="train") == 3 * GIB
