"""Pages of a simulated node, as a Prometheus would have scraped them."""

from collections.abc import Iterator
from typing import NamedTuple

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.text import Format, Renderer
from tests.agent.simulation.clock import SECOND, ManualClock

SCRAPE_S = 15


class Scraped(NamedTuple):
    """A page and when it was scraped, in unix seconds."""

    at: float
    page: str


def pages(scenario: str, minutes: float, cycle_s: int = 1) -> Iterator[Scraped]:
    """What a scrape each 15 seconds gives from a scenario's start."""
    clock = ManualClock()
    settings = load({"simulate": [scenario]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    renderer = Renderer()
    for second in range(0, round(minutes * 60) + 1, cycle_s):
        collector.cycle()
        if second % SCRAPE_S == 0:
            page = renderer.render(collector.snapshot, Format.TEXT).decode()
            yield Scraped(clock.time_ns() / SECOND, page)
        clock.move(cycle_s)
