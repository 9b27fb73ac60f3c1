from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.kept import kept
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.schemes.dra import SCHEME
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.agent.allocations.ties import together
from exporter.model import (
    PARTITIONED,
    Allocation,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    NodeFacts,
    OfferedDevice,
    Pod,
)
from tests.agent.allocations.build import CARD_MEMORY, FOUR_CARDS, GIB, card, decoder, instance, pod


def decode(own: Pod, known: NodeFacts) -> Decoded:
    """Return what a pod is read as that is on the node beside those that are known."""
    said = [node.ties for node in (known, Rules().tied(known, [own]))]
    return decoder(SCHEME)(own, replace(known, ties=together(said)))


NVIDIA, AMD, INTEL = "gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"
PCI = "resource.kubernetes.io/pciBusID"
AMD_CARD = replace(card(0, vendor="amd"), pci_bus_id="0000:19:00.0")
INTEL_CARD = replace(card(0, vendor="intel"), pci_bus_id="0000:03:00.0")
PLACED = replace(instance(1, 1), placement_start=3)
DEVICES = (*FOUR_CARDS, instance(1, 0), PLACED, AMD_CARD, INTEL_CARD)
CARD_1 = {"type": "gpu", "uuid": "GPU-1"}
WHOLE = {"memory": "80Gi"}
Share = tuple[str, str | None, int | None, int | None]


def using(name: str = "a", *refs: ClaimRef, kind: str = "app") -> Container:
    return Container(name, kind=kind, claims=refs or (ClaimRef("c"),))


def result(device: str = "gpu-6", driver: str = NVIDIA, **more: object) -> ClaimedDevice:
    described: dict[str, object] = {"request": "gpu", "driver": driver, "pool": "n1"}
    return ClaimedDevice(**{**described, "device": device, **more})  # type: ignore[arg-type] # by name


def facts(
    *results: ClaimedDevice,
    attributes: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    pods: tuple[Pod, ...] = (),
    devices: tuple[Device, ...] = DEVICES,
) -> NodeFacts:
    """Return a node with the claim ``c`` of these results, all devices of it offered alike."""
    offered = OfferedDevice(attributes or {}, capacity or {})
    described = attributes is not None or capacity is not None
    alone = NodeFacts(
        devices=devices,
        claims={("default", "c"): results},
        offered={(r.driver, r.pool, r.device): offered for r in results if described},
    )
    return Rules().tied(alone, pods)


def shares(allocations: tuple[Allocation, ...]) -> list[Share]:
    return [(a.container, a.device, a.memory_bytes, a.replicas) for a in allocations]


