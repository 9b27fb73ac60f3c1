"""Measures in this process, in milliseconds that mean the same on a faster machine.

A node is recorded in memory once, and played to a fresh collector again and again: what is measured
is the exporter's own work, none of the simulation's. CPU time is divided by that of a fixed piece
of Python (a calibration) which runs between the cycles, so that what slows the machine slows both.
Of several passes the best counts: a machine that is shared makes things slower, never faster.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cost.minute import minute
from exporter.agent.collector import Sources
from exporter.agent.collector.wiring import make_collector
from exporter.agent.commands.record import Session
from exporter.agent.recording.player import Player
from exporter.agent.recording.recordedcycle import Cycle, Head
from exporter.agent.settings import Settings, load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.metrics.families import families_without
from exporter.metrics.text import Format, Renderer
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.simulation.pods import shared

GPUS = 8
PODS = 110
PROCESSES = 5  # a container: 64 and more on each GPU
ON_ALL = 64  # containers that work on all GPUs
WARM, CYCLES, PASSES = 5, 10, 5
LOOP = 3000  # rows of the calibration
CALIBRATION_MS = 2.6  # its time on the machine for which the budget is set, an EPYC of 2025
MIB = 1 << 20

Work = Callable[[], object]


class Figures(NamedTuple):
    """CPU of a cycle and of its page on the budget's machine, and the memory at the end.

    ``pairs_ms`` is of a cycle with 512 pairs of an owner and a GPU: containers on all GPUs.
    ``look_ms`` is of a cycle of the same node that reads nothing, as most do while nobody looks.
    ``driver_ms`` is what the driver's calls take in a second: eight cards with three processes,
    each call at an H100's price.
    """

    cycle_ms: float
    page_ms: float
    rss_mib: float
    pairs_ms: float = 0.0
    driver_ms: float = 0.0
    look_ms: float = 0.0


class Tape(NamedTuple):
    """What the sources of a node said."""

    head: Head
    cycles: list[Cycle]


PROCESS = {"duty": 0.2, "jitter": 0.5, "memory": "128MiB", "memory_active": 0.3}


def scenario() -> dict[str, Any]:
    """A full node: every pod works on a GPU, and shares it."""
    process = {**PROCESS, "memory": "1GiB"}
    return {
        "devices": [{"model": "NVIDIA H100 80GB HBM3", "memory": "80GiB"}] * GPUS,
        "pods": [
            shared(
                {
                    "name": f"pod-{n}",
                    "namespace": f"team-{n % 7}",
                    "containers": [
                        {"name": "main", "processes": [{"device": n % GPUS, **process}] * PROCESSES}
                    ],
                },
                *("mgpu", [n % GPUS], 5, 4),
            )
            for n in range(PODS)
        ],
    }


def on_all() -> dict[str, Any]:
    """The same node, where each of 64 containers works on all GPUs."""
    processes = [{"device": gpu, **PROCESS} for gpu in range(GPUS)]
    return {
        "devices": scenario()["devices"],
        "pods": [
            {
                "name": f"pod-{n}",
                "namespace": f"team-{n % 7}",
                "containers": [{"name": "main", "processes": processes if n < ON_ALL else []}],
            }
            for n in range(PODS)
        ],
    }


def recorded(settings: Settings, scenario: Mapping[str, Any], *, watched: bool = True) -> Tape:
    """What the sources of the node say in some cycles; ``watched``: while somebody looks."""
    clock = ManualClock()
    node = Node(describe(scenario, "guard"), clock, START)
    sources = Sources(
        gpus=(SimulatedGpus(node, clock),),
        processes=SimulatedProcesses(node.cgroup_paths),
        pods=SimulatedPods(node.pod_table, clock=clock),
        nodes=(StaticNodeSource("node_simulated", node.facts, clock),),
    )
    session = Session(settings, sources, clock)
    session.collector.is_watched = lambda: watched
    cycles = []
    for _ in range(WARM + CYCLES):
        clock.move(1)
        cycles.append(session.cycle())
    return Tape(session.head, cycles)


def calibration() -> int:
    """The kinds of work that the exporter does, on as much memory: dicts, tuples, text."""
    rows = {(str(n % 97), n): [n, n + 1] for n in range(LOOP)}
    found = [f'{name}="{values[0]}"' for (name, _), values in rows.items() if values[1]]
    return len(",".join(found)) + len({key: rows[key] for key in sorted(rows)})


def took(work: Work) -> int:
    """CPU nanoseconds of this thread."""
    begun = time.thread_time_ns()
    work()
    return time.thread_time_ns() - begun


def slowed(work: Work, part: float) -> Work:
    """The same work, and so much of it again in vain."""

    def more() -> None:
        begun = time.thread_time_ns()
        work()
        until = time.thread_time_ns() + part * (time.thread_time_ns() - begun)
        while time.thread_time_ns() < until:
            pass

    return more if part else work


def one_pass(
    settings: Settings, tape: Tape, slower: float, *, watched: bool = True
) -> list[list[int]]:
    """What each cycle, its page and a calibration took; of an unwatched node, those that look."""
    head, cycles = tape
    player = Player(head)
    collector = make_collector(settings, player.sources, player.clock)
    collector.is_watched = lambda: watched
    renderer = Renderer(families_without(settings.metrics_left_out))
    cycle = slowed(collector.cycle, slower)
    costs = []
    for said in cycles:
        player.turn_to(said)
        cost = [
            took(cycle),
            took(lambda: renderer.render(collector.snapshot, Format.TEXT)),
            took(calibration),
        ]
        if watched or collector.snapshot.figures_age_ns:
            costs.append(cost)
    return costs[WARM:] if watched else costs


def measure(slower: float = 0.0) -> Figures:
    """The least that each piece took in any pass, against the least of the calibration."""
    settings = load({}, {})
    gc.disable()  # whose turn a collection is in is chance; how much there is to collect is not
    cycle_ms, page_ms = least(settings, recorded(settings, scenario()), slower)
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB
    pairs_ms, _ = least(settings, recorded(settings, on_all()), slower)
    at_rest = recorded(settings, on_all(), watched=False)
    look_ms, _ = least(settings, at_rest, slower, watched=False)
    return Figures(cycle_ms, page_ms, round(rss, 1), pairs_ms, minute().driver_ms, look_ms)


def least(
    settings: Settings, tape: Tape, slower: float, *, watched: bool = True
) -> tuple[float, float]:
    """The least CPU of a cycle, and of its page."""
    passes = []
    for _ in range(PASSES):
        gc.collect()
        passes.append(one_pass(settings, tape, slower, watched=watched))
    best = [[min(costs) for costs in zip(*of, strict=True)] for of in zip(*passes, strict=True)]
    loop = min(calibrated for _, _, calibrated in best)
    cycle, page, _ = (
        sum(costs) / len(best) * CALIBRATION_MS / loop for costs in zip(*best, strict=True)
    )
    return round(cycle, 2), round(page, 2)


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]))._asdict()))
