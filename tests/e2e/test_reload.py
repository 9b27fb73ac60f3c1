"""The settings file of an exporter at work: taken up between two cycles, losing nothing."""

import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.e2e.programs import Exporter, Page, eventually

pytestmark = pytest.mark.slow

SCRAPERS = 12
RELOADS = 24
RULES = (  # one after the other, again and again
    "log.level: info\n",
    "metrics.disable: [power, mgpu_device_memory_used_bytes]\n",
    "compat: [dcgm]\ncollection.window: 5s\n",
    "collection.interval: 500ms\nmetrics.max-series-per-family: 3\n",
    "collection.interval: wrong\n",
)
OK = "mgpu_exporter_config_last_reload_successful"
WHEN = "mgpu_exporter_config_last_reload_success_timestamp_seconds"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(RULES[0])
    return path


@pytest.fixture
def exporter(file: Path) -> Iterator[Exporter]:
    flags = ("--simulate=demo", f"--config.file={file}", "--web.enable-lifecycle")
    with Exporter(*flags) as exporter:
        yield exporter.ready()


def post(exporter: Exporter) -> tuple[int, str]:
    request = urllib.request.Request(exporter.url + "/-/reload", data=b"", method="POST")  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_file_is_followed_when_it_changes(exporter: Exporter, file: Path) -> None:
    first = exporter.when(lambda page: page.value(WHEN), "the settings were read")
    assert first.names() >= {"mgpu_device_power_watts", "mgpu_device_memory_used_bytes"}

    file.write_text(RULES[1])
    off = exporter.when(lambda page: "mgpu_device_power_watts" not in page.names(), "power is off")
    assert "mgpu_device_memory_used_bytes" not in off.names()
    assert "mgpu_device_memory_total_bytes" in off.names()

    file.write_text("compat: [dcgm]\n")
    on = exporter.when(lambda page: "mgpu_device_power_watts" in page.names(), "power is on again")
    assert "DCGM_FI_DEV_GPU_UTIL" in on.names()
    assert on.value(OK) == 1


def test_a_bad_file_changes_nothing_and_shows(exporter: Exporter, file: Path) -> None:
    file.write_text(RULES[1])
    assert post(exporter) == (200, "reloaded\n")
    file.write_text("metrics.disable: [everything]\n")

    status, text = post(exporter)
    page = exporter.when(lambda page: page.value(OK) == 0, "the failure is shown")
    exporter.process.send_signal(signal.SIGHUP)
    file.write_text(RULES[0])
    after = exporter.when(lambda page: page.value(OK) == 1, "the good file is taken")

    assert status == 500
    assert f"{file}, line 1, metrics.disable: 'everything' is not a group (power" in text
    assert "mgpu_device_power_watts" not in page.names()
    assert (after.value(WHEN) or 0) > (page.value(WHEN) or 0)
    assert len([line for line in exporter.log if "the old ones stay" in line]) == 1


def test_sighup_reloads_at_once_and_names_what_waits(exporter: Exporter, file: Path) -> None:
    file.write_text("energy.idle: equal\nlog.level: debug\n")
    exporter.process.send_signal(signal.SIGHUP)

    exporter.wait_for_log("in force from now on: log.level")
    exporter.wait_for_log("only after a restart: energy.idle")
    assert exporter.get("/-/healthy")[0] == 200


def test_the_limit_of_series_is_followed_and_counted(exporter: Exporter, file: Path) -> None:
    whole = exporter.scrape()
    family = "mgpu_container_core_seconds_total"
    file.write_text("metrics.max-series-per-family: 2\n")
    post(exporter)
    page = exporter.when(lambda page: len(page.all(family)) == 2, "two are left")

    dropped = page.value("mgpu_exporter_dropped_series_total", family=family) or 0
    assert dropped >= len(whole.all(family)) - 2
    assert len(page.all("mgpu_exporter_source_up")) > 2
    exporter.wait_for_log("series are left out")
    file.write_text("")
    post(exporter)
    exporter.when(lambda page: len(page.all(family)) > 2, "all are back")


class Crowd:
    """Scrapers, each of which holds every counter that it has seen."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._over = threading.Event()
        self.statuses: Counter[int] = Counter()
        self.fallen: list[object] = []
        self.pages: list[Page] = []
        self._threads = [threading.Thread(target=self._scrape) for _ in range(SCRAPERS)]

    def _scrape(self) -> None:
        highest: dict[object, float] = {}
        while not self._over.is_set():
            status, text = self._exporter.get("/metrics")
            self.statuses[status] += 1
            page = Page(text)
            for series, value in page.counters().items():
                if value < highest.get(series, 0):
                    self.fallen.append((series, highest[series], value))
                highest[series] = value
            self.pages.append(page)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_reloads_under_load_lose_no_scrape_and_reset_no_counter(
    exporter: Exporter, file: Path
) -> None:
    before = exporter.when(
        lambda page: (page.value("mgpu_exporter_cycles_total") or 0) > 2, "some cycles"
    )
    with Crowd(exporter) as crowd:
        for number in range(RELOADS):
            file.write_text(RULES[number % len(RULES)])
            if number % 2:
                exporter.process.send_signal(signal.SIGHUP)
            else:
                post(exporter)
            seen = len(crowd.pages)
            eventually(lambda seen=seen: len(crowd.pages) >= seen + SCRAPERS, "they scrape on")  # type: ignore[misc] # bound now
        file.write_text(RULES[0])
        post(exporter)
        after = exporter.when(
            lambda page: page.counters().keys() >= before.counters().keys(), "all are back"
        )

    assert set(crowd.statuses) == {200}
    assert crowd.fallen == []
    assert any("DCGM_FI_DEV_GPU_UTIL" in page.names() for page in crowd.pages)
    assert any("mgpu_device_power_watts" not in page.names() for page in crowd.pages)
    # Each page is of one set of rules, never of two.
    off = {"mgpu_device_power_watts", "mgpu_device_memory_used_bytes"}
    mixed = [page for page in crowd.pages if len(off & page.names()) == 1]
    assert mixed == [], mixed[0].text
    fallen = {s: v for s, v in before.counters().items() if after.counters()[s] < v}
    assert fallen == {}
    assert not [line for line in exporter.log if "Traceback" in line]
