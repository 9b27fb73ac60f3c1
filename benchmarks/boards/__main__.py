"""Times every query of a board over a fleet: ``python -m benchmarks.boards --nodes 100``.

The nodes are those of the fleet's benchmark: some are simulated for seconds, and go on for an hour
at that pace, with a scrape in 15 s; all others are their twins under other names. What the shipped
rules record of it is there for the hour, or for a week where a panel looks at one. A query is asked
as Grafana asks it at 1600 pixels: of a table at one moment, of all else in steps, folded rows too.
One is asked after another, each several times; the least time counts, for other programs use the
machine too. ``--rules`` times the rules, ``--base=DIR`` also others that read no other records.
"""

import argparse
import struct
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from benchmarks.fleet.agent import CYCLE_S, Agent, settings
from benchmarks.fleet.clock import SECOND_NS, SetClock
from benchmarks.fleet.nodes import TURN, name, scenario
from exporter.metrics.families import FAMILIES
from exporter.metrics.text import Format
from tests.dashboards.grafana import FOLDER, fill, load, looked_up, panels, resolve, variables
from tests.store import Labels, Store, Target, parsed, sent

AT = int(time.time()) // 60 * 60  # Prometheus 3 takes no sample of the future
EVERY_S, HOUR_S = 15, 3600
WEEK_S = 7 * 24 * HOUR_S
RULES = Path(__file__).parents[2] / "rules"
RULES_EVERY_S = 60  # of a group without an interval: what Prometheus has by default
UNITS_S = {"s": 1, "m": 60, "h": 3600}
PAGE_WIDTH, COLUMNS, EDGES = 1600, 24, 24
LEAST_STEP_S = 30
# To these Grafana rounds a step (rangeUtil.roundInterval), up to an hour.
STEPS_S = (30, 60, 120, 300, 600, 900, 1200, 1800, 3600)
COUNTERS = {family.full_name for family in FAMILIES if family.type == "counter"}

# What no two nodes have alike, or a pod and its owner: each is a workload of its own.
OF_ONE_NODE = {"uuid", "parent_uuid", "pod", "by_pod", "owner_name"}
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


def written(number: int, of: int = TURN) -> Iterator[bytes]:
    """The series of a node over the hour; ``of`` so many nodes that are simulated."""
    target = Target({"job": "mgpu-exporter", "instance": name(number), "cluster": "fleet"})
    twin = "" if number < of else f"-{number}"
    for labels, samples in _hour(number % of):
        own = {key: text + twin if text and key in OF_ONE_NODE else text for key, text in labels}
        yield sent(target.label(own), ()) + samples


@cache
def _hour(number: int) -> list[tuple[Labels, bytes]]:
    """The samples of a node: counters grow as they grew at the end, gauges stay."""
    last, before = pages(number)
    ages = range(HOUR_S, -1, -EVERY_S)
    times = [_stamped(AT - age) for age in ages]
    found = []
    for labels, value in last.items():
        is_counter = dict(labels)["__name__"] in COUNTERS
        pace = (value - before.get(labels, value)) / CYCLE_S if is_counter else 0
        first = value + HOUR_S * abs(pace)
        values = (struct.pack("<d", first - age * pace) for age in ages)
        each = (SAMPLE + value + at for value, at in zip(values, times, strict=True))
        found.append((labels, b"".join(each)))
    return found


def _stamped(at_s: int) -> bytes:
    """A sample's time, of which all have the same length: ``tests.store.sent`` is too slow here."""
    (sample,) = [sent((), [(at_s * 1000, bytes(8))])]
    assert sample.startswith(SAMPLE), sample
    return sample.removeprefix(SAMPLE + bytes(8))


class Rule(NamedTuple):
    """A rule, its group, how often it is asked, and what it records; "" for an alert."""

    group: str
    every_s: int
    record: str
    labels: Mapping[str, str]
    expr: str


