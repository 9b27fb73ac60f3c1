"""A day of a simulated node before the demo began, as a Prometheus would have it.

``python -m tools.demo.history SCENARIO NODE UNTIL FILE`` simulates some minutes and writes them
over and over, in the OpenMetrics format, with the figures that advice and bills are made from. A
whole day would take a quarter of an hour to simulate.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.text import Format, Renderer

WARM_UP_S = 300  # of the scenario, before what is written: rates and averages are there
REPEATED_S = 600  # most that the scenarios do comes again after ten minutes
CYCLE_S = 5
SCRAPE_S = 120
SCRAPES = 25 * 3600 // SCRAPE_S  # more than a day, so that advice is not early
SECOND_NS = 10**9
# Of containers, pods and groups only those that are there all the time: names of short jobs never
# come again. Their use is in that of their namespaces and kinds.
KEPT = re.compile(
    r"^(mgpu_(?:device|namespace|pod|container|group|group_kind)_(?:info|up|allocation_info|core_limit_ratio"
    r"|memory_(?:used|limit|total|reserved)_bytes|core_utilization_ratio|busy_seconds_total"
    r"|(?:\w+_)?(?:core|gpu)_seconds_total|core_waiting(?:_on)?_seconds_total"
    r"|(?:\w+_)?energy_joules_total"
    r"|unobserved_seconds_total)"
    r"|mgpu_exporter_cycles_total)(?:\{(.*)\})? (\S+)$",
    re.MULTILINE,
)


class MovedClock:
    """A clock that moves only when it is told to."""

    def __init__(self, now_s: int) -> None:
        self.now_ns = now_s * SECOND_NS

    def monotonic_ns(self) -> int:
        """The time that was set."""
        return self.now_ns

    def time_ns(self) -> int:
        """The same."""
        return self.now_ns


def pages(scenario: str, start_s: int) -> Iterator[str]:
    """What a Prometheus scrapes of the repeated minutes; the last page begins them anew."""
    clock = MovedClock(start_s)
    settings = load({"simulate": [scenario], "metrics.enable": ["contention"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    renderer = Renderer()
    for second in range(0, WARM_UP_S + REPEATED_S + 1, CYCLE_S):
        collector.cycle()
        if second >= WARM_UP_S and (second - WARM_UP_S) % SCRAPE_S == 0:
            yield renderer.render(collector.snapshot, Format.TEXT).decode()
        clock.now_ns += CYCLE_S * SECOND_NS


def sound(scenario: str, folder: Path) -> str:
    """The scenario without its faults: a card that is lost today was not lost yesterday."""
    if not scenario.endswith(".yaml"):
        return scenario
    document = yaml.safe_load(Path(scenario).read_text(encoding="utf-8"))
    document.pop("faults", None)
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(file)


def series(scraped: Sequence[str]) -> Iterator[tuple[str, str, list[float]]]:
    """The name, labels and values of each series that stands on all of these pages."""
    values: dict[tuple[str, str], list[float]] = {}
    for page in scraped:
        for name, labels, value in KEPT.findall(page):
            values.setdefault((name, labels), []).append(float(value))
    for (name, labels), found in sorted(values.items()):
        if len(found) == len(scraped):
            yield name, labels, found


def written(scraped: Sequence[str], node: str, until_s: int) -> Iterator[str]:
    """The lines of a day that ends at this time, for promtool; "# EOF" is missing."""
    first_s = until_s - SCRAPES * SCRAPE_S
    target = f'instance="{node}",job="mgpu-exporter"'
    of_all = [("up", "", [1.0]), ("process_start_time_seconds", "", [float(first_s - WARM_UP_S)])]
    for name, labels, found in [*of_all, *series(scraped)]:
        repeated = len(found) - 1 or 1
        grows = found[-1] - found[0] if name.endswith("_total") else 0.0
        head = f"{name}{{{','.join(filter(None, (labels, target)))}}}"
        for number in range(SCRAPES + 1):
            turn, place = divmod(number, repeated)
            yield f"{head} {found[place] + turn * grows:.15g} {first_s + number * SCRAPE_S}\n"


def main(scenario: str, node: str, until_s: str, file: str) -> int:
    """Write the day."""
    with tempfile.TemporaryDirectory() as folder:
        scraped = list(pages(sound(scenario, Path(folder)), int(until_s)))
    Path(file).write_text("".join(written(scraped, node, int(until_s))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
