"""One process on a GPU: bursts of known work, written down; run by the bench in a cgroup.

python -m benchmarks.device.tenant --gpu 0 --duty 0.6 --period 0.23 --memory-mib 512

Says "ready" when it has its context and memory, waits for a line on standard input (the unix time
to begin at), works until that input is closed, and prints what it did as JSON. ``--pretend`` does
the same without a GPU: then the library that stands in for NVML is told to show the work.
``--memory-ways`` takes memory in several ways instead, one for each line that it reads.
"""

import argparse
import json
import select
import subprocess
import sys
import time

from benchmarks.device.cases import WAYS
from benchmarks.device.cuda import Gpu

CHILDS_DUTY = 0.2  # of the second process of a tree


def main() -> None:
    """Run one tenant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--duty", type=float, default=0.0)
    parser.add_argument("--period", type=float, default=0.23)
    parser.add_argument("--memory-mib", type=int, default=256)
    parser.add_argument("--way", choices=WAYS, default="kernel")
    parser.add_argument("--ns-per-step", type=float, default=0.0)
    parser.add_argument("--memory-ways", action="store_true")
    parser.add_argument("--pretend", action="store_true")
    options = parser.parse_args()
    gpu = None
    if not options.pretend:
        gpu = Gpu(options.gpu, options.memory_mib, options.ns_per_step)
    print("ready", flush=True)
    if options.memory_ways:
        _take_memory(gpu)
        return
    begin = float(sys.stdin.readline())
    child = _child(options, gpu, begin) if options.way == "tree" else None
    bursts: list[tuple[float, float]] = []
    busy_s = 0.0
    steps = int(options.duty * options.period * 1e9 / gpu.ns_per_step) if gpu else 0
    turn = begin
    while not _told_to_end(turn):
        turn = max(turn + options.period, time.time())
        if gpu and steps:
            started = time.time()
            {"small": gpu.run_small, "graph": gpu.run_graph}.get(options.way, gpu.run)(steps)
            bursts.append((started, time.time()))
            busy_s += steps * gpu.ns_per_step / 1e9
    if child:
        told, _ = child.communicate()
        busy_s += json.loads(told.partition("\n")[2])["busy_s"]
    ns_per_step = gpu.ns_per_step if gpu else 0.0
    told_of = {"busy_s": busy_s, "bursts": bursts, "end": time.time(), "ns_per_step": ns_per_step}
    json.dump(told_of, sys.stdout)


def _child(
    options: argparse.Namespace, gpu: Gpu | None, begin: float
) -> "subprocess.Popen[str] | None":
    """The second process of a tree, in the same cgroup."""
    command = [sys.executable, "-m", "benchmarks.device.tenant", f"--gpu={options.gpu}"]
    command += [f"--duty={CHILDS_DUTY}", "--period=0.31"]
    command += [f"--ns-per-step={gpu.ns_per_step}"] if gpu else ["--pretend"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    child.stdin.write(f"{begin}\n")
    child.stdin.flush()
    return child


def _take_memory(gpu: Gpu | None) -> None:
    """Step by step, each after a line; says what it did."""
    steps = ["a context and 256 MiB", "256 MiB from the pool", "given back to the pool"]
    steps += ["64 MiB managed, nowhere yet", "the same, written by the device"]
    free = write = None
    for number, step in enumerate(steps):
        sys.stdin.readline()
        if gpu and number == 1:
            free = gpu.pool(256)
        elif free and number == 2:
            free()
        elif gpu and number == 3:
            write = gpu.manage(64)
        elif write and number == 4:
            write()
        print(step, flush=True)
    sys.stdin.readline()


def _told_to_end(until: float) -> bool:
    """Wait until a time, or until standard input is closed."""
    readable, _, _ = select.select([sys.stdin], [], [], max(until - time.time(), 0.0))
    return bool(readable)


if __name__ == "__main__":
    main()
