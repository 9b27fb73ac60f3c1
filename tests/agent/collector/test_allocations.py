"""Which device an allocation is on, by which rules it was read."""

from dataclasses import replace
from typing import Any

import pytest

from exporter.agent.allocations.rules import Rules, make
from exporter.agent.attribution.ownership import Member
from exporter.agent.collector.podallocations import Allocations
from exporter.agent.ledger import Allocated
from exporter.agent.sources.pods.podtable import indexed
from exporter.model import (
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
    SchemeDescription,
)
from tests.agent.allocations.build import container, pod

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


def devices(allocated: list[Allocated]) -> list[str | None]:
    return [allocation.device for _, allocation in allocated]


@pytest.mark.parametrize(
    ("basis", "device"),
    [(None, "GPU-2"), ("nvml_index", "GPU-2"), ("minor", "GPU-0"), ("pci", "GPU-1")],
)
def test_an_override_says_which_card_a_number_means(basis: str | None, device: str) -> None:
    rules = make((), {"vke-mgpu": basis} if basis else {})
    assert devices(Allocations(rules).of(TABLE, NODE, dict)) == [device]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2048"}, "what else is read of it"),
        ({"nvidia.com/gpu": "1k"}, "its limits are not exported"),
    ],
)
def test_the_log_says_whether_anything_of_a_pod_is_exported(
    limits: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = "hami.io/vgpu-devices-allocated"
    own = Pod(
        "u", "n", "p", containers=(Container("a", limits=limits),), annotations={key: "GPU-0"}
    )
    found = Allocations(Rules()).of(indexed({own.uid: own}, 1), NODE, dict)
    assert ("what else" in said) == bool(found)
    assert said in caplog.text


def test_an_override_is_for_its_scheme_alone() -> None:
    allocations = Allocations(make((), {"tke-qgpu": "minor"}))
    assert devices(allocations.of(TABLE, NODE, dict)) == ["GPU-2"]


def test_other_rules_are_followed_from_the_next_cycle_on() -> None:
    allocations = Allocations(Rules())
    before = devices(allocations.of(TABLE, NODE, dict))
    allocations.rules = make((), {"vke-mgpu": "pci"})
    after = devices(allocations.of(TABLE, NODE, dict))
    own = SchemeDescription(
        name="mine",
        core_resource=f"{MGPU}mgpu-core",
        core_units=60,
        placement_annotation=f"{MGPU}gpu-index-container-{{container}}",
        replaces=("vke-mgpu",),
    )
    allocations.rules = make([own])
    [(_, replaced)] = allocations.of(TABLE, NODE, dict)

    assert (before, after) == (["GPU-2"], ["GPU-1"])
    assert (replaced.scheme, replaced.core, replaced.device) == ("mine", 0.5, "GPU-2")


def test_a_fraction_is_placed_by_a_reservation_that_comes_later() -> None:
    group = {"runai-gpu-group": "g"}
    part = pod(container("a"), annotations={"gpu-fraction": "0.5"}, labels=group)
    uuid = {"run.ai/reserve_for_gpu_index": "GPU-1"}
    reserving = Pod("r", "kai-resource-reservation", "r", labels=group)
    placing = replace(reserving, annotations=uuid)
    allocations = Allocations(Rules())
    tables: tuple[dict[str, Pod], ...] = ({}, {"r": reserving}, {"r": placing})
    found = [
        devices(allocations.of(indexed({part.uid: part, **more}, version), NODE, dict))
        for version, more in enumerate(tables, 1)
    ]
    assert found == [[], [None], ["GPU-1"]]


def test_a_claim_that_a_second_pod_takes_up_promises_nothing_any_more() -> None:
    first = Pod("1", "n", "1", containers=(Container("a", claims=(ClaimRef("c"),)),))
    second = replace(first, uid="2", name="2")
    claimed = ClaimedDevice("r", "gpu.nvidia.com", "p", "gpu-0")
    memory = {("gpu.nvidia.com", "p", "gpu-0"): OfferedDevice(capacity={"memory": "10Gi"})}
    node = replace(NODE, claims={("n", "c"): (claimed,)}, offered=memory)
    allocations = Allocations(Rules())
    [(_, alone)] = allocations.of(indexed({"1": first}, 1), node, dict)
    [(_, shared), _] = allocations.of(indexed({"1": first, "2": second}, 2), node, dict)
    assert (alone.memory_bytes, shared.memory_bytes) == (10 << 30, None)


def test_where_processes_are_is_asked_only_for_an_allocation_without_a_device() -> None:
    def asked() -> dict[Member, list[str]]:
        raise AssertionError

    allocations = Allocations(make((), {"tke-qgpu": "minor"}))
    assert devices(allocations.of(TABLE, NODE, asked)) == ["GPU-2"]


HAMI_CARDS = NodeFacts(
    devices=NODE.devices,
    grants={POD.uid: (Grant("a", "nvidia.com/gpu", ("GPU-1-3",)),)},
    annotations={"hami.io/node-nvidia-register": "GPU-0,10,1024,100,NVIDIA-X,0,true:"},
)
HAMI_POD = pod(
    container("a", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024"}),
    annotations={"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1024,0:;"},
)
HAMI_TABLE = indexed({HAMI_POD.uid: HAMI_POD}, 1)


@pytest.mark.parametrize(
    ("seen", "counted"),
    [
        ([], 0),
        (["GPU-0"], 0),  # the kubelet's choice is arbitrary by default
        (["GPU-0", "GPU-1"], 0),
        (["GPU-2"], 0),
        (["GPU-1"], 1),
    ],
)
def test_a_grant_of_another_card_counts_once_the_container_is_seen_there(
    seen: list[str], counted: int
) -> None:
    allocations = Allocations(Rules())
    where = {Member(HAMI_POD.uid, "a"): seen}
    for _ in range(3):
        [allocated] = allocations.of(HAMI_TABLE, HAMI_CARDS, lambda: where)
        assert (allocated.allocation.device, allocated.allocation.memory_bytes) == (
            "GPU-0",
            1 << 30,
        )
    assert allocations.problems == ({"grant_differs": 1} if counted else {})


def test_what_was_suspected_of_a_pod_is_forgotten_with_it() -> None:
    allocations = Allocations(Rules())
    allocations.of(HAMI_TABLE, HAMI_CARDS, dict)
    asked: list[int] = []

    def seen() -> dict[Member, list[str]]:
        asked.append(1)
        return {Member(HAMI_POD.uid, "a"): ["GPU-1"]}

    allocations.of(indexed({}, 2), HAMI_CARDS, seen)
    assert (asked, allocations.problems) == ([], {})


@pytest.mark.parametrize("end", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"deleted": True}])
def test_an_ended_pod_has_its_last_allocation_beside_it_until_it_goes(end: dict[str, Any]) -> None:
    allocations = Allocations(Rules())
    living = allocations.of(TABLE, NODE, dict)

    for version in (2, 3):
        ended = indexed({POD.uid: replace(POD, **end)}, version)
        assert not allocations.of(ended, NODE, dict)
        assert [(key, of.scheme) for key, of in allocations.ended] == [
            (key, of.scheme) for key, of in living
        ]
    allocations.of(indexed({}, 4), NODE, dict)
    assert not allocations.ended


