"""ApiPods against a server that fails, refuses, vanishes and comes back."""

from pathlib import Path
from typing import ClassVar

import pytest

from exporter.agent.sources.pods.podreader import ReaderTimings
from exporter.apiserver.client import connect, from_kubeconfig
from exporter.apiserver.serveranswers import ApiError
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import pod_document
from tests.agent.sources.pods.watching import QUICK, Watching, connector

FORBIDDEN = (
    'pods is forbidden: User "system:serviceaccount:gpu-mon:exporter" cannot list resource "pods"'
)


@pytest.mark.parametrize("kind", ["list", "watch"])
@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_it_recovers_from_any_status(
    server: ApiServer, tmp_path: Path, kind: str, status: int
) -> None:
    server.add_pod(pod_document("a"))
    server.fail(kind, status, times=2)
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_until_up()
        pods.wait_for_names("a")
    assert len(server.requests(kind)) == 3


def test_a_missing_permission_is_named_once_with_who_lacks_it(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.fail("list", 403, FORBIDDEN, times=1000)
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_requests("list", 4)
        detail = pods.source.status().detail
        assert "ServiceAccount gpu-mon/exporter" in detail
        assert "ClusterRole with 'pods: list, watch'" in detail
        assert "no pods are known yet" in detail
    assert caplog.text.count("pods: list, watch") == 1


def test_the_table_outlives_a_dead_server_and_goes_on_when_it_is_back(
    server: ApiServer, tmp_path: Path
) -> None:
    clock = ManualClock()
    server.add_pod(pod_document("stays"))
    server.add_pod(pod_document("goes"))
    with Watching(connector(server, tmp_path), clock=clock) as pods:
        pods.wait_until_up()
        server.stop()
        pods.wait_until_down("Connection refused")
        clock.now_ns += 3600 * 10**9
        assert pods.names() == {"stays", "goes"}
        assert "the list of pods is 3600 s old" in pods.source.status().detail
        server.delete_pod("goes")
        server.expire(quietly=True)
        server.start()
        pods.wait_for_names("stays")
        pods.wait_until_up()


def test_a_server_that_refuses_every_position_is_no_source(
    server: ApiServer, tmp_path: Path
) -> None:
    server.state.compacted = 10**6
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_until_down("too old resource version")


def test_a_cut_connection_is_taken_up_at_the_same_position(
    server: ApiServer, tmp_path: Path
) -> None:
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.hold("watch")
        server.drop_connections()
        server.wait_for_requests("watch", 2)
        server.add_pod(pod_document("meanwhile"))
        server.release()
        pods.wait_for_names("meanwhile")
    assert len(server.requests("list")) == 1


def test_a_half_open_connection_is_given_up_after_the_watchs_own_time(
    server: ApiServer, tmp_path: Path
) -> None:
    timings = ReaderTimings(watch_s=1, slack_s=0.2, backoff_s=0.01)
    with Watching(connector(server, tmp_path), timings=timings) as pods:
        server.wait_for_watches(1)
        server.mute()
        server.add_pod(pod_document("unheard"))
        pods.wait_until_down("timed out")
        server.unmute()
        pods.wait_for_names("unheard")


@pytest.mark.parametrize(
    "item",
    [{"code": 500, "message": "etcd leader changed"}, {"code": "410"}, {}],
    ids=["500", "text", "nothing"],
)
def test_any_error_event_brings_a_new_list(
    server: ApiServer, tmp_path: Path, item: dict[str, object]
) -> None:
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.error_event(**{"code": 0, "message": "", **item})  # type: ignore[arg-type]
        server.wait_for_requests("list", 2)
        pods.wait_until_up()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>proxy</html>", "the list of pods is broken"),
        (b'{"items":[{"metadata":', "the list of pods is broken"),
        (b'{"items":[]}', "not a list of pods"),
        (b'{"metadata":{"resourceVersion":7}}', "no resourceVersion"),
    ],
)
def test_a_broken_list_changes_nothing_and_is_tried_again(
    server: ApiServer, tmp_path: Path, body: bytes, reason: str
) -> None:
    server.add_pod(pod_document("a"))
    with Watching(connector(server, tmp_path)) as pods:
        pods.wait_for_names("a")
        server.answer_lists_with(body)
        server.expire()
        pods.wait_until_down(reason)
        assert pods.names() == {"a"}
        server.answer_lists_with(None)
        pods.wait_until_up()


