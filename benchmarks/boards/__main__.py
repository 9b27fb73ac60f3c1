"""Times every query of a board over a fleet: ``python -m benchmarks.boards --nodes 100``.

The nodes are those of the fleet's benchmark: each is simulated for seconds, and goes on for an hour
at that pace, with a scrape in 15 s. A query is asked as Grafana asks it at 1600 pixels: of a table
at one moment, of all else in steps. One is asked after another, each several times; the least time
counts, for other programs use the machine too.
"""

import argparse
import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from benchmarks.fleet.agent import CYCLE_S, Agent, settings
from benchmarks.fleet.clock import SECOND_NS, SetClock
from benchmarks.fleet.nodes import name, scenario
from exporter.metrics.families import FAMILIES
from exporter.metrics.text import Format
from tests.dashboards.grafana import FOLDER, fill, load, variables
from tests.store import Labels, Store, Target, parsed, sent

AT = int(time.time()) // 60 * 60  # Prometheus 3 takes no sample of the future
EVERY_S, HOUR_S = 15, 3600
PAGE_WIDTH, COLUMNS, EDGES = 1600, 24, 24
LEAST_STEP_S = 30
# To these Grafana rounds a step (rangeUtil.roundInterval), up to an hour.
STEPS_S = (30, 60, 120, 300, 600, 900, 1200, 1800, 3600)
COUNTERS = {family.full_name for family in FAMILIES if family.type == "counter"}

# prompb.TimeSeries, a sample of 16 bytes, and its value before its time
SAMPLE = b"\x12\x10\x09"

Samples = Mapping[Labels, float]


def pages(number: int) -> tuple[Samples, Samples]:
    """A node's samples at the end, and a cycle before."""
    clock = SetClock(AT - 3 * CYCLE_S)
    agent = Agent(scenario(number), settings(), clock)
    found = []
    for _ in range(3):
        clock.now_ns += CYCLE_S * SECOND_NS
        agent.cycle()
        text = agent.pages.page(Format.TEXT, zipped=False).decode()
        found.append({(("__name__", one), *own): value for one, own, value in parsed(text)})
    return found[-1], found[-2]


def written(number: int) -> Iterator[bytes]:
    """The series of a node over the hour: counters grow as they grew at the end, gauges stay."""
    last, before = pages(number)
    target = Target({"job": "mgpu-exporter", "instance": name(number), "cluster": "fleet"})
    ages = range(HOUR_S, -1, -EVERY_S)
    times = [_stamped(AT - age) for age in ages]
    for labels, value in last.items():
        own = dict(labels)
        pace = (value - before.get(labels, value)) / CYCLE_S if own["__name__"] in COUNTERS else 0
        first = value + HOUR_S * abs(pace)
        values = (struct.pack("<d", first - age * pace) for age in ages)
        each = (SAMPLE + value + at for value, at in zip(values, times, strict=True))
        yield sent(target.label(own), ()) + b"".join(each)


def _stamped(at_s: int) -> bytes:
    """A sample's time, of which all have the same length: ``tests.store.sent`` is too slow here."""
    (sample,) = [sent((), [(at_s * 1000, bytes(8))])]
    assert sample.startswith(SAMPLE), sample
    return sample.removeprefix(SAMPLE + bytes(8))


def requests(board: str, range_s: int) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """A panel, the path and the arguments of each of its queries, but for those of folded rows."""
    dashboard = load(FOLDER / f"mgpu-{board}.json")
    chosen = {
        key: one.get("allValue", "") or one.get("current", {}).get("value", "")
        for key, one in variables(dashboard).items()
    }
    chosen |= {f"{label}_label": label for label in ("namespace", "pod", "container")}
    panels = [panel for panel in dashboard["panels"] if "targets" in panel]
    for panel in panels:
        width = panel["gridPos"]["w"] * PAGE_WIDTH // COLUMNS - EDGES
        points = panel.get("maxDataPoints", width)
        step_s = next(one for one in STEPS_S if one >= min(range_s / points, STEPS_S[-1]))
        values = chosen | {
            "__range": f"{range_s}s",
            "__range_s": str(range_s),
            "__rate_interval": f"{max(step_s + LEAST_STEP_S, 4 * LEAST_STEP_S)}s",
            "__interval_ms": str(step_s * 1000),
            "__to": str(AT * 1000),
        }
        for target in panel["targets"]:
            query = {"query": fill(target["expr"], values)}
            if target.get("instant"):
                yield panel["title"], "query", query | {"time": str(AT)}
            else:
                # Prometheus is asked for whole steps
                end = AT // step_s * step_s
                span = {"start": str(end - range_s), "end": str(end), "step": str(step_s)}
                yield panel["title"], "query_range", query | span


def timed(store: Store, board: str, range_s: int, times: int) -> None:
    """Asks, and prints what the queries of each panel took together, the dearest first."""
    process = psutil.Process(store.pid)
    took: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for panel, path, arguments in requests(board, range_s):
        seen = []
        for _ in range(times):
            begun, used = time.perf_counter(), sum(process.cpu_times()[:2])
            store.get(path, **arguments)
            seen.append((time.perf_counter() - begun, sum(process.cpu_times()[:2]) - used))
        for place, each in enumerate(zip(*seen, strict=True)):
            took[panel][place] += min(each)
    whole = [sum(each) for each in zip(*took.values(), strict=True)]
    print(f"\n{board}, {range_s} s: {whole[0]:.2f} s in sum, {whole[1]:.2f} s of CPU")
    for panel, (wall, cpu) in sorted(took.items(), key=lambda one: -one[1][0]):
        print(f"{wall:8.3f} {cpu:8.2f}  {panel}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fills a Prometheus, and asks the boards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--range", type=int, default=HOUR_S, help="of time, in seconds")
    parser.add_argument("--times", type=int, default=3, help="that each query is asked")
    parser.add_argument("--program", default="prometheus")
    parser.add_argument("boards", nargs="*", default=["overview"])
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder), program=options.program) as store,
    ):
        series = 0
        for number in range(options.nodes):
            found = [*written(number)]
            store.write(found)
            series += len(found)
        print(f"{options.nodes} nodes, {series:,} series, {options.program}")
        for board in options.boards:
            timed(store, board, options.range, options.times)


if __name__ == "__main__":
    main()
