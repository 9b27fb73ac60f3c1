"""Two hours of one node, as its Prometheus would have scraped them, and what they take on disk.

A short run leaves samples where they were appended; only a whole block shows what they come to.
The pages are made by a clock that is moved, and stamped with its time.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from benchmarks.fleet.agent import Agent, settings
from benchmarks.fleet.clock import SECOND_NS, SetClock
from benchmarks.fleet.nodes import name, scenario
from benchmarks.fleet.programs import bytes_below, program, victoria_metrics
from exporter.metrics.text import Format

BLOCK_S = 2 * 3600
NUMBER = 0  # of the node
SAMPLE = re.compile(rb"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class Kept(NamedTuple):
    """What a storage made of the samples."""

    samples: int
    series: int
    bytes_on_disk: int

    @property
    def bytes_per_sample(self) -> float:
        """The one through the other."""
        return self.bytes_on_disk / self.samples


def pages(start_s: int, every_s: int, seconds: int) -> Iterator[tuple[int, bytes]]:
    """The node's page at each scrape, with its time."""
    clock = SetClock(start_s)
    agent = Agent(scenario(NUMBER), settings(), clock)
    for at_s in range(start_s + every_s, start_s + seconds, every_s):
        clock.now_ns = at_s * SECOND_NS
        agent.cycle()
        yield at_s, agent.pages.page(Format.TEXT, zipped=False)


def stamped(page: bytes, at_s: int) -> bytes:
    """The samples of a page with their time, under the labels of a target."""
    own = f'instance="{name(NUMBER)}",job="mgpu-exporter"'.encode()

    def line(sample: re.Match[bytes]) -> bytes:
        metric, labels, value = sample.groups()
        return metric + b"{" + own + (b"," + labels if labels else b"") + b"} " + value

    stamp = f" {at_s}".encode()
    return b"".join(line(sample) + stamp + b"\n" for sample in SAMPLE.finditer(page))


def newest_block(now_s: float) -> int:
    """When the newest block of two hours that is over began."""
    return (int(now_s) // BLOCK_S - 1) * BLOCK_S


def keep(folder: Path, now_s: float, every_s: int, seconds: int = BLOCK_S) -> tuple[Kept, Kept]:
    """Let Prometheus' TSDB and VictoriaMetrics store the same pages; in this order."""
    text, below = folder / "pages.om", folder / "victoria"
    below.mkdir()
    with victoria_metrics(below) as storage, text.open("wb") as file:
        for at_s, page in pages(newest_block(now_s), every_s, seconds):
            file.write(stamped(page, at_s))
            query = urlencode({"timestamp": at_s * 1000, "extra_label": f"instance={name(NUMBER)}"})
            storage.get(f"/api/v1/import/prometheus?{query}", page)
        file.write(b"# EOF\n")
        storage.get("/internal/force_flush")
        storage.get("/internal/force_merge")
        said = storage.metrics()
    prometheus = block(text, folder / "blocks")
    samples = round(said.sum("vm_rows_inserted_total"))
    return prometheus, Kept(samples, prometheus.series, bytes_below(below / "data"))


def block(text: Path, folder: Path) -> Kept:
    """Let promtool make blocks of a file in the OpenMetrics format."""
    made = ["tsdb", "create-blocks-from", "openmetrics", str(text), str(folder)]
    command = [program("promtool"), *made]
    subprocess.run(command, check=True, capture_output=True)
    metas = [json.loads(path.read_text())["stats"] for path in folder.glob("*/meta.json")]
    samples = sum(meta["numSamples"] for meta in metas)
    return Kept(samples, max(meta["numSeries"] for meta in metas), bytes_below(folder))
