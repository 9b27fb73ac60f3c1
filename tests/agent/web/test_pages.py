import gzip
import threading
from collections.abc import Collection

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.agent.web import Pages
from exporter.agent.web.pages import OwnProcess
from exporter.metrics.compat import CompatPage
from exporter.metrics.families import FAMILIES, LEVELS, families_without
from exporter.metrics.text import Format, Renderer
from exporter.model import Snapshot
from tests.agent.simulation.clock import SECOND, ManualClock
from tests.agent.web.serving import FakeCollector
from tests.snapshots import with_every_family


class CountingRenderer(Renderer):
    """Counts renders; waits in each for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Count and wait."""
        self.count += 1
        self.entered.set()
        assert self.gate.wait(60)
        return super().render(snapshot, form, levels)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0, 0)


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector(with_every_family())


@pytest.fixture
def renderer() -> CountingRenderer:
    return CountingRenderer()


@pytest.fixture
def pages(collector: FakeCollector, clock: ManualClock, renderer: CountingRenderer) -> Pages:
    return Pages(lambda: collector.snapshot, clock, renderer)


def test_a_page_is_rendered_once_for_a_snapshot_and_format(
    pages: Pages, collector: FakeCollector, renderer: CountingRenderer
) -> None:
    for form in Format:
        assert pages.cached(form, zipped=False) is None
        page = pages.page(form, zipped=False)
        assert gzip.decompress(pages.page(form, zipped=True)) == page
        assert pages.cached(form, zipped=False) == pages.page(form, zipped=False) == page
        assert pages.cached(form, zipped=True)
    assert renderer.count == 2
    collector.snapshot = Snapshot(version=2)
    assert pages.cached(Format.TEXT, zipped=False) is None
    assert b"mgpu_device" not in pages.page(Format.TEXT, zipped=False)
    assert renderer.count == 3


def test_a_new_writer_writes_the_pages_of_the_same_snapshot_anew(pages: Pages) -> None:
    before = pages.page(Format.TEXT, zipped=False)
    pages.use(Renderer(families_without(["power", "mgpu_device_up"])), CompatPage((), ""))

    assert pages.cached(Format.TEXT, zipped=False) is None
    after = pages.page(Format.TEXT, zipped=False)
    assert b"mgpu_device_power_watts{" in before
    assert b"mgpu_device_power_watts{" not in after
    assert b"mgpu_device_up{" not in after
    assert len(pages.families) == len(FAMILIES) - 3


@pytest.mark.parametrize(
    ("age_ns", "measured"), [(0, True), (10 * SECOND, True), (10 * SECOND + 1, False)]
)
def test_an_old_snapshot_serves_only_what_the_exporter_says_of_itself(
    pages: Pages,
    clock: ManualClock,
    age_ns: int,
    measured: bool,  # noqa: FBT001 - a table
) -> None:
    pages.page(Format.TEXT, zipped=False)
    clock.now_ns = age_ns
    names = [m.name for m in read_text(pages.page(Format.TEXT, zipped=False).decode())]

    others = {name for name in names if not name.startswith(("mgpu_exporter_", "process_"))}
    assert (others != {"python_info"}) is measured
    assert "mgpu_exporter_cycles" in names


@pytest.mark.parametrize("form", Format)
def test_process_metrics_complete_a_valid_page(pages: Pages, form: Format) -> None:
    text = pages.page(form, zipped=False).decode()
    if form is Format.TEXT:
        names = {metric.name for metric in read_text(text)}
    else:
        found = read_openmetrics(text)  # type: ignore[no-untyped-call]
        names = {metric.name for metric in found}

    assert names >= {"process_resident_memory_bytes", "python_info", "mgpu_container_core_seconds"}


def test_the_counter_of_the_process_says_when_it_started() -> None:
    lines = OwnProcess().page(Format.OPENMETRICS, created=True).decode().splitlines()
    values = dict(line.split() for line in lines if not line.startswith("#") and "{" not in line)

    assert values["process_cpu_seconds_created"] == values["process_start_time_seconds"]
    assert lines[-1] == "# EOF"
