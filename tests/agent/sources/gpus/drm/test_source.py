"""The DRM source over composed trees: every figure is the arithmetic of what the kernel says."""

import errno
import os
from pathlib import Path

import pytest

from exporter.agent.sources.gpus.drm.drmsource import DrmSource
from exporter.agent.sources.gpus.drm.holders import MAX_OF_ONE
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import (
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    ProcessMemory,
    Unmeasured,
)
from tests.agent.sources.gpus.drm.machine import Machine, i915, only
from tests.agent.sources.gpus.known import known
from tests.doors.outside import LINK, READ, Fault, Kind, Outside

PCI = "0000:03:00.0"
MIB = 1024**2
MS = 10**6
SECOND = 10**9
NOBODY: frozenset[str] = frozenset()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def begun(machine: Machine, *texts: str, driver: str = "i915", **more: object) -> DrmSource:
    """A source that has read a card once, of which process 42 has these clients."""
    ids = (0x1002, 0x744C) if driver == "amdgpu" else (0x8086, 0x56A0)
    machine.card(0, driver, PCI, ids)
    machine.process(42)
    show(machine, *texts)
    source = machine.source(**more)
    source.read()
    return source


def show(machine: Machine, *texts: str) -> None:
    """Let process 42 have these clients."""
    for descriptor, text in enumerate(texts, 5):
        machine.open(42, descriptor, text)


def step(machine: Machine, source: DrmSource, seconds: float = 1.0) -> DeviceReading:
    machine.clock.move(seconds)
    return only(source.read())


def held(reading: DeviceReading) -> dict[int, int | None]:
    return {process.pid: process.used_bytes for process in known(reading.memory).processes or ()}


def core(reading: DeviceReading) -> dict[int, int | None]:
    return {process.pid: process.busy.core for process in known(reading.window).processes}


@pytest.mark.parametrize(
    ("number", "driver", "pci", "ids", "files", "facts"),
    [
        (
            *(0, "xe", PCI, (0x8086, 0xE20B), {"tile0/physical_vram_size_bytes": "12884901888"}),
            (f"DRM-{PCI}", 200, "intel", "Intel Arc B580", "xe 6.12.0", 12 << 30),
        ),
        (
            *(1, "amdgpu", PCI, (0x1002, 0x7448)),
            {"product_name": "AMD Radeon\x1b" + "x" * 99, "mem_info_vram_total": "51539607552"},
            (f"DRM-{PCI}", 101, "amd", "AMD Radeon?" + "x" * 53, "amdgpu 6.12.0", 48 << 30),
        ),
        (
            *(0, "nouveau", PCI, (0x10DE, 0x1B81), {}),  # no number of one of NVML's
            (f"DRM-{PCI}", 300, "nvidia", "10de:1b81", "nouveau 6.12.0", None),
        ),
        (0, "v3d", "", (0, 0), {}, ("DRM-0.gpu", 300, "broadcom", "", "v3d 6.12.0", None)),
    ],
)
def test_the_device_is_as_sysfs_describes_it(
    machine: Machine,
    number: int,
    driver: str,
    pci: str,
    ids: tuple[int, int],
    files: dict[str, str],
    facts: tuple[object, ...],
) -> None:
    machine.card(number, driver, pci, ids, files)

    device = only(machine.source().read()).device

    assert (device.minor, device.pci_bus_id) == (number, pci)
    assert facts == (
        *(device.uuid, device.index, device.vendor, device.model),
        *(device.driver_version, device.memory_bytes),
    )


@pytest.mark.parametrize("driver", ["ast", "mgag200", "simpledrm", "vkms", "nvidia-drm"])
def test_what_only_shows_is_no_device_and_what_is_not_known_is_if_asked_for(
    machine: Machine, driver: str
) -> None:
    machine.card(0, driver, PCI, render=False)

    assert machine.source().read().devices == ()
    assert machine.source(any_driver=True).read().devices == ()
    machine.card(1, "unheard-of", "0000:04:00.0")
    assert machine.source().read().devices == ()
    assert only(machine.source(any_driver=True).read()).device.index == 201


