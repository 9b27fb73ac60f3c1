"""A node for the exporter: real cgroups with real processes, and GPUs that do as they are told.

The GPUs are tests/fakenvml under the real pynvml. A process that was ended leaves the driver's list
in the same moment, as it does on a real node.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.agent.sources.cgroups.real import RealCgroups
from tests.e2e.programs import Exporter
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Fault, Gpu, Process, Scenario, Work

NAME = "node-1"


class Node:
    """GPUs, cgroups and the processes in them; what runs here began a moment ago."""

    def __init__(self, folder: Path, cgroups: RealCgroups, gpus: Sequence[Gpu]) -> None:
        self.cgroups = cgroups
        self.scenario = Scenario(gpus=list(gpus), loaded=time.time() - 60)
        self._file = folder / "gpus.txt"
        self.tell()

    def tell(self) -> None:
        """Let the driver know of what changed in the scenario."""
        self.scenario.write(self._file)

    def run(self, cgroup: str, *gpus: int, duty: float = 1.0, period: float = 0.0) -> int:
        """Start a process in a cgroup that works on these GPUs and holds 1 GiB on each. Its pid."""
        return self.work(self.cgroups.spawn(cgroup), *gpus, duty=duty, period=period)

    def work(self, pid: int, *gpus: int, duty: float = 1.0, period: float = 0.0) -> int:
        """Let a process that is there already work on these GPUs. Its pid."""
        now = time.time()
        for gpu in gpus:
            self.scenario.processes.append(Process(gpu, pid, memory=GIB, start=now))
            work = Work(gpu, pid, start=now, duty=duty, period=period, memory=0.25)
            self.scenario.works.append(work)
        self.tell()
        return pid

    def end(self, pid: int) -> None:
        """Kill a process; its work stays in the driver's memory."""
        self.cgroups.end(pid)
        now, told = time.time(), self.scenario
        told.processes = [p for p in told.processes if p.pid != pid]
        told.works = [replace(w, end=now) if w.pid == pid else w for w in told.works]
        self.tell()

    def break_(self, *faults: Fault) -> None:
        """Let the driver fail in these ways, and in no others."""
        self.scenario.faults = list(faults)
        self.tell()

    def mend(self) -> None:
        """Let the driver work again."""
        self.break_()

    def lose(self, index: int, *, lost: bool = True) -> None:
        """Let a GPU fall off the bus, or come back."""
        self.scenario.gpus[index] = replace(self.scenario.gpus[index], lost=lost)
        self.tell()

    def exporter(self, *flags: str, environment: Mapping[str, str] | None = None) -> Exporter:
        """Start the exporter on this node; cgroups are looked for as on any other."""
        given = (f"--nvml.library={library()}", f"--node.name={NAME}", *flags)
        told = {"FAKENVML_SCENARIO": str(self._file), **(environment or {})}
        return Exporter(*given, environment=told)
