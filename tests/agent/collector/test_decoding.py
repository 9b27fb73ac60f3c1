"""Pods are decoded when they change, beside the cycle: one that takes long delays no other."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import pytest

from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.room import MAX_OF_NODE, MAX_OF_POD, within
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import IndexBasis
from exporter.agent.collector.decoding import Asked, Decoder
from exporter.agent.collector.podallocations import MAX_LINES, Allocations
from exporter.agent.ledger import Allocated
from exporter.agent.sources.pods.podtable import indexed
from exporter.model import (
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    Grant,
    NodeFacts,
    Pod,
    Said,
    Tie,
    Unmeasured,
)
from tests.agent.collector.bench import POD, SECOND, Bench
from tests.agent.simulation.clock import ManualClock

NODE = NodeFacts(devices=(Device("GPU-0", 0, "nvidia"),))
MINE, OTHER = "mallory", "ml"


def pod(name: str, namespace: str = OTHER, **more: object) -> Pod:
    asking = (Container("a", limits={"a/b": "1"}),)
    described = Pod(f"uid-{name}", namespace, name, containers=asking)
    return replace(described, **more)  # type: ignore[arg-type] # fields of Pod


class Counting:
    """A scheme that notes which pods it is asked about. A label says with whom a pod has a tie."""

    def __init__(self) -> None:
        self._numbers = count()
        self.asked: list[str] = []
        self.held: dict[str, threading.Event] = {}  # by the name of a pod that waits for it
        self.begun = threading.Event()
        self.clock = ManualClock()
        self.seconds: dict[str, float] = {}  # that a pod of this namespace takes
        self.allocations = Allocations(self.rules(), self.clock)
        self.version = 0

    def rules(self) -> Rules:
        """Rules that no others are equal to."""
        scheme = Scheme("counting", (), (), IndexBasis.UUID, self._read, ties=_ties)
        return Rules((scheme,), {"made": str(next(self._numbers))})

    def of(self, *pods: Pod, node: NodeFacts = NODE) -> list[Allocated]:
        """The allocations of these pods, which are another table."""
        self.asked.clear()
        self.version += 1
        return self.allocations.of(
            indexed({one.uid: one for one in pods}, self.version), node, dict
        )

    def after(self, *pods: Pod, node: NodeFacts = NODE) -> list[str]:
        """The names of the pods that are decoded."""
        self.of(*pods, node=node)
        return self.asked

    def _read(self, reader: PodReader) -> Iterator[Allocation]:
        name = reader.pod.name
        self.asked.append(name)
        if name in self.held:
            self.begun.set()
            assert self.held[name].wait(60)
        self.clock.move(self.seconds.get(reader.pod.namespace, 0))
        for container in reader.lasting:
            yield from reader.allocate(container, reader.node.devices, Share(0.5, None))


def _ties(pod: Pod, _: Sequence[Grant]) -> Iterator[tuple[Tie, Said]]:
    if "tie" in pod.labels:
        yield ("tie", pod.labels["tie"]), (pod.name,)


ONE, TWO, THREE = (pod(name) for name in ("one", "two", "three"))
TIED, TIED_TOO = (pod(name, labels={"tie": "t"}) for name in ("tied", "tied-too"))
CLAIMING = pod("claiming", containers=(Container("a", claims=(ClaimRef("c"),)),))
ALL = (ONE, TWO, TIED, CLAIMING)
EVERY = [one.name for one in ALL]


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({}, []),
        ({"labels": {"a": "b"}}, EVERY),
        ({"allocatable": {"a/b": "9"}}, EVERY),
        ({"devices": (Device("GPU-1", 0, "nvidia"),)}, EVERY),
        ({"grants": {TWO.uid: (Grant("a", "a/b", ("x",)),)}}, ["two"]),
        ({"grants": {"uid-else": (Grant("a", "a/b", ("x",)),)}}, []),
        ({"claims": {(OTHER, "c"): (ClaimedDevice("r", "d", "p", "x"),)}}, ["claiming"]),
        ({"claims": {("else", "c"): (ClaimedDevice("r", "d", "p", "x"),)}}, []),
    ],
)
def test_a_pod_is_decoded_again_when_a_fact_that_it_names_changed(
    change: dict[str, object], again: list[str]
) -> None:
    counting = Counting()
    assert counting.after(*ALL) == EVERY
    node = replace(NODE, **change)  # type: ignore[arg-type] # fields of NodeFacts
    assert counting.after(*ALL, node=node) == again


def test_a_pod_is_decoded_again_when_it_changed_and_no_other_is() -> None:
    counting = Counting()
    counting.of(*ALL)
    assert counting.after(ONE, THREE, replace(TWO, labels={"a": "b"}), TIED) == ["three", "two"]
    assert counting.after(ONE, THREE) == []


def test_a_pod_is_decoded_again_when_one_that_it_has_a_tie_with_comes_changes_or_ends() -> None:
    counting = Counting()
    counting.of(*ALL)
    assert sorted(counting.after(*ALL, TIED_TOO)) == ["tied", "tied-too"]
    changed = replace(TIED_TOO, labels={"tie": "else"})
    assert sorted(counting.after(*ALL, changed)) == ["tied", "tied-too"]
    counting.of(*ALL, TIED_TOO)
    assert counting.after(*ALL, replace(TIED_TOO, phase="Failed")) == ["tied"]


def test_all_pods_are_decoded_again_by_other_rules() -> None:
    counting = Counting()
    counting.of(*ALL)
    counting.allocations.rules = counting.rules()
    assert counting.after(*ALL) == EVERY


def named(allocated: Sequence[Allocated]) -> list[str]:
    return [key.pod for key, _ in allocated]


def test_a_pod_that_takes_long_to_decode_delays_no_other() -> None:
    counting = Counting()
    slow, pending = pod("slow", MINE), {(MINE, "slow"): Unmeasured.ALLOCATION_PENDING}
    release = counting.held["slow"] = threading.Event()
    with counting.allocations.beside():
        assert named(counting.of(ONE)) == ["one"]
        assert named(counting.of(ONE, slow)) == ["one"]
        assert counting.begun.wait(60)
        assert counting.allocations.undecoded == pending
        # A pod that is there already goes on with what it has, and one that ends has nothing.
        changed = replace(ONE, labels={"a": "b"})
        assert named(counting.of(changed, slow, TWO)) == ["one"]
        assert counting.allocations.undecoded.keys() == {(MINE, "slow"), (OTHER, "two")}
        assert named(counting.of(replace(ONE, phase="Failed"), slow, TWO)) == []
        release.set()
        assert named(counting.of(changed, slow, TWO)) == ["one", "slow", "two"]
        assert not counting.allocations.undecoded


def test_what_is_done_meanwhile_is_taken_by_a_later_cycle() -> None:
    counting = Counting()
    slow = pod("slow", MINE)
    release = counting.held["slow"] = threading.Event()
    with counting.allocations.beside():
        counting.of(ONE)
        counting.of(ONE, slow)
        table = indexed({one.uid: one for one in (ONE, slow)}, counting.version)
        release.set()
        decoding = counting.allocations._decoding
        with decoding._news:
            assert decoding._news.wait_for(lambda: slow.uid in decoding.newest.found, 60)
        assert named(counting.allocations.of(table, NODE, dict)) == ["one", "slow"]


def test_the_namespace_on_which_least_time_was_spent_is_next() -> None:
    counting = Counting()
    counting.seconds = {MINE: 1, OTHER: 0.1}
    pods = [pod(f"m{n}", MINE) for n in range(4)] + [pod(f"o{n}") for n in range(4)]
    decoder = Decoder(counting.clock)
    table = indexed({one.uid: one for one in pods}, 1)
    decoder.take(Asked(1, table, NODE, counting.rules()))
    while decoder.step():
        pass
    assert counting.asked == ["m0", "o0", "o1", "o2", "o3", "m1", "m2", "m3"]


def test_a_defect_of_a_tie_costs_no_cycle(caplog: pytest.LogCaptureFixture) -> None:
    counting = Counting()

    def broken(pod: Pod, _: Sequence[Grant]) -> Iterator[tuple[Tie, Said]]:
        raise AssertionError(pod)

    with counting.allocations.beside():
        counting.of(ONE)
        [scheme] = counting.allocations.rules.schemes
        counting.allocations.rules = Rules((replace(scheme, ties=broken),))
        assert named(counting.of(ONE)) == ["one"]
    assert "decoding pods failed" in caplog.text


def sized(**sizes: int) -> dict[str, int]:
    """So many allocations of pods; a pod's namespace is the first letter of its name."""
    return sizes


