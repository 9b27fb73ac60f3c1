"""Device memory that the kernel charges to cgroups, whether or not a driver lists a process."""

import os
from pathlib import Path

import pytest

from exporter.agent.attribution.ownership import owner_of
from exporter.agent.sources.cgroups import dmem
from exporter.agent.sources.cgroups.batchpatterns import GroupPatterns
from exporter.agent.sources.cgroups.dmem import CURRENT, LOOK_NS, CgroupFiles, read, stated
from exporter.agent.sources.door import Reply
from exporter.model import (
    MIG,
    CgroupIdentity,
    CgroupMemory,
    Device,
    DeviceMemory,
    DeviceReading,
    GroupPattern,
    PodTable,
    ProcessMemory,
)
from tests.agent.simulation.clock import ManualClock

GIB = 1 << 30
KEY = "drm/0000:03:00.0/vram0"
CARD = Device("GPU-0", 0, "intel", pci_bus_id="0000:03:00.0")
UID, CID, OTHER = "4a163a05-439d-484b-8e53-2968bc15824f", "c" * 64, "d" * 64
POD = f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
CONTAINER = f"{POD}/cri-containerd-{CID}.scope"
SLICE = "user.slice/user-1000.slice"
JOB = "system.slice/slurmstepd.scope/job_211"


class Node:
    """A cgroup tree whose charges add up from below, as the kernel's do."""

    def __init__(self, folder: Path) -> None:
        self.root, self.clock = folder / "cgroup", ManualClock()
        self.root.mkdir()
        (self.root / "cgroup.controllers").write_text("dmem\n")
        self.put("", capacity=64 * GIB)
        self.files = CgroupFiles(
            str(self.root),
            str(folder / "proc"),
            self.clock,
            GroupPatterns([GroupPattern("lsf", "/lsf/job.{job}", "{job}")]),
        )
        self.memory = DeviceMemory(64 * GIB, 9 * GIB, 0, ())

    def put(self, cgroup: str, **files: object) -> None:
        """Write files of one cgroup."""
        folder = self.root / cgroup
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (folder / f"dmem.{name}").write_text(f"{KEY} {value}\n")

    def charge(self, cgroup: str, amount: int) -> None:
        """Charge a cgroup and all above it."""
        at = ""
        for name in cgroup.split("/"):
            at = f"{at}/{name}".lstrip("/")
            before = stated(str(self.root / at), CURRENT).get((0, "03:00.0")) or 0
            self.put(at, current=before + amount)

    def charges(self, device: Device = CARD) -> dict[CgroupIdentity, int | None]:
        """What each container and group is charged."""
        (found,) = self.files.charged([DeviceReading(device, memory=self.memory)])
        assert found.memory
        return {each.identity: each.memory.charged_bytes for each in found.memory.charges}

    def by_owner(self) -> dict[str, int]:
        """The same, by the kind and name of each group or pod."""
        sums: dict[str, int] = {}
        for identity, charged in self.charges().items():
            name = "/".join(map(str, owner_of(identity, PodTable())))
            sums[name] = sums.get(name, 0) + (charged or 0)
        return sums


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_container_is_charged_without_any_process_of_it(node: Node) -> None:
    node.charge(CONTAINER, 2 * GIB)
    (identity,) = node.charges()
    assert (identity.pod_uid, identity.container_id) == (UID, CID)
    assert node.charges() == {identity: 2 * GIB}


def test_each_part_is_charged_once(node: Node) -> None:
    """A job's steps, a user's container in his slice, a container of docker's service."""
    node.charge(JOB, GIB)
    node.charge(f"{JOB}/step_0/user/task_0", 2 * GIB)
    node.charge(f"{JOB}/step_1", 4 * GIB)
    node.charge(f"{SLICE}/session-3.scope", GIB)
    node.charge(f"{SLICE}/session-4.scope", 2 * GIB)
    node.charge(f"{SLICE}/user@1000.service/user.slice/libpod-{OTHER}.scope/container", 8 * GIB)
    node.charge("system.slice/ollama.service", GIB)
    node.charge("lsf/job.77/part", GIB)
    assert node.by_owner() == {
        "slurm/211": 7 * GIB,
        "user/1000": 3 * GIB,
        f"podman/1000/{OTHER}": 8 * GIB,
        "systemd/ollama.service": GIB,
        "systemd/slurmstepd.scope": 0,
        "lsf/77": GIB,
    }


def test_limits_stand_beside_the_charge(node: Node) -> None:
    node.charge(CONTAINER, 2 * GIB)
    node.put(POD, max=3 * GIB)
    node.put(CONTAINER, max=4 * GIB, min=GIB)
    node.put("kubepods.slice", min=GIB)
    node.put(POD, min=GIB)
    (found,) = node.files.charged([DeviceReading(CARD, memory=node.memory)])
    assert found.memory
    assert [each.memory for each in found.memory.charges] == [
        CgroupMemory(2 * GIB, GIB, 3 * GIB, "kernel")
    ]


