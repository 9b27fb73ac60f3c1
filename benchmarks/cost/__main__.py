"""``python -m benchmarks.cost [--quick] [--size 8x64x110] [--write]``: print the table. As root."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.cost.agents import AGENTS, OURS
from benchmarks.cost.figures import Figures, table
from benchmarks.cost.floor import WAYS, floor
from benchmarks.cost.measure import churn, measure
from benchmarks.cost.node import Node
from benchmarks.cost.size import Size
from exporter.progress import progress

MAIN = "8x64x110"
SIZES = (MAIN, "16x128x250", "1x4x10")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size, short, this exporter only")
    parser.add_argument("--size", action="append", type=Size.parse, help="instead of all three")
    options = parser.parse_args(arguments)
    sizes = options.size or [Size.parse(text) for text in SIZES[: 1 if options.quick else None]]
    begun = time.monotonic()
    for size in sizes:
        print(f"### {size}\n")
        with Node(size) as node:
            floors = floor(node)
            columns = compare(node, 10 if options.quick else 30, quick=options.quick)
        print(table(columns))
        print("\n".join(f"- C, {WAYS[way]}: {ms:.2f} ms" for way, ms in floors.items()), "\n")
    print(f"{time.monotonic() - begun:.0f} s")
    return 0


def compare(node: Node, seconds: float, *, quick: bool) -> Mapping[str, Figures]:
    columns: dict[str, Figures] = {}
    with progress() as shown:
        for agent in AGENTS[: 1 if quick else None]:
            columns[agent.name] = measure(agent, node, seconds, shown.say)
        if not quick:
            shown.say("pod changes")
            churn(OURS, node, columns[OURS.name])
    return columns


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
