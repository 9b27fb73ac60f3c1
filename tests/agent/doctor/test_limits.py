"""Checks of device memory that cgroups are held to, on a directory laid out as the kernel's."""

import os
from pathlib import Path

import pytest

from exporter.agent.doctor.evidence import CheckVerdict
from exporter.agent.doctor.limitchecks import limits
from exporter.model import (
    MEMORY_LIMIT,
    MEMORY_REQUEST,
    CgroupIdentity,
    CgroupMemory,
    Container,
    Device,
    DeviceMemory,
    DeviceReading,
    Pod,
    PodTable,
    ProcessMemory,
    Reading,
    SourceStatus,
)
from tests.agent.doctor.looking import by_subject, evidence, settings

NO_PODS = PodTable()
KAI = "nvidia.com/container."
KEY = "drm/0000:03:00.0/vram0"
POD, LEAF, OTHER = "pods/pod1", "pods/pod1/a", "pods/pod1/b"


class Tree:
    """Two containers of a pod with 1 and 2 guaranteed, and the pod with their sum."""

    def __init__(self, folder: Path) -> None:
        self.root, self.proc = folder / "cgroup", folder / "proc"
        for name, least in {LEAF: 1, OTHER: 2, POD: 3, "pods": 3}.items():
            (self.root / name).mkdir(parents=True, exist_ok=True)
            self.write(name, "min", least)
        (self.root / "cgroup.controllers").write_text("dmem\n")
        self.write("", "capacity", 64)
        own = self.proc / str(os.getpid())
        own.mkdir(parents=True)
        (own / "cgroup").write_text("0::/pods/pod1/a\n")

    def write(self, cgroup: str, name: str, value: object) -> None:
        """Write one file."""
        (self.root / cgroup / f"dmem.{name}").write_text(f"{KEY} {value}\n")

    def findings(
        self,
        *cgroups: CgroupMemory | None,
        environ: dict[str, str] | None = None,
        table: PodTable = NO_PODS,
        at: str = "",
    ) -> dict[str, tuple[CheckVerdict, str]]:
        """What the check says of it, by subject."""
        processes = tuple(
            ProcessMemory(pid, 1, frozenset(), one) for pid, one in enumerate(cgroups, 1)
        )
        memory = DeviceMemory(64, 1, 0, processes)
        device = DeviceReading(Device("GPU-0", 0, "nvidia", pci_bus_id=at), memory=memory)
        given = evidence(
            settings(path_cgroup=str(self.root), path_procfs=str(self.proc)),
            readings=(Reading(SourceStatus("nvml", up=True), (device,)),),
            identities={1: CgroupIdentity("u", "1")},
            table=table,
        )
        found = by_subject(limits(given, environ or {}))
        return {subject: (one.verdict, one.found) for subject, one in found.items()}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_tree_whose_guarantees_add_up_has_no_problem(tree: Tree) -> None:
    assert tree.findings() == {
        "dmem": (CheckVerdict.OK, "the kernel counts the memory of 1 device")
    }


def test_a_guarantee_that_a_deleted_cgroup_left_behind_is_found(tree: Tree) -> None:
    tree.write(POD, "min", 7)
    tree.write("pods", "min", 7)
    verdict, found = tree.findings()["dmem.min"]
    assert (verdict, found) == (
        CheckVerdict.PROBLEM,
        "more than below is kept by /pods, /pods/pod1",
    )


def test_a_guarantee_that_the_cgroups_above_do_not_have_is_found(tree: Tree) -> None:
    tree.write("pods", "min", 0)
    assert tree.findings()["dmem.min"][1] == "less than below is kept by /pods"


def test_best_effort_that_the_cgroups_above_do_not_have_is_noted(tree: Tree) -> None:
    tree.write(LEAF, "low", 5)
    tree.write(POD, "low", "max")
    tree.write("pods", "low", 4)
    assert tree.findings()["dmem.low"] == (
        CheckVerdict.NOTE,
        "less than below is kept by /pods",
    )


def test_all_of_a_device_is_kept_once(tree: Tree) -> None:
    for cgroup in (LEAF, OTHER, POD, "pods"):
        tree.write(cgroup, "min", "max")
    assert "dmem.min" not in tree.findings()


@pytest.mark.parametrize(
    ("refused", "verdict"),
    [
        ("not_found", CheckVerdict.NOTE),
        ("not_supported", CheckVerdict.NOTE),
        ("operating_system", CheckVerdict.PROBLEM),
        ("no_permission", CheckVerdict.PROBLEM),
    ],
)
def test_each_answer_of_the_driver_says_what_to_do(
    refused: str, verdict: CheckVerdict, tree: Tree
) -> None:
    found = tree.findings(CgroupMemory(refused=refused), None)["memory limits"]
    assert found == (
        verdict,
        f"nvmlDeviceGetMemoryLimits_v1 answers {refused} for 1 of 2 processes",
    )