@pytest.mark.parametrize(
    ("known", "expected", "core"),
    [
        pytest.param(
            facts(result(), attributes=CARD_1, capacity=WHOLE),
            ("a", "GPU-1", 80 * GIB, None),
            1.0,
            id="by uuid, with the capacity that is offered",
        ),
        pytest.param(
            facts(result(), attributes=CARD_1),
            ("a", "GPU-1", CARD_MEMORY, None),
            1.0,
            id="with the card's own memory",
        ),
        pytest.param(
            facts(result(), attributes={"gpu.nvidia.com/uuid": "GPU-2"}),
            ("a", "GPU-2", CARD_MEMORY, None),
            1.0,
            id="an attribute under the driver's domain",
        ),
        pytest.param(
            facts(result()), ("a", "GPU-1", CARD_MEMORY, None), 1.0, id="by minor, without a slice"
        ),
        pytest.param(
            facts(
                result("gpu-6-mig-1g5gb-19-0"),
                attributes={"type": "mig", "uuid": "MIG-1-0"},
                capacity={"memory": "4864Mi"},
            ),
            ("a", "MIG-1-0", 4864 << 20, None),
            None,
            id="instance",
        ),
        pytest.param(
            facts(
                result("gpu-6-mig-1g5gb-19-0"),
                attributes={"type": "mig", PCI: "0000:19:00.0"},
                capacity={"memory": "4864Mi"},
            ),
            ("a", None, 4864 << 20, None),
            None,
            id="instance that is still to be made is not its card",
        ),
        pytest.param(
            facts(result("gpu-vfio-6")),
            ("a", None, None, None),
            None,
            id="card handed to a machine",
        ),
        pytest.param(
            facts(result("gpu-0-128", AMD), attributes={"type": "amdgpu", PCI: "0000:19:00.0"}),
            ("a", "amd-0", CARD_MEMORY, None),
            1.0,
            id="amd by pci address",
        ),
        pytest.param(
            facts(result(), attributes=CARD_1, capacity=WHOLE, devices=()),
            ("a", None, 80 * GIB, None),
            1.0,
            id="before the cards are read",
        ),
        pytest.param(
            facts(
                result("gpu-0-cpx-nps4", AMD),
                attributes={"type": "amdgpu-partition", "pciAddr": "0000:19:00.0"},
                capacity={"memory": "0"},
            ),
            ("a", None, None, None),
            None,
            id="amd partition of unread memory is not its card",
        ),
        pytest.param(
            facts(result("0000-ff-00-0-0x56a0", INTEL)),
            ("a", None, None, None),
            1.0,
            id="a card that is not known",
        ),
        pytest.param(
            facts(result("0000-03-00-0-0x56c0", INTEL), capacity={"memory": "16Gi"}),
            ("a", "intel-0", 16 * GIB, None),
            None,
            id="intel by name, a part by its size",
        ),
        pytest.param(
            facts(result(), attributes=CARD_1, capacity={"gpu.nvidia.com/memory": "1Gi"}),
            ("a", "GPU-1", GIB, None),
            None,
            id="capacity under the driver's domain, a part by its size",
        ),
        pytest.param(
            facts(result(share_id="s", consumed={"memory": "10Gi"}), attributes=CARD_1),
            ("a", "GPU-1", 10 * GIB, None),
            None,
            id="consumed capacity",
        ),
        pytest.param(
            facts(result(share_id="s"), attributes=CARD_1, capacity=WHOLE),
            ("a", "GPU-1", None, 1),
            None,
            id="a share of nothing known",
        ),
    ],
)
def test_claim_tells_the_device(known: NodeFacts, expected: Share, core: float | None) -> None:
    decoded = decode(pod(using()), known)
    assert shares(decoded.allocations) == [expected]
    assert decoded.problems == ()
    assert {a.core for a in decoded.allocations} == {core}


@pytest.mark.parametrize(
    ("ref", "devices"),
    [
        (ClaimRef("c"), ["GPU-0", "GPU-1", "GPU-2"]),
        (ClaimRef("c", "one"), ["GPU-0"]),
        (ClaimRef("c", "first"), ["GPU-1"]),
        (ClaimRef("c", "first/large"), ["GPU-1"]),
        (ClaimRef("c", "none"), []),
    ],
)
def test_container_has_the_requests_that_it_names(ref: ClaimRef, devices: list[str]) -> None:
    known = facts(
        result("gpu-7", request="one"),
        result("gpu-6", request="first/large"),
        result("gpu-5", request="other"),
    )
    assert [a.device for a in decode(pod(using("a", ref)), known).allocations] == devices


@pytest.mark.parametrize(
    "unheld",
    [result(admin_access=True), result(driver="net.example.com"), result(driver="")],
    ids=["administration", "a network card", "no driver"],
)
def test_what_is_no_allocation_of_a_gpu_is_left_out(unheld: ClaimedDevice) -> None:
    assert decode(pod(using()), facts(unheld)) == Decoded()


def other_pod(namespace: str = "default", **changes: object) -> Pod:
    described = replace(pod(using("z")), uid="other", name="o", namespace=namespace)
    return replace(described, **changes)  # type: ignore[arg-type] # fields of Pod


@pytest.mark.parametrize(
    ("containers", "pods", "users"),
    [
        ((using("a"), using("b")), (), 2),
        ((using("a"), using("b", kind="sidecar")), (), 2),
        ((using("a"), using("b", kind="init")), (), 1),
        ((using("a"),), (other_pod(),), 2),
        ((using("a"),), (other_pod(namespace="x"),), 1),
        ((using("a"),), (other_pod(phase="Failed"),), 1),
        ((using("a"),), (other_pod(deleted=True),), 1),
        ((using("a"),), (other_pod(containers=(using("z", ClaimRef("other")),)),), 1),
        ((using("a"),), (other_pod(containers=(using("z", ClaimRef("c", "other")),)),), 1),
        ((using("a"), using("b", ClaimRef("c", "gpu"))), (), 2),
    ],
    ids=[
        "containers",
        "a sidecar",
        "an init container",
        "pods",
        "another namespace's",
        "a pod that failed",
        "a pod that was deleted",
        "another claim",
        "another request",
        "all of it and a request",
    ],
)
def test_claim_of_several_users_promises_no_share(
    containers: tuple[Container, ...], pods: tuple[Pod, ...], users: int
) -> None:
    known = facts(result(), attributes=CARD_1, capacity=WHOLE, pods=pods)
    alone = users == 1
    first = decode(pod(*containers), known).allocations[0]
    assert first.device == "GPU-1"
    assert first.memory_bytes == (80 * GIB if alone else None)
    assert (first.policy, first.replicas) == (("", None) if alone else ("shared", 1))


