"""Limits, shares and placements: what is promised, to whom, where, and use against it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.facts import CycleFacts, facts_of
from exporter.agent.ledger import Allocated, Ledger
from exporter.model import (
    Allocation,
    ContainerKey,
    Device,
    DeviceState,
    MemoryHeld,
    Owner,
)
from tests.agent.ledger.node import GPU, ROW_A, SECOND, A, B, Node, at, window
from tests.rows import FactRows, Labelled, Row, Value

OTHER = Device("GPU-1", 1, "nvidia", memory_bytes=1000)
SIDE = ContainerKey("n", "a", "side")
WHOLE_POD = ContainerKey("n", "a", "")
ON_OTHER = (*A, "1", "GPU-1")

Rows = Mapping[str, Mapping[tuple[str, ...], Row]]


def grant(
    key: ContainerKey = A,
    device: str | None = "GPU-0",
    core: float | None = 0.5,
    memory: int | None = 500,
    *,
    uid: str = "uid-a",
    replicas: int | None = None,
) -> Allocated:
    allocation = Allocation(
        uid, key.container, device, core, memory, "s", "fixed", "offline", replicas
    )
    return Allocated(key, allocation)


def busy(node: Node, seconds: float, *grants: Allocated, on: str = "GPU-0", **told: Any) -> Rows:
    """A cycle in which process 1, of container A, uses a quarter of a device's second."""
    windows = {uuid: window({1: SECOND // 4} if uuid == on else {}) for uuid in ("GPU-0", "GPU-1")}
    return node.cycle(seconds, windows, allocated=grants, **told)


def container(rows: Rows, *labels: str) -> Mapping[str, Value]:
    return rows["container"][labels].values


def pod(rows: Rows) -> Mapping[str, Value]:
    return rows["pod"]["n", "a"].values


def unmeasured(values: Mapping[str, Value]) -> set[tuple[str, ...]]:
    found = values["unmeasured"]
    assert isinstance(found, Mapping)
    return set(found)


def test_scheme_policy_and_priority_stand_with_the_allocation() -> None:
    values = container(busy(Node(), 0, grant()), *ROW_A)

    assert values["allocation_info"] == {("s", "fixed", "offline"): 1}


def test_replicas_on_one_card_are_summed_and_are_no_limit() -> None:
    grants = [grant(core=None, memory=None, replicas=n) for n in (1, 2)]

    rows = busy(Node(), 0, *grants)

    assert container(rows, *ROW_A)["allocated_replicas"] == 3
    assert not {"core_limit_ratio", "memory_limit_bytes"} & container(rows, *ROW_A).keys()
    assert not {"core_limit_gpus", "memory_limit_bytes"} & pod(rows).keys()


def test_parts_of_several_cards_are_limits_of_each_and_of_the_pod_together() -> None:
    node = Node((GPU, OTHER))

    rows = busy(node, 0, grant(core=0.6), grant(device="GPU-1", core=0.6))

    assert container(rows, *ROW_A)["core_limit_ratio"] == 0.6
    assert container(rows, *ON_OTHER)["core_limit_ratio"] == 0.6
    assert pod(rows)["core_limit_gpus"] == pytest.approx(1.2)


def test_a_claim_without_shares_names_its_containers_and_limits_none() -> None:
    claim = [grant(key, core=None, memory=None) for key in (A, SIDE)]
    node = Node()
    node.owners[8] = SIDE

    rows = node.cycle(
        0, {"GPU-0": window({1: SECOND // 4, 8: SECOND // 4})}, allocated=tuple(claim)
    )

    for labels in (ROW_A, (*SIDE, "0", "GPU-0")):
        values = container(rows, *labels)
        assert values["core_seconds_total"] == SECOND // 4
        assert "allocation_info" in values
        assert not {"core_limit_ratio", "allocated_core_seconds_total"} & values.keys()
    assert "allocated_core_ratio" not in rows["device"]["0", "GPU-0"].values


# --- placement ------------------------------------------------------------------------------------


def test_use_on_another_device_than_the_allocated_one_is_a_mismatch_and_moves_nothing() -> None:
    node = Node((GPU, OTHER))
    busy(node, 0, grant())

    rows = busy(node, 1, grant(), on="GPU-1")

    declared, observed = container(rows, *ROW_A), container(rows, *ON_OTHER)
    assert (declared["placement_mismatch"], observed["placement_mismatch"]) == (0, 1)
    assert declared["core_limit_ratio"] == 0.5
    assert declared["core_seconds_total"] == SECOND // 4
    assert observed["core_seconds_total"] == SECOND // 4
    assert "core_limit_ratio" not in observed
    assert pod(rows)["core_limit_utilization_ratio"] == pytest.approx((0.125 + 0.125) / 0.5)


def test_memory_on_another_device_than_the_allocated_one_counts_against_the_limit() -> None:
    node = Node((GPU, OTHER))
    node.cycle(0, allocated=(grant(),))
    node.ledger.set_memory("GPU-0", {}, at(0))
    node.ledger.set_memory("GPU-1", {A: MemoryHeld(400, 1)}, at(0))

    rows = node.cycle(1, allocated=(grant(),))

    assert container(rows, *ON_OTHER)["placement_mismatch"] == 1
    assert pod(rows)["memory_limit_utilization_ratio"] == pytest.approx(400 / 500)


def test_use_on_another_device_than_the_allocated_one_is_borrowed_there() -> None:
    node = Node((GPU, OTHER))
    busy(node, 0, grant(), on="GPU-1")

    rows = busy(node, 1, grant(), on="GPU-1")

    assert container(rows, *ON_OTHER)["borrowed_core_seconds_total"] == SECOND // 4
    assert "borrowed_core_seconds_total" in rows["namespace"]["n", "GPU-1"].values
    values = pod(rows)
    used, idle, borrowed = (
        _value(values, f"{name}_seconds_total")
        for name in ("limited_core", "allocated_idle_core", "borrowed_core")
    )
    assert used + idle - borrowed == values["allocated_core_seconds_total"] == SECOND // 2


def test_a_mismatch_is_over_when_the_process_has_gone() -> None:
    node = Node((GPU, OTHER))
    busy(node, 0, grant(), on="GPU-1", held={A: MemoryHeld(10, 1)})

    rows = node.cycle(1, allocated=(grant(),), held={})

    assert container(rows, *ROW_A)["placement_mismatch"] == 0
    assert "placement_mismatch" not in container(rows, *ON_OTHER)


def test_more_devices_in_use_than_allocated_are_a_mismatch_on_those_that_none_names() -> None:
    node = Node((GPU, OTHER))
    node.owners[5] = A
    windows = {"GPU-0": window({1: 9}), "GPU-1": window({5: 9})}

    rows = node.cycle(0, windows, allocated=(grant(device=None),))

    assert container(rows, *ROW_A)["placement_mismatch"] == 1
    assert container(rows, *ON_OTHER)["placement_mismatch"] == 1
    assert pod(rows)["core_limit_gpus"] == 0.5


def test_use_without_any_allocation_is_no_mismatch() -> None:
    values = container(busy(Node(), 0), *ROW_A)

    assert not {"placement_mismatch", "allocation_info"} & values.keys()


def test_a_container_beside_one_that_is_allocated_is_no_mismatch() -> None:
    node = Node((GPU, OTHER))

    rows = busy(node, 0, grant(SIDE), on="GPU-1")

    assert "placement_mismatch" not in container(rows, *ON_OTHER)


def test_the_instances_of_an_allocated_card_are_within_its_allocation() -> None:
    node = Node((GPU, replace(OTHER, parent_uuid="GPU-0")))

    assert container(busy(node, 0, grant(), on="GPU-1"), *ON_OTHER)["placement_mismatch"] == 0


def test_a_mismatch_is_found_for_an_allocation_of_the_pod_as_a_whole() -> None:
    node = Node((GPU, OTHER))

    rows = busy(node, 0, grant(WHOLE_POD), on="GPU-1")

    assert container(rows, *ON_OTHER)["placement_mismatch"] == 1
    assert container(busy(node, 1, grant(WHOLE_POD)), *ROW_A)["placement_mismatch"] == 0


def test_use_that_no_container_is_named_for_is_held_against_the_whole_pods_devices() -> None:
    node = Node((GPU, OTHER))
    node.owners[1] = WHOLE_POD

    assert container(busy(node, 0, grant()), *WHOLE_POD, "0", "GPU-0")["placement_mismatch"] == 0
    rows = busy(node, 1, grant(), on="GPU-1")
    assert container(rows, *WHOLE_POD, "1", "GPU-1")["placement_mismatch"] == 1


@pytest.mark.parametrize(
    ("allocated", "parent", "quantities"),
    [
        (grant(device=None), "", {"core_limit", "memory_limit"}),
        (grant(device=None, memory=None), "", {"core_limit"}),
        (grant(device=None, core=1.0, memory=None), "", {"core_limit", "memory_limit"}),
        (grant(device=None, core=None), "", {"memory_limit"}),
        (grant(device=None, core=None), "GPU-0", {"core_limit", "memory_limit"}),
        (grant(device=None, core=None, memory=None, replicas=1), "GPU-0", {"allocated_replicas"}),
        (grant(device="GPU-far"), "", {"core_limit", "memory_limit"}),
    ],
)
def test_before_the_placement_is_known_what_was_promised_is_unmeasured_and_nothing_else(
    allocated: Allocated, parent: str, quantities: set[str]
) -> None:
    node = Node((GPU, replace(OTHER, parent_uuid=parent)))

    rows = node.cycle(0, {"GPU-0": window({})}, allocated=(allocated,))

    values = container(rows, *A, "", "")
    assert unmeasured(values) == {(quantity, "placement") for quantity in quantities}
    assert "allocation_info" in values
    assert pod(rows).get("core_limit_gpus") == allocated.allocation.core
    assert pod(rows).get("memory_limit_bytes") == allocated.allocation.memory_bytes


def test_allocated_time_is_counted_before_the_placement_is_known_and_after() -> None:
    node = Node()
    for second in (0, 10):
        rows = node.cycle(second, {"GPU-0": window({})}, allocated=(grant(device=None),))
    assert container(rows, *A, "", "")["allocated_core_seconds_total"] == 5 * SECOND

    rows = node.cycle(20, {"GPU-0": window({})}, allocated=(grant(),))

    assert container(rows, *A, "", "") == {"allocated_core_seconds_total": 10 * SECOND}
    assert container(rows, *ROW_A)["allocated_core_seconds_total"] == 0
    assert pod(rows)["allocated_core_seconds_total"] == 10 * SECOND
    late = node.cycle(400, {"GPU-0": window({})}, allocated=(grant(),))
    assert (*A, "", "") not in late["container"]


def test_a_pods_allocated_time_is_its_containers_to_the_nanosecond_wherever_they_are_placed() -> (
    None
):
    node, third = Node((GPU, OTHER)), 1 / 3
    placed = [
        (grant(device=None, core=third), grant(SIDE, core=third)),
        (grant(core=third), grant(SIDE, core=third)),
        (grant(device="GPU-1", core=third), grant(SIDE, core=third)),
    ]
    for second, grants in enumerate(placed * 2):
        rows = node.cycle(second * 1.000_000_001, allocated=grants)

        containers = rows["container"].values()
        shown = [_value(row.values, "allocated_core_seconds_total") for row in containers]
        assert pod(rows)["allocated_core_seconds_total"] == sum(shown)


def test_a_pods_allocated_time_keeps_what_a_card_that_left_and_an_ended_container_had() -> None:
    node = Node((GPU, OTHER))
    both = (grant(), grant(SIDE, "GPU-1"))
    for second in range(4):
        busy(node, second, *both)
    ended = busy(node, 4, grant())
    assert _value(pod(ended), "allocated_core_seconds_total") == 4 * SECOND

    node.devices = (OTHER,)
    for second in range(5, 7):
        rows = node.cycle(second, {"GPU-1": window({})}, allocated=(grant(device=None),))
    assert _value(pod(rows), "allocated_core_seconds_total") == 5 * SECOND
    node.devices = (GPU, OTHER)
    late = [busy(node, second, grant()) for second in (6 + 1, 400)][-1]
    assert (*SIDE, "1", "GPU-1") not in late["container"]
    assert _value(pod(late), "allocated_core_seconds_total") == (5 + 197) * SECOND


@pytest.mark.parametrize("grants", [(grant(),), (grant(), grant(SIDE, core=None))])
def test_what_a_pod_left_idle_closes_its_books(grants: tuple[Allocated, ...]) -> None:
    node = Node()
    first, last = [pod(busy(node, second, *grants)) for second in range(3)][::2]

    used, kept, idle, borrowed = (
        _value(last, f"{name}_seconds_total") - _value(first, f"{name}_seconds_total")
        for name in ("core", "allocated_core", "allocated_idle_core", "borrowed_core")
    )
    assert used + idle - borrowed == kept == SECOND


@pytest.mark.parametrize(
    "grants",
    [(grant(device=None),), (grant(), grant(SIDE, device="GPU-9"))],
    ids=["on no card", "one on a lost card"],
)
def test_what_a_pod_left_idle_is_unknown_where_use_is_not_held_against_all_its_shares(
    grants: tuple[Allocated, ...],
) -> None:
    node = Node()
    values = [pod(busy(node, second, *grants)) for second in range(3)][-1]

    assert "allocated_core_seconds_total" in values
    assert not {"allocated_idle_core_seconds_total", "borrowed_core_seconds_total"} & values.keys()


def test_what_a_whole_pod_left_idle_is_known_beside_its_containers() -> None:
    node = Node()
    node.owners = {1: WHOLE_POD}
    other = Allocated(B, replace(grant(B).allocation, pod_uid="uid-b"))
    rows = [busy(node, second, grant(WHOLE_POD), other) for second in range(3)][-1]

    idle, borrowed = "allocated_idle_core_seconds_total", "borrowed_core_seconds_total"
    whole, mine, theirs = (
        container(rows, *WHOLE_POD, "0", "GPU-0"),
        rows["namespace"]["n", "GPU-0"].values,
        rows["namespace"]["m", "GPU-0"].values,
    )
    assert all({idle, borrowed} <= each.keys() for each in (whole, mine, theirs))
    assert (whole[idle], whole[borrowed]) == (mine[idle], mine[borrowed])


def _value(values: Mapping[str, Value], name: str) -> int:
    return _number(values[name])


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def test_an_allocation_that_loses_its_share_keeps_the_time_that_it_had() -> None:
    node = Node()
    for second in (0, 10):
        node.cycle(second, allocated=(grant(),))

    for second in (20, 30):
        rows = node.cycle(second, allocated=(grant(core=None),))

    assert container(rows, *ROW_A)["allocated_core_seconds_total"] == 10 * SECOND
    assert pod(rows)["allocated_core_seconds_total"] == 10 * SECOND


def test_what_ran_until_a_share_was_lost_is_compared_with_it() -> None:
    node = Node()
    node.cycle(0, allocated=(grant(),))
    for second in (1, 2):
        node.cycle(second, {"GPU-0": window({1: SECOND // 4})}, allocated=(grant(core=None),))

    assert node.ledger.limited_core_ns["n", "a"] == SECOND // 4


# --- pods -----------------------------------------------------------------------------------------


def test_a_pods_memory_ratio_is_that_of_its_fullest_device_over_its_containers_there() -> None:
    node = Node((GPU, OTHER))
    node.owners[8] = SIDE
    held: dict[Owner, MemoryHeld] = {A: MemoryHeld(300, 1), SIDE: MemoryHeld(60, 1)}
    here = (grant(), grant(SIDE, memory=100))
    there = (grant(device="GPU-1", memory=1000), grant(SIDE, device="GPU-1", memory=120))

    rows = node.cycle(0, allocated=(*here, *there), held=held)

    assert pod(rows)["memory_limit_utilization_ratio"] == pytest.approx(360 / 600)


def test_a_pods_core_ratio_leaves_out_containers_without_a_share() -> None:
    node = Node()
    node.owners[8] = SIDE
    both = {"GPU-0": window({1: SECOND // 4, 8: SECOND // 2})}

    rows = node.cycle(0, both, allocated=(grant(), grant(SIDE, core=None)))

    assert pod(rows)["core_usage_gpus"] == pytest.approx(0.75)
    assert pod(rows)["core_limit_utilization_ratio"] == pytest.approx(0.25 / 0.5)


def test_memory_of_the_pod_as_a_whole_is_held_against_each_of_its_devices() -> None:
    node = Node((GPU, OTHER))
    grants = (grant(WHOLE_POD), grant(WHOLE_POD, device="GPU-1", memory=200))

    rows = busy(node, 0, *grants, held={A: MemoryHeld(100, 1)})

    assert pod(rows)["memory_limit_utilization_ratio"] == pytest.approx(100 / 200)
    assert pod(rows)["core_limit_gpus"] == 1.0


def test_a_container_with_its_own_share_beside_the_pods_has_its_limits() -> None:
    values = container(busy(Node(), 0, grant(), grant(WHOLE_POD)), *ROW_A)

    assert unmeasured(values) == set()
    assert values["core_limit_ratio"] == 0.5


def test_a_pod_as_a_whole_is_withheld_with_its_device() -> None:
    node = Node((GPU, OTHER))
    lost = {"GPU-0": DeviceState.LOST}

    rows = [
        node.cycle(s, {"GPU-1": window({})}, states=lost, allocated=(grant(WHOLE_POD),))
        for s in range(4)
    ][-1]

    assert set(pod(rows)) == {"info"}


def test_a_pod_at_work_on_a_wrong_device_is_withheld_with_that_device() -> None:
    node = Node((GPU, OTHER))
    busy(node, 0, grant(), on="GPU-1", held={A: MemoryHeld(10, 1)})
    lost = {"GPU-1": DeviceState.LOST}

    rows = [busy(node, s, grant(), states=lost) for s in (1, 2, 3)][-1]
    anew = busy(node, 4, grant(uid="uid-b"), states=lost)

    assert set(pod(rows)) == {"info"}
    assert "core_seconds_total" in pod(anew)  # the one made anew under the name is not there


# --- devices --------------------------------------------------------------------------------------


def allocated(rows: Rows, index: str = "0") -> tuple[Value | None, Value | None]:
    values = rows["device"][index, f"GPU-{index}"].values
    return values.get("allocated_core_ratio"), values.get("allocated_memory_bytes")


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ((grant(), grant(SIDE, core=0.7, memory=300)), (1.2, 800)),
        ((grant(WHOLE_POD),), (0.5, 500)),
        ((grant(core=None),), (None, 500)),
        ((grant(core=None, memory=None, replicas=2),), (None, None)),
        ((grant(), grant(SIDE, device=None)), (0.5, 500)),
        ((grant(device=None),), (None, None)),
        ((grant(device="GPU-1"),), (0, 0)),
        ((), (0, 0)),
    ],
)
def test_what_is_allocated_on_a_device_is_the_sum_of_what_is_known_to_be(
    grants: tuple[Allocated, ...], expected: tuple[float | None, int | None]
) -> None:
    assert allocated(Node((GPU, OTHER)).cycle(0, allocated=grants)) == expected


def test_nothing_is_said_of_allocations_before_any_pod_was_heard_of() -> None:
    ledger = Ledger(300 * SECOND, 15 * SECOND)
    node = Node()
    node.ledger = ledger
    node.cycle(0)

    rows = FactRows(facts_of(ledger.frozen(), CycleFacts(at(0))), None)

    assert not {"allocated_core_ratio", "allocated_memory_bytes"} & rows["device"][0].values.keys()


def test_a_board_that_is_divided_into_instances_is_not_allocated_itself() -> None:
    rows = Node((replace(GPU, sharing="mig"),)).cycle(0)

    assert allocated(rows) == (None, None)


def test_replicas_of_a_device_stand_with_it() -> None:
    node = Node((GPU, OTHER))
    node.cycle(0)

    rows = FactRows(facts_of(node.ledger.frozen(), CycleFacts(at(0), replicas={"GPU-1": 4})), None)[
        "device"
    ]

    assert [row.values.get("sharing_replicas") for row in rows] == [None, 4]


def test_memory_of_nobody_stands_at_zero_before_there_is_any() -> None:
    node = Node()

    def of(rows: Rows) -> Labelled:
        found = rows["device"]["0", "GPU-0"].values["unattributed_memory_bytes"]
        assert isinstance(found, Mapping)
        return found

    first = of(node.cycle(0, held={A: MemoryHeld(10, 1)}))

    assert set(first) == {
        (reason,) for reason in ("host_process", "unknown_cgroup", "exited", "no_pid", "overlap")
    }
    assert set(first.values()) == {0}


# --- over time ------------------------------------------------------------------------------------

CORES = st.sampled_from([None, 0.25, 1.0])
KEYS = st.sampled_from([A, SIDE, WHOLE_POD, ContainerKey("m", "b", "c")])
DEVICES = st.sampled_from([None, "GPU-0", "GPU-1", "GPU-far"])
grants = st.builds(grant, KEYS, DEVICES, CORES, st.sampled_from([None, 0, 400]))
Histories = list[tuple[float, dict[int, int], dict[str, DeviceState], list[Allocated]]]
histories = st.lists(
    st.tuples(
        st.floats(0.1, 200),
        st.dictionaries(st.integers(1, 4), st.integers(0, SECOND), max_size=4),
        st.sampled_from([{}, {"GPU-0": DeviceState.LOST}]),
        st.lists(grants, max_size=4),
    ),
    max_size=25,
)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(histories)
def test_allocations_that_come_change_and_disagree_let_no_counter_fall(
    history: Histories,
) -> None:
    node = Node((GPU, OTHER))
    node.owners = {1: A, 2: SIDE, 3: WHOLE_POD, 4: ContainerKey("m", "b", "c")}
    clock, shown = 0.0, dict[tuple[str, tuple[str, ...], str], float]()
    for wait, use, states, allocated in history:
        clock += wait
        on = {"GPU-0": window(use), "GPU-1": window(use)}
        rows = node.cycle(clock, on, states=states, allocated=tuple(allocated))
        shown = _risen(rows, {key: n for key, n in shown.items() if _is_open(node, *key)})
        _agrees(rows, allocated, node)


def _is_open(node: Node, level: str, labels: tuple[str, ...], name: str) -> bool:
    """Whether the account of a series is still kept: one that was closed may start anew."""
    ledger = node.ledger
    if level == "pod":
        return labels in ledger.pods
    if level != "container":
        return True
    key, uuid = ContainerKey(*labels[:3]), labels[4]
    of_allocation = "allocated" in name or "borrowed" in name
    if of_allocation and not (key.container and uuid):
        return (key, uuid) in ledger.unplaced
    return uuid in ledger.devices and key in ledger.devices[uuid].owners


def _risen(
    rows: Rows, before: Mapping[tuple[str, tuple[str, ...], str], float]
) -> dict[tuple[str, tuple[str, ...], str], float]:
    """The counters on the page and those that are withheld; none has fallen."""
    kept = dict(before)
    for level in ("container", "pod", "namespace", "device"):
        for labels, row in rows[level].items():
            for name, value in row.values.items():
                if name.endswith("_total") and isinstance(value, int | float):
                    assert value >= kept.get((level, labels, name), 0), (level, labels, name)
                    kept[level, labels, name] = value
    return kept


def _agrees(rows: Rows, allocated: list[Allocated], node: Node) -> None:
    """The rules that hold on every page."""
    for labels, row in rows["pod"].items():
        if (of_pod := row.values.get("allocated_core_seconds_total")) is not None:
            parts = [r.values for own, r in rows["container"].items() if own[:2] == labels]
            spent = [each.get("allocated_core_seconds_total", 0) for each in parts]
            # What has left the containers' accounts is still in their pod's.
            assert sum(map(_number, spent)) <= _number(of_pod)
    limited = {(k, a.device) for k, a in allocated if k.container and a.core is not None}
    for labels, row in rows["container"].items():
        key, uuid = ContainerKey(*labels[:3]), labels[4]
        if "core_limit_ratio" in row.values:
            assert (key, uuid) in limited
        if row.values.get("placement_mismatch") == 1:
            assert all(a.device != uuid for k, a in allocated if k == key)
    assert node.ledger.tenures.keys() == {key[:2] for key, _ in allocated}
