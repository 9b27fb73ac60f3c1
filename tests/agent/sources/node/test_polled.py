"""When a source in a thread of its own asks, and what it says meanwhile."""

import threading

import pytest

from exporter.agent.sources.polled import Inquiry, Polled, PollTimings
from exporter.model import NodeFacts, PodTable
from tests.agent.sources.node.asking import PATIENT, Asking
from tests.agent.sources.node.pods import pod, table


class Names(Inquiry[PodTable, list[str], NodeFacts]):
    """An inquiry about the names of pods that have any; it can be held, and can fail."""

    name = "names"
    nothing = NodeFacts()

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[frozenset[str]] = []
        self.error: Exception | None = None
        self.free = threading.Event()
        self.free.set()
        self.entered = threading.Event()

    def subject(self, pods: PodTable) -> frozenset[str] | None:
        """The pods' names; None of none."""
        return frozenset(one.name for one in pods.pods.values()) or None

    def ask(self, pods: PodTable) -> list[str]:
        """The names, in order."""
        names = self.subject(pods) or frozenset()
        self.asked.append(names)
        self.entered.set()
        self.free.wait()
        if self.error is not None:
            raise self.error
        return sorted(names)

    def facts(self, answer: list[str], pods: PodTable) -> NodeFacts:
        """The names that are still there."""
        here = self.subject(pods) or ()
        return NodeFacts(labels={name: "" for name in answer if name in here})

    def interrupt(self) -> None:
        """Let go."""
        self.free.set()


@pytest.fixture
def names() -> Names:
    return Names()


def test_nothing_is_asked_while_there_is_nothing_to_ask_about(names: Names) -> None:
    with Asking(names) as source:
        assert source.facts(table()) == NodeFacts()
        assert source.source.status().up
        assert names.asked == []
        source.facts(table(pod("a")))
        source.asked()

    assert names.asked[0] == {"a"}


def test_what_matters_is_asked_at_once_and_the_rest_not(names: Names) -> None:
    with Asking(names, PATIENT) as source:
        source.facts(table(pod("a")))
        source.when(lambda facts: facts.labels == {"a": ""})
        source.facts(table(pod("a", phase="Pending"), version=2))
        source.facts(table(pod("a"), pod("b", "uid-2"), version=3))
        source.when(lambda facts: facts.labels == {"a": "", "b": ""})

    assert names.asked == [{"a"}, {"a", "b"}]


def test_it_asks_again_after_a_time(names: Names) -> None:
    with Asking(names) as source:
        source.facts(table(pod("a")))
        source.asked(4)

    assert names.asked[:4] == [{"a"}] * 4


def test_the_cycle_never_waits_for_an_answer(names: Names) -> None:
    names.free.clear()
    with Asking(names) as source:
        source.facts(table(pod("a")))
        assert names.entered.wait(60)
        assert source.facts() == NodeFacts()
        assert source.facts(table(pod("b"), version=2)) == NodeFacts()
        assert source.source.status().up
        names.free.set()
        source.when(lambda facts: facts.labels == {"b": ""})


def test_a_source_that_fails_keeps_what_it_said_last_and_says_why(names: Names) -> None:
    with Asking(names) as source:
        source.facts(table(pod("a")))
        source.when(lambda facts: facts.labels)
        began = source.until_up().last_success_unix_ns
        names.error = OSError("no\nroute")
        status = source.status_when("no route")

        assert source.facts().labels == {"a": ""}
        assert status.last_success_unix_ns is not None
        assert status.last_success_unix_ns >= (began or 0)
        names.error = None
        source.until_up()


def test_a_first_answer_stands_until_an_ask_has_ended(names: Names) -> None:
    names.free.clear()
    names.error = OSError("no route")
    names.first = ["a"]
    source = Polled(names)
    source.start()
    try:
        assert source.facts(table(pod("a"))).labels == {"a": ""}
        assert names.entered.wait(60)
        assert source.facts(table(pod("a"))).labels == {"a": ""}
    finally:
        source.close()
    assert source.facts(table(pod("a"))) == NodeFacts()


def test_a_failure_without_words_has_its_type_for_a_detail(names: Names) -> None:
    names.error = TimeoutError()
    with Asking(names, PATIENT) as source:
        source.facts(table(pod("a")))
        assert source.status_when("Timeout").detail == "TimeoutError"
        names.error = None  # it is asked again without waiting for the period
        source.when(lambda facts: facts.labels == {"a": ""})


def test_what_failed_is_no_fault_once_there_is_nothing_to_ask_about(names: Names) -> None:
    names.error = OSError("no")
    with Asking(names) as source:
        source.facts(table(pod("a")))
        source.status_when("no")
        source.facts(table(version=2))

        assert source.source.status().up
        assert source.source.status().detail == "there is nothing to ask about now"


def test_close_ends_the_thread_even_in_the_middle_of_an_ask(names: Names) -> None:
    names.free.clear()
    with Asking(names) as source:
        source.facts(table(pod("a")))
        assert names.entered.wait(60)
        thread = source.source._thread
    assert not thread.is_alive()


def test_after_failures_it_waits_longer_up_to_a_limit() -> None:
    rhythm = PollTimings(period_s=30, least_s=1, most_s=60)

    delays = [rhythm.delay(failures, 0.0) for failures in (0, 1, 2, 5, 6, 99)]
    assert delays == [1, 2, 4, 32, 60, 60]
    assert rhythm.delay(1, 1.0) == 3
