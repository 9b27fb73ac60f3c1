"""What the commands about now cost on a fleet: ``python -m benchmarks.top --nodes 30 100 300``.

The nodes are those of the fleet's benchmark: some are simulated, and all others are their twins
under other names. A real Prometheus has their last minutes, and what the shipped rules of a few
minutes record of them. Each command is a process of its own. Of it are told the seconds of CPU, the
memory at most, and when the first line came; of the store the questions and the seconds of CPU.
``--base=DIR`` asks the same by the code there, beside it.
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.boards.__main__ import AT, COUNTERS, EVERY_S, Samples, pages, rules
from benchmarks.fleet.agent import CYCLE_S
from benchmarks.fleet.nodes import name
from tests.store import Labels, Store, Target, parsed, sent

LENGTH_S = 150  # of what is written: more than a minute's rate
GROUPS = {
    *("mgpu-containers", "mgpu-namespaces", "mgpu-workloads"),
    *("mgpu-devices-recorded", "mgpu-nobody", "mgpu-shown"),
}
LINES = 12  # a title, sums, and rows
COMMANDS = {
    "top, first screen": ["top", "--once"],
    "top -n, first screen": ["top", "--once", "-n", "team-a"],
    "why": ["why"],
    "top, all": ["top", "--once"],
}
_QUESTIONS = "prometheus_http_requests_total"
_MIB = 1 << 20


class Cost(NamedTuple):
    """What a command cost. ``first_s``: until its first line."""

    own_s: float
    mib: float
    first_s: float
    wall_s: float
    questions: int
    store_s: float
    said: str

    def __str__(self) -> str:
        return (
            f"{self.own_s:6.2f} s of CPU {self.mib:5.0f} MiB, begins after {self.first_s:5.1f} s, "
            f"ends after {self.wall_s:5.1f} s; store {self.questions:4} questions "
            f"{self.store_s:6.2f} s of CPU; {self.said}"
        )


@cache
def simulated(number: int) -> tuple[Samples, Samples]:
    """A node's samples at the end, and a cycle before."""
    return pages(number)


def written(number: int, of: int, length_s: int = LENGTH_S) -> Iterator[bytes]:
    """The series of a node: counters grow as they grew at the end, gauges stay."""
    last, before = simulated(number % of)
    target = Target({"job": "mgpu-exporter", "instance": name(number), "cluster": "fleet"})
    twin = "" if number < of else f"-{number}"
    ages = range(length_s, -1, -EVERY_S)
    for labels, value in last.items():
        own = {key: text + twin if key in {"uuid", "pod"} else text for key, text in labels}
        pace = (value - before.get(labels, value)) / CYCLE_S if own["__name__"] in COUNTERS else 0
        first = value + length_s * abs(pace)
        samples = [((AT - age) * 1000, struct.pack("<d", first - age * pace)) for age in ages]
        yield sent(target.label(own), samples)


def record(store: Store) -> None:
    """Lets the store have what the rules of a few minutes record, as if it had been so before."""
    for rule in (one for one in rules() if one.record and one.group in GROUPS):
        own = {**rule.labels, "__name__": rule.record}
        found = store.query(rule.expr, AT)
        for first in range(0, len(found), 5000):
            store.write(
                _lately(tuple(sorted({**one["metric"], **own}.items())), float(one["value"][1]))
                for one in found[first : first + 5000]
            )


def _lately(labels: Labels, value: float) -> bytes:
    data = struct.pack("<d", value)
    return sent(labels, [((AT - 60) * 1000, data), (AT * 1000, data)])


def cost(store: Store, command: list[str], code: Path, *, first: bool) -> Cost:
    """Runs a command to its end, or with ``first`` until its table has begun."""
    before, before_s = questions(store), _cpu_s(store.pid)
    begun, lines = time.perf_counter(), list[str]()
    first_s = own_s = most = 0.0
    line = [sys.executable, "-m", "exporter", *command, f"--prometheus=http://{store.address}"]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=code
    ) as process:
        for text in process.stdout or ():
            first_s = first_s or time.perf_counter() - begun
            lines.append(text.decode().rstrip())
            if first and len(lines) == LINES:
                seen = psutil.Process(process.pid)
                own_s, most = sum(seen.cpu_times()[:2]), float(seen.memory_info().rss)
                process.kill()
                break
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    return Cost(
        own_s or used.ru_utime + used.ru_stime,
        (most or used.ru_maxrss * 1024) / _MIB,
        first_s,
        time.perf_counter() - begun,
        questions(store) - before,
        _cpu_s(store.pid) - before_s,
        next((one for one in lines if one.startswith(("core", "team-a:"))), lines[-1])[:60],
    )


def _patient(folder: Path, program: str) -> str:
    """A Prometheus for which what was written before the last node was is still of now."""
    script = folder / "patient"
    script.write_text(f'#!/bin/sh\nexec {program} --query.lookback-delta=3h "$@"\n')
    script.chmod(0o755)
    return str(script)


def _cpu_s(pid: int) -> float:
    return float(sum(psutil.Process(pid).cpu_times()[:2]))


def questions(store: Store) -> int:
    """How many questions the store was asked."""
    with urllib.request.urlopen(f"http://{store.address}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    return round(
        sum(
            value
            for family, labels, value in parsed(page)
            if family == _QUESTIONS and "/api/v1/query" in dict(labels).get("handler", "")
        )
    )


def main(arguments: list[str] | None = None) -> None:
    """Fill a Prometheus with more and more nodes, and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--simulated", type=int, default=20, help="nodes; others are their twins")
    parser.add_argument("--program", default="prometheus")
    parser.add_argument("--base", type=Path, help="a checkout of other code, asked too")
    parser.add_argument("--all", action="store_true", help="all rows of all nodes, too (minutes)")
    options = parser.parse_args(arguments)
    codes = [Path(__file__).parents[2], *([options.base] if options.base else [])]
    done = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder), program=_patient(Path(folder), options.program)) as store,
    ):
        for count in sorted(options.nodes):
            for number in range(done, count):
                store.write(written(number, options.simulated))
            done = count
            record(store)
            pod = store.query('topk(1, mgpu_pod_core_usage_gpus{namespace="team-a"})', AT)
            named = "/".join(pod[0]["metric"][key] for key in ("namespace", "pod"))
            print(f"{count} nodes", flush=True)
            for code in codes:
                for what, command in COMMANDS.items():
                    if options.all or what != "top, all":
                        line = [*command, named] if what == "why" else command
                        each = cost(store, line, code, first="first" in what)
                        print(f"  {each}  {what}, {code.name}", flush=True)


if __name__ == "__main__":
    main()
