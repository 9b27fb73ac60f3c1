"""The fleet under a zone's Prometheus with the shipped rules, and under an agent that sends all on.

Both write to one VictoriaMetrics: the zone what its rules recorded, the agent everything.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from benchmarks.fleet import config
from benchmarks.fleet.nodes import kind
from benchmarks.fleet.programs import (
    Samples,
    Server,
    Usage,
    bytes_below,
    prometheus,
    victoria_metrics,
)
from exporter.console.progress import Progress

RULES = Path(__file__).parents[2] / "rules"
RULE_FILES = [str(RULES / f"mgpu-{name}.yaml") for name in ("recording", "alerts")]
STARTS_WITHIN_S = 120


class Page(NamedTuple):
    """One node's page: bytes plain and compressed, and its samples."""

    kind: str
    plain: int
    zipped: int
    samples: int


class Moment(NamedTuple):
    """All programs at a moment: what they say, and what they have used."""

    at_s: float
    zone: Samples
    agent: Samples
    storage: Samples
    used: dict[str, Usage]


class Live(NamedTuple):
    """What a run found: two moments, the zone's answers at the end, and bytes on disk."""

    nodes: int
    every_s: int
    idle: Moment
    begin: Moment
    end: Moment
    pages: tuple[Page, ...]
    answers: dict[str, float]
    alerts: dict[str, int]
    late: int
    load: float
    disk: dict[str, int]


QUERIES = {  # of the zone's Prometheus, at the end
    "failed scrapes": "sum(count_over_time(up[10m])) - sum(sum_over_time(up[10m]))",
    "scrape p50": "quantile(0.5, scrape_duration_seconds and up == 1)",
    "scrape p99": "quantile(0.99, scrape_duration_seconds and up == 1)",
}


def measure(folder: Path, nodes: int, every_s: int, seconds: int, said: Progress) -> Live:
    """Run everything for some time."""
    for name in ("zone", "agent", "storage"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        said.say(f"{nodes} nodes are started")
        address = stack.enter_context(_fleet(nodes))
        storage = stack.enter_context(victoria_metrics(folder / "storage"))
        scrape = config.scraping(address, nodes, every_s)
        text = config.zone(scrape, storage.address, RULE_FILES)
        zone = stack.enter_context(prometheus(text, folder / "zone"))
        text = config.agent(scrape, storage.address)
        agent = stack.enter_context(prometheus(text, folder / "agent", agent=True))
        servers = {"zone": zone, "agent": agent, "storage": storage}
        idle = _moment(servers)
        _wait(said, 2 * every_s, "every node is scraped")
        begin = _moment(servers)
        _wait(said, seconds, "the fleet is scraped")
        end = _moment(servers)
        answers = {name: _asked(zone, query) for name, query in QUERIES.items()}
        alerts = _alerts(zone)
        pages = tuple(_pages(address, nodes))
        late, load = int(_got(f"http://{address}/late")), os.getloadavg()[1]
        disk = {"agent wal": bytes_below(folder / "agent" / "data" / "wal")}
    return Live(nodes, every_s, idle, begin, end, pages, answers, alerts, late, load, disk)


@contextmanager
def _fleet(nodes: int) -> Iterator[str]:
    """The simulated nodes in a process of their own; where they listen."""
    command = [sys.executable, "-m", "benchmarks.fleet.serve", f"--nodes={nodes}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip() if process.stdout else ""
        if not address:
            raise SystemExit("python -m benchmarks.fleet.serve: did not start")
        yield address
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()


def _wait(said: Progress, seconds: float, what: str) -> None:
    ends_s = time.monotonic() + seconds
    while (left_s := ends_s - time.monotonic()) > 0:
        said.say(f"{what}: {left_s:.0f} s to go")
        time.sleep(min(1.0, left_s))


def _moment(servers: dict[str, Server]) -> Moment:
    said = {name: server.metrics() for name, server in servers.items()}
    used = {name: server.usage() for name, server in servers.items()}
    return Moment(time.monotonic(), said["zone"], said["agent"], said["storage"], used)


def _asked(server: Server, expression: str) -> float:
    """The one number that an expression gives; 0 if there is none."""
    answer = json.loads(server.get(f"/api/v1/query?{urlencode({'query': expression})}"))
    found = answer["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def _alerts(server: Server) -> dict[str, int]:
    """How many of each alert are firing."""
    counts: dict[str, int] = {}
    for alert in json.loads(server.get("/api/v1/alerts"))["data"]["alerts"]:
        if alert["state"] == "firing":
            title = alert["labels"]["alertname"]
            counts[title] = counts.get(title, 0) + 1
    return dict(sorted(counts.items()))


def _pages(address: str, nodes: int) -> Iterator[Page]:
    """Every node's page, of those that answer."""

    def page(number: int) -> Page | None:
        url = f"http://{address}/node/{number}/metrics"
        try:
            return Page(
                kind(number), len(plain := _got(url)), len(_got(url, "gzip")), _samples(plain)
            )
        except OSError:
            return None

    with ThreadPoolExecutor(4) as pool:
        yield from filter(None, pool.map(page, range(nodes)))


def _samples(page: bytes) -> int:
    return sum(not line.startswith(b"#") for line in page.splitlines())


def _got(url: str, encoding: str = "identity") -> bytes:
    request = urllib.request.Request(url, headers={"Accept-Encoding": encoding})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
        return bytes(answer.read())
