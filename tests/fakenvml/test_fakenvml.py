"""The stand-in keeps its word, as pynvml, nvitop and gpustat see it. Each question is a process."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
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
    Process,
    Scenario,
    Work,
    Xid,
    core_seconds,
    energy_joules,
    truth,
)

pytestmark = pytest.mark.program("cc")

ROOT = HERE.parent.parent
NOW = 1_700_000_000.0
PERIOD_NS = 166_666_667
PERIOD = PERIOD_NS / 1e9
ALIGNED = int(NOW) * 10**9 % PERIOD_NS / 1e9  # the sample offset at which a sample ends at NOW
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
def row(r):
    return [r.pid, r.timeStamp, r.smUtil, r.memUtil, r.encUtil, r.decUtil]
def rows(since=0, index=0):
    device = n.nvmlDeviceGetHandleByIndex(index)
    return [row(r) for r in n.nvmlDeviceGetProcessUtilization(device, int(since * 1e6))]
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


class Asker:
    """Asks a fresh process that speaks to the library through pynvml."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, scenario: Scenario, question: str, lib: Path | None = None, *, start: str = START
    ) -> Any:
        """What the snippet leaves in ``answer``."""
        scenario.write(self.path)
        program = PREAMBLE + start + question + "\nprint(json.dumps(answer))"
        done = run(self.path, lib or library(), "-c", program)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def ask(tmp_path: Path) -> Asker:
    return Asker(tmp_path / "scenario.txt")


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


# --- the binary interface ---


STRUCTURES = {
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlUtilization_t": "c_nvmlUtilization_t",
    "nvmlMemory_t": "c_nvmlMemory_t",
    "nvmlMemory_v2_t": "c_nvmlMemory_v2_t",
    "nvmlProcessInfo_v2_t": "c_nvmlProcessInfo_v2_t",
    "nvmlProcessDetail_v1_t": "c_nvmlProcessDetail_v1_t",
    "nvmlProcessDetailList_v1_t": "c_nvmlProcessDetailList_v1_t",
    "nvmlProcessUtilizationSample_t": "c_nvmlProcessUtilizationSample_t",
    "nvmlProcessUtilizationInfo_v1_t": "c_nvmlProcessUtilizationInfo_v1_t",
    "nvmlProcessesUtilizationInfo_v1_t": "c_nvmlProcessesUtilizationInfo_v1_t",
    "nvmlSample_t": "c_nvmlSample_t",
    "nvmlFieldValue_t": "c_nvmlFieldValue_t",
    "nvmlTemperature_v1_t": "c_nvmlTemperature_v1_t",
    "nvmlConfComputeMemSizeInfo_t": "c_nvmlConfComputeMemSizeInfo_t",
    "nvmlDeviceAttributes_t": "c_nvmlDeviceAttributes",
    "nvmlGpuInstanceProfileInfo_t": "c_nvmlGpuInstanceProfileInfo_t",
    "nvmlGpuInstancePlacement_t": "c_nvmlGpuInstancePlacement_t",
    "nvmlGpuInstanceInfo_t": "c_nvmlGpuInstanceInfo_t",
    "nvmlEventData_t": "c_nvmlEventData_t",
    "nvmlGpmSupport_t": "c_nvmlGpmSupport_t",
    "nvmlBAR1Memory_t": "c_nvmlBAR1Memory_t",
}


def test_every_structure_lies_in_memory_as_pynvml_has_it(tmp_path: Path) -> None:
    claims = ['#include "abi.h"', "#include <stddef.h>"]
    for c_name, python_name in STRUCTURES.items():
        structure = getattr(pynvml, python_name)
        claims.append(f'_Static_assert(sizeof({c_name}) == {_size(structure)}, "{c_name}");')
        for name, *_ in structure._fields_:
            offset = getattr(structure, name).offset
            claims.append(f'_Static_assert(offsetof({c_name}, {name}) == {offset}, "{name}");')
    source = tmp_path / "abi.c"
    source.write_text("\n".join(claims) + "\n")
    subprocess.run(["cc", "-std=gnu11", "-fsyntax-only", f"-I{HERE}", str(source)], check=True)


