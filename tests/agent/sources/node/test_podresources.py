"""PodResources against a real gRPC server on a unix socket, right and wrong."""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import grpc
import pytest

from exporter.agent.sources.node.kubeletcalls import MAX_ANSWER, Kubelet, KubeletError
from exporter.agent.sources.node.podresources import PodResources, open_pod_resources
from exporter.model import ClaimedDevice, ClaimRef, Grant, NodeFacts, Pod, PodTable
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.node.asking import PATIENT, Asking
from tests.agent.sources.node.kubeletserver import KubeletServer
from tests.agent.sources.node.messages import claim, container, devices, field, holding, recorded
from tests.agent.sources.node.messages import pod as entry
from tests.agent.sources.node.pods import pod, table, unknown_to_kubelet

TIMEOUT_S = 0.3
ONE, TWO = (Grant("main", "nvidia.com/gpu", (gpu,)) for gpu in ("GPU-1", "GPU-2"))


@cache
def units() -> bytes:
    """30,000 units of a card's memory: a second to make."""
    return b"".join(devices("example.com/memory", f"GPU-1-_-{n}") for n in range(30_000))


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletServer]:
    with KubeletServer(tmp_path / "kubelet.sock") as server:
        yield server


def inquiry(kubelet: KubeletServer, timeout_s: float = 60.0) -> PodResources:
    return PodResources(Kubelet(str(kubelet.path), timeout_s))


def granted(facts: NodeFacts) -> dict[str, tuple[Grant, ...]]:
    return dict(facts.grants)


def test_what_a_container_holds_is_known_of_its_pod(kubelet: KubeletServer) -> None:
    kubelet.answer = recorded("list")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod("train-0"), pod("slice", "uid-2")))
        facts = source.when(granted)

    assert set(facts.grants) == {"uid-1", "uid-2"}
    assert [grant.resource for grant in facts.grants["uid-1"]] == ["nvidia.com/gpu", "rdma/hca"]
    assert source.source.status().up
    assert source.source.status().duration_ns > 0
    assert source.source.rejected() == {}
    assert kubelet.requests[0] == b""


# --- one name, two pods ---------------------------------------------------------------------------


def test_a_pod_that_the_kubelet_has_not_spoken_of_does_not_inherit(kubelet: KubeletServer) -> None:
    kubelet.answer = holding("train-0", "GPU-1")  # still that of the pod before
    new = pod(uid="uid-new")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(unknown_to_kubelet(new)))
        source.asked(3)
        assert source.facts() == NodeFacts()
        kubelet.answer = holding("train-0", "GPU-2")
        source.facts(table(new, version=2))

        assert granted(source.when(granted)) == {"uid-new": (TWO,)}
        next_one = table(pod(uid="uid-next", claims=(ClaimRef("c", "gpu"),)), version=3)
        assert granted(source.facts(next_one)) == {}  # it is asked about anew
        kubelet.answer = entry("train-0", container("main", claim("c", "gpu-0")))
        claimed = source.when(lambda facts: facts.claims).claims
        assert claimed == {
            ("ml", "c"): (ClaimedDevice("gpu", "gpu.nvidia.com", "node-1", "gpu-0"),)
        }


def test_a_pod_replaced_while_the_kubelet_is_asked_gives_nothing_to_the_next(
    kubelet: KubeletServer,
) -> None:
    kubelet.answer = holding("train-0", "GPU-1")
    kubelet.hold()
    with Asking(inquiry(kubelet), PATIENT) as source:
        source.facts(table(pod(uid="uid-old")))
        kubelet.wait_for_calls(1)
        replaced = table(unknown_to_kubelet(pod(uid="uid-new")), version=2)
        source.facts(replaced)
        kubelet.release()
        source.asked()

        assert source.facts() == NodeFacts()


def test_pods_that_ask_for_no_device_are_no_reason_to_ask(kubelet: KubeletServer) -> None:
    with Asking(inquiry(kubelet), PATIENT) as source:
        source.facts(table())
        source.until_up()
        source.facts(table(Pod("u", "ml", "web", acknowledged=True), version=2))
        source.facts(table(pod(), version=3))
        kubelet.wait_for_calls(2)

    assert kubelet.asked[:2] == ["List", "Get ml/train-0"]


# --- Get ------------------------------------------------------------------------------------------


class Conversation:
    """Asks of one inquiry, in the test's own thread."""

    def __init__(self, kubelet: KubeletServer) -> None:
        self.clock = ManualClock()
        self.inquiry = PodResources(Kubelet(str(kubelet.path), 20.0), self.clock)

    def ask(self, *pods: Pod) -> dict[str, tuple[Grant, ...]]:
        """What follows from one ask about these pods."""
        now: PodTable = table(*pods)
        return granted(self.inquiry.facts(self.inquiry.ask(now), now))


