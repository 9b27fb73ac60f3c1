"""What bills cost, of made fleets in a real Prometheus: ``python -m benchmarks.bill``.

For each world: seconds of CPU and memory of the command, and questions, samples and CPU of the
store. With ``--base=DIR`` the same is asked by the code there, beside it in one run.
"""

import argparse
import os
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from benchmarks.bill.worlds import BEGIN, WORLDS, World, fill
from tests.store import Store

_TICKS_S = os.sysconf("SC_CLK_TCK")
_QUERIES = 'prometheus_http_requests_total{code="200",handler="/api/v1/query'
_SAMPLES = "prometheus_engine_query_samples_total"
_MIB = 1024  # of what the kernel says in KiB


class Cost(NamedTuple):
    """What one bill cost. ``said``: its last line."""

    own_s: float
    mib: float
    wall_s: float
    questions: int
    samples: int
    store_s: float
    said: str


def cost_of(store: Store, world: World, by: str, code: Path) -> Cost:
    """Makes a bill of a world, by the code in a folder."""
    # -P: else the folder that one stands in comes before PYTHONPATH, and both run the same code.
    command = [sys.executable, "-P", "-m", "exporter", "bill", f"--since={_written(BEGIN)}"]
    command += [f"--until={_written(BEGIN + world.seconds)}", "--price=1", f"--by={by}"]
    command += [f"--prometheus=http://{store.address}"]
    before, before_s, begun_s = _metrics(store), _cpu_s(store.pid), time.monotonic()
    with tempfile.TemporaryFile() as out:
        actions = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1)]
        environment = {**os.environ, "PYTHONPATH": str(code)}
        pid = os.posix_spawn(sys.executable, command, environment, file_actions=actions)
        _, status, used = os.wait4(pid, 0)
        out.seek(0)
        lines = out.read().decode().splitlines()
    after = _metrics(store)
    return Cost(
        own_s=used.ru_utime + used.ru_stime,
        mib=used.ru_maxrss / _MIB,
        wall_s=time.monotonic() - begun_s,
        questions=after.questions - before.questions,
        samples=after.samples - before.samples,
        store_s=_cpu_s(store.pid) - before_s,
        said=lines[-1] if lines and not status else f"status {status}",
    )


class _Metrics(NamedTuple):
    """What the store says of the questions that it was asked."""

    questions: int = 0
    samples: int = 0


def _metrics(store: Store) -> _Metrics:
    with urllib.request.urlopen(f"http://{store.address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    values = {name: float(value) for name, _, value in pairs}
    questions = sum(value for name, value in values.items() if name.startswith(_QUERIES))
    return _Metrics(round(questions), round(values[_SAMPLES]))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S


def _written(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def main() -> None:
    """Prints a row for each bill."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bill", description=__doc__)
    parser.add_argument("--world", action="append", choices=sorted(WORLDS))
    parser.add_argument("--by", action="append", choices=("namespace", "owner", "pod"))
    parser.add_argument("--nodes", type=int, help="in place of the world's")
    parser.add_argument("--days", type=int, help="in place of the world's")
    parser.add_argument("--base", type=Path, help="a folder with the code to compare with")
    given = parser.parse_args()
    print(
        "| world | by | code | own CPU | memory | wall | questions | samples | store's CPU | said |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---|")
    for name in given.world or WORLDS:
        world = WORLDS[name].with_(given.nodes, given.days)
        with (
            tempfile.TemporaryDirectory() as folder,
            Store(Path(folder), program="prometheus3") as store,
        ):
            fill(store, world)
            for by in given.by or ("namespace",):
                for code in filter(None, (given.base, Path.cwd())):
                    one = cost_of(store, world, by, code)
                    print(
                        f"| {name}, {world.nodes} nodes | {by} | {code.name} | {one.own_s:.1f} s "
                        f"| {one.mib:.0f} MiB | {one.wall_s:.1f} s | {one.questions} "
                        f"| {one.samples / 1e6:.2f} M | {one.store_s:.1f} s | {one.said} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
