"""``python -m benchmarks.accuracy [--quick] [--write]``: run all scenarios, print the tables."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.accuracy.picture import draw
from benchmarks.accuracy.report import Found, missed, scrapes, table
from benchmarks.accuracy.run import Error, run
from benchmarks.accuracy.scenarios import CASES, Case
from exporter.commands.progress import progress
from exporter.simulation.description import SampleRule

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- tables: made by python -m benchmarks.accuracy --write -->\n", "<!-- end -->\n"
FULL = (1, 5, 20)
QUICK = (5,)
QUICK_RULES = ("last", "random")
MOST_SEEDS = 5

Job = tuple[Case, str, int, tuple[int, ...]]


def jobs(minutes: tuple[int, ...], rules: Iterable[str], most_seeds: int) -> list[Job]:
    """Every scenario under these rules of which process a sample names."""
    return [
        (case, rule, seed, minutes)
        for case in CASES.values()
        for rule in rules
        for seed in range(min(case.seeds, most_seeds))
    ]


def measure(todo: Sequence[Job], workers: int) -> Found:
    """Run the jobs, side by side."""
    found: dict[tuple[str, str], list[Error]] = {}
    with ProcessPoolExecutor(workers) as pool, progress() as shown:
        done = zip(todo, pool.map(run, *zip(*todo, strict=True)), strict=True)
        for number, ((case, rule, *_), errors) in enumerate(done, 1):
            shown.say(f"{number} of {len(todo)} runs: {case.name}, {rule}")
            found.setdefault((case.name, rule), []).extend(errors)
    return found


def tables(found: Found, minutes: tuple[int, ...]) -> str:
    """All tables, mean and 95th percentile of the relative error."""
    parts = []
    for quantity, words in (("core", "Busy seconds"), ("energy", "Energy above idle")):
        parts += [
            f"### {words} over {length} min\n\n{table(found, quantity, length)}\n"
            for length in reversed(minutes)
        ]
    parts.append(f"### By scrape interval\n\n{scrapes(found, minutes[-1])}\n")
    return "".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Print the tables; 1 if the goal is missed where it is within reach."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--quick", action="store_true", help="one seed, five minutes, two rules")
    ways.add_argument("--write", action="store_true", help="write the tables to docs/accuracy.md")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="of each scenario, at most")
    ways.add_argument("--draw", action="store_true", help="draw the page's pictures again only")
    options = parser.parse_args(arguments)
    if options.draw:
        draw(PAGE)
        return 0
    begun = time.monotonic()
    minutes = QUICK if options.quick else FULL
    rules = QUICK_RULES if options.quick else tuple(map(str, SampleRule))
    todo = jobs(minutes, rules, 1 if options.quick else options.seeds)
    found = measure(todo, os.cpu_count() or 1)
    text = tables(found, minutes)
    print(text)
    print(f"{len(todo)} runs, {time.monotonic() - begun:.0f} s")
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}{END}{rest.split(END)[1]}", encoding="utf-8")
        draw(PAGE)
    failures = missed(found, minutes[-1])
    print("\n".join(f"goal missed: {failure}" for failure in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
