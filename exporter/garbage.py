"""How often Python looks for reference cycles: seldom, for a cycle of ours makes next to none.

Nearly everything that a cycle of the collector makes is freed by its reference count, but Python
counts objects, not cycles: by its defaults it would search the new ones some twenty times a second
and all modules now and then, which was half of the exporter's CPU time and pauses of 40 ms.
"""

import ctypes
import gc
from typing import Any

NEW_OBJECTS = 20_000  # that were not freed, before they are searched; the default is 700
OLDER = 5  # so many searches of younger ones before one of older ones; the default is 10
STARTED_S = 30.0  # by then all modules are imported, and the pods are listed
MOST_HEAPS = -8  # M_ARENA_MAX of glibc's malloc.h


def share_heap() -> None:
    """Let all threads have memory from one heap, before there is a second thread.

    By default glibc gives each a heap of its own. None of ours asks for memory while another does,
    so that buys nothing here, and what is free in one is of no use to the others.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(MOST_HEAPS, 1)


def seldom() -> None:
    """Search only what is left over, when it has become some megabytes."""
    gc.set_threshold(NEW_OBJECTS, OLDER, OLDER)


def settle() -> None:
    """Leave all that is there now out of every later search: modules, classes, the metric table.

    What importing and the first list of pods have left over goes back to the kernel.
    """
    gc.collect()
    gc.freeze()
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Any:  # noqa: ANN401 - a C function; None where the C library lacks it
    return getattr(ctypes.CDLL(None), name, None)
