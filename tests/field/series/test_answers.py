"""What the commands say of answers and series as others' servers, scrapers and pages have them."""

import json
import re
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.reading.ranges import written
from exporter.answers.why.sentences import Topic, sentences
from exporter.answers.why.seriescase import SeriesCase
from exporter.cli import main
from tests.answers.bill.test_bill import BEGIN, Exporter
from tests.answers.reading.test_remote import Server
from tests.answers.why.test_why import NOW, _page
from tests.field.report import report
from tests.history import Scrape, backfilled
from tests.store import Store, Target

PROMETHEUS = pytest.mark.program("prometheus")
NODE = {"job": "mgpu", "instance": "a:10045", "node": "n1"}
Said = tuple[int, str, str]


def run(capsys: pytest.CaptureFixture[str], *command: str) -> Said:
    status = main(list(command))
    said = capsys.readouterr()
    return status, said.out, said.err


@contextmanager
def before(address: str, change: Callable[[str, bytes], tuple[int, bytes]]) -> Iterator[str]:
    """A server before a Prometheus, that changes its answers; the address."""

    def answer(path: str, _: str) -> tuple[int, dict[str, str], bytes]:
        url = f"http://{address}{path}"
        done = subprocess.run(["curl", "-s", url], capture_output=True, check=True)
        status, body = change(urllib.parse.unquote(path), done.stdout)
        return status, {"Content-Type": "application/json"}, body

    server = Server()
    server.answer = answer
    try:
        yield server.url
    finally:
        server.stop()


def told(store: Store, at: float, over_s: int = 300) -> dict[Topic, str]:
    """What ``why`` says of team/chat-0."""
    asks = Prometheus(HttpClient(f"http://{store.address}"))
    case = SeriesCase(asks, at, over_s).read("team", "chat-0")
    return {one.topic: one.text for one in sentences(case)}


@report(
    source="linkerd2#7978",
    seen="With scrapes that are far apart, what is said of a fixed short time is empty.",
    first="wrong",
    kind="A time between scrapes that is fixed",
    group="series",
)
@PROMETHEUS
def test_a_pod_that_is_scraped_a_little_more_seldom_than_each_five_minutes_has_its_use(
    tmp_path: Path,
) -> None:
    with Store(tmp_path) as store:
        for second in range(0, 7200, 301):
            store.scrape(Target(NODE), _page(second), NOW + second)
        found = told(store, NOW + 7225, 3600)
    assert "It used 20% of GPU 0" in found[Topic.USE]
    assert "up to 80% of the last hour, all of it for batch/crawl-0" in found[Topic.WAITING]


@report(
    source="grafana#92762",
    seen="A rate over a time with one scrape in it is empty, and the panel stays empty.",
    first="wrong",
    kind="A remedy for one cause applied to others",
    group="series",
)
@PROMETHEUS
def test_who_ran_instead_is_not_called_unrecorded_where_it_is_recorded(tmp_path: Path) -> None:
    """One scrape lies in the five minutes that are asked for."""
    with Store(tmp_path) as store:
        for second in range(0, 7200, 300):
            store.scrape(Target(NODE), _page(second), NOW + second)
        found = told(store, NOW + 7190)
    assert "--metrics.enable=contention" not in found[Topic.WAITING]