def _size(structure: Any) -> int:
    return len(bytes(structure()))


@pytest.mark.parametrize(
    ("structure", "function"),
    [
        ("c_nvmlMemory_v2_t", "nvmlDeviceGetMemoryInfo_v2"),
        ("c_nvmlProcessesUtilizationInfo_v1_t", "nvmlDeviceGetProcessesUtilizationInfo"),
        ("c_nvmlProcessDetailList_v1_t", "nvmlDeviceGetRunningProcessDetailList"),
        ("c_nvmlTemperature_v1_t", "nvmlDeviceGetTemperatureV"),
    ],
)
def test_a_structure_of_another_version_is_refused(
    ask: Asker, structure: str, function: str
) -> None:
    question = f"""
wrong = n.{structure}(version=0x03000018)
answer = fake.{function}(gpu, ctypes.byref(wrong))
"""
    assert ask(one_gpu(), question) == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_all_functions_of_pynvml_are_there_and_most_are_not_supported(ask: Asker) -> None:
    stubs = sorted(known_to_pynvml() - implemented())
    question = f"answer = sorted({{fake[name](None) for name in {stubs}}})"
    assert ask(one_gpu(), question) == [pynvml.NVML_ERROR_NOT_SUPPORTED]


def test_an_older_driver_lacks_what_is_omitted(ask: Asker) -> None:
    old = library(omit={"nvmlDeviceGetProcessesUtilizationInfo"})
    question = "answer = code(n.nvmlDeviceGetProcessesUtilizationInfo, gpu, 0)"
    assert ask(one_gpu(), question, old) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert ask(one_gpu(), question) == pynvml.NVML_ERROR_NOT_FOUND


def test_only_functions_that_exist_can_be_omitted() -> None:
    with pytest.raises(ValueError, match="nvmlDeviceGetNonsense"):
        library(omit={"nvmlDeviceGetNonsense"})


# --- start and end ---


def test_without_a_scenario_the_driver_is_not_loaded(ask: Asker) -> None:
    question = "path.unlink(); answer = code(n.nvmlInit)"
    assert ask(one_gpu(), question, start="") == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_every_call_before_init_and_after_the_last_shutdown_is_refused(ask: Asker) -> None:
    question = """
answer = [fake.nvmlDeviceGetPowerUsage(1), code(n.nvmlInit), code(n.nvmlInit), code(n.nvmlShutdown),
          code(n.nvmlDeviceGetCount), code(n.nvmlShutdown), fake.nvmlDeviceGetCount_v2(None)]
"""
    assert ask(one_gpu(), question, start="") == [1, 0, 0, 0, 0, 0, 1]


def test_init_fails_as_told(ask: Asker) -> None:
    scenario = one_gpu()
    scenario.faults.append(Fault("error", "nvmlInit*", code=18, count=2))
    question = "answer = [code(n.nvmlInit) for _ in range(3)]"
    assert ask(scenario, question, start="") == [18, 18, 0]


def test_a_mistake_in_the_scenario_ends_the_process_and_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text("driver version=1\n\ngpu index=0 colour=red\n")
    done = run(path, library(), "-c", "import pynvml; pynvml.nvmlInit()")
    assert done.returncode != 0
    assert "line 3 (gpu): unknown key: colour" in done.stderr


# --- samples ---


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


def test_every_sample_is_the_true_busy_share_cut_to_whole_percent(ask: Asker) -> None:
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


