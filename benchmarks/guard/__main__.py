"""``python -m benchmarks.guard [--slower 4]``: hold this tree against the budget.

The exit status is 1 if a cycle or a page takes more CPU, or the process more memory, than a tenth
above the budget (docs/decisions.md). ``--slower`` lets each cycle take so
many times more, to see it fail.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.guard.measure import Figures

# The watch of pods and the web server, which a recorded node lacks, have the rest of 96 MiB.
# The driver's part is that of steady processes (docs/decisions.md, "Windows, not polls").
BUDGET = Figures(cycle_ms=7, page_ms=10, rss_mib=60, pairs_ms=9, driver_ms=14, look_ms=2.5)
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # compiling takes memory that the exporter does not
NOISE = 1.1  # runs of one tree differ by up to so much on a machine that is not quiet
TRIES = 5  # a figure that is too high on a busy machine is taken again


def taken(slower: float) -> Figures:
    """The figures of a fresh process; the next one does not compile what this one has imported."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.guard.measure", str(slower)],
        env={name: value for name, value in os.environ.items() if name != NO_BYTECODE},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Figures(**json.loads(done.stdout))


def best(one: Figures, other: Figures) -> Figures:
    """The lower of each."""
    return Figures(*map(min, one, other))


def beyond(figures: Figures) -> list[str]:
    """What is beyond the budget, in words."""
    found = zip(Figures._fields, figures, BUDGET, strict=True)
    return [
        f"{name} is {value:g}, more than {most:g} and a tenth"
        for name, value, most in found
        if value > NOISE * most
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the figures; 1 if one is beyond the budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--slower", type=float, default=0.0, help="times that a cycle takes more")
    options = parser.parse_args(arguments)
    figures = taken(options.slower)
    for _ in range(TRIES - 1):
        if beyond(figures):
            figures = best(figures, taken(options.slower))
    print(f"now    {figures}\nbudget {BUDGET}")
    found = beyond(figures)
    print("\n".join(found) or "within the budget")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
