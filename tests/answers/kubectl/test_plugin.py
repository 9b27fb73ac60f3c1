"""``kubectl mgpu`` as a user of a cluster types it: real exporters behind port-forwards."""

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

from exporter.answers.kubectl.apiroute import door_of
from exporter.answers.kubectl.cluster import Exporter as Agent
from exporter.answers.kubectl.clusterfeed import FleetFeed
from exporter.answers.kubectl.forward import Forwarder
from exporter.answers.kubectl.plugin import main
from exporter.answers.reading.feeds import FeedResult, NamespaceFeed, NodeSight
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.apiserver.client import from_kubeconfig
from exporter.httpclient import NoAnswerError
from exporter.shown.tree import DeviceEntry, Tree
from tests.agent.simulation.clock import ManualClock
from tests.answers.kubectl.cluster import Cluster, pod
from tests.answers.reading.test_remote import Server
from tests.e2e.programs import Exporter
from tests.store import Store, Target

LABELS = {"app.kubernetes.io/name": "mgpu-exporter"}
PAGE = """\
mgpu_exporter_build_info{{version="1"}} 1
mgpu_exporter_cycles_total {0}
mgpu_device_info{{gpu="0",uuid="G",model="L4"}} 1
mgpu_device_unallocated_gpu_seconds_total{{gpu="0",uuid="G"}} {0}
mgpu_container_core_utilization_ratio{{namespace="a",pod="b",container="c",gpu="0",uuid="G"}} 0.5
"""
MINE, NAME = "inference", "rerank-58d4f8f7c4-9vkmt"


@pytest.fixture(scope="module")
def exporters() -> Iterator[dict[str, int]]:
    """The ports of an exporter on each of two nodes."""
    started = {
        name: Exporter(f"--simulate={scenario}", f"--node.name={name}", "--web.open-page")
        for name, scenario in (("n1", "demo"), ("n2", "turing"))
    }
    try:
        yield {
            name: int(one.ready().url.rpartition(":")[2].strip("/"))
            for name, one in started.items()
        }
    finally:
        for one in started.values():
            one.stop()


@pytest.fixture(scope="module")
def pods(exporters: dict[str, int]) -> list[dict[str, Any]]:
    agents = [
        pod(f"mgpu-{node}", "mgpu-exporter", node, port, LABELS) for node, port in exporters.items()
    ]
    return [*agents, pod(NAME, MINE, "n1"), pod("new", MINE, "")]


@pytest.fixture
def here(pods: list[dict[str, Any]], tmp_path: Path) -> Iterator[list[str]]:
    with Cluster(pods) as cluster:
        yield [f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"]


def test_top_shows_the_own_namespace_on_all_nodes_and_the_rest_as_others(
    here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *here]) == 0
    said = capsys.readouterr().out
    assert NAME in said
    assert "crawl" not in said
    assert "other" in said
    assert main(["top", "-A", *here]) == 0
    said = capsys.readouterr().out
    assert "n1" in said
    assert "n2" in said


