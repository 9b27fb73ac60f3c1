"""Counts the work of a call in steps of Python's own machine, which no load of a machine changes.

What a function of the standard library does in C is one step.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def work(call: Callable[[], object]) -> int:
    """Return how many instructions a call takes."""
    steps = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps


def growth(call: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how many times the work of a call is that of one of half the size.

    ``call`` prepares a call of a size. Work in proportion to the size gives 2, to its square 4.
    """
    call(size)()  # what is made once is made
    return work(call(2 * size)) / work(call(size))
