"""A card whose clients cannot be seen, and what the kernel charges to cgroups for its memory."""

from pathlib import Path

import pytest

from exporter.agent.collector import Collector, Sources
from exporter.agent.ledger import Ledger
from exporter.agent.sources.cgroups.dmem import CgroupFiles
from exporter.agent.sources.cgroups.processcontainers import CgroupProcesses
from exporter.model import Container, GroupKey, Pod, PodTable, Snapshot
from tests.agent.collector.bench import row
from tests.agent.collector.sources import SetPods
from tests.agent.sources.gpus.drm.machine import Machine
from tests.rows import rows_of

PCI, GIB, SECOND = "0000:03:00.0", 1 << 30, 10**9
UID, CID = "4a163a05-439d-484b-8e53-2968bc15824f", "c" * 64
QOS = "kubepods.slice/kubepods-burstable.slice"
OF_POD = f"{QOS}/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
OWN = f"{OF_POD}/cri-containerd-{CID}.scope"
JOB = "pbs_jobs.service/jobid/7.head"
POD = Pod(UID, "ml", "train", containers=(Container("main", container_ids=(CID,)),))
WHERE = ("200", f"DRM-{PCI}")


class Node:
    """An Arc card, a tree of cgroups, and no client that can be seen."""

    def __init__(self, folder: Path) -> None:
        machine = self.machine = Machine(folder)
        machine.card(0, "xe", PCI, files={"tile0/physical_vram_size_bytes": str(16 * GIB)})
        self.root = folder / "cgroup"
        self.put("", capacity=16 * GIB)
        (self.root / "cgroup.controllers").write_text("dmem\n")
        (self.root / "cgroup.procs").write_text("1\n")
        gpus = machine.source()
        gpus.cgroups = CgroupFiles(str(self.root), str(machine.proc), machine.clock)
        processes = CgroupProcesses(str(self.root), str(machine.proc), machine.clock)
        pods = self.pods = SetPods()
        pods.current = PodTable(1, {UID: POD}, {UID: UID}, {CID: (UID, "main")})
        ledger = Ledger(300 * SECOND, 15 * SECOND)
        self.collector = Collector(Sources((gpus,), processes, pods), ledger, machine.clock)

    def put(self, cgroup: str, **files: object) -> None:
        """Write files of a cgroup."""
        (self.root / cgroup).mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (self.root / cgroup / f"dmem.{name}").write_text(f"drm/{PCI}/vram0 {value}\n")

    def charge(self, cgroup: str, amount: int) -> None:
        """Charge a cgroup, and so all above it."""
        while cgroup:
            self.put(cgroup, current=amount)
            cgroup = cgroup.rpartition("/")[0]

    def snapshot(self) -> Snapshot:
        """After some seconds."""
        for _ in range(7):
            self.machine.clock.move(1)
            snapshot = self.collector.cycle()
        return snapshot


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_container_and_a_job_hold_what_they_are_charged(node: Node) -> None:
    node.charge(OWN, 3 * GIB)
    node.put(OWN, max=4 * GIB)
    node.charge(JOB, 2 * GIB)
    snapshot = node.snapshot()
    own = row(snapshot, "container", "ml", "train", "main", *WHERE).values
    job = row(snapshot, "group", "pbs", "7.head", *WHERE).values
    assert (own["memory_used_bytes"], own["memory_limit_bytes"]) == (3 * GIB, 4 * GIB)
    assert own["memory_charged_bytes"] == {("kernel", "figure"): 3 * GIB}
    assert (job["memory_used_bytes"], job["processes"]) == (2 * GIB, 0)
    assert job["info"] == {("7.head", "", "", "", ""): 1}


def test_who_is_charged_no_more_holds_nothing(node: Node) -> None:
    node.charge(OWN, 3 * GIB)
    node.snapshot()
    node.charge(OWN, 0)
    snapshot = node.snapshot()
    containers = [r for r in rows_of(snapshot)["container"] if "memory_used_bytes" in r.values]
    assert containers == []


def test_a_kernel_without_dmem_says_nothing_of_anybody(node: Node) -> None:
    node.charge(OWN, 3 * GIB)
    (node.root / "dmem.capacity").unlink()
    assert not rows_of(node.snapshot())["container"]


def test_a_container_that_is_not_of_a_known_pod_is_a_group(node: Node) -> None:
    node.pods.current = PodTable()
    node.charge(OWN, 3 * GIB)
    (found,) = rows_of(node.snapshot())["group"]
    assert found.labels == (*GroupKey("pod", f"{UID}/{CID}"), *WHERE)