def test_an_ended_pod_has_no_allocation_once_another_pod_has_its_name() -> None:
    allocations = Allocations(Rules())
    allocations.of(TABLE, NODE, dict)
    gone, next_one = replace(POD, deleted=True), replace(POD, uid="the-next-of-this-name")

    allocations.of(indexed({gone.uid: gone}, 2), NODE, dict)
    assert allocations.ended
    allocations.of(indexed({gone.uid: gone, next_one.uid: next_one}, 3), NODE, dict)
    assert not allocations.ended


PARTED_CLAIM = ClaimedDevice("gpu", "gpu.nvidia.com", "n1", "gpu-0-mig-1g.10gb-19-4")
OF_BOARD = {"type": "mig", "parentUUID": "GPU-0", "profile": "1g.10gb"}
CLAIMANT = Pod(
    "u",
    "n",
    "p",
    containers=(Container("a", claims=(ClaimRef("c"),)),),
)
INSTANCE = Device(
    "MIG-0",
    0,
    "nvidia",
    parent_uuid="GPU-0",
    profile="1g.10gb",
    placement_start=4,
    core_share=1 / 7,
)


def claimed(one: ClaimedDevice, attributes: dict[str, str], *more: Device) -> NodeFacts:
    """A node of three cards and more devices, with a claim of one."""
    place = one.driver, one.pool, one.device
    return NodeFacts(
        devices=(*NODE.devices, *more),
        claims={("n", "c"): (one,)},
        offered={place: OfferedDevice(attributes)} if attributes else {},
    )


