"""What is worked out of a run: configurations, figures, tables, the large fleet on paper."""

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.boards.__main__ import record, rules, written
from benchmarks.fleet import config
from benchmarks.fleet.figures import Cost, Figures, figures
from benchmarks.fleet.history import BLOCK_S, Kept, block, newest_block, pages, stamped
from benchmarks.fleet.live import RULE_FILES, Live, Moment, Page
from benchmarks.fleet.paper import GIB, Assumed, herd, servers, watches
from benchmarks.fleet.programs import Samples, Usage
from benchmarks.fleet.recorded import Recorded, each
from benchmarks.fleet.report import costs_table, paper_tables, put, run_table
from benchmarks.fleet.series import choices, counted, parts
from exporter.metrics.families import FAMILIES, OWN_LEVEL
from tests.store import Store

FOUND = Figures(
    nodes=100,
    every_s=15,
    seconds=180,
    standard_samples=1000,
    standard_plain=100_000,
    standard_zipped=15_000,
    samples_per_s=5000,
    head_series=100_000,
    recorded=Recorded(series=100, samples_per_s=2),
    scrape_p50=0.01,
    scrape_p99=2,
    failed_scrapes=3,
    rules_s=0.1,
    zone=Cost(4096, 10),
    agent=Cost(2048, 5),
    storage=Cost(1024, 4),
    sent_bytes_per_sample=20,
    recorded_bytes_per_sample=50,
    lost=0,
    agent_wal_per_sample=10,
    block_bytes_per_sample=3,
    victoria_bytes_per_sample=2,
    late=0,
)


