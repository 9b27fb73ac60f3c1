"""The memory that the process holds and does not use."""

import subprocess
import sys

import pytest

HEAPS_OF_A_THREAD = """
import ctypes, sys, threading
from exporter import garbage

if sys.argv[1] == "shared":
    garbage.share_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
thread = threading.Thread(target=libc.malloc, args=(100_000,))
thread.start()
thread.join()
file = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(how: str) -> int:
    """How many heaps a process has after a thread asked for memory."""
    done = subprocess.run(
        [sys.executable, "-c", HEAPS_OF_A_THREAD, how], capture_output=True, text=True, check=True
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
def test_all_threads_share_one_heap() -> None:
    assert heaps("each its own") > 1
    assert heaps("shared") == 1
