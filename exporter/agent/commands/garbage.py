"""Memory and garbage collection: one malloc heap, and rare searches for reference cycles.

Nearly all objects of a collection cycle are freed by their reference count. With Python's defaults
the garbage collector still runs some twenty times a second, and sometimes over all modules: that
was half of the exporter's CPU time, with pauses of 40 ms.
"""

import ctypes
import gc

NEW_OBJECTS = 20_000  # allocations minus deallocations before a collection; the default is 700
OLDER = 5  # collections of a younger generation before one of the next; the default is 10
M_ARENA_MAX = -8  # malloc.h
STARTED_S = 30.0  # by then all modules are imported and the pods are listed


def relax() -> None:
    """Make garbage collections rare, and let all threads share one heap.

    Call it before threads start. glibc gives each thread a heap of its own, which costs a MiB each;
    Python lets only one thread allocate at a time anyway.
    """
    gc.set_threshold(NEW_OBJECTS, OLDER, OLDER)
    _of_libc("mallopt", M_ARENA_MAX, 1)


def freeze() -> None:
    """Exclude all present objects from later collections: modules, classes, the metric table.

    Memory that imports and the first list of pods freed goes back to the kernel.
    """
    gc.collect()
    gc.freeze()
    _of_libc("malloc_trim", 0)


def _of_libc(name: str, *numbers: int) -> None:
    """Call a function of glibc. Another C library may not have it; then nothing happens."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*numbers)
