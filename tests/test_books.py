"""The books in PromQL, as docs/metrics.md has them, over pages of a real run."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from exporter.exposition import Format, Renderer
from exporter.settings import load
from exporter.wiring import make_collector, open_sources
from tests.scenario.clock import ManualClock

METRICS = Path(__file__).parent.parent / "docs" / "metrics.md"
SCRAPE_S = 15
MINUTES = 12
QUANTITIES = ("core", "memory traffic", "encoder", "decoder", "energy", "memory")
UNITS = ("core_seconds", "memory_active", "encoder", "decoder", "energy", "memory_used_bytes")

Series = Mapping[str, list[str]]

pytestmark = pytest.mark.program("promtool")


def books() -> dict[str, str]:
    """What is used → the expression that finds devices whose books do not balance."""
    _, text = METRICS.read_text().split("## The books in PromQL")
    [block] = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    found = {}
    for query in block.strip().split("\n\n"):
        title, _, expression = query.partition("\n")
        found[title.removeprefix("# ")] = expression
    return found


@pytest.fixture(scope="module")
def series() -> Series:
    """What a Prometheus has after some minutes with the demonstration's short and long jobs."""
    clock = ManualClock()
    settings = load({"simulate": ["demo"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    renderer, pages = Renderer(), []
    for second in range(MINUTES * 60 + 1):
        collector.cycle()
        if second % SCRAPE_S == 0:
            pages.append(renderer.render(collector.snapshot, Format.TEXT).decode())
        clock.move(1)
    return scraped(pages)


def scraped(pages: Iterable[str]) -> Series:
    """The values of each series, one for each page, in the notation of promtool."""
    found: dict[str, list[str]] = {}
    for number, page in enumerate(pages):
        for line in page.splitlines():
            if line.startswith(("mgpu_device", "mgpu_namespace", "mgpu_container", "mgpu_group")):
                name, _, value = line.rpartition(" ")
                found.setdefault(name, ["_"] * number).append(value)
        for values in found.values():
            if len(values) == number:
                values.append("stale")
    return found


def unbalanced(series: Series, folder: Path) -> list[tuple[str, str]]:
    """Quantity and minute of every alert that these series raise."""
    rules = [{"alert": what, "expr": expression} for what, expression in books().items()]
    minutes = range(6, MINUTES + 1)
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{SCRAPE_S}s",
        "tests": [
            {
                "interval": f"{SCRAPE_S}s",
                "input_series": [
                    {"series": name, "values": " ".join(values)} for name, values in series.items()
                ],
                "alert_rule_test": [
                    {"alertname": what, "eval_time": f"{minute}m", "exp_alerts": []}
                    for what in books()
                    for minute in minutes
                ],
            }
        ],
    }
    # JSON is YAML.
    (folder / "rules.yaml").write_text(json.dumps({"groups": [{"name": "b", "rules": rules}]}))
    (folder / "test.yaml").write_text(json.dumps(test))
    done = subprocess.run(
        ["promtool", "test", "rules", str(folder / "test.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    found = re.findall(r"alertname: ([\w ]+), time: (\w+),", said)
    assert bool(found) == (done.returncode != 0), said
    return found


def test_every_quantity_has_its_expression() -> None:
    assert tuple(books()) == QUANTITIES


def test_the_books_of_a_real_run_balance(series: Series, tmp_path: Path) -> None:
    assert len(series) > 500
    assert unbalanced(series, tmp_path) == []


@pytest.mark.parametrize(("what", "unit"), [*zip(QUANTITIES, UNITS, strict=True)])
def test_a_part_that_is_missing_is_found(
    series: Series, tmp_path: Path, what: str, unit: str
) -> None:
    level = "container" if what == "memory" else "namespace"
    less = {
        name: values
        for name, values in series.items()
        if not (name.startswith(f"mgpu_{level}_{unit}") and 'namespace="media"' in name)
    }

    found = unbalanced(less, tmp_path)

    assert {quantity for quantity, _ in found} == {what}
    assert len(found) == MINUTES - 5