def test_samples_are_a_period_apart_and_newer_than_asked(ask: Asker) -> None:
    got = ask(one_gpu(Work(0, 7, NOW - 60)), f"answer = samples(1, {NOW - 2})")
    stamps = [timestamp for timestamp, _ in got]
    assert {later - earlier for earlier, later in pairwise(stamps)} <= {166666, 166667}
    assert NOW - 2 < stamps[0] / 1e6 <= NOW - 2 + PERIOD
    assert NOW - PERIOD < stamps[-1] / 1e6 <= NOW


def test_no_sample_newer_than_the_newest(ask: Asker) -> None:
    question = """
newest = samples(1)[-1][0]
get = n.nvmlDeviceGetSamples
answer = [code(get, gpu, 1, newest), len(get(gpu, 1, newest - 1)[1]),
          code(n.nvmlDeviceGetProcessUtilization, gpu, newest)]
"""
    none = pynvml.NVML_ERROR_NOT_FOUND
    assert ask(one_gpu(Work(0, 7, NOW - 60)), question) == [none, 1, none]


def test_rates_are_those_of_the_last_sample(ask: Asker) -> None:
    scenario = one_gpu(Work(0, 7, NOW - 0.5, memory=0.25, encoder=0.1, decoder=0.5))
    question = """
rates = n.nvmlDeviceGetUtilizationRates(gpu)
answer = [rates.gpu, rates.memory, n.nvmlDeviceGetEncoderUtilization(gpu)[0],
          n.nvmlDeviceGetDecoderUtilization(gpu)[0], n.nvmlDeviceGetPowerUsage(gpu)]
"""
    assert ask(scenario, question) == [100, 25, 10, 50, 350_000]


# --- process utilisation ---


def test_one_row_a_process_averaged_over_all_samples_of_the_window(ask: Asker) -> None:
    """3 s of work in a ring of 12 s: a quarter, however long ago within it."""
    scenario = one_gpu(Work(0, 7, NOW - 9, NOW - 6, memory=0.5), sample_offset=ALIGNED)
    whole, recent = ask(scenario, f"answer = [rows(), code(rows, {NOW - 5})]")
    [[pid, timestamp, core, memory, *_]] = whole
    assert (pid, core, memory) == (7, 25, 12)
    assert NOW - 6 - PERIOD <= timestamp / 1e6 <= NOW - 6 + PERIOD
    assert recent == pynvml.NVML_ERROR_NOT_FOUND


@pytest.mark.parametrize(
    ("ago", "found"), [(11.5, True), (12.5, False)], ids=["in the ring", "fallen out"]
)
def test_the_ring_remembers_a_process_that_ended(ask: Asker, ago: float, found: bool) -> None:  # noqa: FBT001 - a table's column
    scenario = one_gpu(Work(0, 7, NOW - 60, NOW - ago))
    assert ask(scenario, "answer = code(rows)") == (0 if found else pynvml.NVML_ERROR_NOT_FOUND)


def test_the_ring_is_as_deep_as_told(ask: Asker) -> None:
    scenario = one_gpu(Work(0, 7, NOW - 60), ring=100, probe=4096)
    question = """
count = ctypes.c_uint(0)
probed = fake.nvmlDeviceGetProcessUtilization(gpu, None, ctypes.byref(count), ctypes.c_ulonglong(0))
answer = [len(samples(1)), probed, count.value]
"""
    assert ask(scenario, question) == [100, pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 4096]


def test_too_small_a_buffer_is_told_the_number_needed(ask: Asker) -> None:
    scenario = one_gpu(*(Work(0, pid, NOW - 60) for pid in (7, 8, 9)))
    question = """
room, count = (n.c_nvmlProcessUtilizationSample_t * 2)(), ctypes.c_uint(2)
code = fake.nvmlDeviceGetProcessUtilization(gpu, room, ctypes.byref(count), ctypes.c_ulonglong(0))
answer = [code, count.value]
"""
    assert ask(scenario, question) == [pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 3]


