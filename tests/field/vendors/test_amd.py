"""Reports of AMD's boards: amdgpu's and KFD's files, and the tools over them."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.sources.gpus.amd.trees import (
    MI50,
    MI210,
    MI300X,
    RADEON,
    RDNA_3,
    RENOIR,
    TICKS,
    V1_3,
    remove,
    table,
    v1_6,
    v1_9,
)
from tests.agent.sources.node.messages import container, devices
from tests.agent.sources.node.messages import pod as pod_of
from tests.fakenvml.scenario import Gpu
from tests.field.report import report
from tests.field.vendors.boards import (
    BUSY,
    CORE,
    GIB,
    JOULES,
    MEMORY,
    UNATTRIBUTED,
    VendorNode,
)

SECOND = 10**9
MS = 10**6
BC_250 = replace(RADEON, device="0x13fe", gfx=100103, cus=24, table=None)
RAVEN = replace(RENOIR, device="0x15dd", gfx=90002, cus=8)
RDNA_4 = replace(RADEON, device="0x7590", gfx=120000, cus=32)


@report(
    source="MastaG/linux-cachyos-bc250#3",
    seen=(
        "The busy percentage of a BC-250 is 100 for ever, while its clients' engine time stands "
        "still."
    ),
    first="wrong",
    group="vendors",
    kind="believed because it is there",
)
def test_a_percentage_that_is_always_full_while_no_client_works_is_no_use(node: VendorNode) -> None:
    board = node.tree.add(BC_250)
    board.set(gpu_busy_percent=100)
    node.client(node.tenant("desk"), board, gfx=85_964)
    page = node.run(60)
    assert (page.value(BUSY) or 0) < 15
    assert sum(v for _, v in page.all(UNATTRIBUTED)) < 15
    assert page.value(CORE, pod="desk") == 0


@report(
    source="flightlessmango/MangoHud#923",
    seen="The busy percentage of a Raven APU is always 100; its registers show a third of that.",
    first="wrong",
    group="vendors",
    kind="believed because it is there",
)
def test_an_apu_that_always_says_100_is_as_busy_as_its_clients(node: VendorNode) -> None:
    board = node.tree.add(RAVEN)
    board.set(gpu_busy_percent=100)
    pid = node.tenant("desk")
    for second in range(61):
        node.client(pid, board, gfx=second * 300 * MS)
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="desk") == pytest.approx(18, rel=0.05)
    assert (page.value(BUSY) or 0) < 30


@report(
    source="tobocop2/lilbee#675",
    seen=(
        "An RX 9060 XT says 100 % and boosts its clock as long as an idle ROCm process has a queue."
    ),
    first="unknown",
    group="vendors",
    settled=(
        "a count of the time in which KFD's queues of a process had waves; no file of RDNA has it"
    ),
)
def test_an_idle_queue_of_rocm_that_looks_busy_is_charged_to_nobody(node: VendorNode) -> None:
    board = node.tree.add(RDNA_4)
    board.set(gpu_busy_percent=100)
    pid = node.tenant("llama")
    node.tree.run(pid)
    node.tree.use(pid, board.gpu_ids[0], vram=8 * GIB)
    page = node.run(30)
    assert not page.value(CORE, pod="llama")
    assert page.value(MEMORY, pod="llama") == 8 * GIB


@report(
    source="flightlessmango/MangoHud#1998",
    seen="A board's activity is a figure such as 655 %, and was shown as a load.",
    first="wrong",
    group="vendors",
    kind="an impossible figure is cut to a possible one",
)
def test_more_than_100_percent_is_no_percentage(node: VendorNode) -> None:
    board = node.tree.add(RDNA_3)
    board.set(gpu_busy_percent=655, mem_busy_percent=655)
    pid = node.tenant("desk")
    for second in range(21):
        node.client(pid, board, gfx=second * 400 * MS)
        node.cycle()
    page = node.page()
    assert page.value(BUSY) == pytest.approx(8, rel=0.05)
    assert page.value("mgpu_device_memory_active_seconds_total") is None


@report(
    source="flightlessmango/MangoHud#464",
    seen="Reading the busy percentage of a Ryzen 3 2200G is an invalid argument, shown as 0 %.",
    first="wrong",
    group="vendors",
    kind="silence where all is seen",
)
def test_a_percentage_that_cannot_be_read_is_not_0(node: VendorNode) -> None:
    board = node.tree.add(RAVEN)
    (board.folder / "gpu_busy_percent").unlink()
    (board.folder / "gpu_busy_percent").mkdir()
    pid = node.tenant("desk")
    for second in range(11):
        node.client(pid, board, gfx=second * 250 * MS)
        node.cycle()
    page = node.page()
    assert page.value(BUSY) == pytest.approx(2.5, rel=0.05)
    assert page.value(CORE, pod="desk") == pytest.approx(2.5, rel=0.05)


@report(
    source="marazmista/radeon-profile#70",
    seen="An RX 580 says 0 % at light work that the driver's own counters show to be 28 %.",
    first="right",
    group="vendors",
)
def test_a_device_is_never_less_busy_than_its_clients(node: VendorNode) -> None:
    board = node.tree.add(RADEON)
    pid = node.tenant("desk")
    for second in range(11):
        node.client(pid, board, gfx=second * 280 * MS)
        node.cycle()
    page = node.page()
    assert page.value(BUSY) == pytest.approx(2.8)
    assert page.value(CORE, pod="desk") == pytest.approx(2.8)


@report(
    source="ROCm/device-metrics-exporter#495",
    seen=(
        "Of an MI355X in DPX only partition 0 has series, so half of the logical GPUs are missing."
    ),
    first="right",
    group="vendors",
)
def test_each_partition_of_dpx_is_there(node: VendorNode) -> None:
    board = node.tree.add(replace(MI300X, device="0x75a3", gfx=90500, cus=256), parts=2)
    board.metrics(v1_6(TICKS, [[0] * 4, [50] * 4]))
    node.cycle()
    page = node.run(10)
    parts = [f"{board.uuid}-{n}" for n in (0, 1)]
    assert [page.value(BUSY, uuid=uuid) for uuid in parts] == [0, pytest.approx(2.5)]
    assert [page.value("mgpu_device_memory_total_bytes", uuid=uuid) for uuid in parts] == [
        96 * GIB,
        96 * GIB,
    ]


@report(
    source="ROCm/amdsmi#134",
    seen=(
        "With ROCm 7.0.2 the second partition of DPX has another format, and N/A for its activity."
    ),
    first="right",
    group="vendors",
)
def test_the_second_partition_has_its_half_of_the_dies(node: VendorNode) -> None:
    board = node.tree.add(MI300X, parts=2)
    board.metrics(v1_9(TICKS, [80, 80, 80, 80, 20, 20, 20, 20]))
    node.cycle()
    page = node.run(10)
    busy = [page.value(BUSY, uuid=f"{board.uuid}-{n}") for n in (0, 1)]
    assert busy == [pytest.approx(4.0), pytest.approx(1.0)]


@report(
    source="ROCm/device-metrics-exporter#139",
    seen="In a virtual machine with one MI300X the activity is 13 %, where AMD's own tools say 0.",
    first="right",
    group="vendors",
)
def test_the_activity_of_one_die_is_not_that_of_the_board(node: VendorNode) -> None:
    board = node.tree.add(MI300X)
    board.metrics(v1_6(TICKS, [[100, 0, 0, 0, 0, 0, 0, 0]]))
    node.cycle()
    assert node.run(10).value(BUSY, uuid=board.uuid) == 0


@report(
    source="ROCm/TheRock#1878",
    seen="A process on an APU holds 16.0 EB, a counter that went below 0.",
    first="right",
    group="vendors",
)
def test_memory_below_0_is_not_known_and_costs_no_other(node: VendorNode) -> None:
    board = node.tree.add(MI210)
    board.set(mem_info_vram_used=8 * GIB)
    broken, whole = node.tenant("broken"), node.tenant("whole")
    for pid, size in ((broken, 2**64 - 4096), (whole, 3 * GIB)):
        node.tree.run(pid)
        node.tree.use(pid, board.gpu_ids[0], vram=size, cus=1)
    page = node.run(10)
    assert page.value(MEMORY, pod="broken") is None
    assert page.value(MEMORY, pod="whole") == 3 * GIB
    assert page.value("mgpu_device_memory_used_bytes") == 8 * GIB


@report(
    source="ROCm/legacy-rocm-build#3002",
    seen="Processes whose container has one of four GPUs are UNKNOWN in rocm-smi --showpids.",
    first="right",
    group="vendors",
)
def test_a_process_with_files_for_one_gpu_only_is_on_that_one(node: VendorNode) -> None:
    boards = [node.tree.add(MI210) for _ in range(4)]
    pid = node.tenant("one")
    node.tree.use(pid, boards[2].gpu_ids[0], vram=2 * GIB, cus=52)
    boards[2].set(gpu_busy_percent=100)
    node.cycle()
    page = node.run(10)
    assert page.all(MEMORY, pod="one") == [
        ({**page.all(MEMORY, pod="one")[0][0], "uuid": boards[2].uuid}, 2 * GIB)
    ]
    assert page.value(CORE, pod="one") == pytest.approx(10, rel=0.05)


@report(
    source="ROCm/rocm-systems#8396",
    seen="A process was listed under each GPU of the machine, not under the ones that it uses.",
    first="right",
    group="vendors",
)
def test_a_process_is_on_the_gpus_that_it_uses(node: VendorNode) -> None:
    first, second = node.tree.add(MI210), node.tree.add(MI210)
    pid = node.tenant("one")
    node.tree.run(pid)
    node.tree.use(pid, second.gpu_ids[0], vram=GIB, cus=3)
    page = node.run(10)
    assert [own["uuid"] for own, _ in page.all("mgpu_container_processes", pod="one")] == [
        second.uuid
    ]
    assert first.uuid != second.uuid


@report(
    source="ROCm/rocm-systems#3752",
    seen=(
        "In a container with a PID namespace of its own no process is found: KFD's pids are the "
        "host's."
    ),
    first="right",
    group="vendors",
)
def test_pids_of_another_namespace_are_nobodys_and_it_is_said(tmp_path: Path) -> None:
    node = VendorNode(tmp_path)
    node.proc.put_self("1", "Name:\tx\nNSpid:\t1\n", "pid:[4026532900]")
    board = node.tree.add(MI210)
    board.set(gpu_busy_percent=100, mem_info_vram_used=4 * GIB)
    node.tree.run(4711)
    node.tree.use(4711, board.gpu_ids[0], vram=4 * GIB, cus=104)
    node.cycle()
    page = node.run(10)
    node.close()
    lost = {own["reason"]: v for own, v in page.all(UNATTRIBUTED, uuid=board.uuid) if v}
    assert sum(lost.values()) == pytest.approx(10, rel=0.05)
    assert not page.all(CORE)


@report(
    source="flightlessmango/MangoHud#1202",
    seen="Since Linux 6.6 an RX 580 has its power as power1_input only, and 0 W was shown.",
    first="right",
    group="vendors",
)
def test_power_is_read_under_either_name(node: VendorNode) -> None:
    board = node.tree.add(RADEON)
    hwmon = next((board.folder / "hwmon").iterdir())
    (hwmon / "power1_average").unlink()
    board.hwmon(power1_input=57_000_000)
    page = node.run(11)
    assert page.value("mgpu_device_power_watts") == 57
    assert page.value(JOULES) == pytest.approx(570, rel=0.05)


@report(
    source="preda/gpuowl#167",
    seen=(
        "Of a chip's own GPU and two Radeon VII the first has no unique_id, and the ids move up by "
        "one."
    ),
    first="right",
    group="vendors",
)
def test_a_card_without_a_unique_id_takes_no_others(node: VendorNode) -> None:
    bare, first, second = (node.tree.add(kind) for kind in (RADEON, MI50, MI50))
    page = node.run(3)
    uuids = {own["gpu"]: own["uuid"] for own, _ in page.all("mgpu_device_info")}
    assert uuids == {"100": f"AMD-{bare.pci}", "101": first.uuid, "102": second.uuid}


@report(
    source="ROCm/legacy-rocm-build#4469",
    seen="Unplugging an external card makes the one that stays unusable for its tools.",
    first="right",
    group="vendors",
)
def test_a_card_that_is_unplugged_costs_no_other(node: VendorNode) -> None:
    stays, goes = node.tree.add(RDNA_3), node.tree.add(RDNA_3)
    pid = node.tenant("desk")
    for second in range(31):
        if second == 10:
            remove(goes.folder)
            (node.sys / "class/drm/card3/device").unlink()
            (node.sys / "class/drm/card3").rmdir()
        node.client(pid, stays, gfx=second * 500 * MS)
        node.cycle()
    page = node.page()
    assert page.value("mgpu_device_up", uuid=stays.uuid) == 1
    assert page.value("mgpu_device_up", uuid=goes.uuid) in (0, None)
    assert page.value(CORE, pod="desk") == pytest.approx(15, rel=0.07)


@report(
    source="ROCm/legacy-rocm-build#3866",
    seen="After an external card was unplugged and plugged in again, rocm-smi lists two cards.",
    first="right",
    group="vendors",
)
def test_a_card_that_is_plugged_in_again_is_the_same_one(node: VendorNode) -> None:
    board = node.tree.add(MI50)
    node.run(5)
    away = board.folder.with_name("away")
    board.folder.rename(away)
    node.run(15)
    away.rename(board.folder)
    page = node.run(35)
    assert [own["uuid"] for own, _ in page.all("mgpu_device_info")] == [board.uuid]
    assert page.value("mgpu_device_up", uuid=board.uuid) == 1


@report(
    source="ROCm/rocm-systems#8263",
    seen="On idle MI325X cards 46 of 256 GiB stay taken, and no process holds them.",
    first="right",
    group="vendors",
)
def test_memory_that_no_process_holds_is_nobodys(node: VendorNode) -> None:
    board = node.tree.add(MI300X)
    board.set(mem_info_vram_used=46 * GIB)
    page = node.run(10)
    assert page.value("mgpu_device_memory_used_bytes") == 46 * GIB
    lost = page.all("mgpu_device_unattributed_memory_bytes")
    assert sum(value for _, value in lost) == 46 * GIB


@report(
    source="ROCm/amdgpu#223",
    seen="KFD says that memory is free which a game holds, so a model was loaded that did not fit.",
    first="right",
    group="vendors",
)
def test_memory_of_a_game_is_in_use_beside_rocms(node: VendorNode) -> None:
    board = node.tree.add(RDNA_3)
    board.set(mem_info_vram_used=12 * GIB)
    game, model = node.tenant("game"), node.tenant("model")
    node.client(game, board, vram=7 * GIB, gfx=1)
    node.tree.run(model)
    node.tree.use(model, board.gpu_ids[0], vram=5 * GIB)
    page = node.run(10)
    assert page.value("mgpu_device_memory_used_bytes") == 12 * GIB
    assert [page.value(MEMORY, pod=pod) for pod in ("game", "model")] == [7 * GIB, 5 * GIB]


@report(
    source="ROCm/device-metrics-exporter#315",
    seen="After two days the power of a virtual MI350X is no longer reported, on one node of two.",
    first="right",
    group="vendors",
)
def test_power_that_vanishes_is_unmeasured_and_energy_goes_on(node: VendorNode) -> None:
    board = node.tree.add(MI300X)
    for second in range(40):
        board.metrics(v1_6(second * 100 * TICKS))
        if second == 15:
            next((board.folder / "hwmon").iterdir()).joinpath("power1_average").unlink()
        node.cycle()
    page = node.page()
    assert page.value(JOULES, uuid=board.uuid) == pytest.approx(3900, rel=0.02)
    assert page.value("mgpu_device_power_watts", uuid=board.uuid) is None
    assert page.value("mgpu_device_unmeasured", uuid=board.uuid, quantity="power") == 1


@report(
    source="ROCm/rocm-systems#6931",
    seen="An MI350X under load shows 2,112 °C: its firmware writes the table while it is read.",
    first="right",
    group="vendors",
)
def test_a_torn_table_adds_no_energy(node: VendorNode) -> None:
    board = node.tree.add(MI300X)
    for second in range(40):
        torn = (1 << 40) if second == 20 else 0
        board.metrics(v1_6(second * 100 * TICKS + torn))
        node.cycle()
    page = node.page()
    assert page.value(JOULES, uuid=board.uuid) == pytest.approx(3800, abs=200)


@report(
    source="flightlessmango/MangoHud#2070",
    seen=(
        "A Van Gogh APU answers now and then with a table of zeros, and its power falls to nothing."
    ),
    first="wrong",
    group="vendors",
    kind="no answer looks like another format",
)
def test_a_table_of_zeros_is_no_other_format(
    node: VendorNode, caplog: pytest.LogCaptureFixture
) -> None:
    board = node.tree.add(MI210)
    for second in range(20):
        whole = table(V1_3, {16: ("H", 0), 18: ("H", 0), 24: ("Q", second * 100 * TICKS)})
        board.metrics(whole if second % 4 else bytes(120))
        node.cycle()
    page = node.page()
    assert page.value(JOULES, uuid=board.uuid) == pytest.approx(1900, rel=0.06)
    assert "is not known" not in caplog.text


@report(
    source="benjamimgois/goverlay#353",
    seen="On an MI50 the table of metrics has zeros and nonsense where hwmon is right.",
    first="right",
    group="vendors",
)
def test_hwmon_goes_before_the_table(node: VendorNode) -> None:
    board = node.tree.add(MI50)
    board.set(gpu_busy_percent=30)
    board.metrics(table(V1_3, {16: ("H", 0), 18: ("H", 999), 24: ("Q", 0)}))
    node.cycle()
    page = node.run(40)
    assert page.value(BUSY) == pytest.approx(12)
    assert page.value("mgpu_device_power_watts") == 100
    assert page.value(JOULES) == pytest.approx(4000, rel=0.1)


@report(
    source="Umio-Yasuno/libdrm-amdgpu-sys-rs#7",
    seen=(
        "The table of a Navi 31 says throttled by its hot spot nearly always, also when it is idle "
        "and cold."
    ),
    first="right",
    group="vendors",
)
def test_a_radeon_says_nothing_of_throttling(node: VendorNode) -> None:
    board = node.tree.add(RDNA_3)
    board.metrics(table(V1_3, {72: ("I", 1 << 6), 112: ("Q", 1 << 36)}))
    page = node.run(10)
    assert not page.all("mgpu_device_throttle_seconds_total")
    assert page.value("mgpu_device_unmeasured", quantity="throttle") == 1


@report(
    source="lm-sensors/lm-sensors#349",
    seen="Since Linux 5.6 reading the sensors wakes a laptop's second GPU and keeps it awake.",
    first="right",
    group="vendors",
)
def test_of_a_card_that_sleeps_no_sensor_is_read(node: VendorNode) -> None:
    board = node.tree.add(RDNA_3)
    board.may_sleep("suspended")
    before = {path: path.stat().st_atime_ns for path in board.folder.rglob("*_input")}
    page = node.run(10)
    assert page.value("mgpu_device_power_watts") is None
    assert page.value("mgpu_device_unmeasured", quantity="power", reason="asleep") == 1
    assert page.value(BUSY) == 0
    assert {path: path.stat().st_atime_ns for path in before} == before


@report(
    source="Syllo/nvtop#209",
    seen="With two AMD cards the processes of the second are shown on the first, with 0 or 2 MiB.",
    first="right",
    group="vendors",
)
def test_a_client_is_on_the_card_that_it_has_open(node: VendorNode) -> None:
    first, second = node.tree.add(RDNA_3), node.tree.add(RDNA_3)
    pid = node.tenant("render")
    for each in range(11):
        node.client(pid, second, gfx=each * 500 * MS, vram=6 * GIB)
        node.cycle()
    page = node.page()
    assert page.value(MEMORY, pod="render", uuid=second.uuid) == 6 * GIB
    assert not page.value(BUSY, uuid=first.uuid)


@report(
    source="Umio-Yasuno/amdgpu_top#7",
    seen=(
        "A file that systemd, the desktop and a streaming server share counts for the first of "
        "them."
    ),
    first="right",
    group="vendors",
)
def test_a_shared_file_is_the_youngest_processes_and_counts_once(node: VendorNode) -> None:
    board = node.tree.add(RDNA_3)
    old = node.process("init.scope", pid=1001, start=100)
    young = node.tenant("stream")
    for each in range(11):
        for pid in (old, young):
            node.client(pid, board, number=9, gfx=each * 500 * MS, vram=GIB)
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="stream") == pytest.approx(5)
    assert page.value(BUSY) == pytest.approx(5)
    assert sum(v for _, v in page.all("mgpu_device_unattributed_memory_bytes")) == 0


@report(
    source="ROCm/gpu-operator#382",
    seen="On a node in CPX the plugin still calls its 63 partitions amd.com/spx_nps1.",
    first="right",
    group="vendors",
)
def test_a_partition_that_is_called_a_whole_card_is_an_eighth(node: VendorNode) -> None:
    board = node.tree.add(MI300X, parts=8)
    node.tenant("job", limits={"amd.com/spx_nps1": "1"})
    own = node.tree.partition(board, 3).name
    node.kubelet.answer = pod_of(
        "job", container("main", devices("amd.com/spx_nps1", own)), namespace="default"
    )
    page = node.run(20)
    assert page.value("mgpu_container_allocated_gpus", pod="job") == pytest.approx(1 / 8)


@report(
    source="ROCm/rocm-systems#2554",
    seen="A process with a second context of KFD shows the memory of one of them.",
    first="right",
    group="vendors",
)
def test_the_contexts_of_a_process_are_added(node: VendorNode) -> None:
    board = node.tree.add(MI210)
    pid = node.tenant("two")
    for name, size in ((f"{pid}", 3 * GIB), (f"pid:{pid}-id:1", 2 * GIB)):
        node.tree.run(pid, name)
        node.tree.use(pid, board.gpu_ids[0], vram=size, cus=1, name=name)
    assert node.run(10).value(MEMORY, pod="two") == 5 * GIB


@report(
    source="ROCm/rocm-systems#4052",
    seen="Where there is no figure of occupied units, amd-smi shows 0 %.",
    first="right",
    group="vendors",
)
def test_a_missing_occupancy_is_not_0(node: VendorNode) -> None:
    board = node.tree.add(replace(RDNA_3, occupancy=False))
    board.set(gpu_busy_percent=90)
    pid = node.tenant("rocm")
    node.tree.run(pid)
    node.tree.use(pid, board.gpu_ids[0], vram=GIB)
    page = node.run(10)
    assert page.value("mgpu_container_core_utilization_ratio", pod="rocm") is None
    assert page.value("mgpu_container_unmeasured", pod="rocm", quantity="core") == 1


@report(
    source="Syllo/nvtop#300",
    seen="nvtop ends on an MI250, which has no hwmon there.",
    first="right",
    group="vendors",
)
def test_a_card_without_hwmon_has_all_the_rest(node: VendorNode) -> None:
    board = node.tree.add(MI210)
    remove(board.folder / "hwmon")
    board.set(gpu_busy_percent=50)
    node.cycle()
    page = node.run(10)
    assert page.value(BUSY, uuid=board.uuid) == pytest.approx(5)
    assert page.value("mgpu_device_unmeasured", quantity="power") == 1


@report(
    source="ROCm/device-metrics-exporter#233",
    seen="The UUID of a virtual MI300X is all zeros, and its partition is 4,294,967,295.",
    first="right",
    group="vendors",
)
def test_boards_whose_ids_are_zero_are_told_apart(node: VendorNode) -> None:
    virtual = replace(MI300X, device="0x74b5", partitionable=False)
    first, second = node.tree.add(virtual), node.tree.add(virtual)
    for board in (first, second):
        board.set(unique_id=0)
    pid = node.tenant("train")
    node.tree.run(pid)
    node.tree.use(pid, second.gpu_ids[0], vram=8 * GIB)
    page = node.run(5)
    found = {own["uuid"]: own["pci_bus_id"] for own, _ in page.all("mgpu_device_info")}
    assert sorted(found.values()) == [first.pci, second.pci]
    [(held, _)] = page.all(MEMORY)
    assert found[held["uuid"]] == second.pci


@report(
    source="ROCm/device-metrics-exporter#160, #135",
    seen="The activity in the table of metrics is 0 while the board is at 100 %.",
    first="right",
    group="vendors",
)
def test_a_board_at_work_is_busy_whatever_another_file_says(node: VendorNode) -> None:
    board = node.tree.add(MI210)
    board.metrics(table(V1_3, {16: ("H", 0)}))  # average_gfx_activity
    board.set(gpu_busy_percent=100)
    pid = node.tenant("train")
    node.tree.run(pid)
    node.tree.use(pid, board.gpu_ids[0], vram=8 * GIB, cus=104)
    page = node.run(10)
    assert page.value(BUSY) == page.value(CORE, pod="train") == 9


@report(
    source="Syllo/nvtop#146",
    seen="Of a Tahiti the use of processes is known, and the board's is N/A.",
    first="right",
    group="vendors",
)
def test_without_a_percentage_a_board_is_as_busy_as_its_clients(node: VendorNode) -> None:
    board = node.tree.add(replace(RADEON, device="0x6798", gfx=60000, table=None))
    (board.folder / "gpu_busy_percent").unlink()
    pid = node.tenant("desk")
    for second in range(20):
        node.client(pid, board, gfx=second * 300 * MS, vram=GIB)
        node.cycle()
    page = node.page()
    assert page.value(CORE, pod="desk") == pytest.approx(5.7)
    assert page.value(BUSY) == pytest.approx(5.7)


@report(
    source="ROCm/k8s-device-plugin#189",
    seen="Cards are to be offered in slices, whose ids the kubelet has and no card.",
    first="wrong",
    group="vendors",
    kind="unknown counted as whole",
)
def test_slices_of_a_plugin_that_is_not_known_are_no_whole_cards(node: VendorNode) -> None:
    board = node.tree.add(RDNA_3)
    for number in range(2):
        node.tenant(f"p-{number}", limits={"amd.com/gpu": "1"})
    node.kubelet.answer = b"".join(
        pod_of(
            f"p-{number}",
            container("main", devices("amd.com/gpu", f"{board.pci}-slice-{number}")),
            namespace="default",
        )
        for number in range(2)
    )
    page = node.run(5)
    assert page.all("mgpu_container_allocated_gpus") == []
    assert page.value("mgpu_device_overcommitted_gpu_seconds_total") == 0


@report(
    source="NordicHPC/sonar#407",
    seen="Two makers' cards on one node have the same index.",
    first="right",
    group="vendors",
)
def test_cards_of_two_makers_have_numbers_of_their_own(node: VendorNode) -> None:
    node.driver.gpus = [Gpu(0), Gpu(1)]
    node.tree.add(RDNA_3)
    page = node.run(3)
    numbers = [own["gpu"] for own, _ in page.all("mgpu_device_info")]
    assert len(set(numbers)) == len(numbers) == 3
