"""Whatever goes wrong with an answer, nobody is billed for it, and no fault is an idle card.

Which cells there are, how to look at one, and how many fail: see README.md.
"""

from zlib import crc32

import pytest

from tests.doors.checks import findings
from tests.doors.matrix import Cell, cells, control, run
from tests.doors.nodes import NODES

OF_THE_DRIVER = {"nvidia", "mig", "mps", "plugin", "claims", "annotations"}
SAMPLE = 388  # one cell of so many
NODE = [
    pytest.param(name, marks=[pytest.mark.program("cc")] if name in OF_THE_DRIVER else [])
    for name in NODES
]


def wrong(cell: Cell) -> list[str]:
    """What is wrong in a cell."""
    found = findings(cell, run(cell.node, cell), control(cell.node))
    return [f"{cell}: {each}" for each in found]


@pytest.mark.parametrize("name", NODE)
def test_a_sample_of_the_faults_of_a_node(name: str) -> None:
    sample = [cell for cell in cells(name) if crc32(str(cell).encode()) % SAMPLE == 0]
    assert [each for cell in sample for each in wrong(cell)] == []
