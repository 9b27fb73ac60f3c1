"""``python -m benchmarks.fleet``: run the fleet under real servers, print the tables (minutes).

Needs Prometheus and VictoriaMetrics of Debian; what is not installed is got with apt-get download.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.fleet import history, live, report
from benchmarks.fleet.figures import figures
from benchmarks.fleet.paper import Assumed
from benchmarks.fleet.programs import PACKAGES, program
from benchmarks.fleet.recorded import of_a_node
from exporter.console.progress import progress


def main(arguments: Sequence[str]) -> int:
    """Print the tables; with ``--write`` put them into results.md and docs/scaling.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100, help="how many are simulated")
    parser.add_argument("--interval", type=int, default=15, help="seconds between scrapes")
    parser.add_argument("--seconds", type=int, default=240, help="how long is measured")
    parser.add_argument("--history", type=int, default=history.BLOCK_S, help="of a block, seconds")
    parser.add_argument("--series", action="store_true", help="count series only; no server")
    parser.add_argument("--write", action="store_true", help="write results.md and docs/scaling.md")
    options = parser.parse_args(arguments)
    texts = {"series": report.parts_table(), "choices": report.choices_table()}
    if not options.series:
        texts |= measured(options)
    if options.write:
        report.write(texts)
    if not (options.write and options.series):
        print("\n".join(texts.values()))
    return 0


def measured(options: argparse.Namespace) -> dict[str, str]:
    """Run the fleet, and meanwhile let a block be made of one node's two hours."""
    for name in PACKAGES:
        program(name)
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as scratch,
        ThreadPoolExecutor(1) as pool,
        progress() as shown,
    ):
        folders = [Path(scratch) / name for name in ("history", "live", "recorded")]
        for folder in folders:
            folder.mkdir()
        every_s, length_s = options.interval, options.history
        block = pool.submit(history.keep, folders[0], time.time(), every_s, length_s)
        run = live.measure(folders[1], options.nodes, every_s, options.seconds, shown)
        shown.say("the block of two hours is written")
        kept = block.result()
        shown.say("what the rules record is counted")
        found = figures(run, kept, of_a_node(folders[2]))
    return {
        "run": report.run_table(run, found),
        "paper": report.paper_tables(found, Assumed()),
        "costs": report.costs_table(found),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