def test_limits_that_are_known_are_counted(tree: Tree) -> None:
    held = CgroupMemory(1, 1, 2, "driver")
    assert tree.findings(held, held, None)["memory limits"] == (
        CheckVerdict.OK,
        "of 2 of 3 processes, by the driver",
    )


ASKS = {
    "annotations": (Container("c", container_ids=("1",)), {f"{KAI}c.gpu-memory.limit": "4Gi"}),
    "environment": (
        Container("c", container_ids=("1",), environment={MEMORY_REQUEST: "1", MEMORY_LIMIT: "2"}),
        {},
    ),
    "one variable": (Container("c", container_ids=("1",), environment={MEMORY_LIMIT: "2"}), {}),
    "another container": (
        Container("c", container_ids=("1",)),
        {f"{KAI}d.gpu-memory.limit": "4Gi"},
    ),
    "another process": (
        Container("c", container_ids=("2",)),
        {f"{KAI}c.gpu-memory.limit": "4Gi"},
    ),
}


@pytest.mark.parametrize(
    ("cgroup", "is_held"),
    [
        (None, False),
        (CgroupMemory(refused="not_found"), False),
        (CgroupMemory(1, None, None, "driver"), False),
        (CgroupMemory(1, 1, 2, "driver"), True),
        (CgroupMemory(refused="operating_system"), True),
    ],
    ids=["an older driver", "not found", "cleared", "limited", "not to be seen"],
)
@pytest.mark.parametrize("case", ASKS)
def test_who_asks_for_a_limit_that_nobody_holds_him_to_is_named(
    case: str, cgroup: CgroupMemory | None, tree: Tree, *, is_held: bool
) -> None:
    container, annotations = ASKS[case]
    pod = Pod("u", "ml", "p", containers=(container,), annotations=annotations)
    asks = case in {"annotations", "environment"}
    found = tree.findings(cgroup, table=PodTable(1, {"u": pod}, {"u": "u"})).get(
        "memory limits asked for"
    )
    told = "asked for, but neither the driver nor the kernel has one: ml/p"
    assert found == ((CheckVerdict.PROBLEM, told) if asks and not is_held else None)


@pytest.mark.parametrize("way", ["its own", "the pod's", "by the environment"])
def test_the_exporter_in_a_limited_cgroup_is_told(way: str, tree: Tree) -> None:
    if way == "by the environment":
        found = tree.findings(environ={"NVIDIA_GPU_MEMORY_LIMIT": "4096"})
    else:
        tree.write(LEAF if way == "its own" else POD, "max", 5)
        found = tree.findings()
    assert found["exporter's cgroup"][0] is CheckVerdict.PROBLEM


def in_cgroup(tree: Tree, pid: int, path: str) -> None:
    """Put a process into a cgroup."""
    (tree.proc / str(pid)).mkdir()
    (tree.proc / str(pid) / "cgroup").write_text(f"0::{path}\n")


def test_limits_that_cannot_be_read_are_said_with_what_to_do(tree: Tree) -> None:
    container = f"pods/pod1/docker-{'c' * 64}.scope"
    (tree.root / container / "inner").mkdir(parents=True)
    for cgroup in ("pods", POD, LEAF):
        tree.write(cgroup, "current", 1)
    tree.write(OTHER, "current", "9" * 5000)
    in_cgroup(tree, 1, f"/{container}/inner")
    in_cgroup(tree, 2, f"/{LEAF}")
    in_cgroup(tree, 3, f"/{OTHER}")
    held = CgroupMemory(1, 1, 2, "driver")  # the fifth: the kernel is not asked
    found = tree.findings(None, None, None, None, held, at="0000:03:00.0")
    assert found["processes' cgroups"] == (
        CheckVerdict.PROBLEM,
        "1 of 4 processes have a cgroup that is not to be seen",
    )
    assert found["dmem limits"] == (CheckVerdict.NOTE, "none can be read below /pods/pod1")
    assert found["dmem files"] == (CheckVerdict.PROBLEM, "not read: /pods/pod1/b/dmem.current")


def test_a_limit_beyond_all_of_the_card_is_said(tree: Tree) -> None:
    tree.write(POD, "max", 65)
    tree.write(LEAF, "max", 64)
    assert tree.findings()["dmem.max"] == (
        CheckVerdict.PROBLEM,
        "beyond all of the card: /pods/pod1",
    )
