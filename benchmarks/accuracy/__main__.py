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
from benchmarks.accuracy.summary import summary
from exporter.agent.simulation.description import SampleRule
from exporter.console.progress import progress

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
RESULTS = Path(__file__).with_name("results.md")
BEGIN, END = "<!-- tables: made by python -m benchmarks.accuracy --write -->\n", "<!-- end -->\n"
PREFACE = """\
# Results of the accuracy bench

Made by `python -m benchmarks.accuracy --write --seeds={seeds}`. Rules and raw poll:
[accuracy.md][page]. Ring gauge: rows of the whole ring at each scrape (dcgm-exporter, Kepler).
1 s gauge: rows of the last second at each scrape (nvitop, HAMi). With a viewer each 2 s are
read; else each 4 to 5, and before a scrape each 15 s.
The floor is the sampling noise of a container that is busy for a share p of T seconds:
√((1-p)/(6·T·p)).

[page]: ../../docs/accuracy.md

"""
FULL = (1, 5, 20)
QUICK = (5,)
QUICK_RULES = ("last", "random")
MAX_SEEDS = 5

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


def page_of(page: str, results: str) -> str:
    """The page with the summary of these results in place of the one that it has."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{summary(results)}\n{END}{rest.split(END, 1)[1]}"


def write(results: str) -> None:
    """Write the page's summary and draw its pictures."""
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    draw(results, PAGE.parent / "pictures")


def main(arguments: Sequence[str]) -> int:
    """Print the tables; 1 if the goal is missed where it is within reach."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--quick", action="store_true", help="one seed, five minutes, two rules")
    ways.add_argument("--write", action="store_true", help="write results.md and docs/accuracy.md")
    parser.add_argument("--seeds", type=int, default=MAX_SEEDS, help="of each scenario, at most")
    ways.add_argument("--draw", action="store_true", help="write the page from results.md again")
    options = parser.parse_args(arguments)
    if options.draw:
        write(RESULTS.read_text(encoding="utf-8"))
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
        preface = PREFACE.format(seeds=options.seeds)
        RESULTS.write_text(f"{preface}{text.rstrip()}\n", encoding="utf-8")
        write(RESULTS.read_text(encoding="utf-8"))
    failures = missed(found, minutes[-1])
    print("\n".join(f"goal missed: {failure}" for failure in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
