"""Memory limits of cgroups in the facts: who borrows, and which limit counts."""

import pytest

from exporter.model import CgroupMemory, HeldMemory

GIB = 1 << 30

BORROWED = {
    "no limit set": (CgroupMemory(GIB, None, None, "driver"), None),
    "soft only, within": (CgroupMemory(GIB, 4 * GIB, None, "driver"), 0),
    "over soft": (CgroupMemory(5 * GIB, 4 * GIB, None, "driver"), GIB),
    "hard only: nothing is kept for it": (CgroupMemory(GIB, 0, 8 * GIB, "driver"), GIB),
    "over hard": (CgroupMemory(9 * GIB, 4 * GIB, 8 * GIB, "driver"), 5 * GIB),
    "its charge is not known: what it holds": (CgroupMemory(None, GIB, None, "kernel"), 2 * GIB),
    "refused": (CgroupMemory(refused="not_found"), None),
}


@pytest.mark.parametrize("case", BORROWED)
def test_borrowed_is_what_is_held_beyond_the_guarantee(case: str) -> None:
    cgroup, borrowed = BORROWED[case]
    assert HeldMemory(3 * GIB, cgroup=cgroup).borrowed_bytes == borrowed


def test_without_a_cgroup_nothing_is_borrowed() -> None:
    assert HeldMemory(GIB).borrowed_bytes is None
