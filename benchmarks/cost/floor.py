"""The floor: a C program makes the bare calls of a cycle on the same node."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from statistics import median

from benchmarks.cost.compiled import program
from benchmarks.cost.node import Node

PASSES = 20
STARTS = 5
WAYS = {
    "walk": "C, full walk: every directory listed, every cgroup.procs read",
    "known": "C, every cgroup.procs read by a path that is known",
    "lookup": "C, `/proc/PID/cgroup` and `stat` of the GPUs' processes",
    "nvml": "C, samples, process samples, memory and processes of each GPU",
    "first_walk": "this exporter's walk, the first of a process",
    "our_walk": "this exporter's walk",
}


def floor(node: Node) -> dict[str, float]:
    """CPU ms of each way, the median of some passes. Walks are made in turns, to be compared."""
    root = str(node.crowd.root)
    walks: list[list[float]] = []
    own: list[list[float]] = []
    for _ in range(STARTS):
        walks.append(_run(program("floor"), "walk", root))
        own.append(_run(sys.executable, "-m", "benchmarks.cost.walk", root))
    found = {
        "walk": [each for passes in walks for each in passes],
        "known": _run(program("floor"), "known", root),
        "lookup": _run(program("floor"), "lookup", given=node.crowd.workers),
        "nvml": _run(program("floor"), "nvml", str(node.nvml), scenario=node.environment({})),
    }
    found["first_walk"] = [passes[0] for passes in own]
    found["our_walk"] = [each for passes in own for each in passes[1:]]
    return {way: median(passes) / 1000 for way, passes in found.items()}


def _run(
    *words: str, given: Iterable[int] = (), scenario: Mapping[str, str] | None = None
) -> list[float]:
    done = subprocess.run(
        [*words, str(PASSES)],
        input="".join(f"{pid}\n" for pid in given),
        capture_output=True,
        text=True,
        check=True,
        env=scenario,
    )
    return [float(line) for line in done.stdout.splitlines()]
