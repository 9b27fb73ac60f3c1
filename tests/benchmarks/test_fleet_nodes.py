"""The fleet's nodes: which there are, what befalls them, and what their pages come to."""

import asyncio

import pytest
from aiohttp import ClientError
from aiohttp.test_utils import TestClient, TestServer

from benchmarks.fleet.agent import Agent, settings
from benchmarks.fleet.clock import SECOND_NS, SetClock
from benchmarks.fleet.nodes import (
    KINDS,
    TROUBLES,
    TURN,
    Trouble,
    kind,
    kinds,
    scenario,
    standard,
    trouble,
    troubled,
)
from benchmarks.fleet.serve import Fleet, application
from exporter.agent.simulation.load_scenario import describe
from exporter.metrics.text import Format
from tests.e2e.programs import Page

BEGIN_S = 1_700_000_000


def test_the_places_of_the_kinds_fill_the_mix_once() -> None:
    assert sorted(place for one in KINDS.values() for place in one.places) == list(range(TURN))


def test_any_twenty_nodes_in_a_row_are_the_whole_mix_with_all_its_troubles() -> None:
    for first in (0, 13, 100):
        numbers = range(first, first + TURN)
        assert {kind(number) for number in numbers} == set(KINDS)
        assert sum(trouble(number) is not None for number in numbers) == len(TROUBLES)
    assert kinds(200) == {name: 10 * len(one.places) for name, one in KINDS.items()}
    assert len(list(troubled(200))) == 10 * len(TROUBLES)


def test_a_node_is_the_same_each_time_and_unlike_its_neighbours() -> None:
    assert scenario(4) == scenario(4)
    names = [pod["name"] for number in range(TURN) for pod in scenario(number)["pods"]]
    lasting = [name for name in names if not name.startswith("batch-")]

    assert len(set(lasting)) == len(lasting) > 400


@pytest.mark.parametrize("number", range(TURN))
def test_every_node_is_a_valid_scenario(number: int) -> None:
    described = describe(scenario(number), str(number))

    assert described.node_name.endswith(f"{number:04}")
    assert described.pods


def test_a_standard_node_has_eight_gpus_and_thirty_pods_that_stay() -> None:
    described = describe(standard(), "standard")

    assert len(described.devices) == 8
    assert len(described.pods) == 30
    assert all(pod.span.every_ns is None for pod in described.pods)


def test_a_trouble_lasts_from_its_beginning_to_before_its_end() -> None:
    one = Trouble("down", 60, 120)

    assert [one.at(second) for second in (59.9, 60, 119.9, 120)] == [False, True, True, False]


class Node:
    """An agent of a node of the fleet, moved by seconds."""

    def __init__(self, number: int) -> None:
        self.blind = False
        self.clock = SetClock(BEGIN_S)
        self.agent = Agent(scenario(number), settings(), self.clock, lambda: self.blind)

    def after(self, cycles: int) -> Page:
        """The page after so many more cycles."""
        for _ in range(cycles):
            self.clock.now_ns += 5 * SECOND_NS
            self.agent.cycle()
        return Page(self.agent.pages.page(Format.TEXT, zipped=False).decode())


def test_a_blind_node_withholds_its_pods_and_keeps_its_devices() -> None:
    node = Node(0)
    assert node.after(4).all("mgpu_container_core_seconds_total")
    node.blind = True
    page = node.after(1)

    assert not page.all("mgpu_container_core_seconds_total")
    assert page.all("mgpu_device_busy_seconds_total")
    assert page.value("mgpu_exporter_source_up", source="cgroups") == 0


def test_a_restarted_exporter_begins_its_accounts_again() -> None:
    node = Node(0)
    before = node.after(6).counters()
    node.agent.restart()
    after = node.after(2).counters()
    busy = [key for key in after if key[0] == "mgpu_device_busy_seconds_total"]

    assert busy
    assert all(after[key] < before[key] for key in busy)


def test_each_node_has_a_page_of_its_own_and_one_that_is_down_does_not_answer() -> None:
    fleet = Fleet(TURN, now_s=lambda: 0.0)
    down = next(n for n in range(TURN) if fleet.members[n].suffers("down"))
    well = next(n for n in range(TURN) if trouble(n) is None)
    fleet.members[well].cycle()

    async def ask() -> tuple[str, int]:
        async with TestClient(TestServer(application(fleet))) as client:
            page = await (await client.get(f"/node/{well}/metrics")).text()
            with pytest.raises(ClientError):
                await client.get(f"/node/{down}/metrics")
            return page, (await client.get(f"/node/{TURN}/metrics")).status

    page, status = asyncio.run(ask())

    assert "mgpu_device_info{" in page
    assert status == 404


def test_what_was_down_comes_back_with_empty_accounts() -> None:
    now = 0.0
    fleet = Fleet(TURN, now_s=lambda: now)
    member = next(one for one in fleet.members if one.suffers("down"))
    member.cycle()
    assert member.agent.snapshot.version == 0
    now = 31.0
    member.cycle()
    assert member.agent.snapshot.version == 1


def test_a_slow_node_takes_its_time() -> None:
    delays = {member.delay_s for member in Fleet(TURN, now_s=lambda: 0.0).members}

    assert delays == {0.0, 2.0}
