"""The driver's calls in a minute, by name, and the CPU that they take on an H100.

``python -m benchmarks.cost.minute [8 3]``: of so many cards with so many processes on each. It is
the source alone, on a clock that is set, so that two runs of one tree make the same calls. In a
process of its own, because pynvml keeps one library.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from exporter.agent.settings import load
from exporter.agent.sources.gpus.gpusource import demand_of
from exporter.agent.sources.gpus.nvml.nvmlsource import NvmlSource
from tests.agent.sources.gpus.nvml.agent import SetClock
from tests.fakenvml.build import library
from tests.fakenvml.prices import H100, LATER, h100, traffic
from tests.fakenvml.scenario import GIB, Process, Scenario, Work

START_S = 1_700_000_000
WARM_S, MINUTE_S = 60, 60
SECOND = 10**9


class Minute(NamedTuple):
    """How often each function was called, and the CPU of all in a second, in ms."""

    calls: dict[str, int]
    driver_ms: float


class Clock(SetClock):
    """Shows the time it was set to, and the CPU since: a call that costs much takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.set_ns = 0

    def set(self, now_ns: int) -> None:
        """Show this time now."""
        self.now_ns, self.set_ns = now_ns, time.process_time_ns()

    def monotonic_ns(self) -> int:
        """The time, with the CPU that this process has taken since it was set."""
        return self.now_ns + time.process_time_ns() - self.set_ns


def minute(gpus: int = 8, processes: int = 3) -> Minute:
    """Of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.cost.minute", str(gpus), str(processes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Minute(**json.loads(done.stdout))


def _measured(gpus: int, processes: int, folder: Path) -> Minute:
    used, file = folder / "cpu", folder / "scenario.txt"
    os.environ |= {"FAKENVML_CPU": str(used), "FAKENVML_SCENARIO": str(file)}
    scenario = Scenario(
        gpus=[h100(index) for index in range(gpus)],
        prices=H100,
        loaded=START_S - 1000,
        now=START_S,
    )
    for gpu in range(gpus):
        scenario.fields += traffic(gpu)
        for pid in range(100 * gpu + 1, 100 * gpu + 1 + processes):
            scenario.processes.append(Process(gpu, pid, memory=GIB, start=START_S - 100))
            scenario.works.append(Work(gpu, pid, start=START_S - 100, memory=0.25))
    scenario.write(file)
    nvml = str(library(omit=LATER))
    ctypes.CDLL(nvml)
    clock = Clock()
    demand = replace(demand_of(load({}, {})), deadline_s=60)  # the driver's time is real
    source = NvmlSource(library_path=nvml, clock=clock, demand=demand)
    before, calls, cpu_ns = Counter[str](), Counter[str](), 0
    for second in range(WARM_S + MINUTE_S + 1):
        scenario.now = START_S + second
        clock.set(int(scenario.now * SECOND))
        scenario.write(file)
        reading = source.read()
        calls = Counter({name: call.calls for name, call in reading.calls.items()})
        if second == WARM_S:
            before, cpu_ns = calls, int.from_bytes(used.read_bytes(), "little")
    cpu_ns = int.from_bytes(used.read_bytes(), "little") - cpu_ns
    source.close()
    return Minute(dict(calls - before), round(cpu_ns / 1e6 / MINUTE_S, 2))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        size = int(sys.argv[1]), int(sys.argv[2])
        print(json.dumps(_measured(*size, Path(temporary))._asdict()))