def granted(*more: Device, resource: str = "nvidia.com/mig-1g.10gb", of: str = "") -> NodeFacts:
    """A node of three cards and more devices, with a grant."""
    grants = {"u": (Grant("a", resource, (of,)),)} if of else {}
    return NodeFacts(devices=(*NODE.devices, *more), grants=grants)


def asking(resource: str) -> Pod:
    return replace(CLAIMANT, containers=(Container("a", limits={resource: "1"}),))


MIG_UUID = "MIG-00000000-0000-4000-8000-000000000000"
AMD_CARD = Device("amd-0", 0, "amd", pci_bus_id="0000:19:00.0")
PARTITION = {"type": "amdgpu-partition", "pciAddr": "0000:19:00.0"}


@pytest.mark.parametrize(
    ("one", "node"),
    [
        pytest.param(CLAIMANT, claimed(PARTED_CLAIM, OF_BOARD), id="an instance of a claim"),
        pytest.param(CLAIMANT, claimed(PARTED_CLAIM, {}), id="before its slice is read"),
        pytest.param(
            CLAIMANT, claimed(PARTED_CLAIM, {"type": "mig", "uuid": MIG_UUID}), id="by its UUID"
        ),
        pytest.param(
            CLAIMANT,
            claimed(ClaimedDevice("gpu", "gpu.nvidia.com", "n1", "gpu-7"), {"uuid": "GPU-7"}),
            id="a card that is gone",
        ),
        pytest.param(
            CLAIMANT,
            claimed(ClaimedDevice("gpu", "gpu.nvidia.com", "n1", "gpu-7"), {}),
            id="a number that no card has",
        ),
        pytest.param(
            CLAIMANT,
            claimed(ClaimedDevice("gpu", "gpu.intel.com", "elsewhere", "odd"), {}),
            id="a name that says nothing",
        ),
        pytest.param(
            CLAIMANT,
            claimed(ClaimedDevice("gpu", "gpu.amd.com", "n1", "gpu-1-129"), PARTITION, AMD_CARD),
            id="a partition of unknown size",
        ),
        pytest.param(asking("nvidia.com/mig-1g.10gb"), granted(of=MIG_UUID), id="granted by UUID"),
        pytest.param(asking("nvidia.com/mig-1g.10gb"), granted(), id="an instance by its profile"),
        pytest.param(
            asking("nvidia.com/gpu"), granted(resource="nvidia.com/gpu", of=MIG_UUID), id="single"
        ),
        pytest.param(
            asking("nvidia.com/gpu"),
            granted(resource="nvidia.com/gpu", of="nvidia0/gi9"),
            id="GKE's partition",
        ),
        pytest.param(
            asking("amd.com/gpu"), granted(resource="amd.com/gpu", of="amdgpu_xcp_7"), id="AMD's"
        ),
        pytest.param(asking("amd.com/cpx_nps4"), granted(AMD_CARD), id="AMD's by its mode"),
    ],
)
def test_a_part_or_a_device_that_is_not_known_is_no_other_device(one: Pod, node: NodeFacts) -> None:
    """Wherever a process of the container is seen: a new instance is listed on its whole board."""
    boards = [device.uuid for device in node.devices if not device.parent_uuid]
    for board in boards:
        allocations = Allocations(Rules())
        where = {Member(one.uid, "a"): [board]}
        [(_, found)] = allocations.of(indexed({one.uid: one}, 1), node, where.copy)
        assert found.device is None
        assert found.gpus == found.core  # a whole card is one wherever it is
        assert allocations.awaited == {one.uid}


AMD_BOARD = replace(AMD_CARD, sharing="partitioned")
HALVES = tuple(
    replace(AMD_CARD, uuid=f"amd-0-{n}", parent_uuid="amd-0", core_share=0.5, gpu_instance=n)
    for n in range(2)
)
IN_MIG_MODE = replace(NODE.devices[0], sharing="mig")
ELSEWHERE = Device("intel-0", 200, "intel")
CARDS = ("GPU-0", "GPU-1", "GPU-2")


