"""ChainedPods over an API server, a kubelet and log files that are really up, or are not."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from exporter.agent.sources.pods.apiserverpods import ApiPods
from exporter.agent.sources.pods.chain import SWITCH_AFTER_S, ChainedPods, merged
from exporter.agent.sources.pods.kubeletpods import KubeletPods
from exporter.agent.sources.pods.logfilepods import FilePods
from exporter.agent.sources.pods.podreader import ReaderOptions
from exporter.agent.sources.pods.podtable import GRACE_NS, indexed
from exporter.apiserver.client import connect_kubelet
from exporter.model import Container, NodeFacts, Pod, PodTable
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer
from tests.agent.sources.pods.documents import Document, pod_document
from tests.agent.sources.pods.logs import Logs
from tests.agent.sources.pods.watching import OFTEN, connector
from tests.agent.sources.pods.watching import PATIENCE_S as LONG_S

LIMITS = {"nvidia.com/gpu": "1"}


class Town:
    """A node whose API server and kubelet can be stopped and started. ``chain`` is not started."""

    def __init__(self, folder: Path) -> None:
        self.api, self.kubelet = ApiServer(), ApiServer()
        self.logs = Logs(folder / "log")
        for server in (self.api, self.kubelet):
            server.start()  # now they have ports
        self.clock = ManualClock()
        self._condition = threading.Condition()
        options = ReaderOptions(clock=self.clock, changed=self._changed)
        often = replace(options, timings=OFTEN)
        api = ApiPods(connector(self.api, folder), "node-1", often)
        to_kubelet = partial(connect_kubelet, self.kubelet.url, None)
        kubelet = KubeletPods(to_kubelet, often)
        files = FilePods(self.logs.root, options, alone=False, look_s=0.002)
        self.chain = ChainedPods([api, kubelet], files, node=api.node, clock=self.clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.chain.close()
        self.api.stop()
        self.kubelet.stop()

    def run(self, pod: Document) -> None:
        self.api.add_pod(pod)
        self.on_node(pod)

    def on_node(self, pod: Document) -> None:
        """A pod that the API server has not told of."""
        self.kubelet.add_pod(pod)
        metadata = pod["metadata"]
        for status in pod["status"]["containerStatuses"]:
            self.logs.run(
                metadata["name"],
                metadata["uid"],
                status["name"],
                status["containerID"].rpartition("/")[2],
                namespace=metadata["namespace"],
            )

    def wait_for(self, condition: Callable[[], object], what: str = "condition") -> None:
        """Wait until ``condition`` holds; the chain is asked as in a cycle after each change."""

        def asked() -> object:
            self.chain.table()
            return condition()

        with self._condition:
            assert self._condition.wait_for(asked, LONG_S), (what, self.sources, self.pods)

    def give_up(self) -> None:
        """Let the time go by after which the best is taken to be away."""
        self.chain.table()
        self.clock.now_ns += int(SWITCH_AFTER_S * 1e9) + 1

    @property
    def sources(self) -> dict[str, bool]:
        return {s.name: s.up for s in (self.chain.status(), *self.chain.others())}

    @property
    def pods(self) -> dict[str, Pod]:
        return {pod.name: pod for pod in self.chain.table().pods.values() if not pod.deleted}

    def _changed(self) -> None:
        with self._condition:
            self._condition.notify_all()


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with Town(tmp_path) as town:
        yield town


def test_while_the_api_server_is_up_nobody_else_is_asked(town: Town) -> None:
    (town.logs.root / "pods" / "bad").mkdir()
    broken = pod_document("b")
    broken["metadata"]["uid"] = ""
    town.api.add_pod(broken)
    town.run(pod_document("a", limits=LIMITS))
    town.chain.start()
    assert town.chain.wait(LONG_S)
    town.wait_for(lambda: town.sources == {"pods_api": True})
    assert town.chain.rejected()["pod_unusable"] == 1
    assert town.pods["a"].containers[0].limits == LIMITS
    assert not town.kubelet.requests("list")
    assert town.chain.name == "pods_api"
    assert town.chain.node() == NodeFacts()
    town.chain.close()
    names = {thread.name for thread in threading.enumerate()}
    assert not names & {"pods_api", "pods_kubelet", "pods_files"}


def warnings_in(caplog: pytest.LogCaptureFixture) -> int:
    """How many warnings say where pods come from."""
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return sum("pods come from" in record.getMessage() for record in warnings)


def test_with_all_servers_down_at_the_start_names_come_from_files(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    town.run(pod_document("a", limits=LIMITS))
    town.api.stop()
    town.kubelet.stop()
    town.chain.start()
    town.wait_for(lambda: "a" in town.pods)
    assert town.chain.table().by_container_id
    town.give_up()
    down_but_for_files = {"pods_api": False, "pods_kubelet": False, "pods_files": True}
    town.wait_for(lambda: town.sources == down_but_for_files)
    assert "pods come from pods_files" in town.chain.status().detail
    assert warnings_in(caplog) == 1

    town.api.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    town.wait_for(lambda: town.pods["a"].containers[0].limits == LIMITS)
    assert warnings_in(caplog) == 1  # again is said at the level info


def test_the_kubelet_is_asked_when_the_api_server_stays_away(town: Town) -> None:
    town.run(pod_document("a", limits=LIMITS))
    town.chain.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    town.api.stop()
    town.wait_for(lambda: not town.sources["pods_api"])
    town.on_node(pod_document("b", limits=LIMITS))
    town.kubelet.delete_pod("a")
    town.wait_for(lambda: "b" in town.pods, "named by files")
    assert not town.kubelet.requests("list")

    town.give_up()
    town.wait_for(lambda: town.sources == {"pods_api": False, "pods_kubelet": True})
    town.wait_for(lambda: town.pods.keys() == {"b"}, "the kubelet's pods, and no others")
    assert town.pods["b"].containers[0].limits == LIMITS

    town.api.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    town.kubelet.stop()
    town.wait_for(lambda: town.pods.keys() == {"a"}, "the API server's pods, and no others")


def test_the_last_that_was_heard_stays_when_everything_is_away(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    town.run(pod_document("a", limits=LIMITS))
    town.chain.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    town.logs.root.rename(town.logs.root.with_name("away"))
    town.kubelet.stop()
    town.api.stop()
    town.wait_for(lambda: not town.sources["pods_api"])
    town.give_up()
    everything = {"pods_api": False, "pods_kubelet": False, "pods_files": False}
    town.wait_for(lambda: town.sources == everything)
    town.clock.now_ns += GRACE_NS
    assert town.pods["a"].containers[0].limits == LIMITS
    assert "no source of pods is up" not in caplog.text  # nothing took the best one's place


def test_what_the_kubelet_last_said_goes_before_what_the_api_server_said_earlier(
    town: Town,
) -> None:
    town.run(pod_document("old"))
    town.chain.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    town.api.stop()
    town.wait_for(lambda: not town.sources["pods_api"])
    town.kubelet.delete_pod("old")
    town.kubelet.add_pod(pod_document("new"))
    town.logs.root.rename(town.logs.root.with_name("away"))
    town.give_up()
    town.wait_for(lambda: town.pods.keys() == {"new"})
    town.kubelet.stop()
    town.wait_for(lambda: not any(town.sources.values()))
    town.clock.now_ns += GRACE_NS
    assert town.pods.keys() == {"new"}


def test_a_pod_that_no_source_knows_any_more_keeps_its_name_for_the_grace_period(
    town: Town,
) -> None:
    town.on_node(pod_document("a"))
    town.api.stop()
    town.chain.start()
    town.wait_for(lambda: "a" in town.pods)
    town.api.start()
    town.wait_for(lambda: not town.pods)
    [pod] = town.chain.table().pods.values()
    assert pod.deleted
    town.clock.now_ns += GRACE_NS
    assert not town.chain.table().pods


def test_a_blink_of_the_api_server_is_not_told(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    town.run(pod_document("a"))
    town.chain.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    town.api.stop()
    town.wait_for(lambda: town.sources == {"pods_api": False})
    town.api.start()
    town.wait_for(lambda: town.sources == {"pods_api": True})
    assert not town.kubelet.requests("list")
    assert "pods come from" not in caplog.text


# --- the merge ------------------------------------------------------------------------------------


def pod(uid: str, name: str, *ids: str, static: str = "", deleted: bool = False) -> Pod:
    main = Container("main", container_ids=ids)
    return Pod(uid, "ml", name, static_hash=static, deleted=deleted, containers=(main,))


def table(*pods: Pod) -> PodTable:
    return indexed({one.uid: one for one in pods})


@pytest.mark.parametrize(
    ("last", "names", "expected"),
    [
        ([pod("u", "a", "old")], [pod("u", "a", "new", "old")], [pod("u", "a", "new", "old")]),
        ([pod("u", "a", "old")], [pod("u", "a", "new", deleted=True)], [pod("u", "a", "old")]),
        # A static pod is one pod under both its uids; a forged hash gets no ids of its containers.
        (
            [pod("u", "etcd", static="hash")],
            [pod("hash", "etcd", "id")],
            [pod("u", "etcd", "id", static="hash")],
        ),
        (
            [pod("u", "forger", static="hash")],
            [pod("hash", "etcd", "id")],
            [pod("u", "forger", static="hash"), pod("hash", "etcd", "id")],
        ),
        ([], [pod("w", "c", deleted=True)], [pod("w", "c", deleted=True)]),
        ([pod("u", "a", deleted=True)], [], [pod("u", "a", deleted=True)]),
    ],
)
def test_pods_have_the_ids_that_files_name_and_files_add_their_own(
    last: list[Pod], names: list[Pod], expected: list[Pod]
) -> None:
    assert merged(table(*last), table(*names)) == {one.uid: one for one in expected}