def test_both_functions_tell_the_same(ask: Asker) -> None:
    scenario = one_gpu(Work(0, 7, NOW - 60, period=0.53, duty=0.5), Work(0, 8, NOW - 4, memory=0.3))
    question = """
info = n.nvmlDeviceGetProcessesUtilizationInfo(gpu, 0)
answer = [rows(), [row(r) for r in info]]
"""
    old, new = ask(scenario, question)
    assert old == new
    assert [row[0] for row in old] == [7, 8]


@pytest.mark.parametrize("rule", ["last", "end", "longest", "random"])
def test_processes_that_share_a_busy_gpu_are_credited_evenly(ask: Asker, rule: str) -> None:
    works = [Work(0, pid, NOW - 1000) for pid in (7, 8, 9, 10)]
    scenario = one_gpu(*works, rule=rule, ring=5000)
    credited = {row[0]: row[2] for row in ask(scenario, "answer = rows()")}
    assert set(credited) == {7, 8, 9, 10}
    assert all(23 <= percent <= 27 for percent in credited.values())


def test_a_sample_that_nobody_was_seen_in_is_credited_to_nobody(ask: Asker) -> None:
    """Busy at the start of each sample and idle at its end: the device is busy, no process is."""
    work = Work(0, 7, NOW - 360 * PERIOD + 0.01, period=PERIOD, duty=0.4)
    scenario = one_gpu(work, sample_offset=ALIGNED, rule="end")
    busy, code = ask(scenario, "answer = [samples(1), code(rows)]")
    assert {percent for _, percent in busy} <= {39, 40}
    assert code == pynvml.NVML_ERROR_NOT_FOUND


@pytest.mark.parametrize("rule", ["last", "longest", "random"])
def test_under_another_rule_the_same_sample_is_credited(ask: Asker, rule: str) -> None:
    work = Work(0, 7, NOW - 360 * PERIOD + 0.01, period=PERIOD, duty=0.4)
    [row] = ask(one_gpu(work, sample_offset=ALIGNED, rule=rule), "answer = rows()")
    assert row[0] == 7
    assert row[2] in {39, 40}


@pytest.mark.parametrize(("rule", "named"), [("last", 8), ("longest", 7)])
def test_the_last_in_a_sample_is_named_though_another_used_more(
    ask: Asker, rule: str, named: int
) -> None:
    """7 works for half of each sample, then 8 for a fifth; the end is idle."""
    begin = NOW - 360 * PERIOD + 0.01
    first = Work(0, 7, begin, period=PERIOD, duty=0.5)
    second = Work(0, 8, begin + 0.55 * PERIOD, period=PERIOD, duty=0.2)
    [row] = ask(one_gpu(first, second, sample_offset=ALIGNED, rule=rule), "answer = rows()")
    assert row[0] == named


def test_credits_never_exceed_the_device(ask: Asker) -> None:
    gpus = range(8)
    works = [work for gpu in gpus for work in random_works(gpu)]
    scenario = Scenario(gpus=[Gpu(gpu, garbage=1) for gpu in gpus], works=works, now=NOW)
    question = "answer = [[rows(0, g)[:-1], samples(1, 0, g)] for g in range(8)]"
    answers = ask(scenario, question)
    assert any(credited for credited, _ in answers)
    for credited, busy in answers:
        device = sum(percent for _, percent in busy) / len(busy)
        assert sum(row[2] for row in credited) <= device + 1


def test_garbage_rows_cannot_be_true(ask: Asker) -> None:
    scenario = one_gpu(Work(0, 7, NOW - 60), garbage=5)
    got = ask(scenario, "answer = rows()")
    assert [row[0] for row in got] == [7, 0, 2**32 - 1, 99999, 99998, 0]
    assert got[3][2] == 4096
    assert got[4][1] < (NOW - 60) * 1e6


# --- faults ---


