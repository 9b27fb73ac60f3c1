from dataclasses import replace

import pytest

from exporter.agent.allocations.schemes.amd import SCHEME
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import Device, NodeFacts
from tests.agent.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    POD_UID,
    card,
    container,
    decoder,
    granted,
    node,
    pod,
)

decode = decoder(SCHEME)

GPU = "amd.com/gpu"
CPX = "amd.com/cpx_nps4"
SPX = "amd.com/spx_nps1"
PARTITIONING = "amd.com/compute-memory-partition"
ADDRESS = ("0000:19:00.0", "0000:a9:00.0")
Placed = tuple[str | None, float | None, int | None]


def amd_card(index: int, memory: int | None = CARD_MEMORY) -> Device:
    return replace(card(index, memory, vendor="amd"), pci_bus_id=f"0000{ADDRESS[index].upper()}")


CARDS = (*FOUR_CARDS, amd_card(0), amd_card(1))


@pytest.mark.parametrize(
    ("resource", "ids", "labels", "placed"),
    [
        (GPU, [ADDRESS[1]], {}, [("amd-1", 1.0, CARD_MEMORY)]),
        (GPU, [ADDRESS[1].upper()], {}, [("amd-1", 1.0, CARD_MEMORY)]),
        (GPU, [ADDRESS[1], ADDRESS[1].upper()], {}, [("amd-1", 1.0, CARD_MEMORY)]),
        (GPU, list(ADDRESS), {}, [(f"amd-{n}", 1.0, CARD_MEMORY) for n in range(2)]),
        (SPX, [ADDRESS[0]], {}, [("amd-0", 1.0, CARD_MEMORY)]),
        (GPU, [ADDRESS[0]], {PARTITIONING: "spx_nps1"}, [("amd-0", 1.0, CARD_MEMORY)]),
        (GPU, [ADDRESS[0]], {PARTITIONING: "cpx_nps4"}, [("amd-0", None, None)]),
        (GPU, ["amdgpu_xcp_30"], {}, [(None, None, None)]),
        (CPX, [ADDRESS[0]], {}, [("amd-0", None, None)]),
        (CPX, ["amdgpu_xcp_30", "amdgpu_xcp_31"], {}, [(None, None, None)] * 2),
        (GPU, ["0000:ff:00.0"], {}, [(None, 1.0, CARD_MEMORY)]),
        (GPU, [], {}, [(None, 1.0, CARD_MEMORY)]),
        (GPU, [], {PARTITIONING: "CPX_NPS1"}, [(None, None, None)]),
        (CPX, [], {}, [(None, None, None)]),
        (GPU, ["GPU-0-3"], {}, [(None, None, None)]),
        (GPU, [f"{ADDRESS[0]}-slice-3"], {}, [(None, None, None)]),
    ],
)
def test_request_means_a_card_or_a_part_of_one(
    resource: str, ids: list[str], labels: dict[str, str], placed: list[Placed]
) -> None:
    facts = replace(node(*CARDS, labels=labels), grants=granted({resource: ids}))
    limits = {resource: str(max(len(ids), 1))}
    decoded = decode(pod(container(limits=limits)), facts)
    assert [(a.device, a.core, a.memory_bytes) for a in decoded.allocations] == placed
    assert decoded.problems == ()


@pytest.mark.parametrize(
    ("resource", "ids", "placed"),
    [
        (GPU, [ADDRESS[0]], ("amd-0-0", None, None)),
        (CPX, [ADDRESS[0]], ("amd-0-0", None, None)),
        (GPU, [], (None, None, None)),
        (GPU, [ADDRESS[1]], ("amd-1", 1.0, CARD_MEMORY)),
    ],
)
def test_of_a_card_that_is_seen_partitioned_the_address_is_its_first_partitions(
    resource: str, ids: list[str], placed: Placed
) -> None:
    board = replace(amd_card(0), sharing="partitioned")
    parts = [
        replace(board, uuid=f"amd-0-{n}", sharing="", parent_uuid="amd-0", gpu_instance=n)
        for n in range(2)
    ]
    facts = replace(node(board, *parts, amd_card(1)), grants=granted({resource: ids}))

    [allocation] = decode(pod(container(limits={resource: "1"})), facts).allocations

    assert (allocation.device, allocation.core, allocation.memory_bytes) == placed


def divided(*names: str) -> NodeFacts:
    """A card in partitions, which have these names in sysfs, beside a whole one."""
    board = replace(amd_card(0), sharing="partitioned")
    parts = [
        replace(
            *(board,),
            uuid=f"amd-0-{n}",
            sharing="",
            parent_uuid="amd-0",
            gpu_instance=n,
            minor=128 + n,
            sysfs_name=name,
        )
        for n, name in enumerate(names)
    ]
    return node(board, *parts, amd_card(1))


@pytest.mark.parametrize(
    ("names", "placed", "among"),
    [
        (("", "amdgpu_xcp_30", "amdgpu_xcp_31"), "amd-0-1", None),
        (("", "amdgpu_xcp_31"), None, ()),  # of a device that is not known, so of no other
        (("", ""), None, ("amd-0-0", "amd-0-1")),  # sysfs does not tell the names: where it is seen
    ],
)
@pytest.mark.parametrize("resource", [GPU, CPX])
def test_a_partition_is_named_by_its_own_device_in_sysfs(
    resource: str, names: tuple[str, ...], placed: str | None, among: tuple[str, ...] | None
) -> None:
    facts = replace(divided(*names), grants=granted({resource: ["amdgpu_xcp_30"]}))

    [allocation] = decode(pod(container(limits={resource: "1"})), facts).allocations

    assert (allocation.device, allocation.core, allocation.among) == (placed, None, among)


@pytest.mark.parametrize("own", ["amd.com/gpumem", "amd.com/gpucores"])
def test_container_of_hamis_is_left_to_it(own: str) -> None:
    assert decode(pod(container(limits={GPU: "1", own: "30"})), node(*CARDS)) == Decoded()


def doubled() -> NodeFacts:
    return replace(node(*CARDS), grants=granted({GPU: [ADDRESS[0]], SPX: [ADDRESS[0]]}))


@pytest.mark.parametrize(
    ("limits", "facts", "reason", "count"),
    [
        ({GPU: "-1"}, node(*CARDS), Reason.BAD_QUANTITY, 0),
        ({GPU: "65"}, node(*CARDS), Reason.TOO_MANY_DEVICES, 0),
        ({GPU: "1", SPX: "1"}, doubled(), Reason.DUPLICATE_DEVICE, 1),
    ],
)
def test_bad_part_is_counted(
    limits: dict[str, str], facts: NodeFacts, reason: Reason, count: int
) -> None:
    decoded = decode(pod(container(limits=limits)), facts)
    assert [p.reason for p in decoded.problems] == [reason]
    assert len(decoded.allocations) == count
    assert {a.pod_uid for a in decoded.allocations} <= {POD_UID}
