from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpus.amd.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose drivers are loaded, with no board yet."""
    made = Node(tmp_path / "sys")
    made.tree.load()
    yield made
    made.source.close()
