"""The whole page of a fixed scenario, against files that are kept. Refresh: make golden."""

import re
import subprocess
from pathlib import Path

import pytest

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.text import Format, Renderer
from exporter.model import Snapshot
from tests.agent.simulation.clock import SECOND, START, ManualClock

GOLDEN = Path(__file__).parent / "golden"
FILES = {Format.TEXT: "single.prom", Format.OPENMETRICS: "single.openmetrics"}
VOLATILE = re.compile(r'(?<=build_info\{)version="[^"]*",python="[^"]*"')


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """A minute of the scenario ``single``, one cycle a second, by a clock that the test moves."""
    clock = ManualClock(START + SECOND)
    settings = load({"simulate": ["single"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(60):
        clock.move(1)
        collector.cycle()
    return collector.snapshot


@pytest.mark.parametrize("form", Format)
def test_page_is_as_it_was(snapshot: Snapshot, form: Format, pytestconfig: pytest.Config) -> None:
    page = VOLATILE.sub('version="0",python="3"', Renderer().render(snapshot, form).decode())
    kept = GOLDEN / FILES[form]
    if pytestconfig.getoption("--refresh-golden"):
        kept.write_text(page)

    assert page == kept.read_text()


@pytest.mark.program("promtool")
def test_promtool_finds_nothing_to_say_of_the_golden_page() -> None:
    page = (GOLDEN / FILES[Format.TEXT]).read_bytes()

    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr.decode()) == (0, "")
