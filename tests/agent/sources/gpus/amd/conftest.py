from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from tests.agent.sources.gpus.amd.node import DEMAND, Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose drivers are loaded, with no board yet."""
    made = Node(tmp_path / "sys")
    made.tree.load()
    yield made
    made.source.close()


@pytest.fixture
def nested(node: Node) -> Iterator[Node]:
    """As in a pod without hostPID."""
    proc = node.machine.proc
    node.machine.write(proc, {"self/status": "Name:\tx\nNSpid:\t7"})
    (proc / "self/ns").mkdir()
    (proc / "self/ns/pid").symlink_to("pid:[4026532900]")
    node.source = AmdSource(node.tree.sysfs, proc, clock=node.clock)
    node.source.follow(DEMAND)
    yield node
    node.source.close()
