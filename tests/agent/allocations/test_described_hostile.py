"""Whatever is described and whatever a pod says, decoding ends, and what it yields can be true."""

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.allocations.described import scheme_of
from exporter.agent.allocations.quantities import MAX_MEMORY_BYTES
from exporter.agent.allocations.reader import MAX_CARDS
from exporter.agent.allocations.registry import read_by
from exporter.agent.allocations.rules import make
from exporter.agent.allocations.terms import Reason
from exporter.model import Container, NodeFacts, Pod, SchemeDescription
from tests.agent.allocations.test_hostile import DEVICES, NAMES, NUMBERS, UUIDS, VALUES

RESOURCES = ("x.example/core", "x.example/memory", "x.example/count")
POLICY = "x.example/policy"
LISTS = st.lists(st.one_of(UUIDS, NUMBERS), max_size=4).map(",".join)


def perhaps(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["", text])


DESCRIPTIONS = st.builds(
    SchemeDescription,
    name=st.just("x"),
    core_resource=perhaps(RESOURCES[0]),
    core_units=st.integers(1, 1_000_000),
    memory_resource=perhaps(RESOURCES[1]),
    memory_unit=st.integers(1, 1 << 40),
    count_resource=perhaps(RESOURCES[2]),
    amounts=st.sampled_from(["total", "each"]),
    count_alone=st.sampled_from(["whole-cards", "no-limit"]),
    placement_annotation=st.sampled_from(["", "x/y", "x/y-{container}", "x/y-{index}-z"]),
    index_basis=st.sampled_from(["nvml_index", "minor", "pci", "uuid"]),
    policy_annotation=perhaps(POLICY),
    policy_node_label=perhaps(POLICY),
)
CONTAINERS = st.lists(
    st.builds(
        Container,
        name=st.sampled_from((*NAMES, "{index}")),
        kind=st.sampled_from(["app", "init", "sidecar", "ephemeral"]),
        limits=st.dictionaries(st.sampled_from(RESOURCES), NUMBERS, max_size=3),
    ),
    max_size=4,
    unique_by=lambda container: container.name,
).map(tuple)
KEYS = st.sampled_from(
    ["x/y", POLICY, *(f"x/y-{name}{end}" for name in NAMES for end in ("", "-z"))]
)
PODS = st.builds(
    Pod,
    uid=st.just("u"),
    namespace=st.just("n"),
    name=st.just("p"),
    containers=CONTAINERS,
    annotations=st.dictionaries(KEYS, st.one_of(VALUES, LISTS), max_size=4),
)
NODES = st.builds(
    NodeFacts,
    devices=DEVICES,
    labels=st.dictionaries(st.just(POLICY), VALUES),
    index_bases=st.dictionaries(st.just("x"), st.sampled_from(["minor", "pci", "uuid", "?"])),
)


@given(about=DESCRIPTIONS, pod=PODS, node=NODES)
@settings(deadline=None)
def test_any_input_gives_allocations_that_can_be_true(
    about: SchemeDescription, pod: Pod, node: NodeFacts
) -> None:
    decoded = read_by(scheme_of(about), pod, node)  # not the registry's: its guard hides a raise

    names = {container.name for container in pod.containers}
    for allocation in decoded.allocations:
        assert allocation.container in names
        assert allocation.device in {None, *(device.uuid for device in node.devices)}
        assert allocation.core is None or 0 < allocation.core <= 1
        assert allocation.memory_bytes is None or 0 < allocation.memory_bytes <= MAX_MEMORY_BYTES
        assert len(allocation.policy) <= 63
        assert allocation.policy.isprintable()
    placed = [(a.container, a.device) for a in decoded.allocations if a.device]
    assert len(set(placed)) == len(placed)
    assert len(decoded.allocations) <= MAX_CARDS * len(pod.containers)
    assert all(len(problem.detail) <= 200 for problem in decoded.problems)


@given(about=DESCRIPTIONS, pod=PODS, node=NODES)
@settings(deadline=None)
def test_no_input_makes_the_registry_meet_a_defect(
    about: SchemeDescription, pod: Pod, node: NodeFacts
) -> None:
    decoded = make([about]).decode(pod, node)

    assert Reason.DECODER_ERROR not in {problem.reason for problem in decoded.problems}