def test_an_error_befalls_the_calls_it_names_and_no_others(ask: Asker) -> None:
    scenario = Scenario(gpus=[Gpu(0), Gpu(1)], now=NOW)
    scenario.faults.append(Fault("error", "nvmlDeviceGetPower*", gpu=1, code=4, skip=1, count=2))
    question = """
other = n.nvmlDeviceGetHandleByIndex(1)
answer = [[code(n.nvmlDeviceGetPowerUsage, device) for _ in range(4)] for device in (other, gpu)]
"""
    assert ask(scenario, question) == [[0, 4, 4, 0], [0, 0, 0, 0]]


def test_a_process_between_probe_and_call_makes_the_buffer_too_small(ask: Asker) -> None:
    scenario = one_gpu(Work(0, 7, NOW - 60))
    scenario.faults.append(
        Fault("error", "nvmlDeviceGetProcessUtilization", code=7, skip=1, count=1)
    )
    assert ask(scenario, "answer = [code(rows), code(rows)]") == [7, 0]


def test_a_fault_does_not_begin_anew_when_the_file_changes(ask: Asker) -> None:
    scenario = one_gpu()
    scenario.faults.append(Fault("error", "nvmlDeviceGetName", count=1))
    question = """
first = code(n.nvmlDeviceGetName, gpu)
path.write_text(path.read_text() + "# changed\\n")
answer = [first, code(n.nvmlDeviceGetName, gpu)]
"""
    assert ask(scenario, question) == [999, 0]


def test_a_delayed_call_takes_its_time_and_then_answers(ask: Asker) -> None:
    scenario = one_gpu()
    scenario.faults.append(Fault("delay", "nvmlDeviceGetName", seconds=0.05))
    question = """
before = time.monotonic()
answer = [n.nvmlDeviceGetName(gpu), time.monotonic() - before]
"""
    name, seconds = ask(scenario, question)
    assert name == "NVIDIA H100 80GB HBM3"
    assert seconds >= 0.05


def test_a_hang_holds_one_gpu_until_its_line_is_gone(ask: Asker) -> None:
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
path.write_text("".join(line for line in path.open() if not line.startswith("hang")))
thread.join()
answer = [other, still, got[0][0][:1], fake.fakenvml_waiting()]
"""
    assert ask(scenario, question) == [pynvml.NVML_ERROR_NOT_FOUND, True, [7], 0]


def test_the_clock_can_be_put_ahead(ask: Asker) -> None:
    question = """
before = samples(1)[-1][0]
fake.fakenvml_skip(ctypes.c_longlong(3 * 10**9))
answer = samples(1)[-1][0] - before
"""
    scenario = Scenario(gpus=[Gpu(0)], works=[Work(0, 7, NOW - 60)], now=NOW)
    assert ask(scenario, question) == 3_000_000


def test_a_lost_gpu_answers_nothing_but_is_counted(ask: Asker) -> None:
    scenario = Scenario(gpus=[Gpu(0), Gpu(1)], now=NOW)
    question = """
path.write_text(path.read_text() + "lost gpu=0\\n")
answer = [n.nvmlDeviceGetCount(), code(n.nvmlDeviceGetUUID, gpu),
          code(n.nvmlDeviceGetHandleByIndex, 0), code(n.nvmlDeviceGetHandleByUUID, "GPU-0"),
          code(n.nvmlDeviceGetHandleByIndex, 1)]
"""
    lost = pynvml.NVML_ERROR_GPU_IS_LOST
    assert ask(scenario, question) == [2, lost, lost, lost, 0]


def test_a_change_of_the_scenario_is_seen_by_the_next_call(ask: Asker) -> None:
    question = f"""
def change(pid):
    scenario = Scenario(gpus=[Gpu(0)], works=[Work(0, pid, {NOW} - 5)], now={NOW})
    scenario.write(path)
    return rows()[0][0]
