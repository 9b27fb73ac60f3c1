"""What a node of real cards pays: the stand-in takes the CPU that calls take on an H100.

``python -m benchmarks.cost.priced [--write]``, as root: these tables alone. With them the curve
over pairs of an owner and a GPU, of a driver that is free.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.cost import peers
from benchmarks.cost.agents import AGENTS, OURS, Agent, Running
from benchmarks.cost.figures import Figures, Target, judged, shown, table
from benchmarks.cost.measure import SCRAPE_EVERY_S, settle
from benchmarks.cost.node import Node
from benchmarks.cost.size import Size
from exporter.console.progress import progress
from tests.fakenvml.prices import H100

PAGE = Path(__file__).with_name("results.md")
BEGIN = "<!-- priced: made by python -m benchmarks.cost.priced --write -->\n"
END = "<!-- end of priced -->\n"
PRICES = "an H100's prices"
NODES = (Size(8, 3, 110), Size(1, 3, 10))
SECONDS = 30.0  # several reads of what is read seldom
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
    eight, one = (found[size] for size in NODES)
    parts.append(judged(targets(one), eight))
    parts.append(f"### Owners on all GPUs\n\n{_curve(say)}")
    return "\n".join(parts)


def targets(one: Columns) -> Sequence[Target]:
    """What eight cards are held to, and one card, whose figures are ``one``."""
    ours, theirs = OURS.name, "nvitop-exporter"

    def whole(columns: Columns, agent: str = ours) -> float:
        return columns[agent].values["whole_ms"]

    return [
        Target(f"CPU in a second, 8 cards, {PRICES}, ms", 24, whole),
        Target("the same / nvitop-exporter's", 0.5, lambda c: whole(c) / whole(c, theirs)),
        Target("the same, one card, ms", 4, lambda _: whole(one)),
    ]


def _node(size: Size, say: Callable[[str], None]) -> Columns:
    columns: dict[str, Figures] = {}
    with Node(size, H100) as node:
        for agent in AGENTS:
            if agent.name not in {OURS.name, "nvitop-exporter"}:
                continue
            try:
                columns[agent.name] = _priced(agent, node, say)
            except peers.UnavailableError as error:
                say(f"{agent.name} was not run: {error}")
    return columns


def _priced(agent: Agent, node: Node, say: Callable[[str], None]) -> Figures:
    """CPU in a second while nobody looks, then while somebody does."""
    found = Figures()
    with Running(agent, node) as running:
        settle(running)
        say(f"{node.size}, {PRICES}: {agent.name}")
        found.set("whole_ms", _each_second(found, running))
        ended = threading.Event()
        viewer = threading.Thread(target=_view, args=(running, ended))
        viewer.start()
        time.sleep(3)
        found.set("viewed_ms", _each_second(Figures(), running))
        ended.set()
        viewer.join()
        found.set("rest_mib", running.meter.memory_mib())
    return found


def _each_second(found: Figures, running: Running) -> float:
    before, begun = running.meter.used(), time.monotonic()
    time.sleep(SECONDS)
    used, seconds = running.meter.used() - before, time.monotonic() - begun
    found.set("priced_ms", used.driver / 1e6 / seconds)
    return used.whole / 1e6 / seconds


def _view(running: Running, ended: threading.Event) -> None:
    while not ended.wait(SCRAPE_EVERY_S):
        running.get("/metrics")


def _curve(say: Callable[[str], None]) -> str:
    """How the cost grows with owners that work on all GPUs: without a step."""
    lines = ["| pairs of owner and GPU | GPUs | CPU outside of the driver, ms | RSS, MiB |"]
    lines.append("| ---: | ---: | ---: | ---: |")
    for pairs, size in CURVE.items():
        say(f"{pairs} pairs of owner and GPU")
        with Node(size, spread=True) as node, Running(OURS, node) as running:
            settle(running)
            cpu = running.meter.each_second(SECONDS / 2)
            held = running.meter.memory_mib()
        lines.append(f"| {pairs:,} | {size.gpus} | {shown(cpu)} | {shown(held)} |")
    return "".join(f"{line}\n" for line in lines)


def write(tables: str) -> None:
    """Put the tables where the page keeps them."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{tables}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost.priced", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write results.md too")
    options = parser.parse_args(arguments)
    with progress() as line:
        tables = text(line.say)
    print(tables)
    if options.write:
        write(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
