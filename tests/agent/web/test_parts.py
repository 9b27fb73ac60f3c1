"""The parts of each card add up to its heading: on the page, in the terminal, and as JSON.

Of every scenario that is shipped, each few seconds, so that pods have just come and just ended.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from html import unescape
from typing import Any

import pytest

from exporter.agent import api
from exporter.agent.api import About
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.agent.simulation.load_scenario import shipped
from exporter.agent.web.page.choice import choice_of
from exporter.agent.web.page.nodepage import node_of
from exporter.agent.web.page.page import page
from exporter.answers.reading.feeds import FeedResult, NodeSight, view_of
from exporter.answers.reading.feeds.nodedocument import node_of_document
from exporter.answers.reading.feeds.overview import Line, LineKind
from exporter.model import Snapshot
from exporter.shown.processtree import tree_of_snapshot
from exporter.shown.tree import DeviceEntry, visible_to
from tests.agent.simulation.clock import ManualClock

SECONDS = range(10, 100, 11)
CLOSE = 1e-9
ROUNDED = 0.0051  # of a core: a figure's last digit
SCENARIOS = pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, marks=[pytest.mark.slow] * (one in {"eight-schemes", "hpc"}))
        for one in shipped()
    ],
)


@cache
def watched(scenario: str) -> tuple[Snapshot, ...]:
    """A scenario, looked at again and again."""
    clock, found = ManualClock(), []
    settings = load({"simulate": [scenario]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for second in range(SECONDS.stop):
        clock.move(1)
        collector.cycle()
        if second in SECONDS:
            found.append(collector.snapshot)
    return tuple(found)


def core_in(device: DeviceEntry) -> float:
    """The core of all parts of a device in the tree."""
    owners = [one.holding for pod in device.pods for one in pod.containers]
    parts = [held.average.core for held in owners]
    parts += [group.holding.average.core for group in device.groups]
    parts += [part.core for part in device.unattributed]
    parts += [device.ended_core, device.others.core if device.others else None]
    return sum(core or 0.0 for core in parts)


def memory_in(device: DeviceEntry) -> int:
    """The memory of all parts of a device in the tree."""
    owners = [one.holding for pod in device.pods for one in pod.containers]
    parts = [held.memory.used_bytes for held in owners]
    parts += [group.holding.memory.used_bytes for group in device.groups]
    parts += [part.memory_bytes for part in device.unattributed]
    parts.append(device.others.memory_bytes if device.others else None)
    return sum(filter(None, parts))


@pytest.mark.slow
def test_the_shipped_scenarios_have_pods_and_groups_that_end() -> None:
    ended = {
        scenario
        for scenario in shipped()
        for snapshot in watched(scenario)
        for device in tree_of_snapshot(snapshot).devices
        if (device.ended_core or 0.0) > 0.05
    }
    assert {"demo", "hpc", "mixed"} <= ended


@SCENARIOS
@pytest.mark.parametrize("namespaces", [None, (), ("batch",), ("inference", "media")])
def test_the_parts_of_the_tree_add_up(scenario: str, namespaces: tuple[str, ...] | None) -> None:
    for snapshot in watched(scenario):
        tree = tree_of_snapshot(snapshot)
        for device in (tree if namespaces is None else visible_to(tree, namespaces)).devices:
            assert device.facts is not None
            whole, used = device.facts.average.core, device.facts.memory.used_bytes
            if whole is not None and device.facts.is_up:
                assert core_in(device) == pytest.approx(whole, abs=CLOSE)
            assert used is None or memory_in(device) == used


@SCENARIOS
def test_the_bar_and_the_rows_of_each_card_add_up_to_its_heading(
    scenario: str,
) -> None:
    for snapshot in watched(scenario):
        text = page(node_of(snapshot, About(), 0), choice_of({"all": "1"}), 0, "/metrics")
        cards = text.split('<div class="gauge"><span class="label">Core<')[1:]
        assert len(cards) == sum(
            one.is_up and one.average.core is not None for one in snapshot.facts.devices
        )
        for card in cards:
            about = re.search(r'aria-label="Core in use ([^;"]*)', card)
            assert about is not None
            heading, _, of = about[1].partition(" of ")
            whole, core = percent_in(of) if of else 1.0, percent_in(heading)
            widths = re.findall(r'y="0" width="([0-9.]+)%"', card.partition("</svg>")[0])
            bar = sum(map(float, widths)) / 100 * whole
            assert bar == pytest.approx(core, abs=ROUNDED * (2 if of else 1) + 0.001 * len(widths))
            mine = re.split(r'</article>|<article|<details class="gpu', card)[0]
            cells = re.findall(r'<tr data-k="[^"]*">.*?<td class="n">(.*?)</td>', mine)
            rows = [percent_in(re.sub(r"<[^>]+>", " ", cell)) for cell in cells]
            assert sum(rows) == pytest.approx(core, abs=ROUNDED * (1 + len(rows)))


def percent_in(text: str) -> float:
    """The first percentage of a text; 0 where there is none."""
    found = re.search(r"([0-9.]+)\s*%", unescape(text).replace("\u00a0", " "))
    return float(found[1]) / 100 if found else 0.0


@SCENARIOS
@pytest.mark.parametrize("shown", [None, {"batch", "research"}])
def test_the_lines_of_the_terminal_add_up_here_and_from_afar(
    scenario: str, shown: set[str] | None
) -> None:
    for snapshot in watched(scenario):
        sights = [node_of_document(document_of(snapshot, shown), {})]
        if shown is None:
            sights.append(NodeSight(tree_of_snapshot(snapshot)))
        for line in view_of(FeedResult(sights), "test").lines:
            if line.kind is LineKind.DEVICE and line.core.value is not None:
                assert core_below(line) == pytest.approx(line.core.value, abs=CLOSE)


def core_below(line: Line) -> float:
    return sum(child.core.value or 0.0 for child in line.children)


@SCENARIOS
@pytest.mark.parametrize("shown", [None, set(), {"batch", "research"}])
def test_the_parts_of_each_device_in_json_add_up(scenario: str, shown: set[str] | None) -> None:
    core, ended = "core_utilization_ratio", "ended_core_utilization_ratio"
    for document in (document_of(snapshot, shown) for snapshot in watched(scenario)):
        owned, gone = Counter[str](), Counter[str]()
        owners = [one for pod in document["pods"] for one in pod["containers"]]
        for one in (*owners, *document.get("groups", ())):
            for part in one["devices"]:
                owned[part.get("uuid", "")] += part.get(core, 0.0)
                gone[part.get("uuid", "")] += part.get(ended, 0.0)
        for device in document["devices"]:
            uuid, whole = device["uuid"], device.get("utilization_ratio")
            assert gone[uuid] == pytest.approx(device.get(ended, 0.0), abs=CLOSE)
            parts = owned[uuid] + gone[uuid] + device.get("others", {}).get(core, 0.0)
            parts += sum(part.get(core, 0.0) for part in device["unattributed"])
            assert whole is None or parts == pytest.approx(whole, abs=CLOSE)


def document_of(snapshot: Snapshot, shown: set[str] | None) -> Mapping[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(api.snapshot(snapshot, About(), 0, shown)))
    return made
