"""What a node of real cards pays: the stand-in takes the CPU that calls take on an H100.

``python -m benchmarks.cost.priced [--write] [--quick]``, as root: these tables alone, in 20
minutes; ``--quick``: eight cards, this exporter. A Prometheus scrapes each 15 s. With them the
curve over pairs of an owner and a GPU, of a driver that is free, with rings and without.
"""

import argparse
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cost import peers
from benchmarks.cost.agents import AGENTS, OURS, Agent, Running
from benchmarks.cost.figures import Figures, Target, judged, shown, table
from benchmarks.cost.measure import SCRAPE_EVERY_S, settle
from benchmarks.cost.node import Node
from benchmarks.cost.size import Size
from exporter.console.progress import progress
from tests.fakenvml.prices import H100, H100_COLD
from tests.fakenvml.scenario import Fault, Price

PAGE = Path(__file__).with_name("results.md")
BEGIN = "<!-- priced: made by python -m benchmarks.cost.priced --write -->\n"
END = "<!-- end of priced -->\n"
PRICES = "an H100's prices"
NODES = (Size(8, 3, 110), Size(1, 3, 10))
SECONDS = 30.0  # several reads of what is read seldom
PROMETHEUS_S = 15.0
NO_RINGS = Fault("error", "nvmlDeviceGetSamples", code=3)
OWNERLESS = re.compile(rb"^mgpu_device_unattributed_core_seconds_total{.*} (\S+)$", re.MULTILINE)
CURVE = {  # pairs → a node where each process works on all GPUs
    64: Size(8, 1, 128),
    128: Size(8, 2, 128),
    256: Size(8, 4, 128),
    512: Size(8, 8, 128),
    1024: Size(16, 4, 128),
}
Columns = Mapping[str, Figures]


def text(say: Callable[[str], None]) -> str:
    """All tables, as Markdown."""
    parts = []
    found: dict[Size, Columns] = {}
    for size in NODES:
        found[size] = _node(size, say)
        parts.append(f"### {size}, {PRICES}\n\n{table(found[size])}")
    cold = _node(NODES[0], say, H100_COLD, quick=True)
    parts.append(f"### {NODES[0]}, {PRICES} after a second of sleep\n\n{table(cold)}")
    eight, one = (found[size] for size in NODES)
    parts.append(judged(targets(one), eight))
    parts.append(f"### Owners on all GPUs\n\n{_curve(say)}")
    return "\n".join(parts)


def targets(one: Columns) -> Sequence[Target]:
    """What eight cards are held to, and one card, whose figures are ``one``."""
    ours, theirs = OURS.name, "nvitop-exporter"

    def value(columns: Columns, key: str, agent: str = ours) -> float:
        return columns[agent].values[key]

    def whole(columns: Columns, agent: str = ours) -> float:
        return value(columns, "whole_ms", agent)

    return [
        Target(f"CPU in a second, 8 cards, {PRICES}, ms", 24, whole),
        Target("the same / nvitop-exporter's", 0.5, lambda c: whole(c) / whole(c, theirs)),
        Target("the same, one card, ms", 4, lambda _: whole(one)),
        Target("CPU in a second, processes come and go, ms", 45, lambda c: value(c, "churn_ms")),
        Target(
            "the same / nvitop-exporter's",
            1,
            lambda c: value(c, "churn_ms") / value(c, "churn_ms", theirs),
        ),
        Target("their time without an owner, parts in 100", 2, lambda c: value(c, "named")),
        Target("CPU in a second, somebody looks, ms", 70, lambda c: value(c, "viewed_ms")),
    ]


def _node(
    size: Size,
    say: Callable[[str], None],
    prices: Sequence[Price] = H100,
    *,
    quick: bool = False,
) -> Columns:
    """``quick``: of this exporter alone."""
    columns: dict[str, Figures] = {}
    with Node(size, prices) as node:
        for agent in AGENTS:
            if agent.name not in {OURS.name, "nvitop-exporter"} or (quick and agent is not OURS):
                continue
            try:
                columns[agent.name] = _priced(agent, node, say)
            except peers.UnavailableError as error:
                say(f"{agent.name} was not run: {error}")
    return columns


def _priced(agent: Agent, node: Node, say: Callable[[str], None]) -> Figures:
    """CPU in a second: at first, at rest, while processes come and go, and while somebody looks."""
    found = Figures()
    with Running(agent, node) as running:
        settle(running)
        say(f"{node.size}, {PRICES}: {agent.name}")
        with _scraped(running, PROMETHEUS_S):
            found.set("first_ms", _each_second(Figures(), running))
            time.sleep(max(0.0, running.begun + 60 - time.monotonic()))
            found.set("whole_ms", _each_second(found, running))
            found.set("rest_mib", running.meter.memory_mib())
            jobs_s = node.churn(SECONDS + 10)
            before_s = _ownerless(running)
            found.set("churn_ms", _each_second(Figures(), running, SECONDS + 10))
            time.sleep(6)
            if agent is OURS:
                found.set("named", 100 * (_ownerless(running) - before_s) / jobs_s)
        with _scraped(running, SCRAPE_EVERY_S):
            time.sleep(3)
            found.set("viewed_ms", _each_second(Figures(), running))
    return found


def _ownerless(running: Running) -> float:
    return sum(map(float, OWNERLESS.findall(running.get("/metrics"))))


def _each_second(found: Figures, running: Running, for_s: float = SECONDS) -> float:
    before, begun = running.meter.used(), time.monotonic()
    time.sleep(for_s)
    used, seconds = running.meter.used() - before, time.monotonic() - begun
    found.set("priced_ms", used.driver / 1e6 / seconds)
    return used.whole / 1e6 / seconds


@contextmanager
def _scraped(running: Running, every_s: float) -> Iterator[None]:
    """Meanwhile the page is asked for, each so many seconds."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(every_s):
            running.get("/metrics")

    client = threading.Thread(target=scrape)
    client.start()
    try:
        yield
    finally:
        ended.set()
        client.join()


def _curve(say: Callable[[str], None]) -> str:
    """How the cost grows with owners that work on all GPUs: without a step."""
    columns = "| pairs of owner and GPU | GPUs | CPU outside of the driver, ms | RSS, MiB "
    lines = [f"{columns}| without rings, ms | RSS, MiB |"]
    lines.append("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for pairs, size in CURVE.items():
        say(f"{pairs} pairs of owner and GPU")
        cells = [f"{pairs:,}", str(size.gpus)]
        with Node(size, spread=True) as node:
            for faults in ((), (NO_RINGS,)):
                node.break_(*faults)
                cells += map(shown, _at_rest(node))
        lines.append(f"| {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _at_rest(node: Node) -> tuple[float, float]:
    """CPU outside of the driver in a second, soon after the start, and memory."""
    with Running(OURS, node) as running:
        settle(running)
        return running.meter.each_second(SECONDS / 2), running.meter.memory_mib()


def write(tables: str) -> None:
    """Put the tables where the page keeps them."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{tables}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost.priced", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="eight cards, this exporter alone")
    parser.add_argument("--write", action="store_true", help="write results.md too")
    options = parser.parse_args(arguments)
    with progress() as line:
        tables = table(_node(NODES[0], line.say, quick=True)) if options.quick else text(line.say)
    print(tables)
    if options.write:
        write(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
