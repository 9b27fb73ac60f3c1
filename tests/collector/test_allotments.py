"""Which device an allotment is on, by which rules it was read."""

from dataclasses import replace

import pytest

from exporter.allocations.rules import Rules, make
from exporter.allocations.scheme import Decoded, IndexBasis, Scheme
from exporter.collector.allotments import Allotments
from exporter.ledger import Allotted
from exporter.model import Device, NodeFacts, Pod, SchemeDescription
from exporter.pods.table import indexed
from tests.allocations.build import container, pod

# NVML index 0, 1, 2 in the order of the list; minor and PCI place differ from it and each other.
MINORS, PLACES = (2, 0, 1), (1, 2, 0)
NODE = NodeFacts(
    devices=tuple(
        Device(
            f"GPU-{index}",
            index,
            "nvidia",
            minor=MINORS[index],
            pci_bus_id=f"0000:0{PLACES[index]}:00.0",
        )
        for index in range(3)
    )
)
MGPU = "vke.volcengine.com/"
POD = pod(
    container("a", {f"{MGPU}mgpu-core": "30"}),
    annotations={f"{MGPU}gpu-index-container-a": "2"},
)
TABLE = indexed({POD.uid: POD}, 1)


def devices(allotted: list[Allotted]) -> list[str | None]:
    return [allocation.device for _, allocation in allotted]


@pytest.mark.parametrize(
    ("basis", "device"),
    [(None, "GPU-2"), ("nvml_index", "GPU-2"), ("minor", "GPU-0"), ("pci", "GPU-1")],
)
def test_an_override_says_which_card_a_number_means(basis: str | None, device: str) -> None:
    rules = make((), {"vke-mgpu": basis} if basis else {})
    assert devices(Allotments(rules).of(TABLE, NODE, {})) == [device]


def test_an_override_is_for_its_scheme_alone() -> None:
    allotments = Allotments(make((), {"tke-qgpu": "minor"}))
    assert devices(allotments.of(TABLE, NODE, {})) == ["GPU-2"]


def test_other_rules_are_followed_from_the_next_cycle_on() -> None:
    allotments = Allotments(Rules())
    before = devices(allotments.of(TABLE, NODE, {}))
    allotments.rules = make((), {"vke-mgpu": "pci"})
    after = devices(allotments.of(TABLE, NODE, {}))
    own = SchemeDescription(
        name="mine",
        core_resource=f"{MGPU}mgpu-core",
        core_units=60,
        placement_annotation=f"{MGPU}gpu-index-container-{{container}}",
        replaces=("vke-mgpu",),
    )
    allotments.rules = make([own])
    [(_, replaced)] = allotments.of(TABLE, NODE, {})

    assert (before, after) == (["GPU-2"], ["GPU-1"])
    assert (replaced.scheme, replaced.core, replaced.device) == ("mine", 0.5, "GPU-2")


def test_pods_are_decoded_again_only_when_pods_node_or_rules_changed() -> None:
    decoded = []

    def count(seen: Pod, _node: NodeFacts) -> Decoded:
        decoded.append(seen)
        return Decoded()

    counting = Scheme("counting", (), (), IndexBasis.UUID, count)
    allotments = Allotments(Rules((counting,)))
    for table, node, times in (
        (TABLE, NODE, 1),
        (TABLE, NODE, 1),
        (replace(TABLE, version=2), NODE, 2),
        (replace(TABLE, version=2), NodeFacts(), 3),
    ):
        allotments.of(table, node, {})
        assert len(decoded) == times
    allotments.rules = Rules((counting,))
    allotments.of(replace(TABLE, version=2), NodeFacts(), {})
    assert len(decoded) == 4
