"""Runs the expressions of docs/metrics.md with promtool over pages of a simulated node."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from exporter.exposition import Format, Renderer
from exporter.settings import load
from exporter.wiring import make_collector, open_sources
from tests.scenario.clock import ManualClock

METRICS = Path(__file__).parent.parent.parent / "docs" / "metrics.md"
LEVELS = ("mgpu_device", "mgpu_namespace", "mgpu_container", "mgpu_group", "mgpu_pod")
SCRAPE_S = 15

Series = Mapping[str, list[str]]


class Alert(NamedTuple):
    """One that was raised: by which expression, when, and its labels."""

    title: str
    minute: int
    labels: Mapping[str, str]


def documented(heading: str) -> dict[str, str]:
    """The expressions under a heading of docs/metrics.md, by their titles."""
    section = METRICS.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```promql\n(.*?)```", section, re.DOTALL)
    queries = (query.partition("\n") for query in block.strip().split("\n\n"))
    return {title.removeprefix("# "): expression for title, _, expression in queries}


def simulated(scenario: str, minutes: int, cycle_s: int = 1) -> Series:
    """What a Prometheus has after some minutes with a scenario: the values of each series."""
    clock = ManualClock()
    settings = load({"simulate": [scenario]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    renderer, pages = Renderer(), []
    for second in range(0, minutes * 60 + 1, cycle_s):
        collector.cycle()
        if second % SCRAPE_S == 0:
            pages.append(renderer.render(collector.snapshot, Format.TEXT).decode())
        clock.move(cycle_s)
    return _scraped(pages)


def _scraped(pages: Iterable[str]) -> Series:
    """One value for each page, in the notation of promtool."""
    found: dict[str, list[str]] = {}
    for number, page in enumerate(pages):
        for line in page.splitlines():
            if line.startswith(LEVELS):
                name, _, value = line.rpartition(" ")
                found.setdefault(name, ["_"] * number).append(value)
        for values in found.values():
            if len(values) == number:
                values.append("stale")
    return found


class Rules:
    """Expressions as alerts over series."""

    def __init__(self, expressions: Mapping[str, str], series: Series, folder: Path) -> None:
        self._expressions = expressions
        self._series = series
        self._folder = folder

    def alerts(self, minutes: Iterable[int]) -> list[Alert]:
        """What is raised at these minutes."""
        rules = [{"alert": title, "expr": query} for title, query in self._expressions.items()]
        test = {
            "rule_files": ["rules.yaml"],
            "evaluation_interval": f"{SCRAPE_S}s",
            "tests": [
                {
                    "interval": f"{SCRAPE_S}s",
                    "input_series": [
                        {"series": name, "values": " ".join(values)}
                        for name, values in self._series.items()
                    ],
                    "alert_rule_test": [
                        {"alertname": title, "eval_time": f"{minute}m", "exp_alerts": []}
                        for title in self._expressions
                        for minute in minutes
                    ],
                }
            ],
        }
        groups = {"groups": [{"name": "rules", "rules": rules}]}
        (self._folder / "rules.yaml").write_text(json.dumps(groups))  # JSON is YAML
        (self._folder / "test.yaml").write_text(json.dumps(test))
        done = subprocess.run(
            ["promtool", "test", "rules", str(self._folder / "test.yaml")],
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        found = list(_raised(said))
        assert bool(found) == (done.returncode != 0), said
        return found


def _raised(said: str) -> Iterator[Alert]:
    """None was expected, so that promtool complains of each."""
    title, minute = "", 0
    for line in said.splitlines():
        if head := re.search(r"alertname: (.+), time: (\d+)m", line):
            title, minute = head[1], int(head[2])
        elif found := re.search(r"Labels:\{(.*)\}", line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
            del labels["alertname"]
            yield Alert(title, minute, labels)
