"""Measures one agent after the other on one node."""

import gzip
import subprocess
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from benchmarks.cost.agents import FIRST, Agent, Running
from benchmarks.cost.compiled import program
from benchmarks.cost.figures import Figures, Latency, latency, samples
from benchmarks.cost.meter import fixed_loop_ms
from benchmarks.cost.node import Node

GZIP = {"Accept-Encoding": "gzip"}
SCRAPE_EVERY_S = 1.05  # so that each finds a new page, and cycles wander through
SETTLED_S = 7
MAX_CREATED = 10
REQUESTS = 20_000  # more than the time allows
CHURNED_PODS = 10_000
CHURN_RATE = 500


def measure(agent: Agent, node: Node, seconds: float, say: Callable[[str], None]) -> Figures:
    """All figures of an agent."""
    found = Figures()
    with Running(agent, node):
        say(f"{agent.name}: a first start, which compiles its modules and reads its files")
    with Running(agent, node) as running:
        found.set("start_s", running.start_s)
        found.set("start_cpu_ms", running.start_cpu_ms)
        settle(running)
        found.set("loop_ms", fixed_loop_ms())
        say(f"{agent.name}: cycles")
        if agent.collects:
            _cycles(found, running, node, seconds)
        say(f"{agent.name}: scrapes")
        _scrapes(found, running, round(seconds / 2))
        _pages(found, running)
        found.set("rest_mib", running.meter.memory_mib())
        say(f"{agent.name}: latency")
        _latency(found, "latency_1", running, 1, seconds / 4)
        _latency(found, "latency_10", running, 10, seconds / 4)
        if agent.collects:
            node.hang()
            time.sleep(2.5)
            for key, scrapers in (("hung_1", 1), ("hung_10", 10)):
                _latency(found, key, running, scrapers, seconds / 4)
            node.break_()
        found.set("peak_mib", running.meter.memory_mib("VmHWM"))
    return found


def settle(running: Running) -> None:
    """Wait until what is done once, or every five seconds, was done.

    It is not asked for a page: an exporter at which somebody looks reads more often.
    """
    left = running.begun + running.agent.settled_s - time.monotonic()
    time.sleep(max(SETTLED_S, left))


def _cycles(found: Figures, running: Running, node: Node, seconds: float) -> None:
    before = running.meter.used()
    begun = time.monotonic()
    found.set("cycle_ms", running.meter.each_second(seconds))
    driver = (running.meter.used() - before).driver / 1e6 / (time.monotonic() - begun)
    found.set("driver_ms", driver)
    if running.agent.watches:
        modify = partial(node.cluster.order, "change 1")
        found.set("change_ms", changing(running, modify, round(seconds)))
        found.set("created_ms", changing(running, node.create_pod, MAX_CREATED))


def changing(running: Running, change: Callable[[], object], seconds: int) -> float:
    """CPU a second while there is a change in each."""
    before, begun = running.meter.used(), time.monotonic()
    for number in range(seconds):
        change()
        time.sleep(max(0.0, begun + number + 1 - time.monotonic()))
    return (running.meter.used() - before).own / 1e6 / (time.monotonic() - begun)


def _scrapes(found: Figures, running: Running, count: int) -> None:
    """CPU around a scrape, which a cycle in the same moment spoils: the median is not spoiled."""
    costs: dict[str, list[float]] = {}
    for number in range(2 * count):
        time.sleep(SCRAPE_EVERY_S)
        kind, headers = ("gzip", GZIP) if number % 2 else ("scrape", {})
        costs.setdefault(f"{kind}_ms", []).append(_scrape(running, headers))
        if running.agent.collects:
            again = "again_gzip_ms" if number % 2 else "again_ms"
            costs.setdefault(again, []).append(_scrape(running, headers))
    if running.agent.ready != "/metrics":
        for _ in range(count):
            time.sleep(SCRAPE_EVERY_S)
            costs.setdefault("request_ms", []).append(_scrape(running, {}, running.agent.ready))
    for key, values in costs.items():
        found.set(key, median(values))


def _scrape(running: Running, headers: dict[str, str], path: str = "/metrics") -> float:
    before = running.meter.used()
    running.get(path, headers)
    time.sleep(0.002)  # what comes after the last byte
    return (running.meter.used() - before).own / 1e6


def _pages(found: Figures, running: Running) -> None:
    page = running.get("/metrics")
    zipped = running.get("/metrics", GZIP)
    found.set("series", samples(page))
    found.set("bytes", len(page))
    if zipped.startswith(b"\x1f\x8b"):
        assert samples(gzip.decompress(zipped))
        found.set("gzip_bytes", len(zipped))
    else:
        found.cells["gzip_bytes"] = "not offered"
        found.cells["gzip_ms"] = found.cells["again_gzip_ms"] = ""
    found.set("sample_us", found.values["scrape_ms"] * 1000 / found.values["series"])


def _latency(found: Figures, key: str, running: Running, scrapers: int, seconds: float) -> None:
    result = scrape_often(running.port, "/metrics", scrapers, REQUESTS, seconds)
    found.cells[key] = str(result)
    if not result.failed and result.p50 >= 0:
        found.values[f"{key}_p99"] = result.p99


def scrape_often(port: int, path: str, scrapers: int, requests: int, seconds: float) -> Latency:
    """So many requests each, one after the other, or as many as they come to in the time."""
    values = (port, path, "identity", scrapers, requests, seconds)
    command = [*FIRST, program("scrape"), *map(str, values)]
    return latency(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def starts(agent: Agent, node: Node, found: Figures) -> None:
    """Pods that use a GPU start; to come last, for the node has more processes then."""
    with Running(agent, node) as running:
        settle(running)
        found.set("started_ms", changing(running, node.start_on_gpu, MAX_CREATED))


def churn(agent: Agent, node: Node, found: Figures) -> None:
    """Memory after many pod changes. What ended is let go of at once, for time runs fast here."""
    with Running(agent, node, "--ledger.retention=1s") as running:
        running.wait_for(b"mgpu_pod_info")
        warm = node.cluster.order(f"churn {CHURNED_PODS // 10} {CHURN_RATE}")
        running.wait_for(warm.encode())
        time.sleep(3)
        before = running.meter.memory_mib()
        last = node.cluster.order(f"churn {CHURNED_PODS} {CHURN_RATE}")
        running.wait_for(last.encode())
        time.sleep(3)
        after = running.meter.memory_mib()
    found.set("churned", after / before, f"{after:.1f} (x {after / before:.3f})")
