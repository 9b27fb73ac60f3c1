"""The node's GPUs: tests/fakenvml, told what the processes of real containers do on them."""

import time
from dataclasses import replace
from pathlib import Path

from tests.fakenvml.scenario import GIB, Gpu, Instance, Process, Scenario, Work

MEMORY = 4 * GIB
CARDS = 14
SHARED = range(4)  # by mGPU
WHOLE = range(4, 8)  # by nvidia.com/gpu
CLAIMED = range(8, CARDS)  # by claims
INSTANCE = "MIG-00000000-0000-4000-8000-000000000000"
FIRST_SLICE = 4  # of the instance's memory


def uuid(gpu: int) -> str:
    """The UUID of a GPU; the device plugin's ids are these."""
    return f"GPU-00000000-0000-4000-8000-{gpu:012d}"


class Board:
    """The node's GPUs. ``driver`` holds the library, ``file`` is the scenario that it reads."""

    def __init__(self, folder: Path, driver: Path) -> None:
        folder.mkdir()
        self.driver = driver
        self.file = folder / "gpus.txt"
        self.gpus = [
            Gpu(index, uuid=uuid(index), memory=MEMORY, reserved=0) for index in range(CARDS)
        ]
        self._scenario = Scenario(gpus=self.gpus, loaded=time.time() - 60)
        self._tell()

    def burst(self, pid: int, gpu: int, seconds: float) -> None:
        """Let a process keep a GPU busy for so long, from now on."""
        now = time.time()
        self._open(pid, gpu)
        self._scenario.works.append(Work(gpu, pid, start=now, end=now + seconds))
        self._tell()

    def work(self, pid: int, gpu: int, load: float) -> None:
        """Let a process use so much of a GPU; those that do so at once share that evenly."""
        self.rest(pid)
        self._open(pid, gpu)
        self._scenario.works.append(Work(gpu, pid, start=time.time(), core=load))
        self._tell()

    def open(self, pid: int, gpu: int) -> None:
        """Let a process hold memory of a GPU."""
        self._open(pid, gpu)
        self._tell()

    def divide(self, gpu: int) -> None:
        """Put a GPU into MIG mode, with one instance, which has the GPU's processes."""
        scenario = self._scenario
        self.gpus[gpu] = replace(self.gpus[gpu], mig=True)
        scenario.instances.append(
            Instance(gpu, 0, INSTANCE, slices=1, memory=MEMORY // 8, start=FIRST_SLICE)
        )
        scenario.processes = [
            replace(each, instance=0) if each.gpu == gpu else each for each in scenario.processes
        ]
        self._tell()

    def unite(self, gpu: int) -> None:
        """The opposite; nobody holds memory of it."""
        scenario = self._scenario
        self.gpus[gpu] = replace(self.gpus[gpu], mig=None)
        scenario.instances = []
        scenario.processes = [each for each in scenario.processes if each.gpu != gpu]
        self._tell()

    def rest(self, pid: int) -> None:
        """Let a process hold its memory and do nothing."""
        now = time.time()
        self._scenario.works = [
            replace(work, end=now) if work.pid == pid and work.end is None else work
            for work in self._scenario.works
        ]
        self._tell()

    def end(self, pid: int) -> None:
        """The process has ended: the driver drops it, and its work stays in the driver's past."""
        self.rest(pid)
        self._scenario.processes = [p for p in self._scenario.processes if p.pid != pid]
        self._tell()

    def _open(self, pid: int, gpu: int) -> None:
        if not any(p.pid == pid and p.gpu == gpu for p in self._scenario.processes):
            opened = Process(gpu, pid, memory=GIB // 4, start=time.time())
            self._scenario.processes.append(opened)

    def _tell(self) -> None:
        self._scenario.write(self.file)