def test_share_of_a_claim_that_several_use_is_nobodys_alone() -> None:
    known = facts(result(share_id="s", consumed={"memory": "10Gi"}), attributes=CARD_1)
    decoded = decode(pod(using("a"), using("b")), known)
    assert shares(decoded.allocations) == [("a", "GPU-1", None, 1), ("b", "GPU-1", None, 1)]


def test_two_shares_of_one_device_are_one_allocation() -> None:
    known = facts(
        result(share_id="s", consumed={"memory": "10Gi"}),
        result(share_id="t", consumed={"memory": "6Gi"}),
        attributes=CARD_1,
    )
    assert shares(decode(pod(using()), known).allocations) == [("a", "GPU-1", 16 * GIB, None)]


@pytest.mark.parametrize(
    ("taken", "users"),
    [
        ([], 0),
        ([["gpu"]], 1),
        ([["gpu/small"]], 1),
        ([["gpu/large"]], 0),
        ([["nic"]], 0),
        ([["gpu", "gpu/small"]], 1),
        ([["", "gpu", "nic"]], 1),
        ([["gpu/small", "gpu/large"], ["gpu"], [""], ["nic"]], 3),
    ],
)
def test_a_container_is_one_user_of_a_device_whatever_it_takes_of_its_claim(
    taken: list[list[str]], users: int
) -> None:
    """The device is of the request ``gpu/small``: one of the request ``gpu``."""
    containers = [
        using(f"c{number}", *(ClaimRef("c", request) for request in requests))
        for number, requests in enumerate(taken)
    ]
    consumed = result(request="gpu/small", consumed={"memory": "10Gi"})
    known = facts(consumed, attributes=CARD_1, capacity={"memory": "40Gi"})
    found = decode(pod(using("all"), *containers), known).allocations[0]
    assert found.kept_bytes == CARD_MEMORY // 4 // (1 + users)


SECOND_AMD = replace(AMD_CARD, uuid="amd-1", index=1, pci_bus_id="0000:1a:00.0")
OTHER_SLICE = {(AMD, "n2", "gpu-9-137"): OfferedDevice()}


@pytest.mark.parametrize(
    ("known", "among"),
    [
        pytest.param(facts(result("gpu-0-128", AMD)), ("amd-0",), id="no slice can be read"),
        pytest.param(
            facts(result("gpu-0-128", AMD), devices=(*DEVICES, SECOND_AMD)),
            ("amd-0", "amd-1"),
            id="one of two cards",
        ),
        pytest.param(
            replace(facts(result("gpu-0-128", AMD)), offered=OTHER_SLICE), (), id="slices are read"
        ),
        pytest.param(
            facts(
                result("gpu-0-128", AMD),
                devices=(AMD_CARD, replace(SECOND_AMD, parent_uuid="amd-9")),
            ),
            (),
            id="a card is divided",
        ),
        pytest.param(
            facts(
                result("gpu-0-128", AMD),
                devices=(AMD_CARD, replace(SECOND_AMD, sharing=PARTITIONED)),
            ),
            (),
            id="a card is to be divided",
        ),
        pytest.param(facts(result("gpu-0-128", AMD), devices=FOUR_CARDS), (), id="no card is read"),
        pytest.param(facts(result("gpu-6-mig-1g5gb-19-0")), (), id="an instance still to be made"),
        pytest.param(facts(result("0000-44-00-0-0x56c0", INTEL)), (), id="a card that is gone"),
    ],
)
def test_a_name_that_says_nothing_is_a_card_of_its_vendor_where_no_slice_is_read(
    known: NodeFacts, among: tuple[str, ...]
) -> None:
    [allocation] = decode(pod(using()), known).allocations
    assert (allocation.device, allocation.among) == (None, among)


