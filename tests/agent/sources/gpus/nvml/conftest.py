"""A node with the stand-in library."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sources.gpus.nvml.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node without GPUs; a test adds them and starts the source."""
    node = Node(tmp_path)
    yield node
    node.stop()
