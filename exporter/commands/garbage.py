"""Memory: one heap, in which Python looks for reference cycles seldom.

Nearly everything that a cycle of the collector makes is freed by its reference count, but Python
counts objects, not cycles: by its defaults it would search the new ones some twenty times a second
and all modules now and then, which was half of the exporter's CPU time and pauses of 40 ms.
"""

import ctypes
import gc

NEW_OBJECTS = 20_000  # that were not freed, before they are searched; the default is 700
OLDER = 5  # so many searches of younger ones before one of older ones; the default is 10
M_ARENA_MAX = -8  # malloc.h
STARTED_S = 30.0  # by then all modules are imported, and the pods are listed


def relax() -> None:
    """Search only what is left over, when it has become some megabytes. Before threads start.

    They share one heap: a heap for each, which glibc gives them, is a MiB that none uses, and
    Python lets only one of them allocate at a time anyway.
    """
    gc.set_threshold(NEW_OBJECTS, OLDER, OLDER)
    _of_libc("mallopt", M_ARENA_MAX, 1)


def freeze() -> None:
    """Leave all that is there now out of every later search: modules, classes, the metric table.

    What importing and the first list of pods have left over goes back to the kernel.
    """
    gc.collect()
    gc.freeze()
    _of_libc("malloc_trim", 0)


def _of_libc(name: str, *numbers: int) -> None:
    """Call a function of glibc's; another C library does without."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*numbers)