def test_a_partition_of_amds_is_the_one_with_the_render_node_in_its_name() -> None:
    """``gpu-<card>-<render>`` is the name of each device of ROCm/k8s-gpu-dra-driver."""
    board = replace(AMD_CARD, sharing=PARTITIONED)
    parts = [
        replace(AMD_CARD, uuid=f"amd-0-{n}", parent_uuid=board.uuid, minor=128 + n)
        for n in range(3)
    ]
    known = facts(
        *(result("gpu-1-129", AMD), result("gpu-2-190", AMD)),
        attributes={"type": "amdgpu-partition", PCI: "0000:19:00.0"},
        capacity={"memory": "24Gi"},
        devices=(board, *parts),
    )

    placed = [(a.device, a.among) for a in decode(pod(using()), known).allocations]

    assert placed == [("amd-0-1", None), (None, ("amd-0-0", "amd-0-1", "amd-0-2"))]


def test_two_partitions_of_one_card_are_one_allocation() -> None:
    known = facts(
        result("gpu-1-129", AMD),
        result("gpu-2-130", AMD),
        attributes={"type": "amdgpu-partition", PCI: "0000:19:00.0"},
        capacity={"memory": "24Gi"},
    )
    assert shares(decode(pod(using()), known).allocations) == [("a", "amd-0", 48 * GIB, None)]


def test_device_that_two_references_reach_is_counted_once() -> None:
    twice = using("a", ClaimRef("c"), ClaimRef("c", "gpu"))
    decoded = decode(pod(twice), facts(result()))
    assert shares(decoded.allocations) == [("a", "GPU-1", CARD_MEMORY, None)]


def test_extended_resource_is_counted_by_its_claim_alone() -> None:
    gpu = "nvidia.com/gpu"
    claiming = replace(using("a", ClaimRef("c", "r0", gpu)), limits={gpu: "1"})
    known = replace(
        facts(result(request="r0"), attributes=CARD_1, capacity=WHOLE),
        labels={"kubernetes.io/os": "linux"},
    )
    found = registry.decode(pod(claiming), known)
    assert [(a.scheme, a.device) for a in found.allocations] == [("dra", "GPU-1")]
    assert found.problems == ()


def test_claim_adds_to_what_a_plugin_grants() -> None:
    mixed = replace(using(), limits={"amd.com/gpu": "1"})
    found = registry.decode(pod(mixed), facts(result())).allocations
    assert [a.scheme for a in found] == ["dra", "amd-device-plugin"]


@pytest.mark.parametrize(
    ("described", "known", "reason", "count"),
    [
        (using("a", ClaimRef("gone")), facts(result()), Reason.UNKNOWN_CLAIM, 0),
        (using(), facts(result(), attributes={"uuid": "GPU-x"}), Reason.UNKNOWN_DEVICE, 1),
        (
            using(),
            facts(result(), attributes=CARD_1, capacity={"memory": "lots"}),
            Reason.BAD_QUANTITY,
            1,
        ),
        (
            using(),
            facts(result(), attributes=CARD_1, capacity={"memory": "1Ei"}),
            Reason.MEMORY_OUT_OF_RANGE,
            1,
        ),
        (
            using(),
            facts(*(result(share_id=s, consumed={"memory": "3Ti"}) for s in "st")),
            Reason.MEMORY_OUT_OF_RANGE,
            1,
        ),
        (using(), facts(*map(result, map(str, range(65)))), Reason.TOO_MANY_DEVICES, 0),
    ],
)
def test_bad_part_is_counted(
    described: Container, known: NodeFacts, reason: Reason, count: int
) -> None:
    decoded = decode(pod(described), known)
    assert {p.reason for p in decoded.problems} == {reason}
    assert len(decoded.allocations) == count


def test_devices_that_are_not_read_yet_are_no_problem() -> None:
    decoded = decode(pod(using()), facts(result(), attributes=CARD_1, devices=()))
    assert [a.device for a in decoded.allocations] == [None]
    assert decoded.problems == ()


def told_of(decoded: Decoded) -> list[tuple[str | None, float | None, int | None, str, int | None]]:
    return [(a.device, a.core, a.memory_bytes, a.policy, a.replicas) for a in decoded.allocations]


MPS = {"strategy": "MPS", "core": "50", "memory": "10Gi"}
SHARES = {"memory": "0", "shares": "2"}
HAMI, MANAGER, OTHER = "hami-core-gpu.project-hami.io", "manager.nvidia.com", "gpu.acme.example"