@pytest.mark.program("promtool")
@pytest.mark.parametrize("agent", [False, True], ids=["zone", "agent"])
def test_prometheus_takes_the_configurations(tmp_path: Path, agent: bool) -> None:  # noqa: FBT001 - a case
    scrape = config.scraping("127.0.0.1:1", 3, 15)
    storage = "127.0.0.1:2"
    file = tmp_path / "prometheus.yml"
    file.write_text(
        config.agent(scrape, storage) if agent else config.zone(scrape, storage, RULE_FILES)
    )

    done = subprocess.run(
        ["promtool", "check", "config", *(["--agent"] if agent else []), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_node_is_scraped_under_its_own_name_and_path() -> None:
    (job,) = config.scraping("127.0.0.1:1", 3, 15)["scrape_configs"]
    labels = [group["labels"] for group in job["static_configs"]]

    assert [one["instance"] for one in labels] == [f"gpu-node-000{number}" for number in range(3)]
    assert [one["__metrics_path__"] for one in labels] == [f"/node/{n}/metrics" for n in range(3)]


def test_a_scrape_takes_no_longer_than_its_interval() -> None:
    assert config.scraping("a", 1, 5)["global"]["scrape_timeout"] == "5s"
    assert config.scraping("a", 1, 60)["global"]["scrape_timeout"] == "10s"


def test_only_a_zone_keeps_things_back() -> None:
    scrape = config.scraping("127.0.0.1:1", 1, 15)
    (of_zone,) = json.loads(config.zone(scrape, "s", []))["remote_write"]
    (of_agent,) = json.loads(config.agent(scrape, "s"))["remote_write"]

    assert of_zone["write_relabel_configs"][0]["regex"] == config.RECORDED
    assert "write_relabel_configs" not in of_agent


def samples(**numbers: float) -> Samples:
    return Samples({name: [({}, number)] for name, number in numbers.items()})


def moment(at_s: float, cpu_s: float, rss: int, count: int) -> Moment:
    """All three servers alike, after so many samples, of which the rules made a tenth."""
    prometheus = samples(
        prometheus_tsdb_head_samples_appended_total=count,
        prometheus_tsdb_head_series=100,
        prometheus_agent_active_series=100,
        prometheus_agent_samples_appended_total=count,
        prometheus_rule_group_duration_seconds_sum=count / 10_000,
        prometheus_remote_storage_samples_total=count,
        prometheus_remote_storage_bytes_total=20 * count,
    )
    used = dict.fromkeys(("zone", "agent", "storage"), Usage(cpu_s, rss))
    return Moment(at_s, prometheus, prometheus, samples(vm_rows_inserted_total=count), used)


def live() -> Live:
    return Live(
        nodes=20,
        every_s=15,
        idle=moment(0, 0, 1000, 0),
        begin=moment(10, 1, 5000, 1000),
        end=moment(20, 3, 9000, 3000),
        pages=(Page("standard", 100, 10, 5), Page("small", 1, 1, 1), Page("standard", 300, 30, 7)),
        answers=dict.fromkeys(("scrape p50", "scrape p99", "failed scrapes"), 40.0),
        alerts={"MgpuGpuLost": 2},
        late=0,
        load=1.0,
        disk={"agent wal": 30_000},
    )


def test_figures_are_of_the_time_that_was_measured_and_for_each_unit_of_work() -> None:
    found = figures(live(), (Kept(1000, 10, 3000), Kept(1000, 10, 2000)), FOUND.recorded)

    assert found.seconds == 10
    assert found.samples_per_s == 200
    assert (found.standard_samples, found.standard_plain, found.standard_zipped) == (6, 200, 20)
    assert found.zone == Cost(bytes_per_series=80, cpu_s_per_million=1000)
    assert found.sent_bytes_per_sample == 20
    assert found.rules_s == pytest.approx(0.2 * 6)
    assert found.agent_wal_per_sample == 10
    assert (found.block_bytes_per_sample, found.victoria_bytes_per_sample) == (3, 2)


def test_the_rules_cost_what_a_zone_needs_beyond_an_agent() -> None:
    assert FOUND.rules_cpu_s == pytest.approx((10 - 5) / 1e6 * 5000 * 60)
    assert FOUND.rules_s_per_million == pytest.approx(FOUND.rules_cpu_s * 10)


def test_a_large_fleet_is_the_figures_times_its_work() -> None:
    made = servers(FOUND, Assumed(nodes=10_000, rules_s=1000), 15, FOUND.standard_samples)

    assert made.series == 10_000_000
    assert made.samples == pytest.approx(10_000_000 / 15)
    assert made.scrape_bytes == 10_000 * 15_000 / 15
    assert made.shards == -(-10_000_000 * 4096 * 2 // (32 * GIB)) == 3
    assert made.shard_cpus * made.shards == pytest.approx(
        made.samples / 1e6 * 5 + FOUND.rules_cpu_s * 100 / 60
    )
    assert made.rules_s * made.shards == pytest.approx(FOUND.rules_cpu_s * 100)
    assert made.recorded_samples == 10_000 * 2
    assert made.tsdb_disk_day == pytest.approx(made.samples * 86_400 * 3)


def test_a_series_has_its_samples_at_the_interval_of_its_rules() -> None:
    assert each({60: 300, 3600: 36}, nodes=2) == Recorded(
        series=168, samples_per_s=(300 / 60 + 36 / 3600) / 2
    )


@pytest.mark.slow
@pytest.mark.program("prometheus")
def test_what_is_recorded_is_counted_of_all_rules_however_short_a_run_is(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(written(0))
        counts = record(store)

    assert +counts == counts  # without a zero
    assert counts.keys() == {rule.every_s for rule in rules() if rule.record}


def test_where_rules_take_longer_than_they_may_they_decide_on_the_shards() -> None:
    of_memory = servers(FOUND, Assumed(rules_s=1000), 15, 1000).shards
    of_rules = servers(FOUND, Assumed(rules_s=2), 15, 1000)

    assert of_rules.shards == 75 > of_memory
    assert of_rules.rules_s <= 2


def test_scraping_half_as_often_halves_the_samples_and_not_the_series() -> None:
    often, seldom = (servers(FOUND, Assumed(), every_s, 1000) for every_s in (15, 30))

    assert often.series == seldom.series
    assert often.samples == 2 * seldom.samples
    assert often.victoria_disk_day == 2 * seldom.victoria_disk_day


def test_what_the_api_server_is_asked_is_in_proportion_to_nodes() -> None:
    few, many = (watches(Assumed(nodes=nodes)) for nodes in (1000, 10_000))

    assert (few.open, many.open) == (1000, 10_000)
    assert many.event_bytes == pytest.approx(10 * few.event_bytes)
    assert many.list_bytes == 10_000 * (30 * 13_400 + 20_000)
    assert herd(Assumed(), 30) == (10_000 / 30, many.list_bytes / 30)


def test_the_parts_of_a_nodes_series_are_all_of_them_once() -> None:
    named = [family.full_name for part in parts() for family in part.families]

    assert len(named) == len(set(named))
    assert sum(part.series for part in parts()) == sum(counted().values()) > 1000


def test_each_choice_keeps_less_than_everything_and_names_what_can_be_switched_off() -> None:
    everything, *others = choices()
    own = {family.full_name for family in FAMILIES if family.level == OWN_LEVEL}

    assert everything.series == sum(counted().values())
    assert all(0 < choice.series < everything.series for choice in others)
    assert not [name for choice in others for name in choice.disable if name in own]


def test_the_tables_have_a_cell_for_each_head() -> None:
    made = figures(live(), (Kept(1000, 10, 3000), Kept(1000, 10, 2000)), FOUND.recorded)
    for text in (run_table(live(), made), paper_tables(FOUND, Assumed()), costs_table(FOUND)):
        for one in text.strip().split("\n\n"):
            assert len({line.count(" | ") for line in one.splitlines()}) == 1


def test_a_text_goes_between_its_marks_and_nowhere_else() -> None:
    page = "a\n<!-- run: made by make fleet ARGS=--write -->\nold\n<!-- end -->\nb\n<!-- end -->\n"

    made = put(page, "run", "new\n")

    assert put(made, "run", "new\n") == made
    assert made.startswith("a\n<!-- run")
    assert "old" not in made
    assert made.endswith("new\n\n<!-- end -->\nb\n<!-- end -->\n")
    with pytest.raises(ValueError, match="paper"):
        put(page, "paper", "")


def test_samples_are_stamped_with_their_time_and_their_target() -> None:
    page = b'# HELP a A.\n# TYPE a gauge\na 1\nb{x="}, y"} 2.5e-07\n'
    target = 'instance="gpu-node-0000",job="mgpu-exporter"'

    assert stamped(page, 77).decode() == (
        f'a{{{target}}} 1 77\nb{{{target},x="}}, y"}} 2.5e-07 77\n'
    )


def test_a_block_is_the_newest_one_that_is_over() -> None:
    begin = newest_block(10 * BLOCK_S + 5)

    assert begin == 9 * BLOCK_S
    assert begin + BLOCK_S <= 10 * BLOCK_S + 5


@pytest.mark.program("promtool")
def test_a_block_has_every_sample_of_the_pages(tmp_path: Path) -> None:
    text = tmp_path / "pages.om"
    made = [stamped(page, at_s) for at_s, page in pages(10 * BLOCK_S, 15, 60)]
    text.write_bytes(b"".join(made) + b"# EOF\n")

    kept = block(text, tmp_path / "blocks")

    assert kept.samples == sum(page.count(b"\n") for page in made) > 3000
    assert kept.series * len(made) >= kept.samples
    assert kept.bytes_on_disk > 0
