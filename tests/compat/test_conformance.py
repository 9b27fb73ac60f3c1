"""The queries of public dashboards and tools, asked of a real Prometheus that scraped the demo."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.compat.compatpage import CompatPage
from exporter.metrics.compat.dcgm_renamed import RENAMED
from exporter.metrics.text import Format, Renderer
from tests.agent.simulation.clock import ManualClock
from tests.store import Store, Target

LIST = yaml.load((Path(__file__).parents[2] / "docs/pages/dcgm.yaml").read_text(), yaml.CSafeLoader)
QUERIES: list[dict[str, Any]] = LIST["queries"]


def since_49(query: str) -> str:
    """The query with the names of dcgm-exporter 4.9."""
    return re.sub(r"DCGM_FI_(\w+)", lambda m: f"DCGM_FI_{RENAMED.get(m[1], m.groups())[0]}", query)


BOTH = [
    *QUERIES,
    *({**one, "query": new} for one in QUERIES if (new := since_49(one["query"])) != one["query"]),
]
"""The list in both name sets; the exporter serves both at once, as the drop-in does."""
CYCLE_S, SCRAPE_S, SCRAPES = 5, 15, 24
COMPARED = re.compile(r"(.*) > \d+$")

# the labels of the target: with honorLabels the chart's monitors drop pod, container and namespace
NODE = {"job": "nvidia-dcgm-exporter", "instance": "node-1"}
EXPORTER = {"pod": "exporter-x", "namespace": "gpu", "container": "mgpu-exporter"}
HONOURED = Target(NODE)
EXPORTED = Target({**NODE, **EXPORTER, "instance": "node-2"}, honors=False)


class Scraped:
    """A Prometheus after some minutes of the demo, and the time of the last scrape."""

    def __init__(self, store: Store, now: float) -> None:
        self.store, self.now = store, now

    def series(self, query: str, *, exported: bool = False) -> list[dict[str, Any]]:
        """What a query returns, of the target that has its labels by its query's custom."""
        instance = (EXPORTED if exported else HONOURED).labels["instance"]
        asked = query.replace("$instance", instance).replace("$gpu", ".*")
        return [
            one
            for one in self.store.query(asked, self.now)
            if one["metric"].get("instance", instance) == instance
        ]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    clock = ManualClock()
    settings = load({"simulate": ["demo"]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    compat, renderer = CompatPage(["dcgm", "dcgm-4.9"], "node-1", ["uid"]), Renderer()
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        at = 0.0
        for _ in range(SCRAPES):
            for _ in range(0, SCRAPE_S, CYCLE_S):
                clock.move(CYCLE_S)
                collector.cycle()
            snapshot = collector.snapshot
            page = b"".join(one.render(snapshot, Format.TEXT) for one in (renderer, compat))
            at = snapshot.unix_ns / 1e9
            for target in (HONOURED, EXPORTED):
                store.scrape(target, page.decode(), at)
        yield Scraped(store, at)


pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


def named(entry: dict[str, Any]) -> str:
    return f"{entry['tool']}: {entry['query']}"


@pytest.mark.parametrize("entry", BOTH, ids=named)
def test_a_query_returns_what_the_list_says(entry: dict[str, Any], scraped: Scraped) -> None:
    found = scraped.series(entry["query"], exported=entry.get("exported", False))
    if entry["expect"] == "quiet":
        compared = COMPARED.fullmatch(entry["query"])
        assert compared
        assert found == []
        assert scraped.series(compared[1])
    else:
        assert bool(found) == (entry["expect"] == "data")


EQUIVALENTS = [
    one for one in sorted({*LIST["equivalents"].values()}) if not one.startswith("none: ")
]


@pytest.mark.parametrize("query", EQUIVALENTS)
def test_what_board_14574_shows_can_be_asked_here(query: str, scraped: Scraped) -> None:
    assert scraped.series(query)


def test_a_sum_over_the_parts_of_a_card_is_the_card(scraped: Scraped) -> None:
    parts = scraped.store.values(
        'sum by (UUID) (DCGM_FI_DEV_FB_USED{instance="node-1"}) * 1048576', scraped.now, "UUID"
    )
    cards = scraped.store.values(
        'mgpu_device_memory_used_bytes{instance="node-1"}', scraped.now, "uuid"
    )
    assert parts == {uuid: pytest.approx(used) for uuid, used in cards.items()}
    assert len(cards) == 4


@pytest.mark.parametrize("named_as", [str, since_49], ids=["dcgm", "dcgm-4.9"])
def test_opencosts_query_finds_every_container_by_its_uid(
    named_as: Callable[[str], str], scraped: Scraped
) -> None:
    (usage, _) = (entry for entry in QUERIES if entry["tool"] == "OpenCost usage")
    by = ("namespace", "pod", "container", "uid")
    found = scraped.store.values(
        named_as(usage["query"]).replace('container!=""', 'container!="",instance="node-1"'),
        scraped.now,
        *by,
    )
    users = scraped.store.values(
        'mgpu_container_core_utilization_ratio{instance="node-1"}'
        ' and mgpu_container_processes{instance="node-1"}',
        scraped.now,
        *by[:3],
    )
    assert users.keys() <= {key[:3] for key in found}
    assert len(users) > 4
    assert all(uid for *_, uid in found)


@pytest.mark.parametrize("entry", QUERIES, ids=named)
def test_an_entry_has_a_source_and_a_reason_where_it_needs_one(entry: dict[str, Any]) -> None:
    assert entry["tool"] in LIST["sources"]
    assert ("why" in entry) == (entry["expect"] == "none")
    assert entry.keys() <= {"tool", "query", "expect", "why", "differs", "exported"}


def test_every_source_has_a_query() -> None:
    assert LIST["sources"].keys() == {entry["tool"] for entry in QUERIES}
