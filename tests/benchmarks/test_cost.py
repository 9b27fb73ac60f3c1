"""What the cost bench makes of what it measured, and the node that it stands on."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.cost.compiled import program
from benchmarks.cost.crowd import Crowd
from benchmarks.cost.documents import CORE, PLACEMENT, pod
from benchmarks.cost.figures import (
    Figures,
    Target,
    judged,
    latency,
    samples,
    shown,
    table,
)
from benchmarks.cost.measure import scrape_often
from benchmarks.cost.meter import Meter
from benchmarks.cost.size import CONTAINERS, Size, tenants
from benchmarks.cost.targets import OURS, targets
from exporter.agent.sources.pods.decode import KeyPrefixes, decode_pod

SMALL = Size.parse("2x3x7")


@pytest.mark.parametrize("text", ["8x64x110", "16x128x250", "1x4x10", "3x5x20", "1x1x1"])
def test_every_process_of_a_gpu_is_in_a_pod_of_that_gpu(text: str) -> None:
    size = Size.parse(text)
    everyone = list(tenants(size))
    working = [tenant.working for tenant in everyone if tenant.gpu is not None]
    each = [sum(t.working for t in everyone if t.gpu == gpu) for gpu in range(size.gpus)]

    assert len({tenant.uid for tenant in everyone}) == size.pods
    assert each == [size.processes] * size.gpus
    assert len(working) == size.gpus * size.sharing
    assert 0 < min(working) <= max(working) <= size.app_processes


@pytest.mark.parametrize("text", ["8x64x63", "0x1x1", "1x200x8"])
def test_a_node_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Size.parse(text)


def test_a_pod_is_as_large_as_those_of_an_api_server_and_says_what_it_was_allocated() -> None:
    with_gpu, *_, without = tenants(SMALL)
    documents = [pod(with_gpu), pod(without)]
    decoded = decode_pod(documents[0], KeyPrefixes(annotations=(PLACEMENT,))).pod

    assert all(12_000 < len(json.dumps(document)) < 14_500 for document in documents)
    assert [c.container_ids for c in decoded.containers] == [
        (with_gpu.container_id(name),) for name in CONTAINERS
    ]
    assert [CORE in c.limits for c in decoded.containers] == [True, False]
    assert decoded.annotations == {PLACEMENT: "0"}
    assert CORE not in json.dumps(documents[1])


def test_latencies_are_their_median_and_their_99th_percentile() -> None:
    took = "\n".join(str(n * 1_000_000) for n in range(100, 0, -1))

    found = latency(f"bytes 10\nfailed 0\n{took}\n")

    assert found == (50.5, 99.0, 0)
    assert str(found) == "50.5 / 99"


def test_scrapes_without_an_answer_are_no_latency() -> None:
    assert str(latency("bytes 0\nfailed 3\n")) == "no answer"
    assert str(latency("bytes 9\nfailed 1\n2000000\n")) == "2 / 2, 1 failed"


def test_comments_and_empty_lines_are_no_samples() -> None:
    assert samples(b'# HELP a b\n# TYPE a gauge\na{b="c"} 1\n\na 2\n') == 2


@pytest.mark.parametrize(
    ("value", "words"), [(0.0123456, "0.0123"), (1.5, "1.5"), (12.345, "12.3"), (12345.6, "12,346")]
)
def test_a_number_is_shown_with_three_digits(value: float, words: str) -> None:
    assert shown(value) == words


def figures(**values: float) -> Figures:
    found = Figures()
    for key, value in values.items():
        found.set(key, value)
    return found


def test_the_table_has_a_row_for_what_any_agent_has() -> None:
    columns = {"one": figures(cycle_ms=1.25, series=10), "other": figures(series=2000)}

    assert table(columns) == (
        "|  | one | other |\n"
        "| --- | ---: | ---: |\n"
        "| CPU a cycle (of a second), ms | 1.25 |  |\n"
        "| series | 10 | 2,000 |\n"
    )


def test_a_target_is_met_missed_or_not_measured() -> None:
    wanted = [
        Target("small", 2, lambda c: c["a"].values["cycle_ms"]),
        Target("smaller", 0.5, lambda c: c["a"].values["cycle_ms"]),
        Target("other", 2, lambda c: c["b"].values["cycle_ms"]),
    ]

    lines = judged(wanted, {"a": figures(cycle_ms=1)}).splitlines()[2:]

    assert lines == [
        "| small | 2 | 1 | met |",
        "| smaller | 0.5 | 1 | **missed**, 2.0 x |",
        "| other | 2 | | not measured |",
    ]


def test_making_a_page_is_what_a_scrape_of_a_new_one_costs_more() -> None:
    found = {OURS: figures(scrape_ms=5, again_ms=1)}
    page = next(t for t in targets({}) if t.words.startswith("making a page"))

    assert page.value(found) == 4


def test_a_meter_counts_the_cpu_of_a_process_and_leaves_the_drivers_out(tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    meter = Meter(os.getpid(), driver)
    before, own = meter.used(), time.process_time_ns()
    while time.process_time_ns() < own + 20_000_000:
        pass
    driver.write_bytes((5_000_000).to_bytes(8, "little"))

    used = meter.used() - before

    assert used.whole >= 20_000_000
    assert used.own == used.whole - 5_000_000
    assert meter.memory_mib("VmHWM") >= meter.memory_mib() > 1


class Handler(BaseHTTPRequestHandler):
    """Answers /metrics with a page, all else with an error."""

    def do_GET(self) -> None:
        good = self.path == "/metrics"
        self.send_response(200 if good else 500)
        self.end_headers()
        self.wfile.write(b"a 1\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.program("cc")
def test_the_scraper_counts_good_and_bad_answers() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        good = scrape_often(server.server_port, "/metrics", 3, 5, 60)
        bad = scrape_often(server.server_port, "/", 1, 2, 60)
        server.shutdown()

    assert good.failed == 0
    assert 0 < good.p50 <= good.p99
    assert str(bad) == "no answer"
    assert bad.failed == 2


@pytest.mark.root
@pytest.mark.program("cc")
def test_the_crowd_is_in_its_cgroups_and_leaves_nothing() -> None:
    with Crowd(SMALL) as crowd:
        worker, tenant = next(iter(crowd.workers.items()))
        cgroup = Path(f"/proc/{worker}/cgroup").read_text()
        root = crowd.root
        assert len(crowd.workers) == SMALL.gpus * SMALL.processes
        assert crowd.processes == SMALL.pods * (2 * SMALL.app_processes + 1)
        assert f"-pod{tenant.uid.replace('-', '_')}.slice/cri-containerd-" in cgroup

    assert not root.exists()
    assert not Path(f"/proc/{worker}").exists()


@pytest.mark.program("cc")
def test_programs_are_built_once() -> None:
    assert program("floor") == program("floor")