answer = [change(pid) for pid in range(100, 150)]
"""
    assert ask(one_gpu(), question) == list(range(100, 150))


# --- processes and memory ---


def test_each_process_is_in_the_list_of_its_kind_while_it_lives(ask: Asker) -> None:
    scenario = one_gpu()
    scenario.processes = [
        Process(0, 7, 2 * GIB),
        Process(0, 8, None, "graphics"),
        Process(0, 9, GIB, "mps"),
        Process(0, 10, GIB, end=NOW - 1),
        Process(0, 11, GIB, start=NOW + 1),
    ]
    question = """
lists = (n.nvmlDeviceGetComputeRunningProcesses, n.nvmlDeviceGetGraphicsRunningProcesses,
         n.nvmlDeviceGetMPSComputeRunningProcesses)
answer = [[[p.pid, p.usedGpuMemory, p.gpuInstanceId] for p in get(gpu)] for get in lists]
"""
    none = 0xFFFFFFFF
    assert ask(scenario, question) == [[[7, 2 * GIB, none]], [[8, None, none]], [[9, GIB, none]]]


def test_the_detail_list_has_one_mode_for_each_kind(ask: Asker) -> None:
    scenario = one_gpu()
    scenario.processes = [Process(0, 7, 1), Process(0, 8, 2, "mps")]
    question = """
get, version = n.nvmlDeviceGetRunningProcessDetailList, n.nvmlProcessDetailList_v1
answer = [[p.pid for p in get(gpu, version, mode)] for mode in range(4)]
"""
    assert ask(scenario, question) == [[7], [], [8], [7, 8]]


def test_only_the_first_memory_call_counts_the_reserved_part_as_used(ask: Asker) -> None:
    scenario = one_gpu(memory=80 * GIB, reserved=GIB)
    scenario.processes = [Process(0, 7, 2 * GIB), Process(0, 8, None)]
    question = """
one, two = n.nvmlDeviceGetMemoryInfo(gpu), n.nvmlDeviceGetMemoryInfo(gpu, n.nvmlMemory_v2)
answer = [[one.total, one.free, one.used], [two.total, two.free, two.used, two.reserved]]
"""
    first, second = ask(scenario, question)
    assert first == [80 * GIB, 77 * GIB, 3 * GIB]
    assert second == [80 * GIB, 77 * GIB, 2 * GIB, GIB]


def test_the_535_drivers_pass_rows_of_32_bytes(ask: Asker) -> None:
    scenario = one_gpu()
    scenario.processes = [Process(0, 7, GIB), Process(0, 8, GIB)]
    question = """
room, count = (n.c_nvmlProcessDetail_v1_t * 2)(), ctypes.c_uint(2)
fake.nvmlDeviceGetComputeRunningProcesses_v3(gpu, ctypes.byref(count), room)
answer = [[row.pid for row in room], hasattr(fake, "nvmlDeviceGetRunningProcessDetailList")]
"""
    assert ask(scenario, question, library(struct535=True)) == [[7, 8], False]


# --- energy, fields, events, accounting ---


def test_energy_is_the_integral_of_power_and_falls_with_the_driver(ask: Asker) -> None:
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


def test_energy_read_step_by_step_is_the_energy_read_at_once(ask: Asker) -> None:
    scenario = Scenario(gpus=[Gpu(0)], works=random_works(0), loaded=NOW - 50)
    question = f"""