def rules(folder: Path = RULES) -> list[Rule]:
    """The rules of a folder, the shipped ones by default, in their order."""
    found = []
    for path in (folder / "mgpu-recording.yaml", folder / "mgpu-alerts.yaml"):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            text = group.get("interval", f"{RULES_EVERY_S}s")
            every_s = int(text[:-1]) * UNITS_S[text[-1]]
            found += [
                Rule(
                    group["name"],
                    every_s,
                    rule.get("record", ""),
                    rule.get("labels", {}),
                    rule["expr"],
                )
                for rule in group["rules"]
            ]
    return found


def record(store: Store) -> Counter[int]:
    """Lets the store have what the rules record, as if it had always been so.

    How many series those are that have a sample in so many seconds.
    """
    counts = Counter[int]()
    for rule in (one for one in rules() if one.record):
        # What looks back an hour is asked of the end; what a panel reads of a week is there for it.
        length_s = WEEK_S if rule.every_s > RULES_EVERY_S * 5 else HOUR_S
        ages = range(length_s, -1, -rule.every_s)
        times = [_stamped(AT - age) for age in ages]
        own = {**rule.labels, "__name__": rule.record}
        found = store.query(rule.expr, AT)
        counts[rule.every_s] += len(found)
        for first in range(0, len(found), 500):
            store.write(_steady(one, own, times) for one in found[first : first + 500])
    return counts


def _steady(one: Mapping[str, Any], own: Mapping[str, str], times: Sequence[bytes]) -> bytes:
    """A recorded series that has had its value at all these times."""
    labels = tuple(sorted({**one["metric"], **own}.items()))
    value = struct.pack("<d", float(one["value"][1]))
    return sent(labels, ()) + b"".join(SAMPLE + value + at for at in times)


class Asked(NamedTuple):
    """A query of a panel as Grafana sends it."""

    panel: str
    path: str
    arguments: Mapping[str, str]


def requests(store: Store, board: str, range_s: int) -> Iterator[Asked]:
    """The queries of a board: of its panels, folded or not, of its lists, of what is marked."""
    dashboard = load(FOLDER / f"mgpu-{board}.json")
    fixed = {f"{label}_label": label for label in ("namespace", "pod", "container")}
    fixed |= {"__rate_interval": "120s", "__range": f"{range_s}s"}
    chosen = resolve(dashboard, partial(store.query, at=AT), fixed)
    for label, one in variables(dashboard).items():
        if str(one.get("query", "")).startswith("query_result(topk"):
            asked = looked_up(fill(one["query"], chosen))
            yield Asked(label, "query", {"query": asked, "time": str(AT)})
    marked = [
        {"title": one["name"], "gridPos": {"w": COLUMNS}, "targets": [one]}
        for one in dashboard["annotations"]["list"]
    ]
    for panel in (*panels(dashboard), *marked):
        if "targets" not in panel:
            continue
        length_s = WEEK_S if panel.get("timeFrom") == "7d" else range_s
        width = panel["gridPos"]["w"] * PAGE_WIDTH // COLUMNS - EDGES
        points = panel.get("maxDataPoints", width)
        step_s = next(one for one in STEPS_S if one >= min(length_s / points, STEPS_S[-1]))
        values = chosen | {
            "__range": f"{length_s}s",
            "__range_s": str(length_s),
            "__rate_interval": f"{max(step_s + LEAST_STEP_S, 4 * LEAST_STEP_S)}s",
            "__interval_ms": str(step_s * 1000),
            "__from": str((AT - length_s) * 1000),
            "__to": str(AT * 1000),
        }
        for target in panel["targets"]:
            query = {"query": fill(target["expr"], values)}
            if target.get("instant"):
                yield Asked(panel["title"], "query", query | {"time": str(AT)})
            else:
                # Prometheus is asked for whole steps
                end = AT // step_s * step_s
                span = {"start": str(end - length_s), "end": str(end), "step": str(step_s)}
                yield Asked(panel["title"], "query_range", query | span)


