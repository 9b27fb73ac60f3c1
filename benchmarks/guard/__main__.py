"""``python -m benchmarks.guard [--write] [--slower 0.5]``: hold this tree against the baseline.

The exit status is 1 if a cycle or a page costs a fifth more CPU than the committed baseline, or the
process a fifth more memory. The figures belong to a version of Python; of one that the baseline
does not have, nothing is judged. ``--slower`` lets each cycle take so much more, to see it fail.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.guard.measure import Figures

BASELINE = Path(__file__).with_name("baseline.json")
ALLOWED = 1.2
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # compiling takes more memory than the exporter may grow by
TRIES = 5  # a figure that is too high on a busy machine is taken again

Baseline = Mapping[str, Mapping[str, float]]


def python() -> str:
    """The version that figures belong to."""
    return ".".join(platform.python_version_tuple()[:2])


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


def dearer(figures: Figures, baseline: Mapping[str, float]) -> list[str]:
    """What has become too dear, in words."""
    return [
        f"{name} is {value:g}, {value / baseline[name] - 1:+.0%} of {baseline[name]:g}"
        for name, value in figures._asdict().items()
        if value > ALLOWED * baseline[name]
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the figures; 1 if something has become too dear."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--write", action="store_true", help="make these figures the baseline")
    parser.add_argument("--slower", type=float, default=0.0, help="a part of a cycle")
    options = parser.parse_args(arguments)
    every: Baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    figures = taken(options.slower)
    if options.write:
        figures = best(figures, taken(options.slower))
        text = json.dumps({**every, python(): figures._asdict()}, indent=2, sort_keys=True)
        BASELINE.write_text(f"{text}\n", encoding="utf-8")
    baseline = json.loads(BASELINE.read_text(encoding="utf-8")).get(python())
    if baseline is None:
        print(f"{figures}: no baseline for Python {python()}; --write makes one")
        return 0
    for _ in range(TRIES - 1):
        if not dearer(figures, baseline):
            break
        figures = best(figures, taken(options.slower))
    print(f"now      {figures}\nbaseline {Figures(**baseline)}")
    found = dearer(figures, baseline)
    print("\n".join(f"too dear: {one}" for one in found) or "within a fifth of the baseline")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
