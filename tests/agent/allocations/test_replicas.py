"""Into how many replicas devices are divided: by the node's labels, else by what it offers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.allocations.replicas import LastOffers, sharing_replicas
from exporter.model import Device, Grant, NodeFacts

GPU = "nvidia.com/gpu"
CARDS = tuple(Device(f"GPU-{n}", n, "nvidia") for n in range(2))
PARTS = (
    CARDS[0],
    Device("MIG-0", 0, "nvidia", parent_uuid="GPU-0", profile="1g.5gb+me"),
    Device("MIG-1", 1, "nvidia", parent_uuid="GPU-0", profile="2g.10gb"),
    CARDS[1],
)
ARC = Device("drm-0", 0, "intel")
GKE = "cloud.google.com/gke-max-shared-clients-per-gpu"


@pytest.mark.parametrize(
    ("devices", "labels", "allocatable", "expected"),
    [
        pytest.param(CARDS, {f"{GPU}.replicas": "4"}, {}, {"GPU-0": 4, "GPU-1": 4}, id="GFD"),
        pytest.param(CARDS, {f"{GPU}.replicas": "1"}, {}, {}, id="not shared"),
        pytest.param(CARDS, {f"{GPU}.replicas": "1"}, {GPU: "8"}, {}, id="the label counts"),
        pytest.param(
            CARDS,
            {f"{GPU}.replicas": "1"},
            {f"{GPU}.shared": "8"},
            {"GPU-0": 4, "GPU-1": 4},
            id="a label of 1 does not count against what is offered as shared",
        ),
        pytest.param(CARDS, {f"{GPU}.replicas": "four"}, {}, {}, id="not a number"),
        pytest.param(CARDS, {f"{GPU}.replicas": "1" * 18}, {}, {}, id="beyond belief"),
        pytest.param(CARDS, {GKE: "3"}, {}, {"GPU-0": 3, "GPU-1": 3}, id="GKE"),
        pytest.param(CARDS, {}, {GPU: "20"}, {"GPU-0": 10, "GPU-1": 10}, id="counted"),
        pytest.param(CARDS, {}, {f"{GPU}.shared": "4"}, {"GPU-0": 2, "GPU-1": 2}, id="renamed"),
        pytest.param(CARDS, {}, {GPU: "2"}, {}, id="one each"),
        pytest.param(CARDS, {}, {GPU: "7"}, {}, id="not alike"),
        pytest.param(CARDS, {}, {GPU: "many"}, {}, id="no quantity"),
        pytest.param(CARDS, {"hami.io/x": ""}, {GPU: "20"}, {}, id="HAMi's are no replicas"),
        pytest.param(
            PARTS,
            {
                "nvidia.com/mig-1g.5gb.me.replicas": "2",
                "nvidia.com/mig-2g.10gb.replicas": "1",
                f"{GPU}.replicas": "0",
            },
            {},
            {"MIG-0": 2},
            id="instances by their profile, the board itself never",
        ),
        pytest.param(
            PARTS[:3], {f"{GPU}.replicas": "2"}, {}, {"MIG-0": 2, "MIG-1": 2}, id="MIG, single"
        ),
        pytest.param(
            (*CARDS, ARC), {}, {"gpu.intel.com/i915": "5"}, {"drm-0": 5}, id="Intel, counted"
        ),
        pytest.param((replace(ARC, vendor="x"),), {GKE: "3"}, {GPU: "3"}, {}, id="unknown vendor"),
        pytest.param((), {f"{GPU}.replicas": "4"}, {GPU: "4"}, {}, id="no devices"),
    ],
)
def test_replicas_are_those_that_the_node_states_or_else_offers(
    devices: tuple[Device, ...],
    labels: dict[str, str],
    allocatable: dict[str, str],
    expected: dict[str, int],
) -> None:
    node = NodeFacts(devices, labels=labels, allocatable=allocatable)

    assert sharing_replicas(node) == expected


THREE = (*CARDS, Device("GPU-2", 2, "nvidia"))
ARCS = (ARC, replace(ARC, uuid="drm-1", index=1))
XE = "gpu.intel.com/xe"


@pytest.mark.parametrize(
    ("before", "now", "name", "expected"),
    [
        pytest.param((THREE, "3"), (CARDS, "3"), GPU, 1, id="a card is lost, and still offered"),
        pytest.param((THREE, "12"), (CARDS, "12"), GPU, 4, id="a shared card is lost"),
        pytest.param((THREE, "12"), (CARDS, "8"), GPU, 4, id="and is offered no more"),
        pytest.param((THREE, "12"), (THREE, "8"), GPU, 4, id="a card is unhealthy"),
        pytest.param((THREE, "12"), (THREE, "0"), GPU, 4, id="the plugin starts anew"),
        pytest.param((THREE, "12"), ((), "12"), GPU, 4, id="the driver starts anew"),
        pytest.param((CARDS, "8"), (THREE, "8"), GPU, 4, id="a card comes, and is not offered yet"),
        pytest.param((THREE, "12"), (THREE, "6"), GPU, 2, id="the plugin is set otherwise"),
        pytest.param((THREE, "3"), (THREE, "6"), GPU, 2, id="the plugin begins to share"),
        pytest.param((ARCS, "4"), (ARCS[:1], "4"), XE, 2, id="Intel"),
    ],
)
def test_what_was_last_offered_of_all_devices_counts_while_they_do_not_agree(
    before: tuple[tuple[Device, ...], str],
    now: tuple[tuple[Device, ...], str],
    name: str,
    expected: int,
) -> None:
    offers = LastOffers()
    for devices, offered in (before, now):
        found = offers.replicas(NodeFacts(devices, allocatable={name: offered}))
    assert found[name] == expected


def test_a_card_that_was_lost_before_the_start_is_counted_by_its_label() -> None:
    labels = {f"{GPU}.count": "4", f"{GPU}.replicas": "1"}
    node = NodeFacts(CARDS, labels=labels, allocatable={GPU: "4"})
    assert LastOffers().replicas(node)[GPU] == 1


def test_a_replicas_id_shows_that_its_card_is_shared_whatever_the_label_says() -> None:
    grants = {"uid": (Grant("main", GPU, ("GPU-1::3",)),)}
    node = NodeFacts(CARDS, labels={f"{GPU}.replicas": "1"}, allocatable={GPU: "8"}, grants=grants)
    assert sharing_replicas(node) == {"GPU-1": 4}


def test_hami_is_known_by_its_annotations_too() -> None:
    annotations = {"hami.io/node-nvidia-register": "…"}
    node = NodeFacts(CARDS, annotations=annotations, allocatable={GPU: "20"})

    assert sharing_replicas(node) == {}


KEYS = st.sampled_from([f"{GPU}.replicas", GKE, GPU, f"{GPU}.shared", "hami.io/"])
NUMBERS = st.one_of(st.integers().map(str), st.text("01.5kGi-é", max_size=20))
FACTS = st.dictionaries(KEYS, NUMBERS)


@given(st.lists(st.sampled_from([*PARTS, ARC]), unique=True), FACTS, FACTS)
def test_whatever_the_node_says_a_device_has_several_replicas_or_nothing_is_said(
    devices: list[Device], labels: dict[str, str], allocatable: dict[str, str]
) -> None:
    found = sharing_replicas(NodeFacts(tuple(devices), labels=labels, allocatable=allocatable))

    assert found.keys() <= {device.uuid for device in devices}
    assert all(1 < count <= 10_000 for count in found.values())
