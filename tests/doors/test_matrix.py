"""Whatever goes wrong with an answer, nobody is billed for it, and no fault is an idle card.

Which cells there are, how to look at one, and how many fail: see README.md.
"""

import re
from fnmatch import filter as matching
from fnmatch import fnmatchcase
from zlib import crc32

import pytest

from tests.doors.checks import findings
from tests.doors.matrix import Cell, cells, control, run
from tests.doors.nodes import NODES

OF_THE_DRIVER = {"nvidia", "mig", "mps", "plugin", "claims", "annotations"}
COSTLY = {"slurm", "amd-apu", "xe"}  # more than a second; others have the same sources
QUICK, MORE = 388, 30  # one cell of so many
NODE = [
    pytest.param(name, marks=[pytest.mark.program("cc")] if name in OF_THE_DRIVER else [])
    for name in NODES
]
# What is open, and why.
OPEN = {
    # What it used meanwhile is its own later, on a board that counted that already.
    "amd-apu-read proc/N/fdinfo/N-back-some": "what a client is owed counts twice on the board",
    # Nor does anything else say that it works: the card has no counter of its own.
    "i915-read proc/N/fdinfo/N-stale-*": "a counter that stands still is an idle client's",
    "xe-read proc/N/fdinfo/N-stale-*": "a counter that stands still is an idle client's",
    # The clients of two processes have one number then, as those of a parent and its child.
    "amd-apu-read proc/N/fdinfo/N-reused-some": "clients of one number are one client",
    # Without a client only KFD says who has memory, and who is not on its list has none there.
    "amd-apu-list proc/N/fd-refused-some": "KFD's list stands for all where clients are refused",
    # A link of sysfs is all that names a card there.
    "*-link sys/class/drm/card?/device-elsewhere-*": "it has another card's name",
    # An idle driver answers so (nvml.h). Its rate of a moment is all that there is then, and errs.
    "*-call nvml.nvmlDeviceGetSamples-not found-some": "what is not found is no new sample",
    # And so does one that names nobody: use goes to no_pid, and is withheld after 10 s.
    "*-call nvml.nvmlDeviceGetProcessUtilization-not found-some": "what is not found is no row",
    # A read over the gap names the client, where each second's does not.
    "mps-call nvml.nvmlDeviceGetTotalEnergyConsumption-lost-some": "a client of MPS is named",
}
MENDED = (
    "amd-list proc-EIO-ever",
    "amd-list proc/N/fd-ESTALE-some",
    "amd-list sys/class/kfd/kfd/proc-refused-some",
    "amd-read proc/N/fdinfo/N-EIO-some",
    "amd-read proc/N/stat-back-once",
    "amd-read proc/N/stat-reused-some",
    "amd-read sys/class/kfd/kfd/proc/N/vram_N-EIO-some",
    "amd-read sys/devices/pciN:N/PCI/gpu_busy_percent-garbled-some",
    "amd-read sys/devices/pciN:N/PCI/hwmon/hwmon4/name-garbled-some",
    "amd-read sys/devices/pciN:N/PCI/ras/umc_err_count-EIO-some-of-card-A",
    "amd-read sys/devices/pciN:N/PCI/ras/umc_err_count-enormous-some",
)


def wrong(cell: Cell) -> list[str]:
    """What is wrong in a cell."""
    found = findings(cell, run(cell.node, cell), control(cell.node))
    return [f"{cell}: {each}" for each in found]


def is_open(cell: Cell) -> bool:
    """Whether it is known to fail."""
    return any(fnmatchcase(str(cell), pattern) for pattern in OPEN)


def some(name: str, part: int) -> list[Cell]:
    """One of so many cells of a node, always the same ones, of those that must hold."""
    chosen = [cell for cell in cells(name) if crc32(str(cell).encode()) % part == 0]
    return [cell for cell in chosen if not is_open(cell)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            *one.values, marks=[*one.marks, *[pytest.mark.slow] * (one.values[0] in COSTLY)]
        )
        for one in NODE
    ],
)
def test_a_sample_of_the_faults_of_a_node(name: str) -> None:
    assert [each for cell in some(name, QUICK) for each in wrong(cell)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NODE)
def test_more_of_the_faults_of_a_node(name: str) -> None:
    assert [each for cell in some(name, MORE) for each in wrong(cell)] == []


@pytest.mark.slow
def test_what_was_mended_holds() -> None:
    mended = [cell for cell in cells("amd") if str(cell) in MENDED]
    assert len(mended) == len(MENDED)
    assert [each for cell in mended for each in wrong(cell)] == []


@pytest.mark.slow
@pytest.mark.program("cc")
def test_what_is_open_is_a_cell() -> None:
    kinds = re.compile("-(?:read|list|link|call) ")
    nodes = {kinds.split(pattern)[0] for pattern in OPEN} - {"*"} | {"i915"}
    names = [str(cell) for node in nodes for cell in cells(node)]
    assert [pattern for pattern in OPEN if not matching(names, pattern)] == []
