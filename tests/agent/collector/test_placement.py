"""Where allocations are, as the cycle learns it: declared, seen, both, or neither."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.model import (
    CgroupIdentity,
    Container,
    Device,
    DeviceMemory,
    DeviceReading,
    Engines,
    NodeFacts,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Snapshot,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench, row
from tests.agent.collector.sources import SetNode
from tests.rows import Value, rows_of

OTHER = Device("GPU-1", 1, "nvidia", memory_bytes=80 * 2**30)
HERE = ("ml", "train", "main", "0", "GPU-0")
THERE = ("ml", "train", "main", "1", "GPU-1")
NOWHERE = ("ml", "train", "main", "", "")
PLACED_POD = replace(POD, annotations=PLACED)


def reading(device: Device, *pids: int) -> DeviceReading:
    """A second of a device that these processes share."""
    each = Engines(core=SECOND // 4)
    window = Window(
        *(0, SECOND, SECOND, 0),
        Engines(core=len(pids) * SECOND // 4),
        tuple(ProcessActivity(pid, each) for pid in pids),
    )
    holders = tuple(ProcessMemory(pid, 100, frozenset({"compute"})) for pid in pids)
    memory = DeviceMemory(1000, 100 * len(pids), None, holders)
    return DeviceReading(device, window=window, memory=memory)


class TwoCards(Bench):
    """Two cards; the container's process is 7, its successor's 8."""

    def __init__(self) -> None:
        self.node = SetNode()
        super().__init__(nodes=(self.node,))
        self.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
        self.processes.identities[8] = CgroupIdentity("uid-2", "b" * 64, "containerd")

    def see(self, first: tuple[int, ...] = (), second: tuple[int, ...] = ()) -> Snapshot:
        """A cycle with these processes on the first and the second card."""
        self.gpus.devices = (reading(DEVICE, *first), reading(OTHER, *second))
        return self.cycle()

    def know(self, *pods: Pod) -> None:
        """Let the pod source know these pods and no others."""
        self.pods.current = PodTable(
            self.pods.current.version + 1,
            {pod.uid: pod for pod in pods},
            {pod.uid: pod.uid for pod in pods},
            {
                cid: (pod.uid, c.name)
                for pod in pods
                for c in pod.containers
                for cid in c.container_ids
            },
        )


@pytest.fixture
def cards() -> TwoCards:
    return TwoCards()


def values(snapshot: Snapshot, labels: tuple[str, ...] = HERE) -> Mapping[str, Value]:
    return row(snapshot, "container", *labels).values


def pod(snapshot: Snapshot) -> Mapping[str, Value]:
    return row(snapshot, "pod", "ml", "train").values


def test_a_placement_that_appears_takes_the_limit_from_the_pod_to_its_card(cards: TwoCards) -> None:
    cards.know(POD)
    cards.see()
    first = cards.see()
    cards.know(PLACED_POD)

    second = cards.see()

    assert "core_limit_ratio" not in values(first, NOWHERE)
    assert values(second)["core_limit_ratio"] == 0.5
    assert pod(first)["core_limit_gpus"] == pod(second)["core_limit_gpus"] == 0.5
    from_before = {"allocated_core_seconds_total", "allocated_gpu_seconds_total"}
    assert values(second, NOWHERE).keys() == from_before


def test_a_process_on_the_card_places_what_is_not_told_and_is_no_mismatch(cards: TwoCards) -> None:
    cards.know(POD)

    seen, paused = cards.see(second=(7,)), cards.see()

    for snapshot in (seen, paused):
        assert values(snapshot, THERE)["core_limit_ratio"] == 0.5
        assert values(snapshot, THERE)["placement_mismatch"] == 0


def test_who_may_have_worked_on_a_card_was_not_seen_there(cards: TwoCards) -> None:
    cards.know(POD)
    cards.see((7,))
    unread = reading(OTHER)
    assert unread.window
    window = unread.window._replace(unmeasured_pids=frozenset({7}))
    cards.gpus.devices = (reading(DEVICE, 7), unread._replace(window=window))

    during = cards.cycle()
    after = cards.see((7,))

    for snapshot in (during, after):
        assert values(snapshot)["core_limit_ratio"] == 0.5


def test_a_card_that_is_gone_is_not_one_of_two_where_a_container_may_be(cards: TwoCards) -> None:
    """As an instance is, once its board was divided anew."""
    cards.know(POD)
    cards.see(second=(7,))
    cards.gpus.devices = (reading(DEVICE, 7),)
    gone, back = cards.cycle(), cards.see(second=(7,))

    assert values(gone)["core_limit_ratio"] == 0.5
    assert NOWHERE in {found.labels for found in rows_of(back)["container"]}


def test_a_process_elsewhere_than_declared_is_a_mismatch_until_it_has_gone(cards: TwoCards) -> None:
    cards.know(PLACED_POD)

    wrong, gone = cards.see(second=(7,)), cards.see()

    assert values(wrong, THERE)["placement_mismatch"] == 1
    assert values(wrong, THERE)["core_seconds_total"] == SECOND // 4
    assert values(wrong)["core_limit_ratio"] == 0.5
    assert "placement_mismatch" not in values(gone, THERE)
    assert values(gone)["placement_mismatch"] == 0


def test_a_gpu_source_that_fails_moves_no_limit_and_makes_no_mismatch(cards: TwoCards) -> None:
    cards.know(PLACED_POD)
    before = values(cards.see(first=(7,)))
    cards.gpus.error = OSError("no answer")
    shown = cards.cycle()
    assert values(shown)["placement_mismatch"] == 0
    assert values(shown)["core_limit_ratio"] == before["core_limit_ratio"] == 0.5
    assert NOWHERE not in {found.labels for found in rows_of(shown)["container"]}


def test_a_pod_made_anew_on_another_card_goes_on_with_its_account(cards: TwoCards) -> None:
    cards.know(POD)
    for _ in range(3):
        cards.see(first=(7,))
    anew = replace(
        POD, uid="uid-2", containers=(replace(POD.containers[0], container_ids=("b" * 64,)),)
    )
    cards.know(anew)

    rows = [cards.see(second=(8,)) for _ in range(3)][-1]

    assert values(rows, THERE)["core_limit_ratio"] == 0.5
    assert values(rows, THERE)["placement_mismatch"] == 0
    assert "core_limit_ratio" not in values(rows)
    assert pod(rows)["core_seconds_total"] == 6 * SECOND // 4
    assert pod(rows)["allocated_core_seconds_total"] == 5 * SECOND // 2


def test_two_pods_of_one_name_are_summed_while_both_live(cards: TwoCards) -> None:
    """The old one of a forced deletion is still there."""
    anew = replace(
        PLACED_POD, uid="uid-2", containers=(replace(POD.containers[0], container_ids=("b" * 64,)),)
    )
    cards.know(PLACED_POD, anew)

    rows = cards.see(first=(7, 8))

    assert values(rows)["core_limit_ratio"] == 1.0
    assert values(rows)["core_seconds_total"] == SECOND // 2
    assert row(rows, "device", "0", "GPU-0").values["allocated_core_ratio"] == 1.0


def test_a_container_that_restarts_keeps_its_place_and_its_account(cards: TwoCards) -> None:
    cards.know(POD)
    cards.see(first=(7,))
    again = replace(POD.containers[0], container_ids=("c" * 64, CID))
    cards.processes.identities[9] = CgroupIdentity("uid-1", "c" * 64, "containerd")
    cards.know(replace(POD, containers=(again,)))
    between = cards.see()

    rows = cards.see(first=(9,))

    assert values(between)["core_limit_ratio"] == values(rows)["core_limit_ratio"] == 0.5
    assert values(rows)["core_seconds_total"] == SECOND // 2


def test_an_allocation_of_the_pod_is_placed_where_any_of_its_containers_is_seen(
    cards: TwoCards,
) -> None:
    """Koordinator does not record how a pod's devices are split among its containers."""
    device = '{"minor":99,"resources":{"koordinator.sh/gpu-core":"50"}}'
    limits = {f"koordinator.sh/gpu-{amount}": "25" for amount in ("core", "memory-ratio")}
    main = Container("main", container_ids=(CID,), limits=limits)
    other = Container("other", container_ids=("c" * 64,), limits=limits)
    told = {"scheduling.koordinator.sh/device-allocated": f'{{"gpu":[{device}]}}'}
    cards.know(replace(POD, containers=(main, other), annotations=told))

    before, rows = cards.see(), cards.see(second=(7,))

    whole = ("ml", "train", "")
    assert "allocation_info" in row(before, "container", *whole, "", "").values
    assert "allocation_info" in row(rows, "container", *whole, "1", "GPU-1").values
    assert values(rows, THERE)["placement_mismatch"] == 0
    assert "core_limit_ratio" not in values(rows, THERE)
    assert pod(rows)["core_limit_utilization_ratio"] == pytest.approx(0.125 / 0.5)


def test_replicas_of_the_node_stand_with_the_devices(cards: TwoCards) -> None:
    cards.node.known = NodeFacts(labels={"nvidia.com/gpu.replicas": "4"})
    asks = Container("main", container_ids=(CID,), limits={"nvidia.com/gpu": "1"})
    cards.know(replace(POD, containers=(asks,)))

    rows = cards.see(first=(7,))

    assert row(rows, "device", "0", "GPU-0").values["sharing_replicas"] == 4
    assert values(rows)["allocated_replicas"] == 1
    assert "core_limit_ratio" not in values(rows)
    assert "allocated_core_ratio" not in row(rows, "device", "0", "GPU-0").values
