"""Every YAML file that is read, against files that are small and cost much: refused at once."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.agent.settings import SettingsError
from exporter.agent.settings import load as load_settings
from exporter.agent.simulation import ScenarioError
from exporter.agent.simulation.load_scenario import load as load_scenario
from exporter.agent.web.webfile import WebFileError
from exporter.agent.web.webfile import parse as parse_web
from exporter.apiserver.client import read_kubeconfig
from exporter.apiserver.kubeconfig import KubeconfigError
from exporter.inputs.yamldocument import MAX_DEPTH, MAX_VALUES

CPU_LIMIT_S = 10.0  # a file of the most values takes a fifth of it; the bombs took minutes
LEVELS = 26

REFUSALS = (ScenarioError, SettingsError, WebFileError, KubeconfigError)


def scenario(path: Path) -> None:
    load_scenario(str(path))


def settings(path: Path) -> None:
    load_settings({"config.file": [str(path)]}, {})


def web(path: Path) -> None:
    parse_web(path.read_text(), str(path))


def kubeconfig(path: Path) -> None:
    read_kubeconfig(str(path))


def schemes(path: Path) -> None:
    load_settings({"allocations.schemes": [path.read_text()]}, {})


READERS = (scenario, settings, web, kubeconfig, schemes)

MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, LEVELS)
)
ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, LEVELS)
)

BOMBS = {
    "merges of merges": (MERGES, "line 13", "aliases"),
    "aliases of aliases": (ALIASES, "line 14", "aliases"),
    "a list in itself": ("a: 1\nb: &b [*b]\n", "line 2", "inside itself"),
    "a mapping merged into itself": ("a: 1\nb: &b {<<: *b}\n", "line 2", "inside itself"),
    "deep lists": ("\n" + "[" * 100_000, "line 2", "nested"),
    "deep mappings": ("\n" + "{a: " * 100_000, "line 2", "nested"),
    "deep blocks": ("\n" + "- " * 100_000, "line 2", "nested"),
    "many values": ("\na: [" + "1," * 300_000 + "]\n", "line 2", "values"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("text", "line", "reason"), BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize(
    "read",
    [
        scenario,
        kubeconfig,
        *(pytest.param(r, marks=pytest.mark.slow) for r in (settings, web, schemes)),
    ],
)
def test_a_bomb_is_refused_at_once_with_its_line_and_the_reason(
    read: Callable[[Path], None], text: str, line: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    before = time.process_time()
    with pytest.raises(REFUSALS) as refusal:
        read(path)
    assert time.process_time() - before < CPU_LIMIT_S
    assert line in str(refusal.value)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 1000


VALUES = {
    "digits": "1" * 5000,
    "sixties": "1" + ":1" * 50_000,
    "hexadecimal": "0x" + "f" * 20_000,
    "a date that there is not": "2026-99-99",
    "a tag that it has not": "!!int x",
    "a time that is none": "!!timestamp x",
    "a float that is none": "!!float x",
    "a switch that is none": "!!bool x",
    "sixty times too often": "1" + ":59" * 20 + ".5",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("read", [scenario, kubeconfig])
def test_a_value_that_yaml_cannot_make_is_a_refusal_and_no_crash(
    read: Callable[[Path], None], value: str, tmp_path: Path
) -> None:
    path = tmp_path / "value.yaml"
    path.write_text(f"devices: []\nseed: {value}\n")
    before = time.process_time()
    with pytest.raises(REFUSALS) as refusal:
        read(path)
    assert time.process_time() - before < CPU_LIMIT_S
    assert len(str(refusal.value)) < 1000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "line", ["k{}: 1\n", "- k{}: 1\n", "- {}\n", "web.k{}: 1\n"], ids=["keys", "items", "list", "x"]
)
def test_a_file_with_thousands_of_mistakes_is_refused_at_once_in_few_lines(
    read: Callable[[Path], None], line: str, tmp_path: Path
) -> None:
    path = tmp_path / "mistakes.yaml"
    path.write_text("".join(line.format(i) for i in range(MAX_VALUES // 4)))
    before = time.process_time()
    with pytest.raises(REFUSALS) as refusal:
        read(path)
    assert time.process_time() - before < CPU_LIMIT_S
    assert len(str(refusal.value)) < 100_000


def test_an_anchor_used_a_few_times_is_as_good_as_the_text_written_out(tmp_path: Path) -> None:
    path = tmp_path / "anchors.yaml"
    path.write_text(
        "devices:\n"
        "  - &card {model: NVIDIA T4, memory: 16GiB}\n"
        "  - *card\n"
        "  - {<<: *card, model: NVIDIA A10}\n"
    )
    assert [card.shown.model for card in load_scenario(str(path)).devices] == [
        *("NVIDIA T4", "NVIDIA T4", "NVIDIA A10")
    ]


def test_what_is_allowed_is_deeper_than_any_file_needs() -> None:
    """A scenario nests seven deep, a settings file five, a kubeconfig eight."""
    assert MAX_DEPTH > 2 * 8
