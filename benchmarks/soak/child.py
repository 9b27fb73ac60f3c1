"""``mgpu-exporter serve`` whose clock runs fast: ``python -m benchmarks.soak.child SPEED FLAGS``.

A line on standard input asks for what only the process itself can tell: one line of JSON.
"""

import gc
import json
import sys
import threading
import time

from benchmarks.soak.node import SECOND, sources
from exporter.agent.collector.wiring import read_settings
from exporter.agent.commands.serve import serve
from exporter.console import logs


class Pace(threading.Event):
    """A ``Clock`` that stands while the cycle runs, and what the cycle waits for.

    It moves by as long as the cycle would have waited, which then takes a part of that time, or
    none if it is behind: on a busy machine the hour takes longer, and is the same hour.

    ``resting`` is free while the cycle waits.
    """

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed
        self._start_ns = time.monotonic_ns()
        self._ahead_ns = time.time_ns() - self._start_ns
        self._passed_ns = 0
        self.resting = threading.Lock()
        self.resting.acquire()  # by the cycle, until it waits

    def monotonic_ns(self) -> int:
        """See ``Clock``."""
        return self._start_ns + self._passed_ns

    def time_ns(self) -> int:
        """See ``Clock``."""
        return self._ahead_ns + self._start_ns + self._passed_ns

    def wait(self, timeout: float | None = None) -> bool:
        """Let the cycle's time pass; whoever else waits does so beside it."""
        if timeout is None:
            return super().wait()
        if threading.current_thread().name != "collector":
            return super().wait(timeout / self._speed)
        self._passed_ns += int(timeout * SECOND)
        due_ns = self._start_ns + self._passed_ns / self._speed
        self.resting.release()
        ended = super().wait(max(due_ns - time.monotonic_ns(), 0) / SECOND)
        self.resting.acquire()
        return ended


def tell(resting: threading.Lock) -> None:
    """Answer each line that is asked, while the cycle rests.

    ``gc.get_objects`` holds every tuple. CPython then fails to end one that is just being made.
    """
    for _ in sys.stdin:
        with resting:
            gc.collect()
            found = {"blocks": sys.getallocatedblocks(), "objects": len(gc.get_objects())}
        print(json.dumps(found), flush=True)


def main(speed: float, flags: list[str]) -> int:
    """Serve until a signal comes."""
    parted = (flag.removeprefix("--").partition("=") for flag in flags)
    given = {name: [value] for name, _, value in parted}
    settings = read_settings(given)
    logs.configure(settings.log_level, settings.log_format)
    clock = Pace(speed)
    threading.Thread(target=tell, args=(clock.resting,), name="tell", daemon=True).start()
    return serve(
        settings,
        lambda _: sources(clock),
        reread=lambda: read_settings(given),
        clock=clock,
        stop=clock,
    )


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