@pytest.mark.parametrize(
    ("sizes", "before", "kept"),
    [
        (sized(a1=5, b1=5), (), "a1 b1"),
        (sized(a1=9, a2=9, a3=9, b1=1, b2=1), (), "b1 b2"),
        (sized(a1=4, a2=4, a3=4, b1=1, b2=1), (), "a1 a2 b1 b2"),
        (sized(a1=4, a2=4, a3=4, b1=1, b2=1), ("a3",), "a1 a3 b1 b2"),
        (sized(a1=8, a2=2, b1=8, b2=2), (), "a2 b1"),  # what a leaves of its half is b's
        (sized(a1=8, a2=5, b1=4, c1=1), (), "a2 b1 c1"),
        (sized(a1=11), (), ""),
    ],
)
def test_each_namespace_has_an_equal_part_of_the_room(
    sizes: dict[str, int], before: tuple[str, ...], kept: str
) -> None:
    names = {uid: uid[0] for uid in sizes}
    assert " ".join(sorted(within(sizes, names, before, 10))) == kept


def many(name: str, count: int, namespace: str = MINE) -> Pod:
    return pod(name, namespace, containers=tuple(Container(f"c{n}") for n in range(count)))


def test_a_pod_with_too_many_allocations_has_none_that_is_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counting = Counting()
    most = pod("most", containers=many("most", MAX_OF_POD).containers, labels={"a": "b"})
    over = [replace(many(f"m{n}", MAX_OF_POD + 1), labels={"a": "b"}) for n in range(MAX_LINES + 3)]
    found = counting.of(most, *over)
    assert set(named(found)) == {"most"}
    assert len(found) == MAX_OF_POD
    reason = Unmeasured.ALLOCATION_OVER_LIMIT
    assert counting.allocations.undecoded == {(MINE, one.name): reason for one in over}
    assert counting.allocations.problems == {"too_many_allocations": len(over)}
    assert caplog.text.count("too_many_allocations") == MAX_LINES


