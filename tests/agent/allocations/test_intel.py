from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.schemes.intel import SCHEME
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import NodeFacts, Pod
from tests.agent.allocations.build import CARD_MEMORY, card, container, decoder, granted, node, pod


def decode(own: Pod, known: NodeFacts) -> Decoded:
    """Return what a pod is read as beside those that hold the other grants."""
    others = [Pod(uid, "n", uid) for uid in known.grants if uid != own.uid]
    return decoder(SCHEME)(own, Rules().tied(known, [own, *others]))


I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"
CARDS = tuple(replace(card(index, vendor="intel"), minor=index + 1) for index in range(2))
AS_MANY = {I915: "2"}
SHARED = {I915: "10"}
Placed = tuple[str | None, float | None, int | None, int | None]


def knowing(
    allocatable: Mapping[str, str], grants: Mapping[str, Sequence[str]] | None = None
) -> NodeFacts:
    facts = node(*CARDS, allocatable={"cpu": "8", **allocatable})
    return replace(facts, grants=granted(grants or {}))


@pytest.mark.parametrize(
    ("facts", "limits", "placed"),
    [
        pytest.param(
            knowing(AS_MANY, {I915: ["card2-0"]}),
            {I915: "1"},
            [("intel-1", 1.0, CARD_MEMORY, None)],
            id="whole",
        ),
        pytest.param(
            knowing({I915: "1", XE: "1"}, {I915: ["card1-0"], XE: ["card2-0"]}),
            {I915: "1", XE: "1"},
            [(f"intel-{n}", 1.0, CARD_MEMORY, None) for n in range(2)],
            id="a card of each driver",
        ),
        pytest.param(
            knowing(AS_MANY, {I915: ["card7-0"]}),
            {I915: "1"},
            [(None, 1.0, CARD_MEMORY, None)],
            id="a card that is not known",
        ),
        pytest.param(
            knowing(AS_MANY), {I915: "2"}, [(None, 1.0, CARD_MEMORY, None)] * 2, id="not placed"
        ),
        pytest.param(
            knowing(SHARED, {I915: ["card1-0"]}),
            {I915: "1"},
            [("intel-0", None, None, 1)],
            id="shared, by what the node offers",
        ),
        pytest.param(
            knowing({}, {I915: ["card1-0", "card1-3", "card2-1"]}),
            {I915: "3"},
            [("intel-0", None, None, 2), ("intel-1", None, None, 1)],
            id="shared, by ids",
        ),
        pytest.param(
            knowing(SHARED), {I915: "3"}, [(None, None, None, 3)], id="shared, not placed"
        ),
        pytest.param(
            knowing({}, {I915: ["card1-0"]}),
            {I915: "1"},
            [("intel-0", None, None, None)],
            id="it cannot be told",
        ),
        pytest.param(
            knowing(AS_MANY, {I915: ["card1-0", "all"]}),
            {I915: "1"},
            [(None, 1.0, CARD_MEMORY, None)],
            id="another plugin's id",
        ),
    ],
)
def test_request_means_a_card_or_a_share_of_one(
    facts: NodeFacts, limits: dict[str, str], placed: list[Placed]
) -> None:
    decoded = decode(pod(container(limits=limits)), facts)
    found = [(a.device, a.core, a.memory_bytes, a.replicas) for a in decoded.allocations]
    assert found == placed
    assert {a.policy for a in decoded.allocations} == {"shared" if placed[0][3] else ""}
    assert decoded.problems == ()


@pytest.mark.parametrize("resource", ["gpu.intel.com/monitoring", "gpu.intel.com/i915_monitoring"])
def test_access_for_monitoring_is_no_allocation(resource: str) -> None:
    facts = knowing(AS_MANY, {resource: ["all"]})
    assert decode(pod(container(limits={resource: "1"})), facts) == Decoded()


def test_share_of_another_pod_tells_that_cards_are_shared() -> None:
    others = granted({I915: ["card1-1"]}, pod_uid="other")
    facts = replace(knowing({}), grants=granted({I915: ["card1-0"]}) | others)
    decoded = decode(pod(container(limits={I915: "1"})), facts)
    assert [(a.device, a.replicas) for a in decoded.allocations] == [("intel-0", 1)]


@pytest.mark.parametrize(
    ("limits", "facts", "reason", "count"),
    [
        ({I915: "1"}, node(*CARDS), Reason.NODE_UNKNOWN, 1),
        ({I915: "1.5"}, knowing(AS_MANY), Reason.BAD_QUANTITY, 0),
        ({I915: "65"}, knowing(AS_MANY), Reason.TOO_MANY_DEVICES, 0),
    ],
)
def test_bad_part_is_counted(
    limits: dict[str, str], facts: NodeFacts, reason: Reason, count: int
) -> None:
    decoded = decode(pod(container(limits=limits)), facts)
    assert [p.reason for p in decoded.problems] == [reason]
    assert [(a.core, a.memory_bytes) for a in decoded.allocations] == [(None, None)] * count