def test_devices_that_another_source_has_are_left_to_it(machine: Machine) -> None:
    theirs: set[str] = set()
    machine.card(1, "i915", "0000:00:02.0")
    source = begun(machine, driver="amdgpu", taken=lambda: theirs)
    assert len(source.read().devices) == 2

    theirs.add(PCI)

    assert step(machine, source, 10).device.pci_bus_id == "0000:00:02.0"


def test_i915_render_and_compute_are_core_time_over_their_capacity(machine: Machine) -> None:
    source = begun(machine, i915(7, render=10**12))
    render = 10**12 + 100 * MS
    show(machine, i915(7, render=render, compute=800 * MS, video=60 * MS, copy=SECOND))

    window = known(step(machine, source).window)

    assert window.end_unix_ns - window.start_unix_ns == window.observed_ns == SECOND
    assert window.busy == Engines(core=300 * MS, decoder=30 * MS)
    assert window.counted == {"copy": {42: SECOND}}
    assert [(p.pid, p.busy) for p in window.processes] == [(42, window.busy)]
    assert window.methods == Methods("fdinfo", "fdinfo", "none")


def test_a_client_counts_once_however_many_descriptors_and_processes_have_it(
    machine: Machine,
) -> None:
    source = begun(machine)
    machine.process(43, 2000)
    text = i915(7, render=400 * MS)
    show(machine, text)
    machine.open(42, 6, text, "card0")
    machine.open(43, 9, text)

    reading = step(machine, source)
    machine.end(43)
    show(machine, *2 * [i915(7, render=550 * MS)])

    assert known(reading.window).busy.core == 400 * MS
    assert core(reading) == {43: 400 * MS}  # the youngest: whoever handed it on was there before
    assert known(reading.memory).processes == (ProcessMemory(43, 16 * MIB, NOBODY),)
    assert core(step(machine, source)) == {42: 150 * MS}


def test_what_a_client_used_until_the_last_look_stays_when_it_is_closed(machine: Machine) -> None:
    source, total = begun(machine), 0
    for client in range(5):  # each opened, seen twice at work, and closed
        for render in (100, 250):
            show(machine, i915(client, render=render))
            total += core(step(machine, source)).get(42) or 0
        machine.close(42, 5)

    assert total == 5 * 250
    window = known(step(machine, source).window)
    assert (window.busy.core, window.processes) == (0, ())


def test_one_descriptor_of_each_client_is_read_until_the_processes_are_looked_through_again(
    machine: Machine,
) -> None:
    source = begun(machine, i915(7), i915(7))
    source.follow(Demand(deadline_s=30, processes_every_ns=5 * SECOND))
    show(machine, i915(8, render=4), i915(7, render=3))  # its number was taken by another client

    assert core(step(machine, source)) == {42: 3}
    assert core(step(machine, source, 5)) == {42: 4}


def test_the_device_is_never_busier_than_the_time_that_went_by(machine: Machine) -> None:
    source = begun(machine, i915(7), i915(8))
    show(machine, i915(7, render=900 * MS), i915(8, render=900 * MS))

    assert known(step(machine, source).window).busy.core == SECOND


@pytest.mark.parametrize(
    ("files", "total", "used", "of_42"),
    [
        ({"hwmon/hwmon3/in1_label": "vddnb"}, 2560, 700, 500),  # an APU: its memory is its host's
        ({}, 512, 100, 100),
        ({"mem_info_vram_total": "0", "mem_info_vram_used": "0"}, None, None, 100),  # an MI300A
    ],
)
def test_what_amdgpu_has_in_gtt_is_memory_of_an_apu(
    machine: Machine,
    files: dict[str, str],
    total: int | None,
    used: int | None,
    of_42: int,
) -> None:
    mib = {"vram_total": 512, "vram_used": 100, "gtt_total": 2048, "gtt_used": 600}
    sizes = {f"mem_info_{name}": str(size * MIB) for name, size in mib.items()}
    machine.card(
        0, "amdgpu", PCI, (0x1002, 0x1586), {"hwmon/hwmon3/name": "amdgpu", **sizes, **files}
    )
    machine.process(42)
    head = f"drm-driver:\tamdgpu\ndrm-client-id:\t4\ndrm-pdev:\t{PCI}\n"
    show(machine, f"{head}drm-memory-vram:\t102400 KiB\ndrm-memory-gtt:\t409600 KiB\n")
    source = machine.source()
    source.read()

    memory = known(step(machine, source).memory)

    assert (memory.total_bytes, memory.used_bytes) == (
        total and total * MIB,
        used and used * MIB,
    )
    assert [p.used_bytes for p in known(memory.processes)] == [of_42 * MIB]