@pytest.mark.parametrize(
    ("claimed", "attributes", "capacity", "expected"),
    [
        pytest.param(
            result(driver=OTHER, consumed={"cores": "33", "memory": "4Gi"}),
            {"uuid": "GPU-1"},
            {"cores": "132", "memory": "80Gi"},
            ("GPU-1", 0.25, 4 * GIB, "shared", None),
            id="any driver's, by uuid",
        ),
        pytest.param(
            result(driver=OTHER),
            {f"{OTHER}/pciBusID": "0000:19:00.0"},
            {},
            ("amd-0", 1, CARD_MEMORY, "", None),
            id="any driver's, by PCI address",
        ),
        pytest.param(
            result("hami-gpu-6", HAMI, consumed={"memory": "4Gi"}),
            {"uuid": "GPU-1"},
            {"cores": "100"},
            ("GPU-1", 0.6, 4 * GIB, "enforced", None),
            id="HAMi's default",
        ),
        pytest.param(
            result("vgpu-6", MANAGER, consumed={"cores": "0", "memory": "4Gi"}),
            None,
            None,
            ("GPU-1", None, 4 * GIB, "enforced", None),
            id="vgpu-manager's by its minor",
        ),
        pytest.param(
            result(consumed=SHARES, share_id="s"),
            CARD_1,
            WHOLE,
            ("GPU-1", None, None, "shared", 2),
            id="integer shares",
        ),
        pytest.param(
            result(sharing=MPS), CARD_1, WHOLE, ("GPU-1", 0.5, 10 * GIB, "mps", 1), id="MPS"
        ),
        pytest.param(
            result(sharing={**MPS, "memory/GPU-1": "1Gi"}),
            CARD_1,
            WHOLE,
            ("GPU-1", 0.5, GIB, "mps", 1),
            id="MPS with a limit of this device",
        ),
        pytest.param(
            result(sharing={"strategy": "MPS"}),
            CARD_1,
            WHOLE,
            ("GPU-1", None, None, "mps", 1),
            id="MPS without limits",
        ),
        pytest.param(
            result("gpu-6-mig-1g5gb-19-3"),
            {"type": "mig", "parentUUID": "GPU-1", "profile": "1g.5gb"},
            {"memory": "4864Mi"},
            ("MIG-1-1", None, 4864 << 20, "", None),
            id="instance by its parent and placement",
        ),
        pytest.param(
            result("gpu-vfio-6"),
            {"type": "vfio", "uuid": "GPU-x"},
            {"addressableMemory": "80Gi"},
            (None, None, None, "", None),
            id="a card that a virtual machine has",
        ),
    ],
)
def test_driver_promises_what_its_source_enforces(
    claimed: ClaimedDevice,
    attributes: Mapping[str, str] | None,
    capacity: Mapping[str, str] | None,
    expected: tuple[object, ...],
) -> None:
    decoded = decode(pod(using()), facts(claimed, attributes=attributes, capacity=capacity))
    assert told_of(decoded) == [expected]
    assert decoded.problems == ()


def test_each_user_of_mps_has_its_limits() -> None:
    decoded = decode(
        pod(using("a"), using("b")), facts(result(sharing=MPS), attributes=CARD_1, capacity=WHOLE)
    )
    assert told_of(decoded) == [("GPU-1", 0.5, 10 * GIB, "mps", 1)] * 2


TWO = {**MPS, "config": "0", "memory/0": "1Gi", "memory/1": "2Gi"}


@pytest.mark.parametrize(
    ("sharing", "uuids", "expected"),
    [
        pytest.param([TWO, TWO], ["GPU-1", "GPU-0"], [2, 1], id="in the order of the UUIDs"),
        pytest.param(
            [{**TWO, "config": "1"}, TWO],
            ["GPU-1", "GPU-0"],
            [1, 1],
            id="each in its configuration",
        ),
        pytest.param(
            [{**MPS, "memory/1": "2Gi"}] * 2,
            ["GPU-1", "GPU-0"],
            [2, 10],
            id="the rest has the default",
        ),
        pytest.param(
            [{**TWO, "memory/GPU-1": "3Gi"}] * 2, ["GPU-1", "GPU-0"], [3, 1], id="by its UUID"
        ),
        pytest.param([TWO, TWO], ["GPU-1", ""], [None, None], id="not all UUIDs are known"),
        pytest.param(
            [{"strategy": "MPS", "memory/7": "1Gi", "memory/x": "1Gi"}] * 2,
            ["GPU-1", "GPU-0"],
            [None, None],
            id="of other devices",
        ),
    ],
)
def test_mps_limits_a_device_by_its_number(
    sharing: list[dict[str, str]], uuids: list[str], expected: list[int | None]
) -> None:
    results = [result(f"gpu-{6 - i}", sharing=each) for i, each in enumerate(sharing)]
    offered = {
        (NVIDIA, "n1", each.device): OfferedDevice({"uuid": uuid} if uuid else {})
        for each, uuid in zip(results, uuids, strict=True)
    }
    decoded = decode(pod(using()), replace(facts(*results), offered=offered))
    assert [a.memory_bytes for a in decoded.allocations] == [n and n * GIB for n in expected]