@pytest.fixture
def asks(kubelet: KubeletServer) -> Conversation:
    return Conversation(kubelet)


def test_a_new_pod_is_asked_about_alone_where_the_kubelet_serves_that(
    kubelet: KubeletServer, asks: Conversation
) -> None:
    kubelet.answer = holding("a", "GPU-1")
    kubelet.entries = {("ml", "b"): holding("b", "GPU-2")}
    first, second = pod("a", "uid-a"), pod("b", "uid-b")

    assert asks.ask(first) == {"uid-a": (ONE,)}
    assert asks.ask(first, second) == {"uid-a": (ONE,), "uid-b": (TWO,)}
    assert kubelet.asked == ["List", "Get ml/b"]
    assert kubelet.requests[1] == field(1, "b") + field(2, "ml")


def test_where_get_is_not_served_all_are_listed_and_it_is_not_tried_again(
    kubelet: KubeletServer, asks: Conversation
) -> None:
    kubelet.answer = holding("a", "GPU-1") + holding("b", "GPU-2")
    pods = [pod("a", "uid-a"), pod("b", "uid-b"), pod("c", "uid-c")]
    asks.ask(*pods[:1])

    assert asks.ask(*pods[:2]) == {"uid-a": (ONE,), "uid-b": (TWO,)}
    asks.ask(*pods)
    assert kubelet.asked == ["List", "Get ml/b", "List", "List"]


def test_a_pod_that_the_kubelet_does_not_find_is_looked_for_in_the_list(
    kubelet: KubeletServer, asks: Conversation
) -> None:
    kubelet.entries = {}
    asks.ask(pod("a", "uid-a"))
    kubelet.answer = holding("b", "GPU-2")

    assert asks.ask(pod("a", "uid-a"), pod("b", "uid-b")) == {"uid-b": (TWO,)}
    assert kubelet.asked == ["List", "Get ml/b", "List"]


@pytest.mark.parametrize("answer", [b"\x0a\x7f", holding("other", "GPU-1"), b""])
def test_an_answer_to_get_that_is_none_or_of_another_pod_is_not_believed(
    kubelet: KubeletServer, asks: Conversation, answer: bytes
) -> None:
    kubelet.entries = {("ml", "b"): answer}
    asks.ask()

    assert asks.ask(pod("b", "uid-b")) == {}
    malformed = {"podresources_malformed": 1} if answer == b"\x0a\x7f" else {}
    assert asks.inquiry.rejected() == malformed


def test_now_and_then_all_are_listed_although_get_is_served(
    kubelet: KubeletServer, asks: Conversation
) -> None:
    kubelet.entries = {("ml", "a"): holding("a", "GPU-1")}
    asks.ask()
    asks.clock.move(60)
    asks.ask(pod("a", "uid-a"))
    asks.ask(*(pod(f"p{n}", f"uid-{n}") for n in range(9)))

    assert kubelet.asked == ["List", "List", "List"]


# --- what can go wrong ----------------------------------------------------------------------------


def test_one_bad_entry_costs_only_itself_and_is_said_once(
    kubelet: KubeletServer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = entry("bad", container("main", devices("nvidia.com/gpu", b"\xff")))
    kubelet.answer = bad + holding("train-0", "GPU-1")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod(), pod("bad", "uid-bad")))
        source.when(granted)
        source.asked(2)
        rejected = source.source.rejected()

    assert rejected.keys() == {"podresources_malformed"}
    assert rejected["podresources_malformed"] >= 3
    assert caplog.text.count("podresources_malformed") == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (recorded("list")[:100], "the kubelet's answer to List cannot be read: "),
        (b"\xff" * 50, "cannot be read"),
        (holding("a", "x" * 100) * (20_000_000 // 130), "more than 16 MiB"),
    ],
    ids=["truncated", "noise", "20 MB"],
)
def test_an_answer_that_is_none_leaves_what_was_known(
    kubelet: KubeletServer, answer: bytes, words: str
) -> None:
    kubelet.answer = holding("train-0", "GPU-1")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod()))
        source.when(granted)
        kubelet.answer = answer
        source.status_when(words)
        assert granted(source.facts()) == {"uid-1": (ONE,)}
        kubelet.answer = holding("train-0", "GPU-2")

        source.when(lambda facts: facts.grants["uid-1"] == (TWO,))
        assert source.until_up().up


def test_the_largest_answer_that_is_read_is_read(kubelet: KubeletServer) -> None:
    filler = field(99, bytes(MAX_ANSWER - 100_000))
    kubelet.answer = holding("train-0", "GPU-1") + filler
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod()))

        assert granted(source.when(granted)) == {"uid-1": (ONE,)}