@report(
    source="telegraf#7018",
    seen="Where a clock is set, what is counted from it, as an uptime, is wrong by as much.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
@PROMETHEUS
def test_a_pod_that_runs_now_is_not_called_idle_where_its_nodes_clock_is_behind(
    tmp_path: Path,
) -> None:
    """Three hours behind, in all that the node itself gives a time to."""
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            page = _page(second, NOW - 3 * 3600)
            own = NOW + second - 3 * 3600
            page = re.sub(r"(?m)^(mgpu_container_last_active\S+) .*$", rf"\1 {own - 1}", page)
            page += f"mgpu_exporter_snapshot_timestamp_seconds {own}\n"
            store.scrape(Target(NODE), page, NOW + second)
        found = told(store, NOW + 605)
    assert Topic.IDLE not in found


@report(
    source="k-bench#3",
    seen="The clock of the machine that asks is ahead of the server's, so the newest is not found.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
@PROMETHEUS
def test_a_clock_that_is_ahead_where_why_is_asked_ends_no_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time())
    with Store(tmp_path) as store:
        for second in range(-600, 1, 15):
            store.scrape(Target(NODE), _page(second + 600, now - 600), now + second)
        monkeypatch.setattr("time.time", lambda: now + 420)
        status, out, err = run(capsys, "why", "team/chat-0", f"--prometheus=http://{store.address}")
    assert (status, err) == (0, "")
    assert "ended" not in out


@report(
    source="alloy#249",
    seen="When targets move to another scraper, a stale marker is written, and panels have a gap.",
    first="right",
    group="series",
)
@PROMETHEUS
def test_a_pod_whose_exporter_is_handed_over_keeps_its_figures(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for second in range(0, 601, 15):
            store.scrape(Target(NODE), _page(second), NOW + second)
        store.scrape(Target(NODE), None, NOW + 602)
        found = told(store, NOW + 612)
    assert "It used 20% of GPU 0" in found[Topic.USE]
    assert "or is not measured any more" in found[Topic.ENDED]


@report(
    source="grafana#25972",
    seen="A server says in a warning that some of its stores did not answer, and nobody sees it.",
    first="wrong",
    kind="A part is taken for the whole",
    group="series",
)
@PROMETHEUS
@pytest.mark.parametrize("warning", [{"warnings": ["store b: no answer"]}, {"isPartial": True}])
def test_a_pod_that_is_not_found_in_a_part_of_the_stores_may_be_in_another(
    warning: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path) as store:

        def partly(_: str, body: bytes) -> tuple[int, bytes]:
            return 200, json.dumps({**json.loads(body), **warning}).encode()

        with before(store.address, partly) as url:
            _, _, err = run(capsys, "why", "team/chat-0", f"--prometheus={url}")
            _, shown, why_not = run(capsys, "top", "--once", f"--prometheus={url}")
    for said in (err, shown + why_not):
        assert "not all stores" in said


@report(
    source="kubecost#451",
    seen="A store is down, and costs are of what the others have.",
    first="right",
    group="series",
)
@PROMETHEUS
def test_a_bill_of_a_part_of_the_stores_is_asked_of_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Thanos 0.42.4 answered on 2026-11-27: in part, unless that is forbidden."""
    error = (
        'expanding series: proxy Series(): fetch series for {replica="B"} Addr: 127.0.0.1:45129 '
        "MinTime: 1779998407000 MaxTime: 9223372036854775807: rpc error: code = Unavailable desc = "
        'connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:45129: '
        'connect: connection refused"'
    )
    refused = json.dumps({"status": "error", "errorType": "execution", "error": error}).encode()

    def partly(path: str, body: bytes) -> tuple[int, bytes]:
        if "partial_response=false" in path:
            return 422, refused
        return 200, body

    with Store(tmp_path) as store, before(store.address, partly) as url:
        status, _, err = run(capsys, "bill", "--price=1", f"--prometheus={url}")
    assert status == 2
    assert 'fetch series for {replica="B"}' in err


def _too_long(path: str, body: bytes) -> tuple[int, bytes]:
    """Mimir's and Cortex' limit of 768 hours, as services have it."""
    spans = [int(seconds) for seconds in re.findall(r"\[(\d+)s[]:]", path)]
    if max(spans, default=0) + 300 <= 768 * 3600:
        return 200, body
    error = "the query time range exceeds the limit (query length: 768h5m0s, limit: 768h0m0s)"
    return 422, json.dumps({"status": "error", "errorType": "execution", "error": error}).encode()


@report(
    source="mimir#1199",
    seen="A query that looks back further than 768 hours is refused, also by a sub-query.",
    first="wrong",
    kind="What every store was thought to answer",
    group="series",
)
@PROMETHEUS
def test_a_look_back_for_the_time_before_a_gap_is_not_longer_than_services_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:

    one = Exporter("GPU-a", BEGIN - 60 * 86_400)
    found = []
    for second in range(3600, 4 * 3600 + 61, 60):
        for _ in range(60):
            one.second({"new/job-1": (1.0, 0.75)})
        found.append(Scrape({"job": "mgpu", "instance": "a"}, BEGIN + second, one.page()))
    times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + 4 * 3600)}"]
    with (
        backfilled(tmp_path, "prometheus", found) as address,
        before(address, _too_long) as url,
    ):
        status, _, err = run(capsys, "bill", f"--prometheus={url}", "--price=1", *times)
    assert status == 0, err


@report(
    source="mimir#1888",
    seen="A query with more series than its tenant may read is refused with a code of its own.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("command", [["bill", "--price=1"], ["why", "team/chat-0"], ["advise"]])
def test_a_limit_of_the_server_is_said_in_its_own_words(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    error = "the query exceeded the maximum number of series (err-mimir-max-series-per-query)"
    body = json.dumps({"status": "error", "errorType": "execution", "error": error}).encode()
    server.answer = lambda *_: (422, {"Content-Type": "application/json"}, body)
    try:
        status, _, err = run(capsys, *command, f"--prometheus={server.url}")
    finally:
        server.stop()
    assert status == 2
    assert "err-mimir-max-series-per-query" in err


@report(
    source="inference-perf#567",
    seen="Managed Prometheus refuses patterns of metric names, and a tool took that for 0.",
    first="wrong",
    kind="What every store was thought to answer",
    group="series",
)
@pytest.mark.parametrize("command", [["bill", "--price=1"], ["why", "team/chat-0"]])
def test_a_store_that_knows_no_patterns_of_names_is_said_to_be_none_that_is_read(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    error = "=~ is an unsupported matchtype for the __name__ label: invalid argument"
    body = json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode()
    server.answer = lambda *_: (400, {"Content-Type": "application/json"}, body)
    try:
        status, _, err = run(capsys, *command, f"--prometheus={server.url}")
    finally:
        server.stop()
    assert status == 2
    assert error in err
    assert "another Prometheus" in err


@report(
    source="opencost#2971",
    seen="A sharded Prometheus has a part of the targets, and costs are quietly incomplete.",
    first="wrong",
    kind="A part is taken for the whole",
    group="series",
)
@PROMETHEUS
def test_prices_by_node_labels_that_no_store_has_are_not_quietly_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kube-state-metrics is scraped by another shard."""
    one = Exporter("GPU-a", BEGIN - 3600)
    found = []
    for second in range(-120, 3661, 60):
        for _ in range(60):
            one.second({"new/job-1": (1.0, 0.75)})
        found.append(Scrape({"job": "mgpu", "instance": "a"}, BEGIN + second, one.page()))
    prices = tmp_path / "prices.yaml"
    prices.write_text("default: 1\nnode_labels:\n  node.kubernetes.io/instance-type: {big: 9}\n")
    with backfilled(tmp_path, "prometheus", found) as address:
        times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + 3600)}"]
        where = f"--prometheus=http://{address}"
        status, _, err = run(capsys, "bill", where, f"--prices={prices}", *times)
    assert status == 0
    assert "kube_node_labels" in err
    assert "node.kubernetes.io/instance-type" in err
