"""Counters of kinds of groups: they begin before the first group, and outlive each of them."""

import pytest

from exporter.model import Device, DeviceState, GroupKey, MemoryHeld, Unmeasured
from tests.agent.ledger.node import GPU, GROUP, SECOND, Node, window

JOB, NEXT_JOB = GroupKey("slurm", "1"), GroupKey("slurm", "2")
SLURM = ("slurm", "GPU-0")


def node_with_jobs() -> Node:
    node = Node()
    node.owners |= {5: JOB, 6: NEXT_JOB}
    node.ledger.group_kinds = frozenset({"slurm"})
    return node


def test_a_kind_that_the_node_can_have_is_shown_at_0_before_its_first_group() -> None:
    node = node_with_jobs()

    rows = node.cycle(0, {"GPU-0": window({}, energy=7)})["group_kind"]

    assert rows[SLURM].values == {"core_seconds_total": 0, "energy_joules_total": 0}


def test_what_groups_used_stays_with_their_kind_when_they_are_gone() -> None:
    node = node_with_jobs()
    node.cycle(0, {"GPU-0": window({5: 300}, energy=70)}, held={})
    node.cycle(400, {"GPU-0": window({6: 200}, energy=30)}, held={})
    rows = node.cycle(401, {"GPU-0": window({6: 1})}, held={})

    assert [labels[1] for labels in rows["group"]] == ["2"]
    assert rows["group_kind"][SLURM].values == {
        "core_seconds_total": 501,
        "energy_joules_total": 100,
    }


def test_a_kind_without_an_earlier_sign_begins_with_its_first_group_on_all_devices() -> None:
    node = Node((GPU, Device("GPU-1", 1, "nvidia")))
    windows = {"GPU-0": window({3: 40}), "GPU-1": window({})}

    rows = node.cycle(0, windows)["group_kind"]

    assert {labels: row.values["core_seconds_total"] for labels, row in rows.items()} == {
        ("docker", "GPU-0"): 40,
        ("docker", "GPU-1"): 0,
    }


def test_a_group_that_only_holds_memory_has_its_kind() -> None:
    node = Node()

    rows = node.cycle(0, {"GPU-0": window({})}, held={GROUP: MemoryHeld(10, 1)})

    assert rows["group_kind"]["docker", "GPU-0"].values["core_seconds_total"] == 0


def test_a_device_that_comes_later_has_the_kinds_too() -> None:
    node = node_with_jobs()
    node.cycle(0, {"GPU-0": window({5: 10})})
    node.devices = (GPU, Device("GPU-1", 1, "nvidia"))

    rows = node.cycle(1, {"GPU-1": window({})})["group_kind"]

    assert rows["slurm", "GPU-1"].values["core_seconds_total"] == 0


def test_the_kinds_of_a_device_that_cannot_be_read_are_withheld_and_come_back_no_lower() -> None:
    node = node_with_jobs()
    node.cycle(0, {"GPU-0": window({5: SECOND})})
    for second in (1, 2, 3):
        blind = node.cycle(second, states={"GPU-0": DeviceState.LOST})
    back = node.cycle(4, {"GPU-0": window({5: 1})})

    assert not blind["group_kind"]
    assert back["group_kind"][SLURM].values["core_seconds_total"] == SECOND + 1


def test_the_kinds_are_withheld_while_no_process_can_be_given_to_its_group() -> None:
    node = node_with_jobs()
    node.ledger.unidentified = Unmeasured.NO_HOSTPID

    assert not node.cycle(0, {"GPU-0": window({5: 10})})["group_kind"]


def test_core_that_is_not_measured_is_absent_of_its_kinds_too() -> None:
    node = node_with_jobs()
    refused = {"core": Unmeasured.NOT_SUPPORTED}

    rows = node.cycle(0, {"GPU-0": window({5: 10}, energy=5)}, unmeasured=refused)

    assert rows["group_kind"][SLURM].values == {}


@pytest.mark.parametrize(("doubted", "other"), [(JOB, GROUP), (GROUP, JOB)])
def test_the_kind_of_a_group_that_cannot_be_told_is_withheld_and_no_other(
    doubted: GroupKey, other: GroupKey
) -> None:
    node = node_with_jobs()
    node.untold = {doubted: Unmeasured.READ_FAILED}

    rows = node.cycle(0, {"GPU-0": window({3: 10, 5: 20})})["group_kind"]

    assert rows[doubted.kind, "GPU-0"].values == {}
    assert rows[other.kind, "GPU-0"].values["core_seconds_total"] in {10, 20}


def test_the_groups_of_a_kind_add_up_to_it() -> None:
    node = node_with_jobs()
    for second in range(5):
        seen = window({3: second * 7, 5: 100, 6: second * second}, energy=1000)
        rows = node.cycle(second, {"GPU-0": seen})

    for kind in ("docker", "slurm"):
        for name in ("core_seconds_total", "energy_joules_total"):
            groups = [r.values[name] for labels, r in rows["group"].items() if labels[0] == kind]
            whole = rows["group_kind"][kind, "GPU-0"].values[name]
            assert isinstance(whole, int)
            assert whole == sum(one for one in groups if isinstance(one, int))