@pytest.mark.parametrize(
    "entries",
    [
        lambda: (entry(f"big-{number}", container("main", units())) for number in range(4)),
        lambda: (holding(f"ended-{n}", "x" * 400) for n in range(10_500)),
    ],
    ids=["30,000 ids a pod", "10,500 ended pods"],
)
def test_a_long_answer_costs_no_pod_its_devices(
    kubelet: KubeletServer, entries: Callable[[], Iterable[bytes]]
) -> None:
    answer = b"".join(entries())
    assert len(answer) > 4 << 20
    kubelet.answer = answer + holding("train-0", "GPU-1")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod()))

        assert granted(source.when(granted)) == {"uid-1": (ONE,)}
        assert source.source.status().up


def test_where_the_list_is_too_long_each_pod_is_asked_about_if_that_is_served(
    kubelet: KubeletServer, asks: Conversation
) -> None:
    kubelet.answer = field(99, bytes(MAX_ANSWER))
    kubelet.entries = {("ml", name): holding(name, "GPU-1") for name in "abcdef"}
    pods = [pod(name, f"uid-{name}") for name in "abcdef"]

    assert asks.ask(*pods) == {f"uid-{name}": (ONE,) for name in "abcdef"}
    assert kubelet.asked == ["List", *(f"Get ml/{name}" for name in "abcdef")]
    kubelet.entries = None
    with pytest.raises(KubeletError, match="more than 16 MiB"):
        asks.ask(*pods)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (grpc.StatusCode.UNIMPLEMENTED, "does not serve /v1.PodResourcesLister/List"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED: rejected by rate limit"),
    ],
)
def test_a_refusal_is_said_and_asked_again(
    kubelet: KubeletServer, code: grpc.StatusCode, words: str
) -> None:
    kubelet.refusal = code, "rejected by rate limit"
    kubelet.answer = holding("train-0", "GPU-1")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod()))
        source.status_when(words)
        kubelet.refusal = None

        assert granted(source.when(granted)) == {"uid-1": (ONE,)}


def test_a_kubelet_that_hangs_is_given_up_and_costs_the_cycle_nothing(
    kubelet: KubeletServer,
) -> None:
    kubelet.answer = holding("train-0", "GPU-1")
    kubelet.hold()
    with Asking(inquiry(kubelet, TIMEOUT_S)) as source:
        source.facts(table(pod()))
        kubelet.wait_for_calls(1)
        assert source.facts() == NodeFacts()
        source.status_when("did not answer within 0.3 s")
        kubelet.release()

        assert granted(source.when(granted)) == {"uid-1": (ONE,)}


def test_closing_does_not_wait_for_a_kubelet_that_hangs(kubelet: KubeletServer) -> None:
    kubelet.hold()
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod()))
        kubelet.wait_for_calls(1)
        thread = source.source._thread
    assert not thread.is_alive()


def test_a_kubelet_that_goes_away_and_comes_back_is_asked_again(kubelet: KubeletServer) -> None:
    kubelet.answer = holding("train-0", "GPU-1")
    with Asking(inquiry(kubelet)) as source:
        source.facts(table(pod()))
        source.when(granted)
        kubelet.stop()
        source.status_when("there is no socket")
        kubelet.path.touch()
        assert "is it running?" in source.status_when("does not answer on").detail
        kubelet.path.unlink()
        assert granted(source.facts()) == {"uid-1": (ONE,)}
        kubelet.answer = holding("train-0", "GPU-2")
        kubelet.start()

        source.when(lambda facts: facts.grants["uid-1"] == (TWO,))


def test_without_grpcio_the_source_is_down_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)  # what an import of a missing package meets
    with Asking(PodResources(Kubelet(str(tmp_path)))) as source:
        source.facts(table(pod()))

        assert "pip install grpcio" in source.status_when("grpcio").detail


def test_after_the_interrupt_no_call_is_made(kubelet: KubeletServer) -> None:
    calls = Kubelet(str(kubelet.path))
    calls.interrupt()

    with calls.connected() as connection, pytest.raises(KubeletError, match="interrupted"):
        connection.list()
    assert kubelet.asked == []


# --- the setting ----------------------------------------------------------------------------------


def test_auto_takes_the_socket_where_the_kubelets_folder_is(tmp_path: Path) -> None:
    [source] = open_pod_resources("auto", str(tmp_path / "kubelet.sock"))

    assert source.name == "podresources"
    assert open_pod_resources("auto", str(tmp_path / "away" / "kubelet.sock")) == ()
    assert open_pod_resources("none", str(tmp_path / "kubelet.sock")) == ()


def test_a_socket_that_was_named_is_waited_for(kubelet: KubeletServer, tmp_path: Path) -> None:
    [source] = open_pod_resources(str(tmp_path / "later.sock"))
    assert source.status().up
    assert kubelet.asked == []
    source.close()
