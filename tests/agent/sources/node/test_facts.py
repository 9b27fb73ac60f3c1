from dataclasses import fields

from exporter.agent.sources.node.nodesource import (
    CONTRIBUTED,
    NOT_CONTRIBUTED,
    StaticNodeSource,
    merged,
)
from exporter.model import ClaimedDevice, Device, Grant, NodeFacts, OfferedDevice
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.node.pods import table

FULL = NodeFacts(
    labels={"a": "1"},
    annotations={"a": "1"},
    allocatable={"a": "1"},
    grants={"u": (Grant("c", "r", ("1",)),)},
    claims={("n", "c"): ()},
    offered={("d", "p", "x"): OfferedDevice()},
    card_policies={0: "fixed-share"},
    index_bases={"s": "minor"},
)


def test_contributions_are_put_together_and_the_later_one_counts() -> None:
    first = NodeFacts(labels={"a": "1", "b": "1"}, card_policies={0: "x"})
    second = NodeFacts(labels={"b": "2"}, card_policies={1: "y"})

    facts = merged((first, second))

    assert facts == NodeFacts(labels={"a": "1", "b": "2"}, card_policies={0: "x", 1: "y"})


def test_a_source_that_does_not_know_yet_hides_nothing_that_another_knows() -> None:
    """A claim that the API server is still asked for, and that the kubelet has reported."""
    claim = (ClaimedDevice("", "d", "p", "x"),)
    first, second = NodeFacts(claims={("n", "c"): claim}), NodeFacts(claims={("n", "c"): ()})

    assert merged((first, second)) == merged((second, first)) == first


def test_every_field_but_the_cycles_own_is_contributed() -> None:
    device = (Device("GPU-0", 0, "nvidia"),)
    own = NodeFacts(device, ties={("n", "c"): {("",): 1}}, replicas={"r": 2}, numbered=device)

    assert merged((FULL,)) == FULL
    assert all(getattr(FULL, name) for name in CONTRIBUTED)
    assert merged((own,)) == merged(()) == NodeFacts()
    assert {field.name for field in fields(NodeFacts)} == {*CONTRIBUTED, *NOT_CONTRIBUTED}


def test_what_is_told_is_told_again_at_once() -> None:
    clock = ManualClock()
    node = StaticNodeSource("node_api", lambda: FULL, clock)
    node.start()

    assert node.facts(table()) is FULL
    assert node.status().up
    assert node.status().last_success_unix_ns == clock.time_ns()
    assert node.rejected() == {}
    node.close()