@pytest.mark.parametrize(
    "name", ["gpu-6-mig-1g5gb-19-5", "gpu-6-mig-1g5gb-19-0", "gpu-6-mig-1g5gb-19", "é", "x" * 5000]
)
def test_instance_that_is_not_at_this_placement_is_not_known(name: str) -> None:
    attributes = {"type": "mig", "parentUUID": "GPU-1", "profile": "1g.5gb"}
    decoded = decode(pod(using()), facts(result(name), attributes=attributes))
    assert [(a.device, a.memory_bytes) for a in decoded.allocations] == [(None, None)]
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("claimed", "attributes", "capacity", "reason"),
    [
        (result(driver=OTHER), {"uuid": "GPU-x"}, None, Reason.UNKNOWN_DRIVER),
        (result(driver=OTHER), {}, {"memory": "9" * 99}, Reason.UNKNOWN_DRIVER),
        (result(driver="ü"), {"uuid": "ü" * 300}, None, Reason.UNKNOWN_DRIVER),
        (result(sharing={**MPS, "core": "x"}), CARD_1, WHOLE, Reason.BAD_QUANTITY),
        (result(sharing={**MPS, "core": "101"}), CARD_1, WHOLE, Reason.CORE_OUT_OF_RANGE),
        (result(sharing={**MPS, "memory": "-1"}), CARD_1, WHOLE, Reason.BAD_QUANTITY),
        (result(sharing={**MPS, "memory": "1Ei"}), CARD_1, WHOLE, Reason.MEMORY_OUT_OF_RANGE),
        (result(consumed={"cores": "101"}, driver=HAMI), CARD_1, None, Reason.CORE_OUT_OF_RANGE),
        (result(consumed={"cores": "9" * 40}), CARD_1, WHOLE, Reason.BAD_QUANTITY),
        (
            result(consumed={"cores": "9"}, driver=OTHER),
            CARD_1,
            {"cores": "8"},
            Reason.CORE_OUT_OF_RANGE,
        ),
        (result(consumed={"shares": "٣"}), CARD_1, WHOLE, Reason.BAD_QUANTITY),
    ],
)
def test_what_cannot_be_understood_is_counted(
    claimed: ClaimedDevice,
    attributes: Mapping[str, str],
    capacity: Mapping[str, str] | None,
    reason: Reason,
) -> None:
    decoded = decode(pod(using()), facts(claimed, attributes=attributes, capacity=capacity))
    assert [problem.reason for problem in decoded.problems] == [reason]


def test_claim_for_a_gpus_resource_is_counted_if_its_device_is_unknown() -> None:
    stands = Container(
        "a", limits={"nvidia.com/gpu": "1"}, claims=(ClaimRef("c", "", "nvidia.com/gpu"),)
    )
    decoded = registry.decode(pod(stands), facts(result(driver=OTHER)))
    assert [problem.reason for problem in decoded.problems] == [Reason.UNKNOWN_DRIVER]


OFFERED = {"memory": "80Gi", "cores": "100", "shares": "10"}


@pytest.mark.parametrize(
    ("consumed", "users", "kept_each"),
    [
        ({"memory": "20Gi"}, 1, 0.25),
        ({"memory": "20Gi"}, 2, 0.125),
        ({"memory": "8Gi", "shares": "2"}, 1, 0.2),
        ({"shares": "2"}, 1, 0.2),
        ({"shares": "2"}, 4, 0.05),
        ({"memory": "8Gi", "cores": "50"}, 2, 0.25),
        ({"memory": "0"}, 2, 0.5),
        ({"memory": "800Gi"}, 1, 1.0),
    ],
)
def test_of_a_consumed_device_that_part_is_kept_and_not_the_whole(
    consumed: dict[str, str], users: int, kept_each: float
) -> None:
    known = facts(result(share_id="s", consumed=consumed), attributes=CARD_1, capacity=OFFERED)
    found = decode(pod(*(using(name) for name in "abcd"[:users])), known).allocations
    devices = {device.uuid: device for device in known.devices}
    parts = [kept(allocation, devices, {}, users) for allocation in found]
    assert parts == pytest.approx([kept_each] * users)
