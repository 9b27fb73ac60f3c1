"""The floor: a C program makes the bare calls of a cycle on the same node."""

import os
import subprocess
from collections.abc import Sequence
from statistics import median

from benchmarks.cost.compiled import program
from benchmarks.cost.node import Node

PASSES = 30
WAYS = {
    "walk": "every directory listed, every cgroup.procs read",
    "known": "every cgroup.procs read by its known path",
    "lookup": "/proc/PID/cgroup and stat of the GPU processes",
    "nvml": "NVML: samples, process samples, memory and processes of each GPU",
}


def floor(node: Node) -> dict[str, float]:
    """CPU ms of each way, the median of some passes."""
    found = {
        "walk": _run("walk", str(node.crowd.root)),
        "known": _run("known", str(node.crowd.root)),
        "lookup": _run("lookup", given="".join(f"{pid}\n" for pid in node.crowd.workers)),
        "nvml": _run("nvml", str(node.nvml), environment=node.environment({})),
    }
    return {way: median(passes) / 1000 for way, passes in found.items()}


def _run(
    *words: str, given: str = "", environment: dict[str, str] | None = None
) -> Sequence[float]:
    done = subprocess.run(
        [program("floor"), *words, str(PASSES)],
        input=given,
        capture_output=True,
        text=True,
        check=True,
        env=environment or dict(os.environ),
    )
    return [float(line) for line in done.stdout.splitlines()]
