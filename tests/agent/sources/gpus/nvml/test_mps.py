"""Who serves MPS clients is told from those who have nothing to do with MPS."""

from collections.abc import Callable
from ctypes import Array, c_char

import pytest

from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.nvmlprocesses import MpsServers
from exporter.model import ProcessMemory
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.nvml.node import Node, calls
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu, Process

NAME = "nvmlSystemGetProcessName"
SERVER = "nvidia-cuda-mps-server"


@pytest.fixture
def shared(node: Node) -> Node:
    """A GPU with an MPS server, one client of it, and a process beside."""
    node.scenario.gpus = [Gpu(0)]
    node.scenario.processes = [
        Process(gpu=0, pid=1, name=SERVER),
        Process(gpu=0, pid=2, kind="mps"),
        Process(gpu=0, pid=3, name="/usr/bin/python3 nvidia-cuda-mps-server"),
    ]
    return node


def kinds(node: Node) -> dict[int, set[str]]:
    memory = known(node.device("GPU-0").memory)
    return {process.pid: set(process.kinds) for process in memory.processes or ()}


def test_server_is_known_by_its_name(shared: Node) -> None:
    shared.start()
    assert kinds(shared) == {1: {"compute", "mps_server"}, 2: {"mps"}, 3: {"compute"}}
    assert shared.device("GPU-0").device.sharing == "mps"


def test_without_clients_nobody_is_asked_for_a_name(shared: Node) -> None:
    del shared.scenario.processes[1]
    shared.start()
    assert kinds(shared) == {1: {"compute"}, 3: {"compute"}}
    assert calls(shared.read(), NAME) == 0


def test_driver_that_does_not_name_processes_has_no_server(shared: Node) -> None:
    shared.start(path=library(omit={NAME}))
    assert kinds(shared) == {1: {"compute"}, 2: {"mps"}, 3: {"compute"}}


def test_a_name_that_never_comes_costs_nothing_else(shared: Node) -> None:
    shared.start()
    shared.fail(Fault("hang", NAME))
    assert kinds(shared) == {1: {"compute"}, 2: {"mps"}, 3: {"compute"}}
    assert shared.read().status.up
    shared.fail()


class SampleAttribution(Library):
    """A library in which every process has the same name, of any bytes."""

    def __init__(self, name: bytes, code: int = 0) -> None:
        self.name = name
        self.code = code

    def function(self, name: str, *_: object) -> Callable[..., int]:
        """The only function that is asked for."""
        assert name == NAME

        def call(_pid: int, buffer: Array[c_char], size: int) -> int:
            buffer.value = self.name[: size - 1]
            return self.code

        return call


@pytest.mark.parametrize(
    ("name", "server"),
    [
        (b"nvidia-cuda-mps-server", True),
        (b"/usr/bin/nvidia-cuda-mps-server", True),
        (b"nvidia-cuda-mps-server -force-tegra", True),
        (b"nvidia-cuda-mps-server2", False),
        (b"\xff\xfe", False),
        (b"", False),
        (b"/" * 4096, False),
    ],
)
def test_any_name_is_survived(name: bytes, server: bool) -> None:  # noqa: FBT001 - a table's column
    processes = (
        ProcessMemory(1, 5, frozenset({"compute"})),
        ProcessMemory(2, 5, frozenset({"mps", "compute"})),
    )
    first, second = MpsServers(SampleAttribution(name)).marked(processes)
    assert ("mps_server" in first.kinds) is server
    assert second == processes[1]


def test_process_that_has_ended_is_no_server() -> None:
    processes = (
        ProcessMemory(1, 5, frozenset({"compute"})),
        ProcessMemory(2, 5, frozenset({"mps"})),
    )
    assert MpsServers(SampleAttribution(SERVER.encode(), code=6)).marked(processes) == processes
