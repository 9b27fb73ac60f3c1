"""Memory limits of cgroups, by the driver's own word: what each answer becomes."""

from pathlib import Path

import pytest

from exporter.agent.sources.gpus.nvml.cgrouplimits import NAME
from exporter.model import CgroupMemory
from tests.agent.sources.gpus.nvml.node import Node, calls
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Fault, Gpu, Instance, Limit, Process

PID = 7


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "leaf").mkdir()
    return str(tmp_path / "leaf")


def cgroup(node: Node, uuid: str = "GPU-0") -> CgroupMemory | None:
    memory = node.device(uuid).memory
    assert memory
    (process,) = memory.processes or ()
    return process.cgroup


LIMITS = {
    "soft only": ({"soft": 4 * GIB, "used": GIB}, CgroupMemory(GIB, 4 * GIB, None, "driver")),
    "hard only": ({"hard": 8 * GIB, "used": GIB}, CgroupMemory(GIB, 0, 8 * GIB, "driver")),
    "both, over soft": (
        {"soft": GIB, "hard": 8 * GIB, "used": 3 * GIB},
        CgroupMemory(3 * GIB, GIB, 8 * GIB, "driver"),
    ),
    "over hard": (
        {"soft": GIB, "hard": 2 * GIB, "used": 3 * GIB},
        CgroupMemory(3 * GIB, GIB, 2 * GIB, "driver"),
    ),
    "unknown": (
        {"soft": 2**64 - 1, "hard": 8 * GIB, "used": 2**64 - 1},
        CgroupMemory(None, None, 8 * GIB, "driver"),
    ),
    "cleared": ({"used": GIB}, CgroupMemory(GIB, None, None, "driver")),
}


@pytest.mark.parametrize("case", LIMITS)
def test_limits_are_the_drivers(case: str, node: Node, folder: str) -> None:
    given, expected = LIMITS[case]
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(gpu=0, pid=PID, memory=GIB)]
    node.scenario.limits = [Limit(gpu=0, cgroup=folder, **given)]
    node.start(cgroups={PID: folder})
    assert cgroup(node) == expected


REFUSED = {
    "no limit": (None, "not_found"),
    "not supported, or none set by the back end misc": (3, "not_supported"),
    "no right": (4, "no_permission"),
    "foreign path": (17, "operating_system"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_driver_answers_instead_is_kept_for_the_check(
    case: str, node: Node, folder: str
) -> None:
    code, meaning = REFUSED[case]
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(gpu=0, pid=PID, memory=GIB)]
    if code:
        node.scenario.faults = [Fault("error", NAME, code=code)]
    node.start(cgroups={PID: folder})
    assert cgroup(node) == CgroupMemory(refused=meaning)


def test_a_directory_that_is_not_there_is_an_error_of_the_operating_system(node: Node) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(gpu=0, pid=PID, memory=GIB)]
    node.start(cgroups={PID: "/nowhere"})
    assert cgroup(node) == CgroupMemory(refused="operating_system")


def test_a_mig_device_is_not_asked(node: Node, folder: str) -> None:
    node.scenario.gpus = [Gpu(0, mig=True)]
    node.scenario.instances = [Instance(gpu=0, index=0)]
    node.scenario.processes = [Process(gpu=0, pid=PID, memory=GIB, instance=0)]
    node.start(cgroups={PID: folder})
    assert cgroup(node, "MIG-0-0") is None
    assert calls(node.read(), NAME) == 0


def test_a_driver_without_the_call_says_nothing(node: Node, folder: str) -> None:
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [Process(gpu=0, pid=PID, memory=GIB)]
    node.start(path=library(omit={NAME}), cgroups={PID: folder})
    assert cgroup(node) is None
