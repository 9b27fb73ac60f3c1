"""The example of docs/rules.md is a file that can be used, and has every live setting."""

import re
from pathlib import Path

import pytest

from exporter.agent.collector.cyclerules import cycle_rules
from exporter.agent.collector.wiring import read_settings
from exporter.agent.commands.check_config import check_config
from exporter.agent.settings import TABLE, Settings

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"
NOT_SHOWN = {  # live, and not for everybody
    *("log.format", "allocations.hami", "drm.wake"),
    *("allocations.volcano-memory-factor", "allocations.kai-namespaces"),
    *("collection.mps-servers", "metrics.created", "metrics.enable", "metrics.pod-uid"),
}

NS = 10**9  # in a second


@pytest.fixture
def example(tmp_path: Path) -> Path:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    return file


@pytest.fixture
def settings(example: Path) -> Settings:
    return read_settings({"config.file": [str(example)]})


def test_it_can_be_used(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_config({"config.file": [str(example)]}, environ={}) == 0, capsys.readouterr().out


def test_it_shows_every_rule_and_nothing_that_waits_for_a_restart(settings: Settings) -> None:
    text = PAGE.read_text()
    shown = {setting.name for setting in TABLE.values() if setting.live} - NOT_SHOWN

    assert [name for name in shown if name.rpartition(".")[2] not in text] == []
    changed = {
        setting.name
        for field, setting in TABLE.items()
        if getattr(settings, field) != getattr(read_settings({}), field)
    }
    # Two are shown with their default.
    assert changed == shown - {"collection.interval", "log.level"} | {"config.file"}


def test_it_says_what_the_page_says_of_it(settings: Settings) -> None:
    rules = cycle_rules(settings)

    assert rules.demand.disabled >= {"nvlink", "pcie"}
    assert (rules.demand.processes_every_ns, rules.demand.sensors_every_ns) == (10 * NS, 15 * NS)
    assert rules.most_series == 5000
    assert rules.allowed.labels == ("app.kubernetes.io/name", "team-*")
    assert rules.allocations.schemes[0].name == "acme-vgpu"
    assert "example.com/cost-centre" in rules.keep.annotations
