"""What ends a recording."""

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

from exporter.agent.commands.record import Stop


def steps_until(action: Callable[[], None], at: int, work: Callable[[], None]) -> int:
    """How many steps the interpreter did of ``work``; before one of them comes ``action``."""
    steps = 0

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps += 1
            if steps == at:
                action()
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def test_a_signal_may_come_at_any_step_of_the_wait() -> None:
    for at in count(1):
        stop = Stop()
        if steps_until(stop.set, at, lambda stop=stop: stop.wait(0)) < at:  # type: ignore[misc]
            break
        assert stop.is_set()
        stop.wait(3600)
    assert at > 10


def test_it_waits_no_longer_than_it_is_told() -> None:
    stop = Stop()

    stop.wait(0.01)
    stop.wait(-1)

    assert not stop.is_set()
