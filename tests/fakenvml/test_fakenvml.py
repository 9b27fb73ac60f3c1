"""The stand-in keeps its word, as pynvml and nvitop see it. Each question is a process."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.fakenvml.build import HERE, implemented, known_to_pynvml, library
from tests.fakenvml.scenario import (
    GIB,
    Engine,
    Fault,
    Field,
    Gpu,
    Instance,
    Price,
    Process,
    Scenario,
    Work,
    energy_joules,
    truth,
)

pytestmark = pytest.mark.program("cc")

ROOT = HERE.parent.parent
NOW = 1_700_000_000.0
PERIOD_NS = 166_666_667
PERIOD = PERIOD_NS / 1e9
ALIGNED = int(NOW) * 10**9 % PERIOD_NS / 1e9  # the sample offset at which a sample ends at NOW
Ask = Callable[..., Any]
ENGINES: tuple[Engine, ...] = ("core", "memory", "encoder", "decoder")

PREAMBLE = """
import ctypes, json, os, sys, threading, time
from pathlib import Path
import pynvml as n
from tests.fakenvml.scenario import *

path = Path(os.environ["FAKENVML_SCENARIO"])
answer = None
fake = ctypes.CDLL("libnvidia-ml.so.1")
fake.fakenvml_calls.restype = ctypes.c_ulonglong
def code(function, *arguments):
    try:
        function(*arguments)
    except n.NVMLError as error:
        return error.value
    return 0
def rows(since=0, index=0):
    device = n.nvmlDeviceGetHandleByIndex(index)
    return [[r.pid, r.timeStamp, r.smUtil, r.memUtil]
            for r in n.nvmlDeviceGetProcessUtilization(device, int(since * 1e6))]
def samples(kind, since=0, index=0):
    got = n.nvmlDeviceGetSamples(n.nvmlDeviceGetHandleByIndex(index), kind, int(since * 1e6))[1]
    return [[sample.timeStamp, sample.sampleValue.uiVal] for sample in got]
