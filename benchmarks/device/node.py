"""The node under test: cgroups laid out as kubepods, tenants in them, the exporter beside them."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from benchmarks.device.cases import Case, Tenant
from tests.agent.sources.cgroups.real import RealCgroups, mounted
from tests.e2e.programs import Exporter, Page

MPS_CONTROL = "nvidia-cuda-mps-control"
SETTLE_S = 2.5  # two cycles: what the driver sampled last has been counted


class Gpus(Protocol):
    """Where the GPU is: a real one, or the stand-in for NVML."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What the exporter is started with."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """Its environment, beside this process's own."""
        ...

    @property
    def pretend(self) -> bool:
        """Whether tenants are to work without a GPU."""
        ...

    def began(self, tenant: Tenant, pid: int, begin: float) -> None:
        """A tenant works from now on."""
        ...

    def ended(self, pid: int) -> None:
        """It has ended."""
        ...

    def busy_s(self, pid: int, begin: float, end: float, reported: float) -> float:
        """GPU-seconds that it really used."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """One tenant: what it did, and what the exporter says it did."""

    tenant: Tenant
    pid: int
    true_s: float
    measured_s: float | None
    memory_bytes: float | None
    smi_mib: str
    bursts: tuple[tuple[float, float], ...]


class Running:
    """A tenant's process in its own container cgroup."""

    def __init__(
        self, tenant: Tenant, cgroups: RealCgroups, mps: Mapping[str, str], *, pretend: bool
    ) -> None:
        self.tenant = tenant
        self.group = f"{uuid.uuid4()}/{uuid.uuid4().hex}{uuid.uuid4().hex}"
        pod, container = self.group.split("/")
        command = [sys.executable, "-m", "benchmarks.device.tenant", f"--duty={tenant.duty}"]
        command += [f"--period={tenant.period_s}", f"--memory-mib={tenant.memory_mib}"]
        command += [f"--way={tenant.way}", f"--ns-per-step={tenant.ns_per_step}"]
        self.process = subprocess.Popen(
            [*command, *(["--pretend"] if pretend else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **mps},
        )
        directory = cgroups.make(f"kubepods/burstable/pod{pod}/{container}")
        (directory / "cgroup.procs").write_text(str(self.process.pid))
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"tenant {tenant.name} did not get its GPU; see its error above")

    def begin(self, at: float) -> None:
        """Let it work from a time on."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{at}\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """Let it end; what it did."""
        told, _ = self.process.communicate()
        return dict(json.loads(told))


class Bench:
    """Runs cases one after another on one GPU."""

    def __init__(self, gpus: Gpus, index: int, seconds: float) -> None:
        self._gpus, self._index, self._seconds = gpus, index, seconds
        root = next((m for m in (mounted("v1"), mounted("v2")) if m), None)
        if root is None or os.geteuid() != 0:
            raise SystemExit("needs root and a mounted cgroup file system")
        self._root: Path = root / f"mgpu-bench-{os.getpid()}"
        self._root.mkdir()
        self._cgroups = RealCgroups(self._root)
        flags = ("--pods.source=none", "--ledger.retention=1h", *gpus.flags)
        self.exporter = Exporter(*flags, environment=gpus.environment).ready()

    def run(self, case: Case) -> list[Result]:
        """Run one case; a result for each of its tenants."""
        with mps_daemon() if case.mps else contextlib.nullcontext(dict[str, str]()) as mps:
            return self._run(case, mps)

    def _run(self, case: Case, mps: Mapping[str, str]) -> list[Result]:
        pretend = self._gpus.pretend
        running = [Running(t, self._cgroups, mps, pretend=pretend) for t in case.tenants]
        time.sleep(SETTLE_S)  # what tenants did to find the length of a step is no part of the case
        page = self.exporter.scrape()
        before = {one.group: self._value(page, "core_seconds_total", one) or 0 for one in running}
        begin = time.time() + 0.5
        for one in running:
            one.begin(begin)
            self._gpus.began(one.tenant, one.process.pid, begin)
        ends: dict[str, dict[str, Any]] = {}
        held: dict[str, tuple[float | None, str]] = {}
        for one in sorted(running, key=self._lives):
            time.sleep(max(begin + self._lives(one) - time.time() - SETTLE_S, 0.0))
            used = self._value(self.exporter.scrape(), "memory_used_bytes", one)
            held[one.group] = used, nvidia_smi(one.process.pid)
            time.sleep(max(begin + self._lives(one) - time.time(), 0.0))
            ends[one.group] = one.end()
            self._gpus.ended(one.process.pid)
        time.sleep(SETTLE_S)
        page = self.exporter.scrape()
        results = []
        for one in running:
            after = self._value(page, "core_seconds_total", one)
            measured = None if after is None else after - before[one.group]
            did = ends[one.group]
            results.append(self._result(one, did, begin, measured, held[one.group]))
        return results

    def close(self) -> None:
        """Leave the machine as it was."""
        self.exporter.stop()
        self._cgroups.clear()

    def _lives(self, one: Running) -> float:
        return one.tenant.lives_s or self._seconds

    def _value(self, page: Page, name: str, one: Running) -> float | None:
        return page.value(f"mgpu_group_{name}", kind="pod", group=one.group, gpu=str(self._index))

    def _result(
        self,
        one: Running,
        did: dict[str, Any],
        begin: float,
        measured: float | None,
        held: tuple[float | None, str],
    ) -> Result:
        pid = one.process.pid
        true_s = self._gpus.busy_s(pid, begin, float(did["end"]), float(did["busy_s"]))
        bursts: Sequence[Sequence[float]] = did["bursts"]
        return Result(one.tenant, pid, true_s, measured, *held, tuple((a, b) for a, b in bursts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def nvidia_smi(pid: int) -> str:
    """The MiB that a process holds, as nvidia-smi prints them; empty without nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return ""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    pairs = (line.split(",") for line in lines if line.count(",") == 1)
    return next((used.strip() for its, used in pairs if its.strip() == str(pid)), "")


@contextlib.contextmanager
def mps_daemon() -> Iterator[dict[str, str]]:
    """A private MPS daemon; the variables by which a process finds it."""
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        where = {f"CUDA_MPS_{kind}_DIRECTORY": f"{folder}/{kind}" for kind in ("PIPE", "LOG")}
        environment = {**os.environ, **where}
        for path in where.values():
            Path(path).mkdir()
        subprocess.run([MPS_CONTROL, "-d"], env=environment, check=True)
        try:
            yield where
        finally:
            subprocess.run([MPS_CONTROL], input=b"quit\n", env=environment, check=True)