def test_a_list_that_comes_in_pages_is_read_to_its_end(
    pods: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(pods, page=1) as cluster:
        assert main(["top", "-A", f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"]) == 0
    said = capsys.readouterr().out
    assert "n1" in said
    assert "n2" in said


def test_a_node_without_an_answer_costs_only_itself(
    pods: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = pod("mgpu-n3", "mgpu-exporter", "n3", 1, LABELS)
    gone["status"] = {}
    with Cluster([*pods, gone]) as cluster:
        main(["top", "-A", f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"])
    said = capsys.readouterr().out
    assert "the exporter on n3 (mgpu-exporter/mgpu-n3) is not ready" in said
    assert NAME in said


def test_of_several_exporters_of_a_node_each_gpu_is_shown_once(
    pods: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second release, the one that was evicted, and the next one, which is not ready yet."""
    port = pods[0]["spec"]["containers"][0]["ports"][0]["containerPort"]
    second, old, new = (
        pod(f"mgpu-{name}", "mgpu-exporter", "n1", port, LABELS) for name in ("b", "a", "aa")
    )
    old["status"], new["status"] = {"phase": "Failed"}, {"phase": "Running"}
    printed = []
    for more in ([], [second, old, new]):
        with Cluster([*pods, *more]) as cluster:
            here = f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"
            assert main(["top", "-A", here]) == 0
            lines = capsys.readouterr().out.splitlines()
            printed.append([line for line in lines if "n1" in line.split()[:2] and line[0] != "!"])
            assert main(["why", NAME, "--since=1s", here]) == 0
            assert "It is on GPU" in capsys.readouterr().out
    assert len(printed[1]) == len(printed[0]) > 0


def test_a_node_that_refuses_who_has_no_pod_there_is_no_trouble(
    pods: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        other = pod("mgpu-n3", "mgpu-exporter", "n3", server.server_port, LABELS)
        for agents, status in (([*pods, other], 0), ([other], 2)):
            with Cluster(agents) as cluster:
                assert main(["top", f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"]) == status
        server.shutdown()
    said = capsys.readouterr()
    assert "n3" not in said.out
    assert "does not let you see this" in said.err


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_node_whose_pods_cannot_be_named_is_not_left_out() -> None:
    """Its pods are not seen on it, and nobody would know why."""
    trouble = "source cgroups is down: it cannot be read"
    node = NodeSight(Tree((DeviceEntry("GPU-a"),)), "n1", troubles=(trouble,))
    exporter = Agent("mgpu-exporter", "mgpu-n1", "n1", 1, is_tls=False)
    feed = FleetFeed(lambda: [exporter], lambda _: HttpClient("http://n1:10045"))
    mine = NamespaceFeed(feed, MINE)
    other = replace(node, name="n2", troubles=())
    with patch.object(RemoteFeed, "read", lambda _: FeedResult([node, other])):
        [shown] = mine.read().nodes
    assert shown.troubles == (trouble,)
    feed.close()


def test_what_one_exporter_answers_costs_only_its_node() -> None:
    agents = [Agent("mgpu-exporter", f"mgpu-{n}", n, 1, is_tls=False) for n in ("n1", "n2")]

    def http(exporter: Agent) -> HttpClient:
        return HttpClient(f"http://{exporter.node}:10045")

    def read(feed: RemoteFeed) -> FeedResult:
        if "n1" in feed.name:
            raise RecursionError("too deep")
        return FeedResult([NodeSight(Tree(), "n2")])

    feed = FleetFeed(lambda: agents, http)
    with patch.object(RemoteFeed, "read", read):
        result = feed.read()
    feed.close()
    assert [node.name for node in result.nodes] == ["n2"]
    [trouble] = result.troubles
    assert trouble.startswith("the exporter on n1 (mgpu-exporter/mgpu-n1) answers with something")


def test_each_namespace_of_exporters_is_shown(
    pods: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two releases, each on nodes of its own. A user may lack the right to see some of the five."""
    first, second, *others = pods
    elsewhere = {**second, "metadata": {**second["metadata"], "namespace": "monitoring"}}
    refused = ("/api/v1/namespaces/gpu-operator/",)
    for status, shown in ((403, 0), (500, 2)):
        with Cluster([first, elsewhere, *others], refused=refused, refusal=status) as cluster:
            here = f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"
            assert main(["top", "-A", here]) == shown
    said = capsys.readouterr()
    words = {tuple(line.split()[1:2]) for line in said.out.splitlines()}
    assert {("n1",), ("n2",)} <= words
    assert "the API server gave no list of the exporters" in said.err


@pytest.mark.parametrize(
    ("flags", "variable", "seen"),
    [
        ([], "", MINE),
        (["-n", "other"], "", "other"),
        (["-A"], "other", ""),
        ([], "other", "other"),
        (["--kubeconfig=/nowhere"], "", None),
    ],
)
def test_a_prometheus_that_is_named_is_asked_for_the_namespace_of_the_context(
    flags: list[str],
    variable: str,
    seen: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MGPU_REMOTE_NAMESPACE", variable) if variable else None
    server = Server()
    server.answer = lambda *_: (200, {}, b'{"status": "success", "data": {"result": []}}')
    try:
        with Cluster([]) as cluster:
            here = f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"
            main(["top", here, f"--prometheus={server.url}", *flags])
            main(["why", "chat-0", here, f"--prometheus={server.url}", *flags])
    finally:
        server.stop()
    said = capsys.readouterr()
    if seen is None:
        assert "kubeconfig /nowhere" in said.err
    else:
        assert f"namespace {seen}" in said.out or not seen
        assert (f"{seen}/chat-0" if seen else "chat-0 is not known to") in said.err
        assert all(f"namespace={seen}" in path for path, _ in server.asked if "why" in path)


def test_an_exporter_that_is_named_is_shown_as_far_as_the_own_namespace(
    exporters: dict[str, int], here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{exporters['n1']}"
    assert main(["top", *here, f"--url={url}"]) == 0
    said = capsys.readouterr().out
    assert NAME in said
    assert "crawl" not in said
    assert main(["top", *here, f"--url={url}", "-n", "nobody"]) == 1
    said = capsys.readouterr().out
    assert "nobody: on no GPU that is known" in said
    assert "no pod of namespace nobody with a GPU is known" in said


def test_a_port_behind_which_nobody_answers_is_not_waited_for(tmp_path: Path) -> None:
    agent = pod("mgpu-n1", "mgpu-exporter", "n1", 1, LABELS)
    with Cluster([agent], hangs=True) as cluster:
        credentials = from_kubeconfig(str(cluster.kubeconfig(tmp_path, MINE)), "")
        with Forwarder(door_of(credentials)) as forwarder:
            begun_s = time.monotonic()
            assert forwarder.open("mgpu-exporter", "mgpu-n1", 1)
            assert time.monotonic() - begun_s < 8


def test_an_exporter_that_was_replaced_is_found_again() -> None:
    clock = ManualClock()
    old, new = (Agent("mgpu-exporter", name, "n1", 1, is_tls=False) for name in ("a", "b"))
    listed = iter([[old], [new]])

    def http(exporter: Agent) -> HttpClient:
        if exporter is old:
            raise NoAnswerError("the API server answers 404 to a port-forward")
        return HttpClient("http://n1:10045")

    feed = FleetFeed(lambda: next(listed), http, clock=clock)
    for _ in range(2):
        with pytest.raises(NoAnswerError):
            feed.read()
    clock.move(60.0)
    with patch.object(RemoteFeed, "read", lambda _: FeedResult([NodeSight(Tree(), "n1")])):
        assert [node.name for node in feed.read().nodes] == ["n1"]
        clock.move(60.0)
        feed.read()  # all answer: nobody is looked for
    feed.close()


def test_a_token_that_ran_out_is_shown_no_more() -> None:
    shown: list[HttpClient] = []

    def http(exporter: Agent) -> HttpClient:
        shown.append(HttpClient(f"http://{exporter.node}:10045"))
        return shown[-1]

    def read(feed: RemoteFeed) -> FeedResult:
        if feed._http is shown[0]:
            raise NoAnswerError("refuses the token", 401)
        return FeedResult([NodeSight(Tree(), "n1")])

    feed = FleetFeed(lambda: [Agent("mgpu-exporter", "a", "n1", 1, is_tls=False)], http)
    with patch.object(RemoteFeed, "read", read):
        with pytest.raises(NoAnswerError):
            feed.read()
        assert [node.name for node in feed.read().nodes] == ["n1"]
        feed.read()
    assert len(shown) == 2
    feed.close()


def test_why_finds_the_node_of_a_pod(here: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", NAME, "--since=1s", "--format=json", *here]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["namespace"], found["pod"]) == (MINE, NAME)
    assert found["parts"][0]["share"] == pytest.approx(0.1)
    assert {"use", "cards"} <= {one["topic"] for one in found["sentences"]}


def test_a_pod_of_another_namespace_is_found_by_its_name_alone(
    pods: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(pods) as cluster:
        here = f"--kubeconfig={cluster.kubeconfig(tmp_path, 'research')}"
        assert main(["why", NAME, "--since=1s", here]) == 0
        assert "its share is 10%" in capsys.readouterr().out
    with Cluster([*pods, pod(NAME, "other", "n1")]) as cluster:
        here = f"--kubeconfig={cluster.kubeconfig(tmp_path, 'research')}"
        assert main(["why", NAME, "--since=1s", here]) == 2
        said = f"{MINE}/{NAME} and other/{NAME}: name one of them"
        assert capsys.readouterr().err == f"kubectl mgpu why: {said}\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rerank", f"no pod {MINE}/rerank; did you mean {NAME}?"),
        ("new", f"{MINE}/new is on no node yet (Pending)"),
    ],
)
def test_a_pod_that_cannot_be_asked_about(
    name: str, said: str, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", name, "--since=1s", *here]) == 2
    assert capsys.readouterr().err == f"kubectl mgpu why: {said}\n"


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (
            ("/api/v1/namespaces/mgpu-exporter/pods/",),
            "get and create on pods/portforward",
        ),
        (("/api/v1/pods", "/api/v1/namespaces"), "name the namespace (--exporter-namespace)"),
    ],
)
def test_who_lacks_a_right_is_told_which(
    pods: list[dict[str, Any]],
    refused: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Cluster(pods, refused=refused) as cluster:
        assert main(["top", f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"]) == 2
    assert words in capsys.readouterr().err


def test_a_token_is_shown_to_no_pod_of_a_namespace_where_tenants_make_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody can give a pod the exporter's label."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        forged = pod("mgpu-n1", "tenant", "n1", trap.getsockname()[1], LABELS)
        service = {
            "metadata": {
                "name": "prometheus",
                "namespace": "tenant",
                "labels": {"operated-prometheus": "true"},
            },
            "spec": {"selector": LABELS, "ports": [{"targetPort": "metrics"}]},
        }
        with Cluster([forged], [service]) as cluster:
            here = f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"
            assert main(["top", "-A", here]) == 2
            assert main(["bill", "--price=2", here]) == 2
        trap.setblocking(False)
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert "--exporter-namespace" in capsys.readouterr().err


def test_a_prometheus_that_was_found_gets_no_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A credential is for the address that its owner named; a header that is typed, for all."""
    monkeypatch.setenv("MGPU_REMOTE_TOKEN", "secret")
    monkeypatch.setenv("MGPU_REMOTE_HEADER_FILE", "/nonexistent")
    monkeypatch.setenv("MGPU_REMOTE_USER", "me")
    heard: list[str] = []
    tenants: set[str] = set()

    class Prometheus(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization", ""))
            tenants.add(self.headers.get("X-Scope-OrgID", ""))
            body = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'
            if "build_info" in self.path:
                value = b'[{"metric": {}, "value": [%d, "1"]}]' % time.time()
                body = body.replace(b"[]", value)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Prometheus) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        behind = pod("prometheus-0", "monitoring", "n1", server.server_port, {"app": "prometheus"})
        service = {
            "metadata": {
                "name": "prometheus-operated",
                "namespace": "monitoring",
                "labels": {"operated-prometheus": "true"},
            },
            "spec": {"selector": {"app": "prometheus"}, "ports": [{"targetPort": "metrics"}]},
        }
        with Cluster([behind], [service]) as cluster:
            here = f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"
            main(["bill", "--price=2", here, "--header", "X-Scope-OrgID: team"])
        server.shutdown()
    assert len(heard) > 1
    assert tenants == {"team"}
    assert set(heard) == {""}


@pytest.mark.program("prometheus")
def test_advise_and_bill_find_the_prometheus_of_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = int(time.time())
    with Store(tmp_path) as store:
        target = Target({"job": "mgpu", "instance": "a:1", "node": "n1"})
        for at in range(now - 300, now, 15):
            store.scrape(target, PAGE.format(at - now + 300), at)
        port = int(store.address.rpartition(":")[2])
        behind = pod("prometheus-0", "monitoring", "n1", port, {"app": "prometheus"})
        service = {
            "metadata": {
                "name": "prometheus-operated",
                "namespace": "monitoring",
                "labels": {"operated-prometheus": "true"},
            },
            "spec": {"selector": {"app": "prometheus"}, "ports": [{"targetPort": "metrics"}]},
        }
        with Cluster([behind], [service]) as cluster:
            here = f"--kubeconfig={cluster.kubeconfig(tmp_path, MINE)}"
            assert main(["bill", "--since=4m", "--price=2", "--format=json", here]) == 0
            assert json.loads(capsys.readouterr().out)["totals"]["cost"] != "0"
            assert main(["advise", "--since=2h", here]) == 2
            assert capsys.readouterr().err == (
                "kubectl mgpu advise: monitoring/prometheus-operated knows no container of "
                f"namespace {MINE} that was allocated a GPU in this range\n"
            )


def test_a_cluster_without_a_prometheus(
    here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bill", "--price=2", *here]) == 2
    said = capsys.readouterr().err
    assert "no Prometheus in mgpu-exporter, monitoring" in said
    assert "has the exporter's series; name the namespace" in said


def test_a_kubeconfig_without_a_token_is_named_as_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Exporter("--simulate=demo", f"--web.config.file={_users(tmp_path)}") as closed:
        port = int(closed.url.rpartition(":")[2].strip("/"))
        agent = pod("mgpu-n1", "mgpu-exporter", "n1", port, LABELS)
        with Cluster([agent]) as cluster:
            here = cluster.kubeconfig(tmp_path, MINE, token="")
            assert main(["top", f"--kubeconfig={here}"]) == 2
    assert "Your kubeconfig logs in without a token" in capsys.readouterr().err


def _users(folder: Path) -> Path:
    path = folder / "web.yaml"
    path.write_text(
        "basic_auth_users: {a: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}\n"
    )
    return path


@pytest.mark.parametrize(
    "argv",
    [
        ["--prometheus=http://127.0.0.1:1", "advise"],
        ["--prometheus", "http://127.0.0.1:1", "-n", "top", "advise"],
        ["-A", "--prometheus", "http://127.0.0.1:1", "advise", "--since=2d"],
    ],
)
def test_a_commands_flags_may_stand_before_it(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err


def test_a_mistake_is_reported_in_the_name_of_the_plugin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["tpo"])
    assert capsys.readouterr().err == "kubectl mgpu: no such command: tpo; did you mean top?\n"
