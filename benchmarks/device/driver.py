"""What a real driver costs, and what the exporter makes of it. Run as root on a GPU node.

python -m benchmarks.device.driver --output DIR              on a real GPU
python -m benchmarks.device.driver --output DIR --stand-in   without one: on the stand-in for NVML

Each step is a process of its own with a time of its own, so that one that fails or hangs costs only
itself; what it printed goes to DIR/report.md. A step that the time left does not hold is left out.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.device.steps import STEPS

LEAST_S = 8.0  # a step with less time than that is left out


class Done(NamedTuple):
    """How a step went: what it printed, and one word."""

    said: str
    ended: str


def main(arguments: Sequence[str]) -> int:
    """Run the steps one after another; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device.driver", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder for what was found")
    parser.add_argument("--stand-in", action="store_true", help="run on the stand-in for NVML")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the two long steps")
    parser.add_argument("--limit", type=float, default=320.0, help="seconds for all steps")
    parser.add_argument("--only", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        STEPS[options.step].run(options)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    begun, failed = time.monotonic(), 0
    with (options.output / "report.md").open("w") as report:
        for name in options.only:
            left = begun + options.limit - time.monotonic()
            limit = min(STEPS[name].limit_s + options.seconds * STEPS[name].long, left)
            started = time.monotonic()
            done = one(name, [*arguments, f"--step={name}"], limit)
            failed += done.ended != "done"
            took = f"{done.ended}, {time.monotonic() - started:.0f} s"
            text = f"## {name} ({took})\n\n{done.said}\n"
            print(text, flush=True)
            report.write(text)
            report.flush()
    return int(failed > 0)


def one(name: str, arguments: Sequence[str], limit_s: float) -> Done:
    """Run a step, with all that it starts, for so long at most."""
    if limit_s < LEAST_S:
        return Done("", "left out: no time")
    command = [sys.executable, "-u", "-m", "benchmarks.device.driver", *arguments]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            ended = "done" if process.wait(limit_s) == 0 else "failed"
        except subprocess.TimeoutExpired:
            ended = f"{name} was ended after {limit_s:.0f} s"
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)  # no longer: the driver may hang
        said.seek(0)
        return Done(said.read(), ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