def test_amdgpu_lists_an_engine_once_it_is_used(machine: Machine) -> None:
    head = f"drm-driver:\tamdgpu\ndrm-client-id:\t4\ndrm-pdev:\t{PCI}\npasid:\t32771\n"
    memory = "drm-memory-vram:\t44564 KiB\ndrm-memory-gtt: \t2392 KiB\ndrm-shared-vram:\t8 KiB\n"
    source = begun(machine, head + memory, driver="amdgpu")
    machine.write(machine.sys / f"devices/pci0000:00/{PCI}", {"mem_info_vram_used": str(900 * MIB)})
    show(machine, head + memory + "drm-engine-gfx:\t70 ns\ndrm-engine-enc:\t9 ns\n")

    reading = step(machine, source)

    assert known(reading.window).busy == Engines(core=70, encoder=9, decoder=0)
    assert known(reading.memory).used_bytes == 900 * MIB
    assert held(reading) == {42: 44564 * 1024}


def test_a_device_that_kfd_works_on_does_not_look_idle(machine: Machine) -> None:
    """ROCm's queues are not counted in fdinfo: until its process closes the device, unknown."""
    text = f"drm-driver:\tamdgpu\ndrm-client-id:\t{{0}}\ndrm-pdev:\t{PCI}\n"
    text += "drm-engine-gfx:\t{0} ns\ndrm-engine-dec:\t{0} ns\n"
    source = begun(machine, text.format(42), driver="amdgpu", computing=lambda: {43})
    machine.process(43)
    machine.open(43, 5, text.format(43))

    beside = step(machine, source)
    machine.end(43)
    alone = step(machine, source)

    assert beside.unmeasured["core"] is Unmeasured.NOT_SUPPORTED
    assert known(beside.window).busy == Engines(encoder=0, decoder=43)
    assert "core" not in alone.unmeasured
    assert known(alone.window).busy.core == 0


@pytest.mark.parametrize("engines", ["", "drm-cycles-render:\t5\ndrm-maxfreq-render:\t800 MHz\n"])
def test_what_a_driver_does_not_tell_is_not_measured(machine: Machine, engines: str) -> None:
    """A device without memory of its own, and without engines or with cycles of no known clock.

    Before generation 8, i915 lists no engine.
    """
    text = f"drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t{PCI}\n{engines}"
    source = begun(machine, text + "drm-resident-system0:\t4096 KiB\n")

    reading = step(machine, source)

    memory = known(reading.memory)
    assert (memory.total_bytes, memory.used_bytes) == (None, None)
    assert memory.processes == (ProcessMemory(42, None, NOBODY),)
    assert reading.unmeasured["memory"] is Unmeasured.NOT_SUPPORTED
    assert reading.unmeasured["core"] is Unmeasured.NOT_SUPPORTED
    assert known(reading.window).busy == Engines()


@pytest.mark.parametrize(("bits", "measured"), [("0", False), ("1", True), ("", False)])
def test_panfrost_counts_only_where_its_profiling_is_on(
    machine: Machine, bits: str, *, measured: bool
) -> None:
    machine.card(0, "panfrost", files={"profiling": bits} if bits else {})
    machine.process(42)
    text = "drm-driver:\tpanfrost\ndrm-client-id:\t14\ndrm-engine-fragment:\t{} ns\n"
    show(machine, text.format(5))
    source = machine.source()
    source.read()
    show(machine, text.format(9))

    reading = step(machine, source)

    assert known(reading.window).busy.core == (4 if measured else None)
    assert ("core" in reading.unmeasured) is not measured


def test_profiling_that_cannot_be_read_is_no_driver_without_it(machine: Machine) -> None:
    device = machine.card(0, "panfrost", files={"profiling": "1"})
    machine.process(42)
    show(machine, "drm-driver:\tpanfrost\ndrm-client-id:\t14\ndrm-engine-fragment:\t5 ns\n")
    source = machine.source()
    source.read()
    machine.write(device, {"profiling": "?"})

    assert step(machine, source).unmeasured["core"] is Unmeasured.READ_FAILED