scenario = Scenario(gpus=[Gpu(0)], works={scenario.works!r}, loaded={NOW - 50})
clock = {NOW} - 20
offset = clock - time.time()
scenario.offset = offset
scenario.write(path)
seen = [(n.nvmlDeviceGetTotalEnergyConsumption(gpu), time.time()) for _ in range(200)]
scenario.now = seen[-1][1] + offset
scenario.write(path)
answer = [[value for value, _ in seen], n.nvmlDeviceGetTotalEnergyConsumption(gpu)]
"""
    seen, at_once = ask(scenario, question)
    assert seen == sorted(seen)
    assert at_once - seen[-1] <= 35_000  # one step of 0.1 s at 350 W


def test_a_board_without_an_energy_counter(ask: Asker) -> None:
    question = "answer = code(n.nvmlDeviceGetTotalEnergyConsumption, gpu)"
    assert ask(one_gpu(energy=False), question) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_each_field_value_has_its_own_answer(ask: Asker) -> None:
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


def test_xid_events_are_reported_once_and_only_when_they_happen_after_the_registration(
    ask: Asker,
) -> None:
    scenario = one_gpu()
    scenario.xids = [Xid(0, 13, NOW - 1), Xid(0, 31)]
    question = """
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(gpu, n.nvmlEventTypeXidCriticalError, events)
first = n.nvmlEventSetWait_v2(events, 0)
empty = code(n.nvmlEventSetWait_v2, events, 0)
path.write_text(path.read_text() + "xid gpu=0 code=79\\n")
later = n.nvmlEventSetWait_v2(events, 1000)
answer = [first.eventType, first.eventData, empty, later.eventData, n.nvmlEventSetFree(events)]
"""
    assert ask(scenario, question) == [8, 31, pynvml.NVML_ERROR_TIMEOUT, 79, None]


# --- MIG ---


def mig_board() -> Scenario:
    """One board with two of its MIG devices in use."""
    return Scenario(
        gpus=[Gpu(0, mig=True)],
        instances=[
            Instance(0, 0, gi=2, slices=3, memory=40 * GIB, profile="3g.40gb"),
            Instance(0, 2, gi=5),
        ],
        processes=[Process(0, 7, GIB, instance=0), Process(0, 8, 2 * GIB, instance=2)],
        works=[Work(0, 7, NOW - 60, instance=0), Work(0, 8, NOW - 5, instance=2)],
        now=NOW,
        loaded=NOW - 10,
    )


def test_mig_devices_have_identity_memory_and_processes_of_their_own(ask: Asker) -> None:
    question = """
handles = []
for index in range(n.nvmlDeviceGetMaxMigDeviceCount(gpu)):
    try:
        handles.append(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
    except n.NVMLError_NotFound:
        pass
def of(h):
    return [n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetGpuInstanceId(h),
            n.nvmlDeviceGetMemoryInfo(h).used, n.nvmlDeviceGetAttributes(h).gpuInstanceSliceCount,
            n.nvmlDeviceIsMigDeviceHandle(h).value,
            [(p.pid, p.gpuInstanceId) for p in n.nvmlDeviceGetComputeRunningProcesses(h)]]
answer = [of(handle) for handle in handles]
answer.append([(p.pid, p.gpuInstanceId) for p in n.nvmlDeviceGetComputeRunningProcesses(gpu)])
"""
    assert ask(mig_board(), question) == [
        ["MIG-0-0", 2, GIB, 3, 1, [[7, 2]]],
        ["MIG-0-2", 5, 2 * GIB, 1, 1, [[8, 5]]],
        [[7, 2], [8, 5]],
    ]


def test_instances_are_parts_of_a_board_of_so_many_slices(ask: Asker) -> None:
    scenario = mig_board()
    scenario.gpus = [Gpu(0, mig=True, slices=4)]
    scenario.instances = [Instance(0, 0, slices=2, compute=1)]
    scenario.processes = []
    scenario.works = [Work(0, 7, NOW - 60, instance=0)]
    question = """
info = n.nvmlDeviceGetGpuInstanceProfileInfo
attributes = n.nvmlDeviceGetAttributes(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0))
answer = [info(gpu, 3, 1).sliceCount, info(gpu, 1, 1).instanceCount, code(info, gpu, 4, 1),
          code(info, gpu, 99, 1), attributes.gpuInstanceSliceCount,
          attributes.computeInstanceSliceCount]
