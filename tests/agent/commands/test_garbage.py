"""What is set of memory, in a process of its own."""

import subprocess
import sys

from exporter.agent.commands import garbage

THREADS = """
import ctypes, gc, sys, threading
from exporter.agent.commands import garbage

if sys.argv[1] == "relax":
    garbage.relax()
together = threading.Barrier(5)

def work():
    kept = bytearray(4096)
    together.wait(60)

for _ in range(4):
    threading.Thread(target=work).start()
together.wait(60)
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
print(gc.get_threshold())
"""


def said(how: str) -> str:
    """What such a process says of its heaps, and of the searches for reference cycles."""
    command = [sys.executable, "-c", THREADS, how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_all_threads_share_one_heap() -> None:
    assert said("relax").count("<heap ") == 1
    assert said("as it comes").count("<heap ") > 1


def test_reference_cycles_are_searched_for_seldom() -> None:
    wanted = (garbage.NEW_OBJECTS, garbage.OLDER, garbage.OLDER)
    assert said("relax").rstrip().endswith(str(wanted))
