"""Says what the exporter's CPU time goes into, room by room, on a full node. Run as root.

python -m benchmarks.profile                                8 GPUs x 64 processes x 110 pods
python -m benchmarks.profile --pods 1000                    whether the cycle grows with the pods
python -m benchmarks.profile --functions /tmp/cycle.prof    for pstats, by function too
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.profile.node import Node, Size, full_node

COLUMNS = ("first", "steady", "steady, mean", "untimed", "changed", "replaced")


def main() -> None:
    """Raise the node, run the exporter's cycles on it, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("gpus", 8), ("processes", 64), ("pods", 110), ("cycles", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--functions", default="", help="file for pstats")
    own = parser.parse_args()
    size = Size(own.gpus, own.processes, own.pods)
    with tempfile.TemporaryDirectory() as folder, full_node(Path(folder), size) as node:
        found = _measure(node, own.cycles, own.functions)
        floor = _floor(node, own.cycles)
    print(f"{size.gpus} GPUs x {size.processes} processes x {size.pods} pods; CPU, ms a cycle\n")
    _print(found)
    _table("floors; ours: the GPUs' part alone, with the driver", floor)


def _floor(node: Node, cycles: int) -> Mapping[str, float]:
    """What the driver's calls of a cycle take, and its values, if nothing else is done."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.profile.floor", str(node.library), str(cycles)],
        env={**os.environ, "FAKENVML_SCENARIO": str(node.scenario_file)},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: Mapping[str, float] = json.loads(done.stdout)
    return answer


def _measure(node: Node, cycles: int, functions: str) -> Mapping[str, Mapping[str, float]]:
    command = [sys.executable, "-m", "benchmarks.profile.rooms", f"--cycles={cycles}"]
    environment = {**os.environ, "FAKENVML_SCENARIO": str(node.scenario_file)}
    with subprocess.Popen(
        [*command, f"--profile={functions}", *node.flags],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as exporter:
        assert exporter.stdout is not None
        replaced, last = 0, ""
        for number, line in enumerate(exporter.stdout):
            last = line.strip()
            if last == "change":
                node.change_pod(number)
            elif last == "replace":
                node.replace_pod(replaced)
                replaced += 1
    if exporter.returncode:
        sys.exit(f"the measured process failed ({exporter.returncode})")
    answer: Mapping[str, Mapping[str, float]] = json.loads(last)
    return answer


def _print(found: Mapping[str, Mapping[str, float]]) -> None:
    rooms = dict.fromkeys(room for column in COLUMNS for room in found[column])
    print(f"| room | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for room in rooms:
        cells = (f"{found[column].get(room, 0.0):.2f}" for column in COLUMNS)
        print(f"| {room} | {' | '.join(cells)} |")
    _table("a cycle, all but the driver, one right after the other", found["coldness"])
    _table("memory in pages that are touched, MiB", found["touched"])
    _table("page", found["page"])


def _table(title: str, values: Mapping[str, float]) -> None:
    print(f"\n| {title} | |\n|---|---|")
    for name, value in values.items():
        print(f"| {name} | {value:.2f} |")


if __name__ == "__main__":
    main()
