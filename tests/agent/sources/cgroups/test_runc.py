"""Real containers, made by runc in the layouts that the kubelet and containerd ask for."""

import contextlib
import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.agent.sources.cgroups.walk import walk
from exporter.model import CgroupIdentity
from tests.agent.sources.cgroups.names import (
    container_path,
    new_container_id,
    new_uid,
    pod_path,
    pods,
)
from tests.agent.sources.cgroups.real import mounted

BUSYBOX = Path("/bin/busybox")
pytestmark = [
    pytest.mark.root,
    pytest.mark.program("runc"),
    pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static as /bin/busybox"),
]


class Runc:
    """Containers in a private subtree ``top`` of all hierarchies, below a bundle directory."""

    def __init__(self, directory: Path) -> None:
        self.top = f"mgpu-test-{uuid.uuid4().hex}"
        self._directory = directory
        self._ids: list[str] = []

    def run(self, cgroup: str, script: str = "exec sleep 1000") -> int:
        """Start a container in a cgroup below ``top``; the pid of its first process."""
        name = f"c{len(self._ids)}"
        bundle = self._directory / name
        (bundle / "rootfs" / "bin").mkdir(parents=True)
        (bundle / "rootfs" / "proc").mkdir()
        os.mkfifo(bundle / "rootfs" / "ready")
        (bundle / "rootfs" / "bin" / "busybox").write_bytes(BUSYBOX.read_bytes())
        (bundle / "rootfs" / "bin" / "busybox").chmod(0o755)
        self._call("spec", "--bundle", str(bundle))
        config = json.loads((bundle / "config.json").read_text())
        self._adapt(config, f"/{self.top}/{cgroup}", script)
        (bundle / "config.json").write_text(json.dumps(config))
        pid_file = bundle / "pid"
        self._ids.append(name)
        self._call("run", "--detach", "--bundle", str(bundle), "--pid-file", str(pid_file), name)
        return int(pid_file.read_text())

    def wait(self, number: int) -> None:
        """Wait until the script of the container started as that number writes to /ready."""
        (self._directory / f"c{number}" / "rootfs" / "ready").read_bytes()

    def pids(self, number: int) -> set[int]:
        """All processes of the container started as that number, as runc tells."""
        return set(json.loads(self._call("ps", "--format", "json", f"c{number}")))

    def clear(self) -> None:
        """Delete all containers and the subtree in every hierarchy."""
        for name in self._ids:
            self._call("delete", "--force", name)
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, where, kind, *_ = line.split()
            if kind in {"cgroup", "cgroup2"}:
                for directory, _, _ in os.walk(f"{where}/{self.top}", topdown=False):
                    os.rmdir(directory)  # noqa: PTH106 - a string

    def _call(self, *arguments: str) -> str:
        command = ["runc", "--root", str(self._directory / "state"), *arguments]
        with (self._directory / "log").open("w+") as log:
            # A file, not a pipe: the container inherits it and would keep a pipe open.
            done = subprocess.run(
                command, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            log.seek(0)
            said = log.read()
        assert done.returncode == 0, said
        return said

    @staticmethod
    def _adapt(config: dict[str, Any], cgroup: str, script: str) -> None:
        process = config["process"]
        process.update(terminal=False, args=["/bin/busybox", "sh", "-c", script])
        process.pop("rlimits", None)  # raising limits needs CAP_SYS_RESOURCE
        process.pop("oomScoreAdj", None)
        config["mounts"] = [mount for mount in config["mounts"] if mount["type"] == "proc"]
        config["linux"]["cgroupsPath"] = cgroup
        config["linux"].pop("resources", None)
        config["linux"]["namespaces"] = [
            space for space in config["linux"]["namespaces"] if space["type"] != "network"
        ]


@pytest.fixture
def runc(tmp_path: Path) -> Iterator[Runc]:
    made = Runc(tmp_path)
    try:
        yield made
    finally:
        made.clear()


@contextlib.contextmanager
def watching(runc: Runc) -> Iterator[CgroupProcesses]:
    mount = mounted("v1") or mounted("v2")
    processes = CgroupProcesses(f"{mount}/{runc.top}")
    try:
        yield processes
    finally:
        processes.close()


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
@pytest.mark.parametrize("qos", ["guaranteed", "besteffort"])
def test_a_container_of_a_pod_is_found_from_its_pid(runc: Runc, driver: str, qos: str) -> None:
    uid, container_id = new_uid(), new_container_id()
    pid = runc.run(container_path(driver, uid, container_id, qos))
    runtime = "containerd" if driver == "systemd" else None
    with watching(runc) as processes:
        expected = CgroupIdentity(uid, container_id, runtime, qos)
        assert processes.resolve([pid]) == {pid: expected}


def test_children_in_a_containers_own_pid_namespace_are_found_by_the_nodes_pids(
    runc: Runc,
) -> None:
    uid, container_id = new_uid(), new_container_id()
    runc.run(
        container_path("cgroupfs", uid, container_id),
        "sleep 1000 & sleep 1001 & echo > /ready; wait",
    )
    runc.wait(0)
    with watching(runc) as processes:
        pids = runc.pids(0)
        identity = CgroupIdentity(uid, container_id, None, "burstable")
        assert len(pids) == 3
        assert processes.resolve(pids) == dict.fromkeys(pids, identity)


def test_the_leaf_that_runc_makes_of_a_systemd_request_is_read(runc: Runc) -> None:
    uid, container_id = new_uid(), new_container_id()
    slice_ = pod_path("systemd", uid, "besteffort").rpartition("/")[2]
    pid = runc.run(f"system.slice/containerd.service/{slice_}:cri-containerd:{container_id}")
    with watching(runc) as processes:
        expected = CgroupIdentity(uid, container_id, "containerd", "besteffort")
        assert processes.resolve([pid]) == {pid: expected}


def test_a_container_outside_any_pod_is_found(runc: Runc) -> None:
    container_id = new_container_id()
    pid = runc.run(f"docker/{container_id}")
    with watching(runc) as processes:
        assert processes.resolve([pid]) == {pid: CgroupIdentity(None, container_id, "docker")}


def test_every_controller_that_runc_joins_tells_the_same(runc: Runc) -> None:
    uid, container_id = new_uid(), new_container_id()
    pid = runc.run(container_path("systemd", uid, container_id))
    for version in ("v1", "v2"):
        mount = mounted(version)
        if mount is not None and (mount / runc.top).exists():
            assert pods(walk(str(mount / runc.top))) == {uid: {container_id: {pid}}}