def test_where_nothing_is_charged_nothing_is_looked_at(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        node.put(f"kubepods.slice/pod{number}/a/b", current=0)
        node.put(f"kubepods.slice/pod{number}", current=0)
    node.put("kubepods.slice", current=0)
    seen: list[str] = []

    def watched(folder: str, name: str) -> Reply[dmem.Bytes]:
        seen.append(folder)
        return read(folder, name)

    monkeypatch.setattr(dmem, "read", watched)
    assert node.charges() == {}
    assert len(seen) == 2  # the root, kubepods.slice


def test_all_cgroups_are_looked_at_every_few_seconds(node: Node) -> None:
    node.charge(CONTAINER, GIB)
    assert list(node.charges().values()) == [GIB]
    node.charge(CONTAINER, GIB)
    assert list(node.charges().values()) == [GIB]
    node.clock.move(LOOK_NS / 1e9)
    assert list(node.charges().values()) == [2 * GIB]


def test_who_makes_many_cgroups_hides_nobody_else(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dmem, "MOST_INSIDE", 5)
    monkeypatch.setattr(dmem, "MOST_FOLDERS", 40)
    for number in range(100):
        node.charge(f"{CONTAINER}/a{number}", 1)
        node.charge(f"{SLICE}/session-{number}.scope", 1)
    node.charge("system.slice/z.service", 7)
    assert sorted(node.charges().values(), key=str) == [100, 100, 7]


@pytest.mark.parametrize("device", [CARD, Device("M", 1, "nvidia", pci_bus_id="0000:03:00.0")])
def test_a_card_that_is_divided_has_no_charges_of_its_own(node: Node, device: Device) -> None:
    node.charge(CONTAINER, GIB)
    divided = Device(device.uuid, 0, device.vendor, pci_bus_id=device.pci_bus_id, sharing=MIG)
    assert node.charges(divided) == {}
    assert node.charges(device) != {}


def test_a_limit_of_a_process_is_that_of_all_of_its_group(tmp_path: Path) -> None:
    """One session's limit is not the whole slice's."""
    node = Node(tmp_path)
    node.charge(f"{SLICE}/session-3.scope", GIB)
    node.charge(f"{SLICE}/session-4.scope", GIB)
    node.put(f"{SLICE}/session-3.scope", max=2 * GIB)
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(f"0::/{SLICE}/session-3.scope\n")
    process = ProcessMemory(7, GIB, frozenset())
    node.memory = DeviceMemory(64 * GIB, 9 * GIB, 0, (process,))
    (found,) = node.files.charged([DeviceReading(CARD, memory=node.memory)])
    assert found.memory
    assert found.memory.processes
    assert found.memory.processes[0].cgroup == CgroupMemory(2 * GIB, None, None, "kernel")


@pytest.mark.parametrize(
    ("path", "home"),
    [
        (f"{CONTAINER}/system.slice/x.service", CONTAINER),
        (CONTAINER, CONTAINER),
        (f"{JOB}/step_0/user/task_0", JOB),
        (f"{SLICE}/user@1000.service/app.slice/x.service", SLICE),
        ("system.slice/x.service/deeper", "system.slice/x.service"),
        ("lsf/job.77/part", "lsf/job.77"),
        ("nowhere/deeper", "nowhere/deeper"),
    ],
)
def test_the_directory_of_a_process_is_that_of_its_container_or_group(
    tmp_path: Path, path: str, home: str
) -> None:
    node = Node(tmp_path)
    (node.root / path).mkdir(parents=True)
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(f"0::/{path}\n")
    assert node.files.home_of(7) == f"{node.root}/{home}"
    assert node.files.home_of(8) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY} {'9' * 4400}\n",
        f"{KEY} -1\n",
        f"{KEY} 1_000\n",
        f"{KEY} \u0663\n",
        f"{KEY} 1\ndrm/0000:03:00.0/vram1 {'9' * 30}\n",  # a part is no sum
        f"{KEY}\n",
        "\n" * 70_000,
    ],
)
def test_what_is_no_amount_is_not_known(tmp_path: Path, text: str) -> None:
    (tmp_path / CURRENT).write_text(text)
    assert stated(str(tmp_path), CURRENT) == {}


def test_a_line_that_is_cut_is_not_read(tmp_path: Path) -> None:
    line = "drm/0000:04:00.0/vram0 123456789\n"
    (tmp_path / CURRENT).write_text(line * 1985 + "drm/0000:03:00.0/vram0 123456789\n" * 9)
    assert (0, "03:00.0") not in stated(str(tmp_path), CURRENT)


def test_a_pipe_in_place_of_a_file_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CURRENT)
    assert stated(str(tmp_path), CURRENT) == {}


def test_what_cannot_be_read_is_nobody_elses(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    inside = f"{SLICE}/user@1000.service/user.slice/libpod-{OTHER}.scope"
    node.charge(SLICE, GIB)
    node.charge(inside, 2 * GIB)
    broken = node.root / inside / CURRENT
    broken.unlink()
    broken.mkdir()  # it cannot be read: EISDIR
    assert node.charges() == {}  # what the outer one has of its own is not known either
    assert "what follows from it is not shown" in caplog.text


def test_a_limit_above_that_cannot_be_read_is_no_missing_limit(node: Node) -> None:
    node.charge(CONTAINER, GIB)
    node.put(CONTAINER, max=3 * GIB)
    (node.root / POD / "dmem.max").mkdir()
    (reading,) = node.files.charged([DeviceReading(CARD, memory=node.memory)])
    assert reading.memory
    assert [c.memory for c in reading.memory.charges] == [CgroupMemory(GIB, evidence="kernel")]