"""
    assert ask(scenario, question) == [4, 2, 3, 2, 2, 1]
    assert core_seconds(scenario, 0, NOW - 10, NOW) == pytest.approx(5)


def test_an_instance_lies_at_its_place_on_the_board(ask: Asker) -> None:
    scenario = mig_board()
    scenario.instances[0] = Instance(0, 0, gi=2, slices=3, start=4)
    question = """
def place(gi):
    found = n.nvmlGpuInstanceGetInfo(n.nvmlDeviceGetGpuInstanceById(gpu, gi))
    return [found.id, found.placement.start, found.placement.size]
answer = [place(2), place(5), code(n.nvmlDeviceGetGpuInstanceById, gpu, 9),
          code(n.nvmlGpuInstanceGetInfo, gpu)]
"""
    wrong = [pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT]
    assert ask(scenario, question) == [[2, 4, 3], [5, 2, 1], *wrong]


def test_a_process_has_the_name_of_its_program(ask: Asker) -> None:
    scenario = Scenario(gpus=[Gpu(0)], processes=[Process(0, 7, name="a b"), Process(0, 8)])
    question = """
name = n.nvmlSystemGetProcessName
answer = [name(7), name(8), code(name, 9)]
"""
    assert ask(scenario, question) == ["a b", "python3", pynvml.NVML_ERROR_NOT_FOUND]


def test_a_board_with_mig_tells_no_utilisation_but_its_energy(ask: Asker) -> None:
    scenario = mig_board()
    question = """
mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
answer = [code(rows), code(samples, 1), code(n.nvmlDeviceGetUtilizationRates, gpu),
          code(n.nvmlDeviceGetPowerUsage, mig), n.nvmlDeviceGetTotalEnergyConsumption(gpu)]
"""
    *refused, energy = ask(scenario, question)
    assert refused == [3, 3, 3, 3]
    assert core_seconds(scenario, 0, NOW - 10, NOW) == pytest.approx(10 * 3 / 7 + 5 / 7)
    assert energy / 1000 == pytest.approx(energy_joules(scenario, 0, NOW - 10, NOW), abs=0.01)


def test_gpm_shows_the_activity_of_a_mig_device(ask: Asker) -> None:
    question = f"""
first, second = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2)
n.nvmlGpmSampleGet(mig, first)
path.write_text(path.read_text().replace("now={NOW:.9f}", "now={NOW + 2:.9f}").replace(
    "pid=8 start={NOW - 5:.9f}", "pid=8 start={NOW + 0.5:.9f}"))
n.nvmlGpmMigSampleGet(gpu, 5, second)
get = n.c_nvmlGpmMetricsGet_t(version=1, numMetrics=2, sample1=first, sample2=second)
get.metrics[0].metricId, get.metrics[1].metricId = 2, 99
n.nvmlGpmMetricsGet(get)
answer = [n.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice, get.metrics[0].value,
          get.metrics[1].nvmlReturn]
"""
    assert ask(mig_board(), question) == [1, 75.0, 3]


# --- counting ---


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


# --- other people's programs ---


def peers_scenario(path: Path, pid: int) -> Path:
    """A real process, busy now, on an ordinary board and on a MIG device."""
    scenario = mig_board()
    scenario.now = None
    scenario.gpus.append(Gpu(1))
    scenario.processes = [Process(0, pid, GIB, instance=0), Process(1, pid, 3 * GIB)]
    scenario.works = [Work(1, pid, NOW, memory=0.5)]
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


def test_gpustat_shows_the_process(tmp_path: Path, sleeper: int) -> None:
    path = peers_scenario(tmp_path / "scenario.txt", sleeper)
    done = run(path, library(), "-m", "gpustat", "--json")
    assert done.returncode == 0, done.stderr
    board = json.loads(done.stdout)["gpus"][1]
    assert board["utilization.gpu"] == 100
    assert board["power.draw"] == 350
    [process] = board["processes"]
    assert (process["pid"], process["gpu_memory_usage"]) == (sleeper, 3072)


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
