"""How the cost of a cycle grows: with the processes on GPUs, not with pods or other processes."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks.cost.agents import OURS, Running
from benchmarks.cost.figures import shown
from benchmarks.cost.measure import MAX_CREATED, SETTLED_S, changing, settle
from benchmarks.cost.node import Node
from benchmarks.cost.size import Size

FEW = 2  # processes in a container
STEPS = (
    Size(1, 8, 10, FEW),
    Size(1, 8, 100, FEW),
    Size(1, 8, 1000, FEW),
    Size(1, 8, 100, 90),
    Size(8, 8, 100, FEW + 6),
    Size(8, 64, 100, FEW + 6),
)


class Step(NamedTuple):
    """CPU ms of a cycle: quiet, with a pod that changes, that starts; and of all until ready."""

    size: Size
    processes: int
    cycle_ms: float
    change_ms: float
    create_ms: float
    start_ms: float


def slope(seconds: float, say: Callable[[str], None]) -> list[Step]:
    """Each step on a node of its own."""
    steps = []
    for size in STEPS:
        say(f"slope: {size}")
        with Node(size) as node, Running(OURS, node) as running:
            settle(running)
            processes = node.crowd.processes
            cycle = running.meter.each_second(max(seconds, SETTLED_S))
            modify = partial(node.cluster.order, "change 1")
            change = changing(running, modify, round(seconds))
            create = changing(running, node.create_pod, MAX_CREATED)
            steps.append(Step(size, processes, cycle, change, create, running.start_cpu_ms))
    return steps


def rows(steps: list[Step]) -> str:
    """Markdown."""
    heads = "GPUs", "processes on them", "pods", "processes in pods", "CPU a cycle, ms"
    lines = [
        [*heads, "a pod changes, ms", "a pod starts, ms", "CPU until ready, ms"],
        ["---:"] * 8,
        *(
            [
                *map(str, (s.size.gpus, s.size.gpus * s.size.processes, s.size.pods)),
                *map(shown, (s.processes, s.cycle_ms, s.change_ms, s.create_ms, s.start_ms)),
            ]
            for s in steps
        ),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