"""
START = "n.nvmlInit(); gpu = n.nvmlDeviceGetHandleByIndex(0)\n"


def run(scenario: Path, lib: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with the library and the scenario in place."""
    env = os.environ | {"FAKENVML_SCENARIO": str(scenario), "LD_LIBRARY_PATH": str(lib.parent)}
    env |= {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(
        [sys.executable, *command], env=env, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask a fresh process that speaks to the library through pynvml for a snippet's ``answer``."""

    def answer(scenario: Scenario, question: str, lib: Path | None = None) -> Any:
        path = scenario.write(tmp_path / "scenario.txt")
        program = PREAMBLE + START + question + "\nprint(json.dumps(answer))"
        done = run(path, lib or library(), "-c", program)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return answer


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The pid of a real process."""
    process = subprocess.Popen(["sleep", "300"])
    yield process.pid
    process.kill()
    process.wait()


def one_gpu(*works: Work, **more: Any) -> Scenario:
    """A frozen scenario of one board."""
    return Scenario(gpus=[Gpu(0, **more)], works=list(works), now=NOW)


STRUCTURES = """
    PciInfo Utilization Memory Memory_v2 ProcessInfo_v2 ProcessDetail_v1
    ProcessDetailList_v1 ProcessUtilizationSample ProcessUtilizationInfo_v1
    ProcessesUtilizationInfo_v1 Sample FieldValue Temperature_v1 ConfComputeMemSizeInfo
    DeviceAttributes GpuInstanceProfileInfo GpuInstancePlacement GpuInstanceInfo EventData
    GpmSupport BAR1Memory
"""


def test_every_structure_lies_in_memory_as_pynvml_has_it(tmp_path: Path) -> None:
    claims = ['#include "abi.h"', "#include <stddef.h>"]
    for short in STRUCTURES.split():
        c_name, loose = f"nvml{short}_t", f"c_nvml{short}"
        names = (f"{loose}_t", loose, c_name)
        structure = next(getattr(pynvml, name) for name in names if hasattr(pynvml, name))
        claims.append(f'_Static_assert(sizeof({c_name}) == {_size(structure)}, "{c_name}");')
        for name, *_ in structure._fields_:
            offset = getattr(structure, name).offset
            claims.append(f'_Static_assert(offsetof({c_name}, {name}) == {offset}, "{name}");')
    source = tmp_path / "abi.c"
    source.write_text("\n".join(claims) + "\n")
    subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", f"-I{HERE}", str(source)], check=True)


def _size(structure: Any) -> int:
    return len(bytes(structure()))


def test_all_functions_of_pynvml_are_there_and_most_are_not_supported(
    ask: Ask,
) -> None:
    stubs = sorted(known_to_pynvml() - implemented())
    question = f"answer = sorted({{fake[name](None) for name in {stubs}}})"
    assert ask(one_gpu(), question) == [pynvml.NVML_ERROR_NOT_SUPPORTED]


def test_an_older_driver_lacks_what_is_omitted(ask: Ask) -> None:
    old = library(omit={"nvmlDeviceGetProcessesUtilizationInfo"})
    question = "answer = code(n.nvmlDeviceGetProcessesUtilizationInfo, gpu, 0)"
    assert ask(one_gpu(), question, old) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert ask(one_gpu(), question) == pynvml.NVML_ERROR_NOT_FOUND


def test_a_mistake_in_the_scenario_ends_the_process_and_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text("driver version=1\n\ngpu index=0 colour=red\n")
    done = run(path, library(), "-c", "import pynvml; pynvml.nvmlInit()")
    assert done.returncode != 0
    assert "line 3 (gpu): unknown key: colour" in done.stderr


def random_works(seed: int) -> list[Work]:
    """What up to five processes do on GPU ``seed``, at odd times and overlapping."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable case, not a secret
    return [
        Work(
            gpu=seed,
            pid=draw.randint(100, 104),
            start=NOW - draw.uniform(1, 15),
            end=draw.choice([None, NOW - draw.uniform(0, 3)]),
            period=draw.choice([0.0, draw.uniform(0.004, 3)]),
            duty=draw.uniform(0, 1),
            phase=draw.uniform(0, 2),
            core=draw.choice([1.0, 1.0, 0.5, 0.0]),
            memory=draw.choice([0.0, draw.uniform(0, 1)]),
            encoder=draw.choice([0.0, 0.3]),
            decoder=draw.choice([0.0, 0.7]),
        )
        for _ in range(draw.randint(1, 5))
    ]


def test_every_sample_is_the_true_busy_share_cut_to_whole_percent(ask: Ask) -> None:
    gpus = range(8)
    works = [work for gpu in gpus for work in random_works(gpu)]
    scenario = Scenario(gpus=[Gpu(gpu) for gpu in gpus], works=works, now=NOW)
    question = "answer = [[samples(kind, 0, g) for kind in (1, 2, 3, 4)] for g in range(8)]"
    for gpu, by_engine in enumerate(ask(scenario, question)):
        for engine, got in zip(ENGINES, by_engine, strict=True):
            assert len(got) == 72
            for timestamp, percent in got:
                end = timestamp / 1e6
                busy = sum(truth(scenario, gpu, end - PERIOD, end, engine).values())
                assert percent - 0.01 <= busy / PERIOD * 100 <= percent + 1.01


def test_samples_are_a_period_apart_and_newer_than_asked(ask: Ask) -> None:
    got = ask(one_gpu(Work(0, 7, NOW - 60)), f"answer = samples(1, {NOW - 2})")
    stamps = [timestamp for timestamp, _ in got]
    assert {later - earlier for earlier, later in pairwise(stamps)} <= {166666, 166667}
    assert NOW - 2 < stamps[0] / 1e6 <= NOW - 2 + PERIOD
    assert NOW - PERIOD < stamps[-1] / 1e6 <= NOW


def test_one_row_a_process_averaged_over_all_samples_of_the_window(ask: Ask) -> None:
    """3 s of work in a ring of 12 s: a quarter, however long ago within it."""
    scenario = one_gpu(Work(0, 7, NOW - 9, NOW - 6, memory=0.5), sample_offset=ALIGNED)
    whole, recent = ask(scenario, f"answer = [rows(), code(rows, {NOW - 5})]")
    [[pid, timestamp, core, memory, *_]] = whole
    assert (pid, core, memory) == (7, 25, 12)
    assert NOW - 6 - PERIOD <= timestamp / 1e6 <= NOW - 6 + PERIOD
    assert recent == pynvml.NVML_ERROR_NOT_FOUND


@pytest.mark.parametrize("rule", ["last", "end", "longest", "random"])
def test_processes_that_share_a_busy_gpu_are_credited_evenly(ask: Ask, rule: str) -> None:
    works = [Work(0, pid, NOW - 1000) for pid in (7, 8, 9, 10)]
    scenario = one_gpu(*works, rule=rule, ring=5000)
    credited = {row[0]: row[2] for row in ask(scenario, "answer = rows()")}
    assert set(credited) == {7, 8, 9, 10}
    assert all(23 <= percent <= 27 for percent in credited.values())


def test_a_sample_that_nobody_was_seen_in_is_credited_to_nobody(ask: Ask) -> None:
    """Busy at the start of each sample and idle at its end: the device is busy, no process is."""
    work = Work(0, 7, NOW - 360 * PERIOD + 0.01, period=PERIOD, duty=0.4)
    scenario = one_gpu(work, sample_offset=ALIGNED, rule="end")
    busy, code = ask(scenario, "answer = [samples(1), code(rows)]")
    assert {percent for _, percent in busy} <= {39, 40}
    assert code == pynvml.NVML_ERROR_NOT_FOUND


def test_credits_never_exceed_the_device(ask: Ask) -> None:
    gpus = range(8)
    works = [work for gpu in gpus for work in random_works(gpu)]
    scenario = Scenario(gpus=[Gpu(gpu, garbage=1) for gpu in gpus], works=works, now=NOW)
    question = "answer = [[rows(0, g)[:-1], samples(1, 0, g)] for g in range(8)]"
    answers = ask(scenario, question)
    assert any(credited for credited, _ in answers)
    for credited, busy in answers:
        device = sum(percent for _, percent in busy) / len(busy)
        assert sum(row[2] for row in credited) <= device + 1


def test_an_error_befalls_the_calls_it_names_and_no_others(ask: Ask) -> None:
    scenario = Scenario(gpus=[Gpu(0), Gpu(1)], now=NOW)
    scenario.faults.append(Fault("error", "nvmlDeviceGetPower*", gpu=1, code=4, skip=1, count=2))
    question = """
other = n.nvmlDeviceGetHandleByIndex(1)
answer = [[code(n.nvmlDeviceGetPowerUsage, device) for _ in range(4)] for device in (other, gpu)]
"""
    assert ask(scenario, question) == [[0, 4, 4, 0], [0, 0, 0, 0]]


def test_a_hang_holds_one_gpu_until_its_line_is_gone(ask: Ask) -> None:
    scenario = Scenario(gpus=[Gpu(0), Gpu(1)], works=[Work(0, 7, NOW - 60)], now=NOW)
    scenario.faults.append(Fault("hang", "nvmlDeviceGetProcessUtilization", gpu=0))
    question = """
got = []
thread = threading.Thread(target=lambda: got.append(rows()))
thread.start()
while not fake.fakenvml_waiting():
    time.sleep(0.001)
other = code(rows, 0, 1)
still = thread.is_alive()
new = path.with_suffix(".new")  # the library may read at any moment: never half a file
new.write_text("".join(line for line in path.open() if not line.startswith("hang")))
new.replace(path)
thread.join()
answer = [other, still, got[0][0][:1], fake.fakenvml_waiting()]
"""
    assert ask(scenario, question) == [pynvml.NVML_ERROR_NOT_FOUND, True, [7], 0]


def test_energy_is_the_integral_of_power_and_falls_with_the_driver(ask: Ask) -> None:
    scenario = one_gpu(*random_works(0))
    scenario.loaded = NOW - 100
    question = f"""
def energy(loaded):
    path.write_text(path.read_text().replace("loaded={NOW - 100:.9f}", f"loaded={{loaded:.9f}}"))
    return n.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000
answer = [energy({NOW - 100}), energy({NOW - 3})]
"""
    long, short = ask(scenario, question)
    assert long == pytest.approx(energy_joules(scenario, 0, NOW - 100, NOW), abs=0.01)
    assert short == pytest.approx(energy_joules(scenario, 0, NOW - 3, NOW), abs=0.01)


def test_each_field_value_has_its_own_answer(ask: Ask) -> None:
    scenario = one_gpu(Work(0, 7, NOW - 5))
    scenario.loaded = NOW - 10
    scenario.fields = [
        Field(0, 197, value=2**32 - 5, rate=1, type="uint"),
        Field(0, 138, value=11, scope=2),
        Field(0, 74, error=4),
    ]
    question = """
values = n.nvmlDeviceGetFieldValues(gpu, [83, 185, 197, (138, 2), 74, 9999, 4])
answer = [[v.nvmlReturn, v.valueType, v.value.ullVal] for v in values]
"""
    assert ask(scenario, question) == [
        [0, 3, 10 * 70_000 + 5 * 280_000],
        [0, 1, 350_000],
        [0, 1, 5],
        [0, 3, 11],
        [4, 3, 0],
        [3, 0, 0],
        [0, 3, 0],
    ]


def test_calls_are_counted_in_the_process_and_in_a_file(tmp_path: Path) -> None:
    path, counts = one_gpu().write(tmp_path / "scenario.txt"), tmp_path / "counts"
    program = f"{PREAMBLE}{START}n.nvmlDeviceGetName(gpu); n.nvmlDeviceGetName(gpu)\n"
    program += "print(fake.fakenvml_calls(b'nvmlDeviceGetName'))"
    done = run(path, library(), "-c", program, FAKENVML_COUNTS=str(counts))
    assert done.stdout == "2\n"
    assert "nvmlDeviceGetName 2\n" in counts.read_text()


def test_the_cpu_time_of_the_calls_is_kept_in_a_file_and_sleep_is_none_of_it(
    tmp_path: Path,
) -> None:
    scenario, used = one_gpu(), tmp_path / "cpu"
    scenario.faults.append(Fault("delay", "nvmlDeviceGetName", seconds=0.3))
    path = scenario.write(tmp_path / "scenario.txt")
    program = f"{PREAMBLE}{START}read = lambda: int.from_bytes(Path({str(used)!r}).read_bytes(), "
    program += "sys.byteorder)\nbefore = read(); n.nvmlDeviceGetName(gpu)\n"
    program += "print(before, read() - before)"
    done = run(path, library(), "-c", program, FAKENVML_CPU=str(used))
    before, more = map(int, done.stdout.split())
    assert before > 0
    assert 0 < more < 300_000_000


def peers_scenario(path: Path, pid: int) -> Path:
    """A real process, busy now, on an ordinary board and on a MIG device."""
    scenario = Scenario(
        gpus=[Gpu(0, mig=True), Gpu(1)],
        instances=[Instance(0, 0, gi=2, slices=3, memory=40 * GIB, profile="3g.40gb")],
        processes=[Process(0, pid, GIB, instance=0), Process(1, pid, 3 * GIB)],
        works=[Work(1, pid, NOW, memory=0.5)],
        loaded=NOW - 10,
    )
    return scenario.write(path)


@pytest.mark.parametrize("struct535", [False, True])
def test_nvitop_shows_the_process(tmp_path: Path, sleeper: int, struct535: bool) -> None:  # noqa: FBT001 - a table's column
    path = peers_scenario(tmp_path / "scenario.txt", sleeper)
    done = run(path, library(struct535=struct535), "-m", "nvitop", "-1", TERM="dumb")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "3072MiB" in line and "sleep" in line)
    assert str(sleeper) in line
    assert line.split()[5:7] == ["3072MiB", "100"]
    assert "3g.40gb" in done.stdout


def test_what_nvitop_exporter_asks_is_answered(tmp_path: Path, sleeper: int) -> None:
    path = peers_scenario(tmp_path / "scenario.txt", sleeper)
    program = """
import json
from nvitop import Device
device = Device(1)
with device.oneshot():
    [process] = device.processes().values()
    print(json.dumps([process.pid, process.gpu_memory(), process.gpu_sm_utilization(),
        device.gpu_utilization(), device.memory_utilization(), device.power_usage(),
        device.sm_clock(), device.fan_speed(), device.temperature(), device.pcie_tx_throughput()]))
"""
    done = run(path, library(), "-c", program)
    assert done.returncode == 0, done.stderr
    expected = [sleeper, 3 * GIB, 100, 100, 50, 350_000, 1755, 30, 50, 2048]
    assert json.loads(done.stdout) == expected


def test_a_call_takes_the_cpu_that_it_costs_and_that_each_process_does(ask: Ask) -> None:
    price = "nvmlDeviceGetFieldValues", "nvmlDeviceGetComputeRunningProcesses_v3"
    scenario = Scenario(
        gpus=[Gpu(0), Gpu(1)],
        processes=[Process(0, pid) for pid in (1, 2, 3)],
        prices=[Price(price[0], 1_000), Price(price[0], 9_000, key=82), Price(price[1], 0, 4_000)],
    )
    took = ask(
        scenario,
        """
other = n.nvmlDeviceGetHandleByIndex(1)
def took(function, *arguments):
    begun = time.thread_time_ns()
    function(*arguments)
    return (time.thread_time_ns() - begun) / 1e6
fields, list = n.nvmlDeviceGetFieldValues, n.nvmlDeviceGetComputeRunningProcesses_v3
answer = [took(fields, gpu, [3]), took(fields, gpu, [3, 82]), took(list, gpu), took(list, other)]
""",
    )

    assert 1 <= took[0] < 9
    assert 10 <= took[1] < 12
    assert took[2] >= 2 * 12  # pynvml calls twice
    assert took[3] < 4
