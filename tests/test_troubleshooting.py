"""The page for those in trouble has a line for each reason that the exporter can give."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from exporter.agent.allocations.terms import Reason
from exporter.agent.settings import TABLE
from exporter.metrics.families import FAMILIES
from exporter.model import DeviceState, Unattributed, Unmeasured

PAGE = (Path(__file__).parent.parent / "docs" / "troubleshooting.md").read_text()
SYMPTOMS = ("all pods show nothing", "source `nvml` is down", "exported_pod", "permission denied")


def reasons(heading: str) -> list[str]:
    """The reasons in a section's table whose other cells say something."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| \S[^|]{20,} \| \S[^|]{5,} \|$", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "closed_list"),
    [
        ("Why something is unmeasured", Unmeasured),
        ("Why use is unattributed", Unattributed),
        ("What was rejected", Reason),
    ],
)
def test_each_reason_has_its_line_and_each_line_its_reason(
    heading: str, closed_list: Iterable[str]
) -> None:
    assert sorted(reasons(heading)) == sorted(map(str, closed_list))


@pytest.mark.parametrize("state", sorted(set(DeviceState) - {DeviceState.UP}))
def test_each_state_of_a_device_that_cannot_be_read_has_its_line(state: DeviceState) -> None:
    assert str(state) in reasons("Why something is unmeasured")


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_symptoms_have_their_line(symptom: str) -> None:
    lines = PAGE.partition("## By symptom\n")[2].partition("\n## ")[0].splitlines()

    assert any(line.startswith("|") and symptom in line.split("|")[1] for line in lines)


def test_families_and_flags_that_are_named_exist() -> None:
    families = {family.full_name for family in FAMILIES}
    flags = {f"--{setting.name}" for setting in TABLE.values()}

    named = set(re.findall(r"mgpu_[a-z_]*[a-z]\b(?!_…)", PAGE))
    assert {name for name in named if name not in families} <= {"mgpu_exporter"}
    assert set(re.findall(r"--[a-z]+\.[a-z.-]+[a-z]|--simulate\b", PAGE)) <= flags