def test_of_more_allocations_than_a_node_has_room_for_a_namespace_has_its_part() -> None:
    """Those that had theirs keep them."""
    counting = Counting()
    mine = [replace(many(f"m{n}", MAX_OF_POD), labels={"a": "b"}) for n in range(10)]
    assert len(counting.of(*mine)) == MAX_OF_NODE
    theirs = [replace(many(f"o{n}", 200, OTHER), labels={"a": "b"}) for n in range(3)]
    before = set(named(counting.of(*mine)))
    found = named(counting.of(*theirs, *mine))
    assert {"o0", "o1", "o2"} < set(found)
    assert set(found) - {"o0", "o1", "o2"} < before
    assert MAX_OF_NODE - MAX_OF_POD < len(found) <= MAX_OF_NODE


def test_a_pod_that_comes_to_ask_for_too_much_has_one_row_with_the_reason() -> None:
    """Its account of before, which has no device, is still open."""
    bench = Bench()
    bench.use(7, SECOND // 2)
    bench.name_pod(replace(POD, containers=(replace(POD.containers[0], container_ids=()),)))
    bench.cycle()
    asking = POD.containers[0]
    more = (replace(asking, name=f"c{n}", container_ids=()) for n in range(MAX_OF_POD))
    bench.name_pod(replace(POD, containers=(asking, *more)))
    for _ in range(2):
        holdings = bench.cycle().facts.containers
    labels = [(*one.owner, one.uuid) for one in holdings]
    assert len(set(labels)) == len(labels)
    reasons = dict.fromkeys(("core_limit", "memory_limit"), Unmeasured.ALLOCATION_OVER_LIMIT)
    assert [one.unmeasured for one in holdings if not one.owner.container] == [reasons]
