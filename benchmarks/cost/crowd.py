"""The node's processes: they sleep, in cgroups laid out as the kubelet and containerd do."""

import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from benchmarks.cost.compiled import program
from benchmarks.cost.size import CONTAINERS, Size, Tenant, tenants
from tests.agent.sources.cgroups.names import container_path
from tests.agent.sources.cgroups.real import mounted


class Crowd:
    """``with Crowd(size) as crowd:``. ``workers`` are the processes that use the GPUs."""

    def __init__(self, size: Size) -> None:
        mount = mounted("v2") or mounted("v1")
        if mount is None:
            raise SystemExit("no cgroup hierarchy is mounted here, and the bench needs a real one")
        self.version = "v2" if mounted("v2") else "v1"
        self.root = mount / f"mgpu-bench-{uuid.uuid4().hex[:8]}"
        self.workers: dict[int, Tenant] = {}
        self.processes = 0
        self._size = size
        self._program = subprocess.Popen(
            [program("crowd")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        self.root.mkdir()
        try:
            everyone = list(tenants(self._size))
            self.add(everyone, self._size.app_processes)
            for tenant in everyone:
                self.workers |= self.working(tenant)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._program.communicate()
        for folder, *_ in os.walk(self.root, topdown=False):
            os.rmdir(folder)  # noqa: PTH106 - a string

    def add(self, everyone: Iterable[Tenant], processes: int) -> None:
        """Start pods with so many processes in each container."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        for tenant in everyone:
            for name in ("", *CONTAINERS):
                procs = self._procs(tenant, name)
                procs.parent.mkdir(parents=True)
                count = processes if name else 1
                self.processes += count
                self._program.stdin.write(f"{count} {procs}\n")
        self._program.stdin.write("\n")
        self._program.stdin.flush()
        if self._program.stdout.readline() != "ready\n":
            raise SystemExit("processes could not be started; standard error says why")

    def working(self, tenant: Tenant) -> dict[int, Tenant]:
        """Its processes that use a GPU."""
        if not tenant.working:
            return {}
        pids = self._procs(tenant, CONTAINERS[0]).read_text().split()
        return dict.fromkeys(map(int, pids[: tenant.working]), tenant)

    def spare(self, gpu: int) -> Iterator[int]:
        """Processes that use no GPU, in containers that have this one."""
        for tenant in set(self.workers.values()):
            if tenant.gpu == gpu:
                pids = self._procs(tenant, CONTAINERS[0]).read_text().split()
                yield from map(int, pids[tenant.working :])

    def _procs(self, tenant: Tenant, container: str) -> Path:
        path = container_path("systemd", tenant.uid, tenant.container_id(container))
        return self.root / path / "cgroup.procs"
