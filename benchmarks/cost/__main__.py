"""``python -m benchmarks.cost [--quick] [--size 8x64x110] [--write]``: print the table. As root."""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cost import peers, priced
from benchmarks.cost.agents import AGENTS, OURS, Agent
from benchmarks.cost.figures import Figures, judged, shown, table
from benchmarks.cost.floor import WAYS, floor
from benchmarks.cost.measure import churn, measure, starts
from benchmarks.cost.node import Node
from benchmarks.cost.size import Size
from benchmarks.cost.slope import rows, slope
from benchmarks.cost.targets import targets
from exporter import __version__
from exporter.console.progress import Progress, progress

PAGE = Path(__file__).with_name("results.md")
BEGIN, END = "<!-- tables: made by python -m benchmarks.cost --write -->\n", "<!-- end -->\n"
SIZES = ("8x64x110", "16x128x250", "1x4x10")
LONG_S, SHORT_S = 20.0, 10.0  # of each measurement


def main(arguments: Sequence[str]) -> int:
    """Print the tables; a target that is missed is said, and is no failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute: this exporter, one size")
    parser.add_argument("--size", action="append", type=Size.parse, help="in place of all three")
    parser.add_argument("--only", action="append", help="agents whose names begin so")
    parser.add_argument("--write", action="store_true", help="write results.md too")
    options = parser.parse_args(arguments)
    sizes = options.size or [Size.parse(text) for text in SIZES[: 1 if options.quick else None]]
    chosen = tuple(options.only or ([OURS.name] if options.quick else [""]))
    agents = [agent for agent in AGENTS if agent.name.startswith(chosen)]
    begun = time.monotonic()
    parts = [machine()]
    with progress() as line:
        for size in sizes:
            parts.append(one_size(size, agents, line, quick=options.quick))
            print(parts[-1], flush=True)
        if not options.quick and not options.size:
            parts.append(f"### Slope\n\n{rows(slope(SHORT_S, line.say))}")
            print(parts[-1])
        if not options.quick and not options.size:
            both = priced.text(line.say)
            print(both)
            if options.write:
                priced.write(both)
    parts.append(f"Measured in {(time.monotonic() - begun) / 60:.0f} min.\n")
    if options.write:
        write("\n".join(parts))
    return 0


def write(text: str) -> None:
    """Put the tables where the page keeps them."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def one_size(size: Size, agents: Sequence[Agent], line: Progress, *, quick: bool) -> str:
    """All tables of one node."""
    columns: dict[str, Figures] = {}
    remarks = []
    main_size = size == Size.parse(SIZES[0])
    with Node(size) as node:
        heading = f"{node.crowd.processes:,} processes in pods, cgroup {node.crowd.version}"
        floors = floor(node)
        for agent in agents:
            try:
                seconds = LONG_S if main_size and not quick else SHORT_S
                columns[agent.name] = measure(agent, node, seconds, line.say)
            except peers.UnavailableError as error:
                remarks.append(f"{agent.name} was not run: {error}\n")
        if main_size and not quick and OURS.name in columns:
            line.say("pod changes")
            churn(OURS, node, columns[OURS.name])
            line.say("pods that use a GPU start")
            starts(OURS, node, columns[OURS.name])
    low = "".join(f"| {WAYS[way]} | {shown(ms)} |\n" for way, ms in floors.items())
    text = [f"### {size}\n\n{heading}.\n", table(columns), *remarks]
    text.append(f"| the floor | CPU, ms |\n| --- | ---: |\n{low}")
    if main_size:
        text.append(judged(targets(floors), columns))
    return "\n".join(text)


def machine() -> str:
    """What it was measured on."""
    info = Path("/proc/cpuinfo").read_text(encoding="ascii")
    names = {line.partition(": ")[2] for line in info.splitlines() if "model name" in line}
    asked = ["git", "-C", str(PAGE.parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return (
        f"{os.cpu_count()} x {', '.join(names)}; Linux {platform.release()}; Python "
        f"{platform.python_version()}; mgpu-exporter {__version__} ({commit}), "
        f"nvitop-exporter {peers.NVITOP}; load before the run: {load}.\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
