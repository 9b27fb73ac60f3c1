"""VictoriaMetrics' other programs: vmagent scrapes our page, vmalert reads our rules."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.text import Format, Renderer
from rules.generate import FOLDER
from tests.agent.simulation.clock import ManualClock
from tests.e2e.programs import eventually
from tests.store import Labels, Store, Target, parsed

JOB = "gpus"


@pytest.mark.program("vmalert")
@pytest.mark.parametrize("name", ["mgpu-recording.yaml", "mgpu-alerts.yaml"])
def test_vmalert_takes_the_rules(name: str) -> None:
    command = ["vmalert", "-dryRun", f"-rule={FOLDER / name}", "-loggerLevel=ERROR"]
    subprocess.run(command, check=True)


@pytest.mark.slow
@pytest.mark.program("prometheus")
@pytest.mark.program("vmagent")
def test_vmagent_keeps_each_series_and_ends_what_leaves_the_page(tmp_path: Path) -> None:
    clock, settings = ManualClock(), load({"simulate": ["demo"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(3):
        clock.move(1)
        collector.cycle()
    page = Renderer().render(collector.snapshot, Format.TEXT).decode()
    without = "".join(line for line in page.splitlines(keepends=True) if 'pod="' not in line)
    shown = [page]
    with Store(tmp_path) as store, served(shown) as address, vmagent(tmp_path, address, store):

        def is_stored() -> bool:
            return stored(store) == series(shown[0], address)

        eventually(is_stored, "the store has the page")
        shown[0] = without  # a stale marker ends a series; without one it would stay 5 minutes
        assert series(without, address)
        eventually(is_stored, "the store has no more than the page")


def series(page: str, address: str) -> dict[Labels, float]:
    """What a store has to have of a page."""
    target = Target({"job": JOB, "instance": address})
    return {
        target.label({"__name__": name, **dict(own)}): value for name, own, value in parsed(page)
    }


def stored(store: Store) -> dict[Labels, float]:
    """What a store has now of the page, without what the scraper says of itself."""
    ours = f'{{job="{JOB}",__name__!~"up|scrape_.+"}}'
    return {
        tuple(sorted(one["metric"].items())): float(one["value"][1])
        for one in store.get("query", query=ours)["result"]
    }


@contextmanager
def served(shown: list[str]) -> Iterator[str]:
    """The address where the first of these is shown."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(shown[0].encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def vmagent(folder: Path, address: str, store: Store) -> Iterator[None]:
    """One that scrapes an address and writes into a store."""
    job = {"job_name": JOB, "scrape_interval": "1s", "static_configs": [{"targets": [address]}]}
    config = folder / "vmagent.json"
    config.write_text(json.dumps({"scrape_configs": [job]}))
    to = [f"-remoteWrite.url=http://{store.address}/api/v1/write", "-loggerLevel=ERROR"]
    own = [f"-remoteWrite.tmpDataPath={folder / 'queue'}", "-httpListenAddr="]
    process = subprocess.Popen(["vmagent", f"-promscrape.config={config}", *to, *own])
    try:
        yield
    finally:
        process.kill()
        process.wait(60)
