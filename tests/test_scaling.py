"""docs/scaling.md and its files: the tables are as the code is, the configurations are taken."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from multidict import MultiDict

from benchmarks.fleet import config
from benchmarks.fleet.report import (
    FILES,
    RESULTS,
    begin,
    choices_table,
    file_of,
    parts_table,
    settings_files,
)
from benchmarks.fleet.series import DASHBOARDS, RULES, Choice, choices, named_in, series_without
from exporter.agent.settings import load
from exporter.agent.web.selection import select
from exporter.metrics.families import families_without
from exporter.metrics.profiles import left_out

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "scaling.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
MEASURED = RESULTS.read_text()
SELECTED = [
    {
        "role": "pod",
        "namespaces": {"names": ["mgpu-exporter"]},
        "selectors": [{"role": "pod", "label": "app.kubernetes.io/name=mgpu-exporter"}],
    }
]
ZONE, SHARD = BLOCKS


def test_the_tables_of_series_are_as_in_the_code() -> None:
    assert f"{begin('series')}\n{parts_table()}\n<!-- end -->\n" in MEASURED, "run make docs"
    assert f"{begin('choices')}\n{choices_table()}\n<!-- end -->\n" in PAGE, "run make docs"


def test_the_settings_files_are_as_in_the_code() -> None:
    written = {path.name: path.read_text() for path in (ROOT / FILES).iterdir()}

    assert written == settings_files(), "run make docs"


@pytest.mark.parametrize("name", ["run", "paper"])
def test_the_measured_tables_are_there(name: str) -> None:
    table = MEASURED.partition(begin(name))[2].partition("<!-- end -->")[0]

    assert len(table.strip().splitlines()) > 10


def test_what_it_costs_is_in_the_page_as_the_run_that_was_measured_last() -> None:
    """By the shards of 10,000 nodes, which both tables have."""
    costs = PAGE.partition(begin("costs"))[2].partition("<!-- end -->")[0]
    row = next(x for x in costs.splitlines() if x.startswith("| Prometheus of 32 GiB"))
    paper = MEASURED.partition(begin("paper"))[2]
    shards, cpus = (
        next(x for x in paper.splitlines() if x.startswith(f"| {name} |")).split("|")
        for name in ("shards of Prometheus", "CPUs of each")
    )

    assert row.split("|")[3].strip() == f"{shards[2].strip()}, {cpus[2].strip()} CPUs each"


def test_how_many_more_series_nodes_have_than_when_they_were_measured_is_said() -> None:
    words = r"nodes had ([\d,]+) series.*?all of it is (\d+) % (more|less)"
    found = re.search(words, MEASURED, re.DOTALL)
    assert found is not None
    measured = int(found[1].replace(",", ""))
    part = round(100 * (series_without(()) / measured - 1))

    assert (int(found[2]), found[3]) == (abs(part), "less" if part < 0 else "more")


@pytest.mark.parametrize(
    ("name", "places"), [("rules and dashboards", (RULES, DASHBOARDS)), ("rules", (RULES,))]
)
def test_what_is_kept_is_all_that_the_shipped_files_name(
    name: str, places: tuple[str, ...]
) -> None:
    (choice,) = [one for one in choices() if one.name == name]
    kept = {family.full_name for family in families_without(choice.disable)}

    assert named_in(*places) <= kept
    assert len(named_in(*places)) > 40


@pytest.mark.parametrize("choice", choices(), ids=lambda choice: choice.name)
def test_the_settings_are_taken_and_are_those_of_the_choice(tmp_path: Path, choice: Choice) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"metrics: {{{choice.setting}}}")
    if choice.disable and not choice.setting:
        file = ROOT / FILES / file_of(choice)

    settings = load({"config.file": [str(file)]}, {})

    assert settings.metrics_left_out == left_out("full", disable=choice.disable)


def test_the_names_that_a_scrape_leaves_out_can_be_selected() -> None:
    (example,) = re.findall(r'`params: ({"exclude\[\]": .*?})`', PAGE)
    names = [("exclude[]", name) for name in yaml.safe_load(example)["exclude[]"]]

    selection = select(MultiDict(names))

    assert selection is not None
    assert selection.excluded


@pytest.mark.program("promtool")
@pytest.mark.parametrize("kind", ["zone", "shard", "agent"])
def test_prometheus_takes_the_configurations(tmp_path: Path, kind: str) -> None:
    wanted = yaml.safe_load(ZONE)
    if kind == "shard":
        wanted["scrape_configs"][0]["relabel_configs"] += yaml.safe_load(SHARD)
    if kind == "agent":  # as the page says
        del wanted["global"]["evaluation_interval"], wanted["rule_files"]
        del wanted["remote_write"][0]["write_relabel_configs"]
    for job in wanted["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == SELECTED  # Debian's is built without it
        job["file_sd_configs"] = [{"files": ["targets.json"]}]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(wanted))
    (tmp_path / "rules").symlink_to(ROOT / "rules")
    agent = ["--agent"] if kind == "agent" else []

    done = subprocess.run(
        ["promtool", "check", "config", *agent, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_sends_on_what_the_benchmark_measured() -> None:
    zone = yaml.safe_load(ZONE)
    (rule,) = zone["remote_write"][0]["write_relabel_configs"]

    assert (
        rule == config.writing("", config.RECORDED)["remote_write"][0]["write_relabel_configs"][0]
    )


def test_only_what_rules_recorded_and_alerts_leave_a_zone() -> None:
    recorded = re.findall(r"record: (\S+)", (ROOT / "rules" / "mgpu-recording.yaml").read_text())

    assert len(recorded) > 8
    assert all(re.fullmatch(config.RECORDED, name) for name in (*recorded, "ALERTS"))
    assert not re.fullmatch(config.RECORDED, "mgpu_container_core_seconds_total")
