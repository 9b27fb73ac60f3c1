"""What is withheld after some time is so after seconds, however often a device is read."""

import pytest

from exporter.agent.ledger import Moment
from exporter.agent.ledger.device_ledger import DeviceLedger
from exporter.model import DeviceState, Unmeasured
from tests.agent.ledger.node import Node, window

FAILED = {"GPU-0": DeviceState.FAILED}


def card(node: Node) -> DeviceLedger:
    return node.ledger.devices["GPU-0"]


@pytest.mark.parametrize(("every_s", "failures"), [(0.1, 25), (1, 3), (2, 2), (5, 2)])
def test_a_device_that_cannot_be_read_is_withheld_after_three_seconds(
    every_s: float, failures: int
) -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({})})
    stale = []
    for number in range(1, failures + 1):
        node.cycle(number * every_s, states=FAILED)
        stale.append(card(node).stale)
    assert stale == [None] * (failures - 1) + [Unmeasured.READ_FAILED]


def test_impossible_rows_are_believed_after_no_ten_seconds() -> None:
    node = Node()
    long = window({})._replace(end_unix_ns=5 * 10**9, observed_ns=5 * 10**9)
    rejected = long._replace(rejected={"percentage": 1})
    node.cycle(0, {"GPU-0": long})
    node.cycle(5, {"GPU-0": rejected})
    assert "core" not in card(node).unattributable
    node.cycle(10, {"GPU-0": rejected})
    assert card(node).unattributable["core"] is Unmeasured.REJECTED_SAMPLES


def test_figures_are_as_old_as_the_windows_of_the_device_that_was_read_longest_ago() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({})})
    node.cycle(4)
    assert node.ledger.figures_age_ns(Moment(4 * 10**9, 0)) == 4 * 10**9
    node.cycle(5, {"GPU-0": window({})})
    assert node.ledger.figures_age_ns(Moment(5 * 10**9, 0)) == 0
