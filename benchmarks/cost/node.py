"""A node: processes in cgroups, GPUs that they work on, and an API server that names the pods."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Self

from benchmarks.cost.cluster import Cluster
from benchmarks.cost.crowd import Crowd
from benchmarks.cost.size import Size, Tenant
from tests.agent.sources.pods.apiserver import write_kubeconfig
from tests.fakenvml.build import library
from tests.fakenvml.prices import LATER, h100, traffic
from tests.fakenvml.scenario import GIB, Fault, Price, Process, Scenario, Work, truth

HELD = GIB // 8
JOB_S, JOBS_EACH_S = 1.5, 10
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Node:
    """``with Node(size) as node:``; everything of it ends on leaving.

    ``prices`` is the CPU that the driver's calls take beside what the stand-in needs. ``spread``:
    each process on GPUs works on all of them, not on its pod's alone.
    """

    def __init__(self, size: Size, prices: Sequence[Price] = (), *, spread: bool = False) -> None:
        self.size = size
        self.nvml = library(omit=LATER)
        self.folder = Path(mkdtemp(prefix="mgpu-bench-"))
        self._spread = spread
        self._scenario = Scenario(
            gpus=[h100(index) for index in range(size.gpus)],
            fields=[field for index in range(size.gpus) for field in traffic(index)],
            prices=prices,
            loaded=time.time() - 60,
        )
        self._stack = ExitStack()
        self._pods = size.pods

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.crowd = stack.enter_context(Crowd(self.size))
            self.cluster = stack.enter_context(Cluster(self.size))
            self._stack = stack.pop_all()
        self.kubeconfig = write_kubeconfig(self.folder / "kubeconfig", self.cluster.url)
        self._employ(self.crowd.workers, time.time() - 30)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def create_pod(self) -> None:
        """One more pod: its processes in their cgroups, and what the API server says of it."""
        self.crowd.add([Tenant(self._pods)], self.size.app_processes)
        self.cluster.order("create")
        self._pods += 1

    def start_on_gpu(self) -> None:
        """One more pod, of which a process uses a GPU."""
        tenant = Tenant(self._pods, self._pods % self.size.gpus, working=1)
        self.crowd.add([tenant], self.size.app_processes)
        self.cluster.order(f"create {tenant.gpu}")
        self._employ(self.crowd.working(tenant), time.time())
        self._pods += 1

    def _employ(self, workers: Mapping[int, Tenant], since: float) -> None:
        for pid, tenant in workers.items():
            assert tenant.gpu is not None
            for gpu in range(self.size.gpus) if self._spread else [tenant.gpu]:
                self._scenario.processes.append(Process(gpu, pid, memory=HELD, start=since))
                self._scenario.works.append(Work(gpu, pid, start=since, memory=0.25))
        self.break_()

    def churn(self, seconds: float) -> float:
        """Lets a process of 1.5 s come to each card each 10 s; to the cards one after the other.

        Returns the core time that they take. Their pids are of others in the same containers.
        """
        begin, jobs = time.time() + 1, list[tuple[int, int, float]]()
        for gpu in range(self.size.gpus):
            spare = self.crowd.spare(gpu)
            at = begin + gpu * JOBS_EACH_S / self.size.gpus
            while at + JOB_S < begin + seconds:
                jobs.append((gpu, next(spare), at))
                at += JOBS_EACH_S
        for gpu, pid, at in jobs:
            self._scenario.processes.append(Process(gpu, pid, HELD, start=at, end=at + JOB_S))
            self._scenario.works.append(Work(gpu, pid, start=at + 0.2, end=at + JOB_S))
        self.break_()
        return sum(truth(self._scenario, gpu, at, at + JOB_S)[pid] for gpu, pid, at in jobs)

    def break_(self, *faults: Fault) -> None:
        """Let the driver fail in these ways, and in no others."""
        self._scenario.faults = list(faults)
        self._scenario.write(self.folder / "gpus.txt")

    def hang(self) -> None:
        """Let every call to the first GPU hang."""
        self.break_(Fault("hang", "nvmlDeviceGet*", gpu=0))

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Of an agent on this node. One in Python finds its bytecode, as it does in an image."""
        own = {
            "FAKENVML_SCENARIO": str(self.folder / "gpus.txt"),
            "LD_LIBRARY_PATH": str(self.nvml.parent),
        }
        kept = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
        return {**kept, **own, **more}
