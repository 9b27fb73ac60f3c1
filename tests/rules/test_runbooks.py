"""The runbooks: one for each alert, and what they tell to type can be typed."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.rules.test_alerts import NAMES, RUNBOOKS

PATHS = sorted(RUNBOOKS.glob("*.md"))
PROGRAMS = {"kubectl", "nvidia-smi"}
ON_THE_NODE = {"nvidia-smi", "dmesg", "ps"}


def blocks(path: Path, language: str) -> list[str]:
    """The lines of a runbook's blocks of code."""
    found = re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in found for line in block.splitlines()]


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    assert [path.stem for path in PATHS] == NAMES


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_runbooks_commands_are_of_programs_that_are_there(path: Path) -> None:
    for line in blocks(path, "sh"):
        words = shlex.split(line)
        assert words[0] in PROGRAMS
        if "chroot" in words:
            assert words[words.index("chroot") + 2] in ON_THE_NODE


@pytest.mark.program("promtool")
def test_the_runbooks_expressions_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"runbook:{path.stem}:{number}", "expr": line}
        for path in PATHS
        for number, line in enumerate(blocks(path, "promql"))
    ]
    assert len(rules) > len(PATHS)
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_runbooks_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        assert (path.parent / link.partition("#")[0]).exists()
    for page in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text()):
        assert (RUNBOOKS.parent.parent / page).exists(), page
