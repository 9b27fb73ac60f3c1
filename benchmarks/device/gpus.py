"""The GPU under test: a real one, or the stand-in for NVML, whose truth is computed."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.device.cases import Tenant
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Gpu, Process, Scenario, Work, truth

MIB = 1 << 20


class RealGpu:
    """NVML and CUDA as they are on this machine. A tenant's own count of its work is the truth."""

    flags: tuple[str, ...] = ()
    pretend = False

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}

    def began(self, tenant: Tenant, pid: int, begin: float) -> None:
        """The driver knows."""

    def ended(self, pid: int) -> None:
        """The driver knows."""

    def busy_s(self, pid: int, begin: float, end: float, reported: float) -> float:  # noqa: ARG002
        """Steps done times the time that a step takes alone."""
        return reported


class StandIn:
    """tests/fakenvml: shows what the bench would print; says nothing of any hardware."""

    pretend = True

    def __init__(self) -> None:
        self._file = Path(tempfile.mkdtemp()) / "gpus.txt"
        self._scenario = Scenario(gpus=[Gpu(0, rule="random")], loaded=time.time())
        self._scenario.write(self._file)
        nvml = library()
        self.flags = (f"--nvml.library={nvml}",)
        folder = str(nvml.parent)  # for programs that find it by themselves
        self.environment = {"FAKENVML_SCENARIO": str(self._file), "LD_LIBRARY_PATH": folder}

    def began(self, tenant: Tenant, pid: int, begin: float) -> None:
        """Show its work from a time on."""
        memory = tenant.memory_mib * MIB
        self._scenario.processes.append(Process(0, pid, memory=memory, start=begin))
        if tenant.duty:
            period = tenant.period_s if tenant.duty < 1 else 0.0
            work = Work(0, pid, start=begin, duty=tenant.duty, period=period)
            self._scenario.works.append(work)
        self._scenario.write(self._file)

    def ended(self, pid: int) -> None:
        """Its work ends now."""
        now, told = time.time(), self._scenario
        told.processes = [p for p in told.processes if p.pid != pid]
        told.works = [replace(w, end=now) if w.pid == pid else w for w in told.works]
        told.write(self._file)

    def busy_s(self, pid: int, begin: float, end: float, reported: float) -> float:  # noqa: ARG002
        """What the stand-in's own definition says."""
        return truth(self._scenario, 0, begin, end + 1).get(pid, 0.0)