def test_credentials_are_read_again_after_they_were_refused(
    server: ApiServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    kubeconfig = write_kubeconfig(tmp_path / "config", server.url, token_file=token)
    server.require_tokens("old")
    server.add_pod(pod_document("a"))
    with Watching(lambda: connect(from_kubeconfig(str(kubeconfig)))) as pods:
        pods.wait_until_up()
        server.require_tokens("new")
        server.end_watches()
        pods.wait_until_down("does not accept the credentials")
        token.write_text("new\n")
        pods.wait_until_up()
    assert server.requests("watch")[-1].authorization == "Bearer new"


@pytest.mark.parametrize("content", [None, "", "clusters: 7", "\x00"])
def test_a_broken_kubeconfig_is_a_reason_not_an_end(
    server: ApiServer, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    server.add_pod(pod_document("a"))
    with Watching(lambda: connect(from_kubeconfig(str(path)))) as pods:
        pods.wait_until_down("loading credentials")
        write_kubeconfig(path, server.url)
        pods.wait_for_names("a")


def test_even_an_unforeseen_error_does_not_end_it(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connect = connector(server, tmp_path)
    attempts = iter([RuntimeError("boom"), ApiError(None, "no")])

    def connect_at_third_attempt():  # type: ignore[no-untyped-def]  # noqa: ANN202
        if (error := next(attempts, None)) is not None:
            raise error
        return connect()

    with Watching(connect_at_third_attempt) as pods:
        pods.wait_until_up()
    assert "boom" in caplog.text


class Noting(ReaderTimings):
    """Notes each wait: what for, and the failures or the chance by which it is made."""

    waits: ClassVar[list[tuple[str, float]]]

    def delay(self, failures: int, jitter: float) -> float:
        self.waits.append(("delay", failures))
        return super().delay(failures, jitter)

    def spread(self, jitter: float) -> float:
        """Do not wait, or for long if ``list_spread_s`` is that long."""
        self.waits.append(("spread", jitter))
        return self.list_spread_s if len(self.waits) > 1 else 0.0


def noting(**more: float) -> Noting:
    Noting.waits = []
    return Noting(**{name: getattr(QUICK, name) for name in ReaderTimings.__slots__} | more)


def waits(kind: str) -> list[float]:
    return [value for name, value in Noting.waits if name == kind]


def test_failures_wait_longer_each_time_and_a_heard_event_forgives_them(
    server: ApiServer, tmp_path: Path
) -> None:
    server.fail("list", 500, times=3)
    with Watching(connector(server, tmp_path), timings=noting(), clock=ManualClock()):
        server.wait_for_watches(1)
        server.bookmark()
        server.end_watches()
        server.wait_for_requests("watch", 2)
    assert waits("delay")[:4] == [0, 1, 2, 0]


def test_a_restarted_server_is_listed_without_the_patience_of_the_outage(
    server: ApiServer, tmp_path: Path
) -> None:
    """Its memory begins anew, so no position from before is known to it."""
    with Watching(connector(server, tmp_path), timings=noting()) as pods:
        server.wait_for_watches(1)
        server.stop()
        pods.wait_until_down("Connection refused")
        server.add_pod(pod_document("meanwhile"))
        server.expire(quietly=True)
        server.start()
        server.wait_for_requests("watch", 2)
        before = len(waits("delay"))
        pods.wait_for_names("meanwhile")
        assert len(waits("delay")) == before


def test_each_list_waits_by_chance_and_a_watch_that_goes_on_does_not(
    server: ApiServer, tmp_path: Path
) -> None:
    chances = iter(range(100))
    connect = connector(server, tmp_path)
    with Watching(connect, timings=noting(), jitter=lambda: next(chances) / 100):
        server.wait_for_watches(1)
        server.end_watches()
        server.wait_for_requests("watch", 2)
        assert waits("spread") == [0.0]
        server.wait_for_watches(1)
        server.expire()
        server.wait_for_requests("list", 2)
        assert len(waits("spread")) == len(set(waits("spread"))) == 2


def test_while_a_list_waits_for_long_nobody_takes_it_for_a_source_that_hears(
    server: ApiServer, tmp_path: Path
) -> None:
    with Watching(connector(server, tmp_path), timings=noting(list_spread_s=3600)) as pods:
        server.wait_for_watches(1)
        pods.wait_until_up()
        server.expire()
        pods.wait_until_down("delayed by 3600 s")
    assert len(server.requests("list")) == 1


@pytest.mark.parametrize(
    ("failures", "jitter", "expected"),
    [
        (0, 0, 0.4),
        (3, 0.5, 4.8),
        (6, 1, 51.2),
        (7, 1, 60),
        (10**9, 0, 30),
    ],
)
def test_delays_double_up_to_a_limit_and_are_spread(
    failures: int, jitter: float, expected: float
) -> None:
    assert ReaderTimings().delay(failures, jitter) == pytest.approx(expected)
    assert ReaderTimings(list_spread_s=30).spread(jitter) == 30 * jitter


def test_close_does_not_wait_for_a_list_that_waits(server: ApiServer, tmp_path: Path) -> None:
    with Watching(
        connector(server, tmp_path), timings=ReaderTimings(list_spread_s=3600), jitter=lambda: 1.0
    ) as pods:
        thread = pods.source._thread
    assert not thread.is_alive()
    assert server.requests("list") == []


@pytest.mark.parametrize(("status", "lists"), [(429, 1), (503, 1), (500, 2)])
def test_a_busy_server_is_asked_for_the_watch_again_and_not_for_a_list(
    server: ApiServer, tmp_path: Path, status: int, lists: int
) -> None:
    with Watching(connector(server, tmp_path)) as pods:
        server.wait_for_watches(1)
        server.fail("watch", status, times=2)
        server.end_watches()
        server.wait_for_requests("watch", 4)
        pods.wait_until_up()
    assert len(server.requests("list")) >= lists
    assert (len(server.requests("list")) == 1) is (lists == 1)
