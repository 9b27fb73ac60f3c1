"""docs/scaling.md: its tables are as the code is, and its configurations are taken."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks.fleet import config
from benchmarks.fleet.report import begin, series_tables
from benchmarks.fleet.series import DASHBOARDS, RULES, choices, named_in, series_without
from exporter.metrics.families import families_without
from exporter.metrics.profiles import left_out
from exporter.settings import load

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "scaling.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SETTINGS = [text for text in BLOCKS if text.startswith("metrics:")]
SELECTED = [
    {"role": "pod", "selectors": [{"role": "pod", "label": "app.kubernetes.io/name=mgpu-exporter"}]}
]
CONFIGS = [text for text in BLOCKS if "scrape_configs:" in text]


def test_the_tables_of_series_are_as_in_the_code() -> None:
    written = f"{begin('series')}\n{series_tables()}\n<!-- end -->\n"

    assert written in PAGE, "run make docs"


@pytest.mark.parametrize("name", ["run", "paper"])
def test_the_measured_tables_are_there(name: str) -> None:
    table = PAGE.partition(begin(name))[2].partition("<!-- end -->")[0]

    assert len(table.strip().splitlines()) > 10


def test_how_many_more_series_nodes_have_than_when_they_were_measured_is_said() -> None:
    found = re.search(r"nodes had ([\d,]+) series.*?all of it is (\d+) % more", PAGE, re.DOTALL)
    assert found is not None
    measured = int(found[1].replace(",", ""))

    assert int(found[2]) == round(100 * (series_without(()) / measured - 1))


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


def test_the_settings_are_taken_and_are_those_of_the_choices(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    taken = []
    for text in SETTINGS:
        file.write_text(text)
        settings = load({"config.file": [str(file)]}, {})
        taken.append(settings.metrics_left_out)

    left = [left_out("full", disable=one.disable) for one in choices()[1:]]
    assert taken == left


@pytest.mark.program("promtool")
@pytest.mark.parametrize("text", CONFIGS, ids=["agent", "zone", "shard"])
def test_prometheus_takes_the_configurations(tmp_path: Path, text: str) -> None:
    wanted = yaml.safe_load(text)
    for job in wanted["scrape_configs"]:
        assert job.pop("kubernetes_sd_configs") == SELECTED  # Debian's is built without it
        job["file_sd_configs"] = [{"files": ["targets.json"]}]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(wanted))
    (tmp_path / "rules").symlink_to(ROOT / "rules")
    agent = ["--agent"] if "--enable-feature=agent" in text else []

    done = subprocess.run(
        ["promtool", "check", "config", *agent, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_configuration_of_the_page_is_among_the_tested() -> None:
    assert len(SETTINGS) + len(CONFIGS) == len(BLOCKS)
    assert len(CONFIGS) == 3


def test_the_page_sends_on_what_the_benchmark_measured() -> None:
    zone = yaml.safe_load(CONFIGS[1])
    (rule,) = zone["remote_write"][0]["write_relabel_configs"]

    assert (
        rule == config.writing("", config.RECORDED)["remote_write"][0]["write_relabel_configs"][0]
    )


def test_only_what_rules_recorded_and_alerts_leave_a_zone() -> None:
    recorded = re.findall(r"record: (\S+)", (ROOT / "rules" / "mgpu-recording.yaml").read_text())

    assert len(recorded) > 8
    assert all(re.fullmatch(config.RECORDED, name) for name in (*recorded, "ALERTS"))
    assert not re.fullmatch(config.RECORDED, "mgpu_container_core_seconds_total")
