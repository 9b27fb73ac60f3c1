"""The reasons for what is unmeasured are those of the newest cycle."""

from dataclasses import replace

from exporter.model import Container, ContainerKey, MemoryHeld, Owner, Unmeasured
from tests.agent.ledger.node import ROW_A, SECOND, A, Node, allocated, window

POD = ContainerKey("n", "a", "")  # some process of it, of whichever container
DEVICE = ("0", "GPU-0")
BUSY = {"GPU-0": window({1: SECOND // 4, 9: SECOND // 4})}
HELD: dict[Owner, MemoryHeld] = {POD: MemoryHeld(100, 1)}


def pending_node() -> Node:
    """A node whose only pod has not told the id of its container."""
    node = Node()
    node.pod = replace(node.pod, containers=(Container("c"),))
    node.owners[9] = POD
    return node


def test_a_reason_that_the_driver_gives_no_more_is_not_told_any_more() -> None:
    node = Node()
    node.cycle(0, BUSY)
    before = node.cycle(1, BUSY, unmeasured={"power": Unmeasured.NO_PERMISSION})["device"]

    after = node.cycle(2, BUSY)["device"]

    assert before[DEVICE].values["unmeasured"] == {("power", "no_permission"): 1}
    assert "unmeasured" not in after[DEVICE].values


def test_where_nobody_can_be_named_that_is_the_reason_and_not_that_a_container_is_pending() -> None:
    node, grant = pending_node(), (allocated(A),)
    node.cycle(0, BUSY, allocated=grant, held=HELD)
    node.ledger.unidentified = Unmeasured.NO_CGROUPS

    rows = node.cycle(1, BUSY, allocated=grant, held=HELD)

    told = rows["container"][ROW_A].values["unmeasured"]
    assert isinstance(told, dict)
    assert {reason for _, reason in told} == {str(Unmeasured.NO_CGROUPS)}