class Cost(NamedTuple):
    """What queries cost: seconds, seconds of the server's CPU, samples read, bytes answered."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    samples: int = 0
    bytes: int = 0

    def __add__(self, other: object) -> "Cost":
        """Both together."""
        assert isinstance(other, Cost)
        wall_s, cpu_s, samples, answered = other
        return Cost(
            self.wall_s + wall_s,
            self.cpu_s + cpu_s,
            self.samples + samples,
            self.bytes + answered,
        )

    def __str__(self) -> str:
        return (
            f"{self.wall_s:8.3f} s {self.cpu_s:7.2f} s of CPU {self.samples / 1e6:8.3f} M samples"
            f" {self.bytes / 1e6:7.3f} MB"
        )


def cost(store: Store, path: str, arguments: Mapping[str, str], times: int = 1) -> Cost:
    """What a query costs: the least time of several."""
    url = f"http://{store.address}/api/v1/{path}?{urlencode(arguments)}"
    took, length = [], 0
    for _ in range(times):
        begun, used = time.perf_counter(), _cpu_s(store.pid)
        with urlopen(url, timeout=600) as answer:
            length = len(answer.read())
        took.append((time.perf_counter() - begun, _cpu_s(store.pid) - used))
    read = store.get(path, **arguments, stats="all")["stats"]["samples"]["totalQueryableSamples"]
    return Cost(min(wall for wall, _ in took), min(cpu for _, cpu in took), read, length)


def _cpu_s(pid: int) -> float:
    """What the threads of a process have used: its own sum counts in hundredths of a second."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def timed(store: Store, board: str, range_s: int, times: int) -> None:
    """Asks, and prints what the queries of each panel cost together, the most first."""
    took: dict[str, Cost] = defaultdict(Cost)
    largest = 0
    for one in requests(store, board, range_s):
        each = cost(store, one.path, one.arguments, times)
        took[one.panel] += each
        largest = max(largest, each.samples)
    whole = sum(took.values(), Cost())
    print(f"\n{board}, {range_s} s; one query reads at most {largest / 1e6:.2f} M samples")
    print(f"{whole}  in sum")
    for panel, each in sorted(took.items(), key=lambda one: -one[1].cpu_s):
        print(f"{each}  {panel}")


def timed_rules(store: Store, times: int, folder: Path = RULES) -> None:
    """Asks each rule, and prints what those of each group cost once."""
    took: dict[tuple[str, int], Cost] = defaultdict(Cost)
    single = []
    for rule in rules(folder):
        each = cost(store, "query", {"query": rule.expr, "time": str(AT)}, times)
        took[rule.group, rule.every_s] += each
        single.append((each.cpu_s, rule.record or "an alert", rule.expr.split("\n")[0]))
    minute = sum(each.cpu_s * 60 / every_s for (_, every_s), each in took.items())
    print(f"\n{folder}, each once; a minute takes {minute:.2f} s of CPU at their intervals")
    print(f"{sum(took.values(), Cost())}  in sum")
    for (group, every_s), each in sorted(took.items(), key=lambda one: -one[1].cpu_s):
        print(f"{each}  {group}, each {every_s} s")
    for cpu_s, what, expr in sorted(single, reverse=True)[:12]:
        print(f"  {cpu_s:7.2f}  {what}  {expr[:90]}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fills a Prometheus, and asks the boards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--simulated", type=int, default=TURN, help="of them; others are twins")
    parser.add_argument("--range", type=int, default=HOUR_S, help="of time, in seconds")
    parser.add_argument("--times", type=int, default=3, help="that each query is asked")
    parser.add_argument("--program", default="prometheus")
    parser.add_argument("--rules", action="store_true", help="time the rules, too")
    parser.add_argument("--base", type=Path, nargs="*", default=[], help="rules of other commits")
    parser.add_argument("boards", nargs="*", default=["overview"])
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder), program=options.program) as store,
    ):
        series = 0
        for number in range(options.nodes):
            found = [*written(number, options.simulated)]
            store.write(found)
            series += len(found)
        recorded = record(store).total()
        print(f"{options.nodes} nodes, {series:,} series, {options.program}")
        print(f"{recorded:,} series recorded, {recorded / options.nodes:.0f} a node")
        for each in [RULES, *options.base] if options.rules else ():
            timed_rules(store, options.times, each)
        for board in options.boards:
            timed(store, board, options.range, options.times)


if __name__ == "__main__":
    main()
