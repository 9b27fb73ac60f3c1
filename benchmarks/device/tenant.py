"""One process on a GPU: bursts of known work, written down; run by the bench in a cgroup.

python -m benchmarks.device.tenant --gpu 0 --duty 0.6 --period 0.23 --memory-mib 512

Says "ready" when it has its context and memory, waits for a line on standard input (the unix time
to begin at), works until that input is closed, and prints what it did as JSON. ``--pretend`` does
the same without a GPU: then the library that stands in for NVML is told to show the work.
"""

import argparse
import json
import select
import sys
import time

from benchmarks.device.cuda import Gpu


def main() -> None:
    """Run one tenant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--duty", type=float, required=True)
    parser.add_argument("--period", type=float, default=0.23)
    parser.add_argument("--memory-mib", type=int, default=256)
    parser.add_argument("--pretend", action="store_true")
    options = parser.parse_args()
    gpu = None if options.pretend else Gpu(options.gpu, options.memory_mib)
    print("ready", flush=True)
    begin = float(sys.stdin.readline())
    bursts: list[tuple[float, float]] = []
    busy_s = 0.0
    steps = int(options.duty * options.period * 1e9 / gpu.ns_per_step) if gpu else 0
    turn = begin
    while not _told_to_end(turn):
        turn = max(turn + options.period, time.time())
        if gpu and steps:
            started = time.time()
            gpu.run(steps)
            bursts.append((started, time.time()))
            busy_s += steps * gpu.ns_per_step / 1e9
    json.dump({"busy_s": busy_s, "bursts": bursts, "end": time.time()}, sys.stdout)


def _told_to_end(until: float) -> bool:
    """Wait until a time, or until standard input is closed."""
    readable, _, _ = select.select([sys.stdin], [], [], max(until - time.time(), 0.0))
    return bool(readable)


if __name__ == "__main__":
    main()
