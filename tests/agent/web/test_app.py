import asyncio
import gzip
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from exporter.agent.collector import Pulse
from exporter.agent.web import ClientLimits
from exporter.agent.web.health import alive
from exporter.metrics.text import Renderer
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.agent.web.serving import Answer, FakeCollector, Site, answer, serving
from tests.agent.web.test_pages import CountingRenderer
from tests.snapshots import with_every_family

REQUEST = b"HEAD /-/ready HTTP/1.1\r\nHost: a\r\n\r\n"
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One for all tests that change nothing of it."""
    with serving(with_every_family()) as running:
        yield running


@pytest.fixture
def held() -> CountingRenderer:
    """A renderer that waits for its gate."""
    renderer = CountingRenderer()
    renderer.gate.clear()
    return renderer


def until(status: int, site: Site) -> Answer:
    """Ask until requests sent elsewhere fill the bound, or until they have left it."""
    while (asked := site.ask("/api/v1/schema")).status != status:
        pass
    return asked


class HugeRenderer(Renderer):
    """Renders more than all the buffers between two sockets hold."""

    def render(self, *_: object) -> bytes:
        """16 MB of comments."""
        return b"#" * (1 << 24)


def slow_reader(site: Site) -> socket.socket:
    """A client that takes the first bytes of a page and no more."""
    slow = site.raw(buffer=4096)
    slow.sendall(GET)
    assert slow.recv(12) == b"HTTP/1.1 200"
    return slow


async def unsent(site: Site) -> int:
    """How many bytes wait for the one client to read; asked between two steps of the server."""
    [connection] = site.server._clients.open
    assert isinstance(connection.transport, asyncio.Transport)
    return connection.transport.get_write_buffer_size()


def test_metrics_are_served_in_the_format_asked_for(site: Site) -> None:
    text = site.ask("/metrics")
    openmetrics = site.ask("/metrics", Accept="application/openmetrics-text;version=1.0.0")
    zipped = site.ask("/metrics", Accept_Encoding="gzip")

    assert text.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# TYPE mgpu_pod_core_seconds_total counter\n" in text.body
    assert openmetrics.headers["Content-Type"].startswith(OPENMETRICS)
    assert openmetrics.body.endswith(b"# EOF\n")
    assert "Content-Encoding" not in text.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert zipped.headers["Vary"] == "Accept, Accept-Encoding"
    assert gzip.decompress(zipped.body) == text.body


def test_the_path_of_the_metrics_is_a_setting() -> None:
    with serving(web_telemetry_path="/gpu/metrics") as site:
        assert site.ask("/gpu/metrics").status == 200
        assert site.ask("/metrics").status == 404
        assert b'href="gpu/metrics"' in site.ask("/").body


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/snapshot", "/api/v1/schema"]
)
def test_there_is_nothing_but_reading(site: Site, path: str) -> None:
    get, head = site.ask(path), site.ask(path, "HEAD")

    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Type", "Content-Length"):
        assert head.headers[name] == get.headers[name]
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        refused = site.ask(path, method)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET,HEAD")


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/none", "/../etc/passwd"])
def test_every_answer_has_the_security_headers(site: Site, path: str) -> None:
    headers = site.ask(path).headers

    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Server"] == "mgpu-exporter"


# Old snapshots


@pytest.mark.parametrize(
    ("interval_s", "age_s", "told"),
    [(1, 10, True), (1, 11, False), (5, 11, True), (5, 15, True), (5, 16, False)],
)
def test_figures_are_served_for_three_of_the_intervals_in_force_and_ten_seconds_at_least(
    interval_s: int,
    age_s: int,
    told: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = replace(with_every_family(), mono_ns=START, interval_ns=interval_s * SECOND)
    with serving(snapshot) as site:
        assert b"mgpu_device_up" in site.ask("/metrics").body
        site.clock.now_ns += age_s * SECOND
        page, document = site.ask("/metrics"), json.loads(site.ask("/api/v1/snapshot").body)

    assert (b"mgpu_device_up" in page.body) is told
    assert b"mgpu_exporter_snapshot_timestamp_seconds" in page.body
    assert document["snapshot"]["stale"] is not told
    assert bool(document["devices"]) is told


@pytest.mark.parametrize(
    ("interval_s", "still_s", "good"),
    [(1, 0, True), (1, 15, True), (1, 16, False), (60, 600, True), (60, 601, False)],
)
def test_alive_while_the_cycles_clock_moves(
    interval_s: int,
    still_s: int,
    good: bool,  # noqa: FBT001 - a table
) -> None:
    collector = FakeCollector(pulse=Pulse(0, 5, interval_s * SECOND))

    verdict = alive(collector, ManualClock(still_s * SECOND, 0))

    assert verdict.good is good
    assert (f"{still_s} s" in verdict.words) is not good


def test_alive_and_ready_are_said_by_the_status() -> None:
    with serving() as site:
        site.collector.pulse = Pulse(SECOND, 0)
        before = site.ask("/-/ready").status
        site.collector.pulse = Pulse(SECOND, 1)
        after = [site.ask(path).status for path in ("/-/ready", "/-/healthy")]
        site.clock.now_ns += 16 * SECOND
        dead = site.ask("/-/healthy")

    assert (before, after, dead.status) == (503, [200, 200], 503)
    assert b"stood still for 16 s" in dead.body


# Many requests


def test_a_hundred_scrapers_cost_one_render(held: CountingRenderer) -> None:
    with (
        serving(with_every_family(), renderer=held, web_max_requests=100) as site,
        ExitStack() as stack,
    ):
        connections = [stack.enter_context(closing(site.connect())) for _ in range(100)]
        for connection in connections:
            connection.request("GET", "/metrics")
        until(503, site)
        held.gate.set()
        answers = [answer(connection.getresponse()) for connection in connections]

    assert {(a.status, a.body) for a in answers} == {(200, answers[0].body)}
    assert held.count == 1


def test_more_requests_than_allowed_are_refused_and_probes_are_not(
    held: CountingRenderer,
) -> None:
    with serving(with_every_family(), renderer=held, web_max_requests=2) as site:
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(site.ask, "/metrics") for _ in range(2)]
            refused = until(503, site)
            probe = site.ask("/-/healthy")
            held.gate.set()
        accepted = site.ask("/metrics")

    assert b"--web.max-requests" in refused.body
    assert refused.headers["Retry-After"] == "1"
    assert [each.status for each in (probe, accepted)] == [200, 200]
    assert [w.result().status for w in waiting] == [200, 200]


def test_what_is_made_already_does_not_wait_for_a_render() -> None:
    renderer = CountingRenderer()
    with serving(with_every_family(), renderer=renderer) as site, ThreadPoolExecutor(1) as pool:
        site.ask("/metrics")
        renderer.entered.clear()
        renderer.gate.clear()
        waiting = pool.submit(site.ask, "/metrics", Accept=OPENMETRICS)
        assert renderer.entered.wait(60)
        served = site.ask("/metrics")
        renderer.gate.set()

    assert (served.status, waiting.result().status) == (200, 200)


def test_clients_that_leave_make_room(
    held: CountingRenderer, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(with_every_family(), renderer=held, web_max_requests=1) as site:
        with site.raw() as client:
            client.sendall(GET)
            until(503, site)
        held.gate.set()
        until(200, site)

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


# Clients that do not come to the point


@pytest.mark.parametrize("sent", [b"", GET[:-2], GET + b"G", REQUEST + REQUEST[:-2]])
def test_a_request_that_does_not_become_whole_is_not_waited_for(sent: bytes) -> None:
    limits = ClientLimits(request_s=0.2)
    with serving(limits=limits) as site, site.raw() as client:
        client.sendall(sent)
        while client.recv(65536):
            pass


def test_a_client_that_does_not_read_is_cut_off() -> None:
    limits = ClientLimits(write_s=2)
    with (
        serving(renderer=HugeRenderer(), limits=limits, web_max_requests=1) as site,
        slow_reader(site),
    ):
        assert site.ask("/").status == 503
        until(200, site)


def test_a_slow_reader_holds_a_piece_of_the_page_and_not_the_page() -> None:
    with serving(renderer=HugeRenderer()) as site, slow_reader(site):
        waiting = asyncio.run_coroutine_threadsafe(unsent(site), site.loop).result(20)

    assert waiting < 1 << 15


def test_those_who_say_nothing_do_not_keep_a_probe_out() -> None:
    with serving(limits=ClientLimits(connections=8, request_s=3600)) as site, ExitStack() as stack:
        silent = [stack.enter_context(site.raw()) for _ in range(8)]
        answered = [site.ask("/-/healthy").status for _ in range(3)]
        oldest = silent[0].recv(1)
        newest = silent[-1]
        newest.sendall(REQUEST)
        kept = newest.recv(12)

    assert (answered, oldest, kept) == ([200] * 3, b"", b"HTTP/1.1 200")


def test_a_request_at_work_is_not_cut_off_for_a_new_connection(held: CountingRenderer) -> None:
    with (
        serving(with_every_family(), renderer=held, limits=ClientLimits(connections=1)) as site,
        closing(site.connect()) as first,
    ):
        first.request("GET", "/metrics")
        assert held.entered.wait(60)
        with site.raw() as second:
            refused = second.recv(1)
        held.gate.set()
        at_work = answer(first.getresponse()).status
        with site.raw() as third:
            third.sendall(REQUEST)
            accepted = third.recv(12)

    assert (refused, at_work, accepted) == (b"", 200, b"HTTP/1.1 200")


# What is no request


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /" + b"a" * 5_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: a\r\n" * 100 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/0.9\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_without_noise(
    site: Site, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with site.raw() as client:
        client.sendall(sent)
        refusal = client.recv(65536)

    assert refusal.split(b" ")[1] in {b"400", b"505"}
    assert b"\r\nX-Content-Type-Options: nosniff\r\n" in refusal
    assert b"\r\nServer: mgpu-exporter\r\n" in refusal
    assert len(refusal) < 1_000
    assert b"aaaa" not in refusal
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