@pytest.mark.parametrize(
    ("resource", "ids", "devices", "gpus", "among"),
    [
        # no device is named: a card of its vendor's
        ("nvidia.com/gpu", "", (*NODE.devices, AMD_CARD), 1.0, CARDS),
        ("amd.com/gpu", "", (*NODE.devices, AMD_CARD), 1.0, ("amd-0",)),
        ("nvidia.com/gpu", "", (IN_MIG_MODE, *NODE.devices[1:]), 1.0, CARDS[1:]),
        # a partition, of which there are only halves
        ("amd.com/cpx_nps4", "", (AMD_BOARD, *HALVES), 0.5, ("amd-0-0", "amd-0-1")),
        ("amd.com/gpu", "amdgpu_xcp_30", (AMD_BOARD, *HALVES), 0.5, ("amd-0-0", "amd-0-1")),
        # a part that is named and not read: of a board in parts
        ("amd.com/gpu", "amdgpu_xcp_30", (AMD_BOARD, *NODE.devices), None, ("amd-0",)),
        ("nvidia.com/gpu", MIG_UUID, (IN_MIG_MODE, *NODE.devices[1:]), None, ("GPU-0",)),
        # a card that is named and is gone
        ("nvidia.com/gpu", MIG_UUID.replace("MIG", "GPU"), NODE.devices, 1.0, ()),
        ("amd.com/gpu", "0000:ff:00.0", (AMD_BOARD, *HALVES), None, ("amd-0",)),
        ("nvidia.com/gpu", "", (AMD_CARD,), 1.0, ()),
    ],
)
def test_of_an_allocation_of_unknown_place_the_devices_that_it_may_have_are_known(
    resource: str,
    ids: str,
    devices: tuple[Device, ...],
    gpus: float | None,
    among: tuple[str, ...],
) -> None:
    """What it may be of them is not unallocated."""
    one = asking(resource)
    grants = {"u": (Grant("a", resource, (ids,)),)} if ids else {}
    node = NodeFacts(
        devices=(*devices, ELSEWHERE), grants=grants, labels={"kubernetes.io/os": "linux"}
    )

    [(_, found)] = Allocations(Rules()).of(indexed({one.uid: one}, 1), node, dict)

    assert (found.device, found.gpus, found.among) == (None, gpus, among)


def test_an_instance_is_its_claims_once_it_is_known() -> None:
    allocations = Allocations(Rules())
    table, seen = indexed({"u": CLAIMANT}, 1), {Member("u", "a"): ["GPU-0"]}
    allocations.of(table, claimed(PARTED_CLAIM, OF_BOARD), lambda: seen)
    known = claimed(PARTED_CLAIM, OF_BOARD, INSTANCE)
    [(_, found)] = allocations.of(table, known, lambda: seen)
    assert (found.device, found.gpus) == ("MIG-0", 1 / 7)
    assert not allocations.awaited


@pytest.mark.parametrize(
    ("one", "node", "part"),
    [
        (asking("nvidia.com/mig-1g.10gb"), granted(INSTANCE), "MIG-0"),
        (
            asking("nvidia.com/gpu"),
            NodeFacts(
                devices=(*NODE.devices, INSTANCE), labels={"nvidia.com/gpu.product": "X-MIG-1g"}
            ),
            "MIG-0",
        ),
        (
            CLAIMANT,
            claimed(
                ClaimedDevice("gpu", "gpu.amd.com", "n1", "gpu-1-129"),
                PARTITION,
                replace(AMD_CARD, sharing="partitioned"),
                replace(AMD_CARD, uuid="amd-0-1", parent_uuid="amd-0", gpu_instance=1),
            ),
            "amd-0-1",
        ),
    ],
)
def test_a_part_is_placed_by_sight_on_a_part_alone(one: Pod, node: NodeFacts, part: str) -> None:
    """It was seen on a board before that was known to be divided."""
    allocations = Allocations(Rules())
    where = {Member(one.uid, "a"): ["GPU-0"]}
    table = indexed({one.uid: one}, 1)
    assert devices(allocations.of(table, node, lambda: where)) == [None]
    where = {Member(one.uid, "a"): ["GPU-0", part]}
    assert devices(allocations.of(table, node, lambda: where)) == [part]


def test_what_was_seen_on_a_board_before_it_was_divided_is_forgotten() -> None:
    allocations = Allocations(Rules())
    one, where = asking("nvidia.com/gpu"), {Member("u", "a"): ["GPU-0"]}
    table = indexed({"u": one}, 1)
    assert devices(allocations.of(table, NODE, lambda: where)) == ["GPU-0"]
    where = {Member("u", "a"): ["MIG-0"]}
    divided = replace(NODE, devices=(*NODE.devices, INSTANCE))
    assert devices(allocations.of(table, divided, lambda: where)) == ["MIG-0"]