def test_a_foreign_address_in_fdinfo_is_not_counted(machine: Machine) -> None:
    source = begun(machine)
    show(machine, i915(7, render=100, pdev="0000:99:00.0"))

    assert core(step(machine, source)) == {}


def test_what_happened_while_it_was_released_is_unobserved(machine: Machine) -> None:
    source = begun(machine, i915(7, render=100))
    source.release(True)
    released = step(machine, source, 60)
    show(machine, i915(7, render=5_000))
    source.release(False)

    again = step(machine, source, 1)
    show(machine, i915(7, render=5_007))

    assert released.state is DeviceState.RELEASED
    window = known(again.window)
    assert (window.observed_ns, window.unobserved_ns) == (0, 61 * SECOND)
    assert window.busy.core == 0
    assert core(step(machine, source, 1)) == {42: 7}


def test_without_devices_it_is_down_and_one_that_comes_brings_it_up(machine: Machine) -> None:
    source = machine.source()
    before = source.read().status
    machine.card(0, "i915", PCI)
    machine.clock.move(10)

    assert (before.up, source.read().status.up) == (False, True)
    assert before.detail.startswith("no device of a DRM driver")


def test_the_processes_are_looked_through_at_their_own_cadence(machine: Machine) -> None:
    source = begun(machine)
    source.follow(Demand(deadline_s=30, processes_every_ns=5 * SECOND))
    show(machine, i915(7, render=SECOND))

    found = [core(step(machine, source)) for _ in range(6)]

    assert found == [{}, {}, {}, {}, {42: SECOND}, {}]


def crowd(machine: Machine, pid: int, number: int = MAX_OF_ONE + 1) -> None:
    """A process with so many clients that not all are looked at."""
    machine.process(pid)
    for descriptor in range(3, 3 + number):
        machine.open(pid, descriptor, i915(1000 * pid + descriptor, render=SECOND))


def test_who_has_too_many_clients_costs_itself_and_the_others_are_measured(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    crowd(machine, 41)
    source = begun(machine, i915(2))
    show(machine, i915(2, render=7 * MS))

    reading = step(machine, source)

    assert known(reading.window).unmeasured_pids == {41}
    assert core(reading) == {42: 7 * MS}
    assert "core" not in reading.unmeasured
    assert held(reading) == {41: None, 42: 16 * MIB}
    assert "(41 is the first of 1)" in source.read().status.detail
    crowd(machine, 43)
    step(machine, source)
    assert caplog.text.count("more files of /dev/dri open than are looked at") == 1


@pytest.mark.parametrize("another", ["another user's", ""])
def test_who_may_not_be_looked_into_costs_himself_alone_unless_nobody_else_may_be(
    machine: Machine, another: str
) -> None:
    machine.process(41)
    machine.open(41, 5, i915(3, render=SECOND))
    source = begun(machine, i915(2))
    uid = os.geteuid() + (1 if another else 0)
    machine.write(machine.proc, {"42/status": f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}"})
    show(machine, i915(2, render=7 * MS))
    outside = Outside(machine.proc.parent)
    refused = Fault(Kind(LINK, "proc/N/fd/N"), errno.EACCES, ("41",))

    with outside.installed(), outside.asking(refused):
        reading = step(machine, source)
        said = source.read().status.detail

    if another:
        assert core(reading) == {42: 7 * MS}
        assert known(reading.window).unmeasured_pids == {41}
        assert "core" not in reading.unmeasured
        assert "(41 is the first of 1) cannot be looked into (Permission denied)" in said
    else:
        assert reading.unmeasured["core"] is Unmeasured.NO_PERMISSION
        assert "CAP_SYS_PTRACE" in said


def test_what_a_process_had_used_before_it_could_be_seen_whole_is_not_counted(
    machine: Machine,
) -> None:
    """In whichever order its files are listed, some of those that stay were not looked at."""
    crowd(machine, 41, 2 * MAX_OF_ONE)
    source = begun(machine)
    for descriptor in range(3, 3 + 2 * MAX_OF_ONE, 2):
        machine.close(41, descriptor)

    assert [core(step(machine, source)) for _ in range(2)] == [{}, {}]


def test_who_has_only_other_files_open_is_measured_however_many(machine: Machine) -> None:
    machine.process(41, descriptors=3000)
    source = begun(machine)

    window = known(step(machine, source).window)

    assert (window.unmeasured_pids, window.busy.core) == (frozenset(), 0)


def test_what_happened_while_a_device_was_away_was_not_observed(machine: Machine) -> None:
    source = begun(machine)
    step(machine, source)
    card = machine.sys / "class/drm/card0"
    target = card.readlink()
    card.unlink()
    away = step(machine, source, 10)
    card.symlink_to(target)

    back = step(machine, source, 30)

    assert (away.state, back.state) == (DeviceState.LOST, DeviceState.UP)
    window = known(back.window)
    assert (window.observed_ns, window.unobserved_ns) == (0, 40 * SECOND)


@pytest.mark.parametrize("is_here", ["here", ""])
def test_a_virtual_function_is_a_part_of_its_card_or_a_card_if_that_is_not_here(
    machine: Machine, is_here: str
) -> None:
    virtual = machine.card(1, "i915", "0000:00:02.1")
    physical = machine.sys / "devices/pci0000:00/0000:00:02.0"
    if is_here:
        machine.card(0, "i915", "0000:00:02.0")
    (virtual / "physfn").symlink_to(physical)
    machine.process(42)
    machine.open(42, 5, i915(1, pdev="0000:00:02.1"), "renderD129")
    source = machine.source()
    source.read()
    machine.open(42, 5, i915(1, render=7_000_000, pdev="0000:00:02.1"), "renderD129")
    machine.clock.move(1)

    device = only(source.read())

    assert device.device.pci_bus_id == ("0000:00:02.0" if is_here else "0000:00:02.1")
    assert {p.pid: p.busy.core for p in known(device.window).processes} == {42: 7_000_000}


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (Kind(LINK, "sys/class/drm/card1/device/physfn"), errno.EIO),
        (Kind(LINK, "sys/class/drm/card1/device"), errno.EIO),
        (Kind(LINK, "sys/class/drm/card1/device"), errno.ENODEV),
        (Kind(READ, "proc/sys/kernel/osrelease"), errno.EIO),
    ],
)
def test_what_cannot_be_read_of_a_card_makes_no_other_card_of_it(
    machine: Machine, what: Kind, code: int
) -> None:
    """A function whose card is not known would be a card, and its use would count twice."""
    virtual = machine.card(1, "i915", "0000:00:02.1")
    machine.card(0, "i915", "0000:00:02.0")
    (virtual / "physfn").symlink_to(machine.sys / "devices/pci0000:00/0000:00:02.0")
    machine.process(42)
    machine.open(42, 5, i915(1, pdev="0000:00:02.1"), "renderD129")
    source = machine.source()
    source.read()
    outside = Outside(machine.sys.parent)

    with outside.installed(), outside.asking(Fault(what, code)):
        machine.open(42, 5, i915(1, render=7_000_000, pdev="0000:00:02.1"), "renderD129")
        device = step(machine, source, 10)

    assert outside.met
    assert {p.pid: p.busy.core for p in known(device.window).processes} == {42: 7_000_000}


def test_half_of_what_a_driver_says_of_a_client_is_no_client_without_engines(
    machine: Machine,
) -> None:
    source = begun(machine, i915(2, render=7 * MS))
    half = i915(2, render=9 * MS).partition("drm-engine-render")[0]

    show(machine, half + "drm-engine-ren")
    window = known(step(machine, source).window)
    show(machine, i915(2, render=9 * MS))

    assert window.unmeasured_pids == {42}
    assert core(step(machine, source)) == {42: 2 * MS}


def test_a_node_that_is_missing_from_a_list_makes_no_other_card(machine: Machine) -> None:
    source = begun(machine, i915(2))
    (machine.sys / f"devices/pci0000:00/{PCI}/drm/renderD128").rename(machine.sys / "away")
    show(machine, i915(2, render=7 * MS))
    machine.clock.move(10)
    source.read()
    show(machine, i915(2, render=9 * MS))

    reading = step(machine, source)

    assert core(reading) == {42: 2 * MS}
    assert held(reading) == {42: 16 * MIB}
